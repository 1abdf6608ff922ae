"""Names of the keys beside a stream."""

from __future__ import annotations

import json

from spooltop.model import Box, Frozen, QueueIdentity, age, json_object

HANDED_BACK = "~spooltop"
"""Consumer of each group that is no program: it holds what was handed back, which may be claimed at once."""
HANDED_IDLE = 86_400.0
"""Seconds for which it seems idle from the beginning on, so that whoever uses XAUTOCLAIM takes what it holds at once."""
LATER = "~later"
"""Consumer that is no program either: it holds what waits for its delay."""


class StreamNames:
    """The stream and its group, and the keys that belong to them. All lie in the slot of the stream, so that a cluster can hold
    them: a stream whose name has a hash tag lends it, else its name is the tag."""

    def __init__(self, stream: str, group: str) -> None:
        self.stream = stream
        self.group = group
        start = stream.find("{")
        tagged = start >= 0 and stream.find("}", start) > start + 1
        self._prefix = stream if tagged else f"{{{stream}}}"
        own = f"{self._prefix}:spooltop"
        self.later = f"{own}:later:{group}"
        """Sorted set of the ids that wait for a delay, by its end in milliseconds since the epoch."""
        self.rejected = f"{own}:rejected:{group}"
        """Stream of the messages that were rejected."""
        self.trash = f"{own}:trash:{group}"
        """Stream of the messages that an operator purged."""
        self.held = f"{own}:held:{group}"
        """Stream of the messages that an operator holds."""
        self.audit = f"{own}:audit"
        """Stream of the audit lines of all groups."""
        self.consumers = f"{own}:consumers:{group}"
        """Hash of the consumers that hold leases: name, and a ``LeaseRecord``."""
        self.paused = f"{own}:paused"
        """Record of the pause, as ``engine.pausing`` writes it. While it is there, no consumer of spooltop claims anything."""

    def of_box(self, box: Box) -> str:
        """Name of the stream in which the messages of a box lie."""
        return {Box.REJECTED: self.rejected, Box.HELD: self.held, Box.TRASH: self.trash}.get(box, self.stream)

    def step(self, operation: str) -> str:
        """Key with what the last step of an operation did: a step that is sent twice is done once."""
        return f"{self._prefix}:spooltop:step:{operation}"

    def lease(self, consumer: str) -> str:
        """Key that is there as long as the consumer renews it."""
        return f"{self._prefix}:lease:{self.group}:{consumer}"

    def put_key(self, key: str) -> str:
        """Record of a put with ``key``: the id of its message."""
        return f"{self._prefix}:spooltop:key:{key}"

    def moved(self, mover: str) -> str:
        """Hash of the records of a mover's puts: claim, and id of its message."""
        return f"{self._prefix}:spooltop:moved:{mover}"


def gone_words(seconds: float) -> str:
    """Says of a worker of this host why its claims are not dead yet: its lease runs for so many ``seconds`` more."""
    return f"its process is gone, its lease runs {age(seconds)} more"


class LeaseRecord(Frozen):
    """Record of a consumer that holds leases: ``HOST PID`` of its process. That of a mover goes on with JSON:
    ``begin`` is the beginning of its keys, which outlives a restart of the server, ``moves_to`` the queue into which it moves
    messages; None for any other consumer. Anybody who may write the server can write it."""

    host: str
    pid: int | None
    begin: str = ""
    moves_to: QueueIdentity | None = None

    def __str__(self) -> str:
        words = f"{self.host} {self.pid}"
        if self.moves_to is None:
            return words
        return f"{words} {json.dumps({**self.moves_to.record, 'begin': self.begin})}"

    @classmethod
    def parse(cls, text: str) -> LeaseRecord:
        """Never fails.

        >>> record = LeaseRecord("vm", 7, "move:x", QueueIdentity("/srv/b"))
        >>> LeaseRecord.parse(str(record)) == record, LeaseRecord.parse("vm 7").pid, LeaseRecord.parse("").pid
        (True, 7, None)
        """
        host, _, rest = text.partition(" ")
        pid, _, more = rest.partition(" ")
        number = int(pid) if pid.isascii() and pid.isdecimal() and len(pid) <= 7 else None
        found = json_object(more.encode("utf-8", "surrogatepass")) if more else {}
        moves_to, begin = QueueIdentity.from_record(found), found.get("begin")
        return cls(host, number, begin if moves_to is not None and isinstance(begin, str) else "", moves_to)
