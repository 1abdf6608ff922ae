"""Glances at several targets, the worst first, and the watch over many for the Spools view. ``status`` of several targets prints
glances, and the Spools view draws them.

The data flow of the watch, from the directories to the view:

1. Each target is a ``_Watched``. A thread makes one step of each that is due: at first it counts the names in the boxes, which is
   the first picture; then it opens the target and looks at it, as a dashboard would.
2. At rest, a step asks once a second whether something changed (``Control.has_changed``: events of the boxes, the times of the
   directories). Only then, and from time to time, it looks again: a consumer that dies changes no directory.
3. Each step leaves a frozen ``Glance``. ``glances`` returns them all, and ``wake`` tells the view that some are new.

A step may take long, or hang for ever. It then keeps its thread, and another one goes on with the rest (``run_each``). Looks are
rarer the more they cost together, so that at rest all of them take a share of a core that does not depend on the number of
targets.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from math import inf

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.model import ASIDE, Box, Clock, Frozen, Observation, Problem, Rates, Snapshot, SpooltopError, pause_words, span
from spooltop.run_each import run_each

_NUMBER = r"([0-9]+)"
_DIGITS = 20
"""Digits that numbers in names are compared by; longer ones are compared as text."""


class Level(IntEnum):
    """State of a target, the worst first, in the order of a monitoring plugin: what is known to be broken is worse than
    what is not known."""

    SILENT = 0
    CRITICAL = 1
    UNKNOWN = 2
    WARNING = 3
    NOTE = 4
    FINE = 5
    PENDING = 6


_NOT_SEEN = Snapshot(Observation("", "", 0.0, True, {}, proves_death=False), Rates())


class Glance(Frozen):
    """All that is known of ``target``. ``counted`` are the names in its boxes before the first look (None: a box that cannot be
    counted), ``snapshot`` is the last look, ``error`` says why there is none. ``silent_for``: seconds for which it has not
    answered, and ``step`` the part that does not."""

    target: str
    counted: Mapping[Box, int | None] = {}
    snapshot: Snapshot | None = None
    error: str = ""
    silent_for: float | None = None
    step: str = ""

    @property
    def seen(self) -> Snapshot:
        """The last look; one without boxes and problems where there is none."""
        return self.snapshot or _NOT_SEEN

    @property
    def worst(self) -> Problem | None:
        """The worst of its problems: critical ones before warnings, then in the order of the codes."""
        return min(self.seen.problems, key=lambda one: (Level[one.severity.name], one.rank), default=None)

    @property
    def level(self) -> Level:
        if self.silent_for is not None:
            return Level.SILENT
        if self.error:
            return Level.UNKNOWN
        if self.snapshot is None:
            return Level.PENDING
        if (worst := self.worst) is not None:
            return Level[worst.severity.name]
        return Level.FINE if self.seen.observation.paused is None else Level.NOTE

    @property
    def troubled(self) -> bool:
        """True where somebody should look."""
        return self.level <= Level.WARNING

    @property
    def says(self) -> str:
        """The worst problem, or why nothing is known, in words whose names are escaped."""
        if self.silent_for is not None:
            return f"does not answer ({span(self.silent_for)})" + (f": {self.step}" if self.step else "")
        if self.error:
            return self.error
        if (worst := self.worst) is not None:
            return worst.text
        pause = self.seen.observation.paused
        return "" if pause is None else f"paused {pause_words(pause, self.seen.taken_at)}"

    @property
    def only_paused(self) -> bool:
        """True where nothing is worse than that it is paused."""
        worst = self.worst.code if self.worst is not None else ""
        return self.seen.observation.paused is not None and (self.level is Level.NOTE or worst == "paused")

    def count(self, *boxes: Box) -> int | None:
        """The number of messages in ``boxes``; None where that is not known."""
        counts = [self._count(box) for box in boxes]
        return None if None in counts else sum(count for count in counts if count is not None)

    def _count(self, box: Box) -> int | None:
        if self.snapshot is None:
            return self.counted.get(box)
        state = self.snapshot.observation.boxes.get(box)
        return state.count if state is not None else 0 if box in ASIDE else None

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Messages that come, and that are done, per second; None where that is not measured."""
        return self.seen.rates.in_per_s, self.seen.rates.done_per_s

    @property
    def figures(self) -> tuple[object, ...]:
        """All that is shown of it except ages. Two glances with equal figures look the same."""
        rates = tuple(None if rate is None else round(rate, 1) for rate in self.rates)
        counts = tuple(map(self._count, Box))
        return self.level, self.says, counts, self.complete, self.dead, self.oldest_at, rates, self.snapshot is None

    @property
    def complete(self) -> bool:
        """False where counts are lower bounds."""
        return self.seen.observation.complete

    @property
    def dead(self) -> int | None:
        """The number of claims of dead consumers; None where it is not judged, or nothing could prove it."""
        seen = self.seen.observation
        return seen.counts.dead if seen.judges_claims and seen.proves_death and self._count(Box.CUR) is not None else None

    @property
    def oldest_at(self) -> float | None:
        """When the oldest message in ``new`` was put, epoch seconds; None where there is none, or it is not known."""
        state = self.seen.observation.boxes.get(Box.NEW)
        return state.oldest_at if state is not None and state.count else None


def natural(name: str) -> tuple[str, ...]:
    """A key that sorts names by the numbers in them: ``spool2`` before ``spool10``."""
    return tuple(part.zfill(_DIGITS) if at % 2 else part for at, part in enumerate(re.split(_NUMBER, name)))


def _badness(one: Glance) -> tuple[int, int, float, tuple[str, ...]]:
    count = len(one.seen.problems)
    # Without a problem the oldest message says nothing, and lines would change their places with each message that is taken.
    oldest = inf if one.oldest_at is None or not count else one.oldest_at
    return one.level, -count, oldest, natural(one.target)


def worst_first(glances: Iterable[Glance]) -> list[Glance]:
    """The glances, worst first; equally bad ones by the number of their problems, then by the age of their oldest message in
    ``new``, then by name."""
    return sorted(glances, key=_badness)


# The watch.

_EVERY = 1.0
"""Seconds between two steps of a target. They are due at whole multiples of it, so that the thread wakes once for all."""
_AGAIN = 15.0
"""Seconds after which a target that cannot be opened is tried again."""
_REST = 2.0
"""Seconds at least between two looks at a target in which nothing changed."""
_SECOND = 5.0
"""Seconds from the first look to the second, without which there are no rates."""
_REST_SHARE = 0.015
"""Share of a core that all looks at rest may take."""
_BUSY_SHARE = 0.25
"""Share of a core that all looks may take where everything changes."""
_ONLY_MESSAGES = 4.0
"""Multiple of the rest where only messages wait, of which an event tells all but their age."""
_CALM = 5.0
"""Multiple of all times while another screen is in front."""
_PATIENCE = 1.0
"""Seconds that the next steps wait for one that hangs."""
_LONGEST = 0.5
"""Seconds that the others wait for a step that goes on."""
_SILENT = 5.0
"""Seconds after which a target is said not to answer."""
_TICK = 0.25
"""Seconds between two calls of ``wake`` at least."""
_CLOCK = 2.0
"""Seconds between two calls of ``wake`` where nothing changed but the time."""
_FIND = 60.0
"""Seconds between two searches for new targets."""


class _Watched(Struct):
    """A target with its ``control`` once it is open. ``began``: when the step under way began, monotonic seconds."""

    glance: Glance
    control: Control | None = None
    counted: bool = False
    began: float | None = None
    due: float = 0.0
    look_due: float = 0.0
    took: float = 0.0
    """Seconds of a core that the last look took."""
    dropped: bool = False
    """True once it is no target any more."""


class SpoolsWatch(Struct, eq=False):
    """``glancing`` opens a target to be looked at here, ``open`` one for a dashboard of its own, which may block. ``count_names``
    counts the names in the boxes of a target, ``find`` finds the targets anew. At most ``most_open`` targets stay open from one
    look to the next; the others show no rates."""

    targets: Sequence[str]
    glancing: Callable[[str], Control]
    open: Callable[[str], Control]
    count_names: Callable[[str], Mapping[Box, int | None]] = lambda target: {}
    find: Callable[[], Sequence[str]] | None = None
    most_open: int = 1_000
    monotonic: Clock = time.monotonic
    every: float = _EVERY
    _wake: Callable[[], object] = lambda: None
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _watched: dict[str, _Watched] = {}
    _cost: float = 0.0
    _factor: float = 1.0
    _dirty: bool = False
    _looking: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _told_at: float = 0.0
    _find_due: float = 0.0
    _finding: threading.Thread | None = None
    _watchdog: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._watched = {target: _Watched(Glance(target)) for target in self.targets}

    def now(self) -> float:
        """Returns epoch seconds by the clock of the looks."""
        return time.time()

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Calls ``wake`` from now on where a glance is new, and every few seconds, in a thread."""
        self._wake = wake
        self._dirty = True

    def count(self) -> None:
        """Begins to count, and leaves the looks to ``start``: they would compete with the dashboard that is being loaded."""
        if self._watchdog is None:
            self._find_due = self.monotonic() + _FIND
            threading.Thread(target=self._run, name="glances", daemon=True).start()
            self._watchdog = threading.Thread(target=self._supervise, name="spools", daemon=True)
            self._watchdog.start()

    def start(self) -> None:
        """Begins to look. Does nothing where it has begun."""
        self.count()
        if not self._looking:
            self._looking = True
            self.calm(False)

    def glances(self) -> list[Glance]:
        """Returns the glance at each target, in the order in which they were given."""
        now = self.monotonic()
        return [self._glance(one, now) for one in list(self._watched.values())]

    def look_again(self) -> None:
        """Looks at all targets again, and for new ones."""
        with self._changed:
            self._find_due = 0.0
            for one in self._watched.values():
                one.due = one.look_due = 0.0
            self._changed.notify_all()

    def calm(self, calm: bool) -> None:
        """Looks less often while ``calm``: another screen is in front."""
        with self._changed:
            self._factor = _CALM if calm else 1.0
            if not calm:
                for one in self._watched.values():
                    one.due = min(one.due, self.monotonic())
                self._changed.notify_all()

    def close(self) -> None:
        """Ends all threads but those that hang, and closes the targets that answer."""
        self._over.set()
        with self._changed:
            self._changed.notify_all()
            idle = [one for one in self._watched.values() if one.began is None]
        for one in idle:
            self._close(one)
        if self._watchdog is not None:
            self._watchdog.join(1.0)

    def _glance(self, one: _Watched, now: float) -> Glance:
        began, control = one.began, one.control
        if began is None or now - began < _SILENT:
            return one.glance
        step = control.current_step() if control is not None else "opening it"
        return one.glance.replace(silent_for=now - began, step=step)

    # The threads

    def _run(self) -> None:
        """Makes the steps that are due, again and again."""
        while True:
            with self._changed:
                if self._over.is_set():
                    return
                now = self.monotonic()
                idle = [one for one in self._watched.values() if one.began is None]
                due = sorted((one for one in idle if one.due <= now), key=lambda one: one.due)
                if not due:
                    self._changed.wait(max(0.0, min((one.due for one in idle), default=now + self.every) - now))
            run_each(due, self._take, _PATIENCE, longest=_LONGEST)

    def _take(self, one: _Watched) -> None:
        """Makes the next step of a target, unless it is over."""
        with self._changed:
            if self._over.is_set() or one.dropped:
                return
            one.began = self.monotonic()
        after = self._step(one)
        every = self.every * self._factor
        with self._changed:
            one.began = None
            one.due = (self.monotonic() + after) // every * every + every
            gone = self._over.is_set() or one.dropped
        if gone:
            self._close(one)

    def _step(self, one: _Watched) -> float:
        """Makes the next step of a target. Returns the seconds after which another one is due."""
        target = one.glance.target
        try:
            if not one.counted:
                one.counted = True
                self._show(one, one.glance.replace(counted=self.count_names(target)))
                return -self.every  # at once, but after those that are not counted yet
            if not self._looking:
                return 0.0
            due = self.monotonic() >= one.look_due
            if one.control is None and due:
                one.control = self.glancing(target)
            elif one.control is None or not (due or one.control.has_changed()):
                return 0.0
            return self._look(one, one.control)
        except (SpooltopError, OSError) as error:
            words = error.what if isinstance(error, SpooltopError) else error.strerror or str(error)
        except Exception as error:  # noqa: BLE001  a defect in one must not end the thread that looks at all
            words = f"internal error, please report: {error!r}"
        self._show(one, Glance(target, error=words))
        self._close(one)
        return _AGAIN

    def _look(self, one: _Watched, control: Control) -> float:
        began, spent = self.monotonic(), time.thread_time()
        snapshot = control.look()
        took = time.thread_time() - spent
        with self._changed:
            self._cost += took - one.took
            one.took = took
            rest = max(_REST, self._cost / _REST_SHARE) * self._factor
            busy = self._cost / _BUSY_SHARE
        calm = snapshot.observation.only_messages_wait
        rest = rest * (_ONLY_MESSAGES if calm else 1.0) if one.glance.snapshot is not None else _SECOND
        one.look_due = began + rest
        self._show(one, Glance(one.glance.target, snapshot=snapshot))
        if sum(each.control is not None for each in list(self._watched.values())) > self.most_open:
            self._close(one)
        return max(0.0, busy - self.every)

    def _close(self, one: _Watched) -> None:
        control, one.control = one.control, None
        if control is not None:
            with suppress(Exception):  # the others are looked at all the same
                control.close()

    def _show(self, one: _Watched, glance: Glance) -> None:
        before, one.glance = one.glance, glance
        if glance.figures != before.figures:
            self._dirty = True

    def _supervise(self) -> None:
        """Calls ``wake``, and has new targets looked for."""
        while not self._over.wait(_TICK):
            now = self.monotonic()
            silent = any(one.began is not None and now - one.began > _SILENT for one in list(self._watched.values()))
            if self._dirty or silent or now - self._told_at >= _CLOCK:
                self._dirty = False
                self._told_at = now
                self._wake()
            if self.find is not None and now >= self._find_due and (self._finding is None or not self._finding.is_alive()):
                self._find_due = now + _FIND * self._factor
                self._finding = threading.Thread(target=self._set_targets, args=(self.find,), name="find", daemon=True)
                with suppress(RuntimeError):  # the system has no thread left: later again
                    self._finding.start()

    def _set_targets(self, find: Callable[[], Sequence[str]]) -> None:
        try:
            targets = find()
        except (SpooltopError, OSError):
            return  # the settings are being written, say: the targets stay as they are
        with self._changed:
            before = self._watched
            self._watched = {target: before.get(target) or _Watched(Glance(target)) for target in targets}
            gone = [one for target, one in before.items() if target not in self._watched]
            for one in gone:
                one.dropped = True
            idle = [one for one in gone if one.began is None]
            self._dirty = self._dirty or list(before) != targets
            self._changed.notify_all()
        for one in idle:
            self._close(one)
