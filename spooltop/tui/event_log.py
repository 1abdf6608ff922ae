"""Keeps what happened to the spool since watching began: problems, operations of this session, consumers that exited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from spooltop.model import Frozen, Outcome, Owner, Result, Severity, Snapshot, Verdict, escape
from spooltop.monitor.events import EventKind, QueueEvent, TargetEvents

_KEPT = 200
"""Events that are kept."""


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
    _ended = 0
    """Operations that are known to have ended."""

    def __init__(self) -> None:
        self._events = TargetEvents("")
        self._kept: deque[LoggedEvent] = deque(maxlen=_KEPT)

    def take(self, snapshot: Snapshot, results: Sequence[Result] = ()) -> None:
        """Takes another look, and the results of the operations of this session, oldest first."""
        first, ended = self._exited is None, results[self._ended :]
        self._ended += len(ended)  # one more may have ended in the worker since
        news = [*self._deaths(snapshot), *map(_logged, self._events.look(snapshot, ()))]
        for result in ended:
            counts = ", ".join(f"{outcome} {result.count(outcome)}" for outcome in Outcome)
            words = f"{result.action} by {escape(snapshot.observation.who.user)}: {counts} · {result.operation}"
            news.append(LoggedEvent(result.finished_at, words))
        if not first:
            self._kept += filter(None, news)

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
        case _:
            return None
