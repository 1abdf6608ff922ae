"""Keeps what happened to the spool since watching began: problems, operations of this session, consumers that exited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from spooltop.model import Frozen, OperationRecord, Outcome, Owner, Result, Severity, Snapshot, Verdict, escape
from spooltop.monitor.events import EventKind, QueueEvent, TargetEvents

_KEPT = 200
"""Events that are kept."""
_RESULTS = 20
"""Operations of this session that are compared with those reported: at most so many end between two looks."""


class LoggedEvent(Frozen):
    """Something that happened at ``at`` (epoch seconds), in escaped words. ``severity`` is that of a problem that began;
    ``ended``: a problem is over."""

    at: float
    words: str
    severity: Severity | None = None
    ended: bool = False


class EventLog:
    """The events from one look to the next, of which the newest are kept. What the first look shows did not happen then: nobody
    knows when it began."""

    _exited: frozenset[Owner] | None = None

    def __init__(self) -> None:
        self._events = TargetEvents("")
        self._kept: deque[LoggedEvent] = deque(maxlen=_KEPT)

    def take(self, snapshot: Snapshot, results: Iterable[Result] = ()) -> None:
        """Takes another look, and the results of the operations of this session, oldest first."""
        user = snapshot.observation.who.user
        operations = [_record(result, user) for result in list(results)[-_RESULTS:]]
        found = self._events.look(snapshot, operations[::-1])
        first = self._exited is None
        news = [*self._deaths(snapshot), *(logged for event in found if (logged := _logged(event)) is not None)]
        if not first:
            self._kept.extend(news)

    def newest(self, until: float) -> list[LoggedEvent]:
        """Returns the events up to ``until`` (epoch seconds), newest first."""
        return sorted((event for event in self._kept if event.at <= until), key=lambda event: event.at, reverse=True)

    def _deaths(self, snapshot: Snapshot) -> Iterator[LoggedEvent]:
        """Consumers that were seen to hold claims and have exited since."""
        dead = [row.owner for row in snapshot.observation.claims if row.verdict is Verdict.DEAD and row.owner is not None]
        known, self._exited = self._exited or frozenset(), frozenset(dead)
        for owner in dict.fromkeys(owner for owner in dead if owner not in known and (owner.pid is not None or owner.name)):
            words = f"consumer {escape(owner.label)} exited, holding {dead.count(owner):,}"
            yield LoggedEvent(snapshot.taken_at, words, Severity.WARNING)


def _record(result: Result, user: str) -> OperationRecord:
    return OperationRecord(
        result.operation, result.action, result.finished_at, user, len(result.items), result.count(Outcome.DONE),
        result.count(Outcome.SKIPPED), result.count(Outcome.FAILED),
    )  # fmt: skip


def _logged(event: QueueEvent) -> LoggedEvent | None:
    """The event as it is shown; None for further lost updates: the history of the cursor has each one with its time."""
    severity = Severity(str(event.more["severity"])) if "severity" in event.more else None
    match event.kind:
        case EventKind.BEGINS:
            return LoggedEvent(event.at, event.text, severity)
        case EventKind.CHANGES if event.subject != "cursor-reverted":
            return LoggedEvent(event.at, f"now {event.text}", severity)
        case EventKind.ENDS:
            return LoggedEvent(float(str(event.more["last_seen_at"])), f"over: {event.text}", ended=True)
        case EventKind.OPERATION:
            return LoggedEvent(float(str(event.more["began_at"])), f"{event.text} · {event.subject}")
        case _:
            return None
