"""Names of the keys beside a stream."""

from __future__ import annotations

from spooltop.records import dataclass

__all__ = ["HANDED_BACK", "LATER", "StreamNames"]

HANDED_BACK = "~spooltop"
"""Consumer of each group that is no program: it holds what was handed back, which may be claimed at once."""
LATER = "~later"
"""Consumer that is no program either: it holds what waits for its delay."""


@dataclass(frozen=True, slots=True)
class StreamNames:
    """The stream and its group, and the keys that belong to them. All lie in the slot of the stream, so that a cluster can hold
    them: a stream whose name has a hash tag lends it, else its name is the tag."""

    stream: str
    group: str

    @property
    def prefix(self) -> str:
        """Beginning of the names of all keys beside the stream."""
        start = self.stream.find("{")
        tagged = start >= 0 and self.stream.find("}", start) > start + 1
        return self.stream if tagged else f"{{{self.stream}}}"

    @property
    def later(self) -> str:
        """Sorted set of the ids that wait for a delay, by its end in milliseconds since the epoch."""
        return f"{self.prefix}:spooltop:later:{self.group}"

    @property
    def rejected(self) -> str:
        """Stream of the messages that were rejected."""
        return f"{self.prefix}:spooltop:rejected:{self.group}"

    @property
    def trash(self) -> str:
        """Stream of the messages that an operator purged."""
        return f"{self.prefix}:spooltop:trash:{self.group}"

    @property
    def held(self) -> str:
        """Stream of the messages that an operator holds."""
        return f"{self.prefix}:spooltop:held:{self.group}"

    @property
    def audit(self) -> str:
        """Stream of the audit lines of all groups."""
        return f"{self.prefix}:spooltop:audit"

    @property
    def consumers(self) -> str:
        """Hash of the consumers that hold leases: name, and ``HOST PID`` of its process."""
        return f"{self.prefix}:spooltop:consumers:{self.group}"

    @property
    def paused(self) -> str:
        """Record of the pause, as ``engine.pausing`` writes it. While it is there, no consumer of spooltop claims anything."""
        return f"{self.prefix}:spooltop:paused"

    def step(self, operation: str) -> str:
        """Key with what the last step of an operation did: a step that is sent twice is done once."""
        return f"{self.prefix}:spooltop:step:{operation}"

    def lease(self, consumer: str) -> str:
        """Key that is there as long as the consumer renews it."""
        return f"{self.prefix}:lease:{self.group}:{consumer}"

    def put_key(self, key: str) -> str:
        """Record of a put with ``key``: the id of its message."""
        return f"{self.prefix}:spooltop:key:{key}"
