"""Moving messages from one queue into another: what the source and the target of ``spooltop move`` have to do.

The key of a put is the claim from which it was made. The target forgets it after the ack, so that a message that comes again
under its old id is a message like any other. A mover that was killed leaves at most one claim and one key, and its record names
the target: nobody but the next mover to that target may take its claims, since only that one asks for their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from spooltop.records import dataclass

from .text import escape

__all__ = ["InterruptedMove", "MessageMover", "QueueCounts", "QueueIdentity", "again_words", "mover_of"]

_MOVE = "move:"


class QueueIdentity(NamedTuple):
    """``name`` of a queue as it is shown, and ``marks``: two names of one queue have one of them in common (device and inode of a
    box; a server, its database and a stream)."""

    name: str
    marks: frozenset[str] = frozenset()

    def is_same(self, other: QueueIdentity) -> bool:
        """True for the same queue. The name alone also says so: device numbers and the ids of servers change at a restart."""
        return self.name == other.name or not self.marks.isdisjoint(other.marks)


class InterruptedMove(NamedTuple):
    """Move that was killed. ``mover`` is the beginning of its keys, ``claims`` are (name of a claim, key of its put)."""

    mover: str
    target: QueueIdentity
    claims: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Messages of a queue by what they wait for: ``ready`` may be claimed now, ``delayed`` later, ``unclaimable`` never (the
    name is too long). The others are claimed: by consumers that are ``running``, ``dead`` or ``unknown``. ``leases_end`` is the
    number of seconds until the last lease of those that run ends if it is not renewed; None where there are no leases."""

    ready: int = 0
    delayed: int = 0
    unclaimable: int = 0
    running: int = 0
    dead: int = 0
    unknown: int = 0
    leases_end: float | None = None


class MessageMover(Protocol):
    """Consumer of a source whose claims no ``recover`` takes. Its claims are never released by themselves: of one that was put
    nobody else may get hold. Raises ``SpooltopError``."""

    def counts(self) -> QueueCounts:
        """Counts the messages of the source, without those of interrupted moves. Changes nothing."""
        ...

    def interrupted(self) -> Sequence[InterruptedMove]:
        """Returns the moves whose process is dead. Changes nothing."""
        ...

    def claim(self) -> Any:
        """Claims the next message; the claim survives what the put of it survives. None if there is none."""
        ...

    def adopt(self, name: str) -> Any:
        """Takes over the claim ``name`` of an interrupted move; None if somebody else was quicker."""
        ...

    def discard(self, name: str) -> None:
        """Acks the claim ``name`` of an interrupted move."""
        ...

    def key(self, claim: Any) -> str:
        """Returns the key of the put of this claim: no other claim ever has it."""
        ...

    def holds(self, claim: Any) -> bool:
        """False where others may have taken the claim by now, as a lease has ended."""
        ...

    def give_back(self, claim: Any) -> None:
        """Puts a claim that was not put back to where it was, without counting an attempt."""
        ...

    def leave(self, claim: Any) -> None:
        """Leaves a claim to the next mover."""
        ...

    def end(self, move: InterruptedMove) -> None:
        """Removes the record of an interrupted move that has no claim any more."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def mover_of(key: str) -> tuple[str, str] | None:
    """Splits the key of a move into its mover and the claim; None for any other key.

    >>> mover_of("move:7f3a.1795222800000000"), mover_of("2026-11")
    (('move:7f3a', '1795222800000000'), None)
    """
    mover, dot, claim = key.rpartition(".")
    return (mover, claim) if dot and key.startswith(_MOVE) else None


def again_words(source: str, target: str) -> str:
    """Says how a claim of a killed mover gets on.

    >>> again_words("/var/spool/a", "/srv/b")
    'a move to /srv/b was killed; run the same move again: spooltop move /var/spool/a /srv/b'
    """
    from shlex import quote  # only where somebody asks

    to = escape(target)
    return f"a move to {to} was killed; run the same move again: spooltop move {quote(escape(source))} {quote(to)}"
