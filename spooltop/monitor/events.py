"""Events of a target, from one look to the next: problems that begin, change and end, operations, lost updates. Below them, what
watches several targets, each in a thread of its own, until it is stopped. A target that cannot be opened is tried again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Protocol, Self

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.cursors.model import cursors_by_key
from spooltop.model import Clock, Frozen, Json, JsonObject, OperationRecord, Problem, Selection, Snapshot, SpooltopError, escape

_GONE_FOR = 10.0
"""Seconds without a problem after which it has ended: one that comes and goes with each look is one problem."""
_REMEMBERED = 10_000
"""Operations whose end was reported."""

_Key = tuple[str | None, ...]


class EventKind(StrEnum):
    """The kinds of events, as they are written."""

    BEGINS = "begins"
    CHANGES = "changes"
    ENDS = "ends"
    OPERATION = "operation"
    REVERTED = "reverted"
    UNREADABLE = "unreadable"
    READABLE = "readable"


class QueueEvent(Frozen):
    """Something that happened at ``at`` (epoch seconds) to ``target``. ``subject`` is the code of the problem, the id of the
    operation, or the source; ``more`` has the other members of the JSON form. Everything is escaped."""

    kind: EventKind
    at: float
    target: str
    subject: str
    text: str
    more: JsonObject = field(default_factory=dict)


class TargetEvents(Struct):
    """Compares the looks at one target."""

    target: str
    _problems: dict[_Key, tuple[Problem, float]] = {}
    """The reported problems, each with the time when it was last seen."""
    _reverts: dict[str, int] = {}
    _reported: dict[str, None] = {}
    _unreadable: str = ""
    _first: bool = True

    def look(self, snapshot: Snapshot, operations: Sequence[OperationRecord]) -> list[QueueEvent]:
        """Returns the events since the look before. The problems of the first look begin with it; its operations are known.
        ``operations`` are the newest ones, newest first."""
        found = []
        if self._unreadable:
            self._unreadable = ""
            found.append(self._event(EventKind.READABLE, snapshot.taken_at, "", "can be looked at again"))
        found += self._changed_problems(snapshot)
        found += self._lost_updates(snapshot)
        found += self._ended_operations(snapshot.taken_at, operations)
        self._first = False
        return found

    def failed(self, why: str, at: float) -> list[QueueEvent]:
        """Returns the event of a target that cannot be looked at, once for each reason. Its problems have not ended."""
        if why == self._unreadable:
            return []
        self._unreadable = why
        return [self._event(EventKind.UNREADABLE, at, "", why)]

    def _changed_problems(self, snapshot: Snapshot) -> Iterator[QueueEvent]:
        now = snapshot.taken_at
        for problem in snapshot.problems:
            chosen = problem.selection or Selection()
            key: _Key = problem.code, chosen.box, chosen.verdict, problem.subject
            reported, _ = self._problems.get(key, (None, now))
            if reported is None or _differs(reported, problem):
                yield self._of_problem(EventKind.BEGINS if reported is None else EventKind.CHANGES, now, problem)
                reported = problem
            self._problems[key] = (reported, now)  # the next is compared with it, so that a slow change is told too
        if snapshot.observation.complete:
            for key in [key for key, (_, seen) in self._problems.items() if now - seen >= _GONE_FOR]:
                problem, seen = self._problems.pop(key)
                ended = self._of_problem(EventKind.ENDS, now, problem)
                yield ended.replace(more={**ended.more, "last_seen_at": seen})

    def _lost_updates(self, snapshot: Snapshot) -> Iterator[QueueEvent]:
        for source, cursor in cursors_by_key(snapshot.cursors).items():
            before = self._reverts.get(source, 0 if not self._first else cursor.reverts)
            self._reverts[source] = cursor.reverts
            if cursor.reverts > before:
                more = {"reverts": cursor.reverts, "value": cursor.value}
                yield self._event(EventKind.REVERTED, snapshot.taken_at, source, cursor.evidence, **more)

    def _ended_operations(self, at: float, operations: Sequence[OperationRecord]) -> Iterator[QueueEvent]:
        for record in reversed(operations):
            if record.open or record.operation in self._reported:
                continue
            self._reported[record.operation] = None
            if self._first:
                continue
            counts = {"done": record.done, "skipped": record.skipped, "failed": record.failed}
            said = ", ".join(f"{name} {many}" for name, many in counts.items())
            more: JsonObject = {"action": str(record.action), "user": escape(record.user), "began_at": record.at, **counts}
            text = f"{more['action']} by {more['user']}: {said}"
            yield self._event(EventKind.OPERATION, at, record.operation, text, **more)
        for operation in list(self._reported)[: max(0, len(self._reported) - _REMEMBERED)]:
            del self._reported[operation]

    def _of_problem(self, kind: EventKind, at: float, problem: Problem) -> QueueEvent:
        more = {} if problem.subject is None else {"subject": escape(problem.subject)}
        severity = str(problem.severity)
        return self._event(
            kind, at, problem.code, problem.text, severity=severity, count=problem.count, view=problem.view, **more
        )

    def _event(self, kind: EventKind, at: float, subject: str, text: str, /, **more: Json) -> QueueEvent:
        return QueueEvent(kind, at, escape(self.target), subject, text, more)


def as_text(event: QueueEvent) -> str:
    """Writes an event on one line, with the local time and its offset."""
    at = datetime.fromtimestamp(event.at).astimezone().isoformat(timespec="seconds")
    severity = event.more.get("severity")
    about = " ".join(str(word) for word in (event.kind, severity, event.subject) if word)
    return f"{at} {event.target} {about}: {event.text}"


def as_json(event: QueueEvent) -> dict[str, Json]:
    """The object of ``events --json``, and what ``--exec`` gets."""
    about = {"subject": event.subject} if "severity" not in event.more else {"code": event.subject}
    return {
        "schema": 1, "event": str(event.kind), "at": event.at, "target": event.target, **about, "text": event.text, **event.more,
    }  # fmt: skip


def _differs(before: Problem, now: Problem) -> bool:
    """True if a problem is another one to a reader: its severity changed, or its count doubled or halved since it was reported.
    Each message more would be a line a second in a storm."""
    low, high = sorted((before.count, now.count))
    return before.severity is not now.severity or (high >= 2 * low and high > low)


# The watch.

_AGAIN = 15.0
"""Seconds after which a target that cannot be opened is tried again, and after which one without changes is looked at again."""
_BUSY = 1.0
"""Seconds between two looks at least."""
_REST_SHARE = 0.01
"""Share of a core that the looks at targets without changes may take, all together, as long as they are not rarer than ``again``
says."""
_RESTS = 20
_HEARD = 0.5
"""Seconds that one system call waits: a signal that comes as the call begins does not end it, and is heard when it returns."""
_STOPPED_WITHIN = 2.0
"""Seconds that a stop waits for the threads; one that hangs in a system call does not keep the process."""


class Sink(Protocol):
    """Receives the looks at one target, in the thread that makes them."""

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        """Takes a snapshot that took ``seconds`` to make."""
        ...

    def failed(self, why: str, at: float) -> None:
        """Learns that the target could not be looked at, at ``at`` (epoch seconds)."""
        ...


class OperationFeed(Struct):
    """Reads the newest operations of a target after a look, and rests ``_RESTS`` times as long as that took: where the journal is
    large, reading it takes a hundred times as long as the look."""

    monotonic: Clock = time.monotonic
    _due: float = -math.inf

    def newest(self, control: Control, most: int | None) -> list[OperationRecord] | None:
        """Returns the newest operations, newest first; none while it rests, or of a target without operations. None where the log
        may not be read."""
        began = self.monotonic()
        if began < self._due:
            return []
        try:
            return control.operations(most=most)
        except SpooltopError:
            return None
        finally:
            ended = self.monotonic()
            self._due = ended + _RESTS * (ended - began)


class Watching(Struct, eq=False):
    """Watches ``targets``, which ``opened`` opens, for their sinks. A target without changes is looked at again after ``again``
    seconds, or after ``soon`` where that costs little: no change of a directory tells that a process has ended.
    ``spent`` measures what this thread has used of a processor."""

    targets: Mapping[str, Sink]
    opened: Callable[[str], Control]
    again: float = _AGAIN
    soon: float = _AGAIN
    busy: float = _BUSY
    spent: Clock = time.thread_time
    _asked: SimpleQueue[None] = field(default_factory=SimpleQueue)
    """Its put, unlike ``Event.set``, is safe in a signal handler amid a wait for it."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _controls: dict[str, Control] = {}
    _threads: list[threading.Thread] = []

    def require_one(self) -> None:
        """Raises the error of the first target if none can be opened: a wrong path would be waited for for ever."""
        errors: list[SpooltopError] = []
        for target in self.targets:
            try:
                self.opened(target).close()
                return
            except SpooltopError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        for pair in self.targets.items():
            self._threads.append(threading.Thread(target=self._run, args=pair, name=f"watch {pair[0]}", daemon=True))
            self._threads[-1].start()
        return self

    def wait(self, seconds: float = math.inf) -> bool:
        """Waits until ``stop`` is called, at most ``seconds``; True if it was."""
        end = time.monotonic() + seconds
        while True:
            try:
                self._asked.get(timeout=max(0.0, min(_HEARD, end - time.monotonic())))
            except Empty:
                if time.monotonic() >= end:
                    return False
                continue
            self.stop()  # for the next wait
            return True

    def stop(self, _number: int = 0) -> None:
        """Ends the wait. May be called by a signal handler, by any thread, and again."""
        self._asked.put(None)

    def __exit__(self, *_raised: object) -> None:
        """Ends all threads, and waits for them."""
        self._stop.set()
        for control in list(self._controls.values()):
            control.wake()
        end = time.monotonic() + _STOPPED_WITHIN
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self, target: str, sink: Sink) -> None:
        while not self._stop.is_set():
            try:
                with self.opened(target) as control:
                    self._controls[target] = control
                    while not self._stop.is_set():
                        began, spent = time.monotonic(), self.spent()
                        snapshot = control.look()
                        sink.look(control, snapshot, time.monotonic() - began)
                        cost = len(self.targets) * (self.spent() - spent)
                        if not self._stop.wait(self.busy):
                            control.changes(min(self.again, max(self.soon, cost / _REST_SHARE)))
            except (SpooltopError, OSError) as error:
                sink.failed(str(error), time.time())
                self._stop.wait(self.again)
