"""The facts that a filter asks for: of messages, consumers, cursors, locks and operations alike.

Texts are as shown, that is escaped. A fact that is not known is None; of nothing else may be said that it is so, nor that not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from spooltop.records import dataclass

from ..row import Row
from ..text import escape
from ..vocabulary import Box

if TYPE_CHECKING:
    from ..cursors.state import Cursor
    from ..look.consumers import ConsumerRow
    from ..look.locks import Lock
    from ..operations.plan import OperationRecord

__all__ = ["Facts", "Fields", "MessageFacts", "consumer_facts", "cursor_facts", "lock_facts", "operation_facts"]


class Facts(Protocol):
    """Anything that a filter can be applied to. ``age`` is in seconds; ``pids`` and ``verdict`` are empty if there are none."""

    @property
    def texts(self) -> Iterable[str]: ...
    @property
    def ids(self) -> Collection[str]: ...
    @property
    def source(self) -> str: ...
    @property
    def age(self) -> float | None: ...
    @property
    def pids(self) -> Collection[int] | None: ...
    @property
    def holder(self) -> str | None: ...
    @property
    def tries(self) -> int | None: ...
    @property
    def verdict(self) -> str | None: ...
    @property
    def errors(self) -> Collection[str]: ...


class MessageFacts:
    """The facts of a message at ``now`` (epoch seconds), each made when it is asked for: a filter reads a million rows."""

    __slots__ = ("_now", "_row")

    def __init__(self, row: Row, now: float) -> None:
        self._row = row
        self._now = now

    @property
    def texts(self) -> Iterable[str]:
        row = self._row
        yield escape(row.name)
        yield escape(row.id)
        yield escape(row.source or "")
        if row.owner is not None:
            yield escape(row.owner.command or "")
            yield escape(row.owner.name or "")
        yield row.evidence
        yield row.note
        yield row.reason

    @property
    def ids(self) -> Collection[str]:
        return (escape(self._row.id),)

    @property
    def source(self) -> str:
        return escape(self._row.source or "")

    @property
    def age(self) -> float | None:
        return self._row.in_box_age(self._now)

    @property
    def pids(self) -> Collection[int] | None:
        owner = self._row.owner
        if owner is None or owner.pid is None:
            return None if self._judged else ()
        return (owner.pid,)

    @property
    def holder(self) -> str | None:
        owner = self._row.owner
        return escape(owner.name) if owner is not None and owner.name else None if self._judged else ""

    @property
    def tries(self) -> int | None:
        return self._row.attempt

    @property
    def verdict(self) -> str | None:
        return self._row.verdict or (None if self._judged else "")

    @property
    def errors(self) -> Collection[str]:
        return escape(self._row.ended or ""), self._row.reason

    @property
    def _judged(self) -> bool:
        """True if a row without a verdict or an owner means "not known" rather than "none"."""
        return self._row.box in (Box.CUR, Box.TMP)


@dataclass(frozen=True, slots=True)
class Fields:
    """Facts that are known at once."""

    texts: tuple[str, ...]
    ids: tuple[str, ...] = ()
    source: str = ""
    age: float | None = None
    pids: tuple[int, ...] | None = ()
    holder: str | None = ""
    tries: int | None = None
    verdict: str | None = ""
    errors: tuple[str, ...] = ()


def cursor_facts(cursor: Cursor, now: float) -> Fields:
    """``age`` is the time since it moved."""
    source = escape(cursor.source)
    age = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    texts = (source, escape(cursor.shown), cursor.verdict, cursor.verdict.upper(), cursor.evidence, escape(cursor.file))
    return Fields(texts, (source,), source, age, verdict=cursor.verdict)


def lock_facts(lock: Lock, verdict: str, now: float) -> Fields:
    """``verdict`` is the one on the screen; ``age`` is the time that it has been held, ``pids`` are its holders and waiters."""
    parties = (*lock.holders, *lock.waiters)
    since = min((one.since for one in lock.holders if one.since is not None), default=None)
    commands = (escape(one.command or "") for one in parties)
    texts = (escape(lock.path), lock.kind, verdict, verdict.lower(), lock.evidence, *commands)
    return Fields(
        texts, (escape(lock.path),), age=None if since is None else max(0.0, now - since),
        pids=tuple(one.pid for one in parties if one.pid is not None), verdict=verdict.lower(),
    )  # fmt: skip


def consumer_facts(consumer: ConsumerRow, now: float) -> Fields:
    """``verdict`` is the word of the list; ``age`` is the time for which it has held the oldest of its claims."""
    owner = consumer.owner
    named = (escape(word or "") for word in (owner.name, owner.command, owner.user, owner.host, consumer.token))
    ids = tuple(map(escape, consumer.ids))
    pid = "" if owner.pid is None else str(owner.pid)
    texts = (pid, *named, consumer.word, consumer.word.lower(), consumer.evidence, *ids)
    pids = None if owner.pid is None else (owner.pid,)
    holder = escape(owner.name or "")
    return Fields(texts, ids, age=consumer.held(now), pids=pids, holder=holder, verdict=consumer.word.lower())


def operation_facts(record: OperationRecord, now: float) -> Fields:
    """``age`` is the time since it was done; its failures are its errors."""
    failed = f"{record.failed} failed" if record.failed else ""
    end = "not finished" if record.open else "undone" if record.undone_by else ""
    texts = (record.operation, str(record.action), escape(record.user), record.words, failed, end)
    return Fields(texts, (record.operation,), age=max(0.0, now - record.at), errors=(failed, end))
