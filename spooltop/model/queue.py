"""Interface of a queue for those who put and work: what ``spooltop.open_queue`` returns, of whatever kind it is.

``engine.Spool`` is the queue of a directory. All queues deliver at least once: a claim that is not acked comes again. What else
holds differs, and ``Queue.guarantees`` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

from .vocabulary import Frozen, escape

if TYPE_CHECKING:
    from .snapshot import Pause


# Moving messages from one queue into another: what the source and the target of ``spooltop move`` have to do. The key of a put
# is the claim from which it was made. The target forgets it after the ack, so that a message that comes again under its old id
# is a message like any other. A mover that was killed leaves at most one claim and one key, and its record names the target:
# nobody but the next mover to that target may take its claims, since only that one asks for their keys.

_MOVE = "move:"


class QueueIdentity(Frozen):
    """``name`` of a queue as it is shown, and ``marks``: two names of one queue have one of them in common (device and inode of a
    box; a server, its database and a stream)."""

    name: str
    marks: frozenset[str] = frozenset()

    def is_same(self, other: QueueIdentity) -> bool:
        """True for the same queue. The name alone also says so: device numbers and the ids of servers change at a restart."""
        return self.name == other.name or not self.marks.isdisjoint(other.marks)

    @property
    def record(self) -> dict[str, object]:
        """Members of the record of a mover into this queue."""
        return {"role": "move", "target": self.name, "target_marks": sorted(self.marks)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> QueueIdentity | None:
        """Returns the queue into which a consumer with this record moves messages; None for any other consumer. Anybody may have
        written it."""
        if record.get("role") != "move":
            return None
        target, marks = record.get("target"), record.get("target_marks")
        known = frozenset(mark for mark in marks if isinstance(mark, str)) if isinstance(marks, list) else frozenset()
        return cls(target if isinstance(target, str) else "", known)


class InterruptedMove(Frozen):
    """Move that was killed. ``mover`` is the beginning of its keys, ``claims`` are (name of a claim, key of its put)."""

    mover: str
    target: QueueIdentity
    claims: Sequence[tuple[str, str]]


class QueueCounts(Frozen):
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


class MessageMover(AbstractContextManager["MessageMover", None], Protocol):
    """Consumer of a source whose claims no ``recover`` takes. Its claims are never released by themselves: of one that was put
    nobody else may get hold. Raises ``SpooltopError``."""

    def counts(self) -> QueueCounts:
        """Counts the messages of the source, without those of interrupted moves. Changes nothing."""

    def interrupted(self) -> Sequence[InterruptedMove]:
        """Returns the moves whose process is dead. Changes nothing."""

    def claim(self) -> Any:
        """Claims the next message; the claim survives what the put of it survives. None if there is none."""

    def adopt(self, name: str) -> Any:
        """Takes over the claim ``name`` of an interrupted move; None if somebody else was quicker."""

    def discard(self, name: str) -> None:
        """Acks the claim ``name`` of an interrupted move."""

    def key(self, claim: Any) -> str:
        """Returns the key of the put of this claim: no other claim ever has it."""

    def holds(self, claim: Any) -> bool:
        """False where others may have taken the claim by now, as a lease has ended."""

    def give_back(self, claim: Any) -> None:
        """Puts a claim that was not put back to where it was, without counting an attempt."""

    def leave(self, claim: Any) -> None:
        """Leaves a claim to the next mover."""

    def end(self, move: InterruptedMove) -> None:
        """Removes the record of an interrupted move that has no claim any more."""

    def close(self) -> None: ...


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


Content: TypeAlias = "bytes | bytearray | memoryview | BinaryIO"
"""Content of a message that is put: bytes, or a binary file that is read to its end."""


class Guarantee(StrEnum):
    """Guarantee of a queue that callers may rely on.

    ``DURABLE``: a put and an ack survive power loss when they return. ``ONE_HOLDER``: no two running consumers ever hold one
    message. ``ORDERED``: the oldest message is claimed first. ``KEY_FOREVER``: a key of ``put`` is remembered for ever.
    ``DELAY``: a message can be put or released so that it is claimed later.
    """

    DURABLE = "durable"
    ONE_HOLDER = "one-holder"
    ORDERED = "ordered"
    KEY_FOREVER = "key-forever"
    DELAY = "delay"


class QueueOptions(Frozen):
    """Options with which a queue is opened. ``action`` is the word for it in errors ("put"). ``durable`` asks for ``DURABLE``
    where the queue lets its users choose; ``hosts`` is the setting ``claims.hosts``; ``as_spool`` treats a mail folder as a job
    spool. ``create`` makes what is missing on a server. ``words`` loads all settings as the environment writes them."""

    action: str = "open"
    durable: bool = True
    hosts: str = "any"
    as_spool: bool = False
    create: bool = False
    words: Callable[[], Mapping[str, str]] = dict


class OthersClaims(Frozen):
    """Claims of one consumer, as ``evidence`` says. ``is_running``: it is known to work on them. ``ends_in``: it has ended, and
    in so many seconds its claims can be recovered; None for others."""

    holder: str
    number: int
    is_running: bool
    evidence: str
    ends_in: float | None = None


class QueueClaim(AbstractContextManager["QueueClaim"], Protocol):
    """Claimed message. It is acked at the end of a ``with`` block, and released after an exception in it."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str | None: ...

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""

    @property
    def data(self) -> bytes:
        """Content of the whole message. Raises ``ClaimLost``."""

    def open(self) -> BinaryIO:
        """Opens the message as a file with a descriptor (a command gets it as stdin). Raises ``ClaimLost`` if it is gone."""

    def ack(self) -> None:
        """Acknowledges the message: it is gone when this returns. Raises ``ClaimLost``."""

    def release(self, delay: float = 0, *, ended: str | None = None) -> None:
        """Gives the message back, to be claimed again after ``delay`` seconds, and counts the attempt; at the limit of attempts
        it is rejected instead. ``ended`` says how the attempt ended (``exit-1``). Raises ``ClaimLost``."""

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        """Sets the message aside for an operator. Raises ``ClaimLost``."""


class Arrivals(Protocol):
    """Waits until there may be something to claim."""

    def wait(self, timeout: float) -> None:
        """Returns when something may have arrived, or ``wake`` was called, after ``timeout`` seconds at the latest, often
        sooner: callers check again."""

    def wake(self) -> None:
        """Ends a wait at once. Safe in a signal handler and in any thread."""

    def close(self) -> None: ...


class Queue(AbstractContextManager["Queue", None], Protocol):
    """Queue that messages are put into and claimed from. Raises ``SpooltopError`` throughout, ``Closed`` after ``close``."""

    @property
    def name(self) -> str:
        """Name as it is shown, without secrets: the path of a directory."""

    @property
    def guarantees(self) -> frozenset[Guarantee]: ...

    def put(
        self, data: Content, *, source: str | None = None, id: str | None = None, key: str | None = None,
        not_before: float | None = None,
    ) -> str:  # fmt: skip
        """Enqueues a message and returns its id. No-op while a message with that ``id`` exists, and after the first put with that
        ``key``: the id is an ``engine.MessageId`` then, which says whether it was a duplicate. ``not_before`` (epoch seconds)
        delays the message; ``Refused`` without ``DELAY``. Raises ``SpoolFull``, ``PutUnknown``."""

    def put_many(self, messages: Iterable[Content], *, source: str | None = None) -> list[str]:
        """Enqueues messages and returns their ids, in order."""

    def claim(self, timeout: float | None = 0) -> QueueClaim | None:
        """Claims the next message, and waits up to ``timeout`` seconds for one (None: for ever). None if none came."""

    def claims(self, timeout: float | None = 0) -> Iterator[QueueClaim]:
        """Yields one claim after another; ends if no message came for ``timeout`` seconds (None: never)."""

    def ack_many(self, claims: Iterable[Any]) -> None:
        """Acks claims of this queue. If some were taken away, raises ``ClaimLost`` with their ``names`` at the end; the others
        are acked."""

    def recover(self) -> list[str]:
        """Puts back the claims of consumers that are known to be dead, and returns the ids."""

    def claims_of_others(self) -> Sequence[OthersClaims]:
        """Returns the claims of other consumers that ``recover`` leaves where they are, if they can be told from here."""

    def depth(self) -> int:
        """Counts the messages that wait; inexact while others put or claim."""

    def peek(self) -> str | None:
        """Returns the id of the message that ``claim`` would claim if the queue is not paused; None if there is none."""

    @property
    def paused(self) -> Pause | None:
        """The pause of the queue; None if it is not paused, or cannot be."""

    def arrivals(self) -> Arrivals:
        """Starts to watch for arrivals; the caller closes it."""

    @property
    def identity(self) -> QueueIdentity:
        """Identity of the queue, whatever it is called."""

    def mover(self, target: QueueIdentity) -> MessageMover:
        """Opens a consumer that moves messages into ``target``; the caller closes it. It takes nothing before its first claim."""

    def was_put(self, key: str) -> bool:
        """Returns whether a message was put with ``key``; completes the put if it was interrupted."""

    def forget_key(self, key: str) -> None:
        """Forgets ``key``: another put with it makes another message."""

    def forget_mover(self, mover: str) -> None:
        """Forgets all keys of one mover (``model.queue``)."""

    def inherited_fds(self) -> tuple[int, ...]:
        """Returns descriptors that a command inherits so that the claim it works on lasts as long as it runs; none where claims
        end otherwise."""

    def close(self) -> None:
        """Closes the queue; claims that are still held go back."""
