"""One frozen picture of a spool: what the front ends draw. Counts and lists on a screen come from one of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .observation import CursorSection, Lock, LockHolder, Poll, Sight
from .problem import Problem
from .vocabulary import Box, Json

__all__ = ["Cursor", "Percentiles", "Rates", "Snapshot"]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of durations in seconds, over ``samples`` of them; None below 20 samples."""

    samples: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Rates:
    """Flow over the last ``window`` seconds (at most 60). None: not measured yet, which is not 0.

    ``arrived``, ``retried`` (by consumers) and ``requeued`` (by operators) are counts in the window, ``done`` is one of
    ``done_window`` seconds in it (None: all of it); ``lower_bound`` where events may be missing. ``new_per_s`` is the slope of
    the depth of ``new`` over ``slope_window`` seconds (at most 300), without what operators moved.
    """

    window: float = 0.0
    arrived: int | None = None
    done: int | None = None
    requeued: int | None = None
    lower_bound: bool = False
    new_per_s: float | None = None
    slope_window: float = 0.0
    waited: Percentiles = field(default_factory=lambda: Percentiles(0, None, None, None))
    worked: Percentiles = field(default_factory=lambda: Percentiles(0, None, None, None))
    done_window: float | None = None
    retried: int | None = None

    @property
    def in_per_s(self) -> float | None:
        return None if self.arrived is None or self.window <= 0 else self.arrived / self.window

    @property
    def done_per_s(self) -> float | None:
        window = self.window if self.done_window is None else self.done_window
        return None if self.done is None or window <= 0 else self.done / window


@dataclass(frozen=True, slots=True)
class Cursor:
    """One source. ``value`` is what the file holds now (the last good one where it does not parse). ``verdict`` is one of
    advancing, reverted, rewound, stalled, stopped, idle, unmoved, missing, unreadable, "new" (seen once). ``moved_at`` is when
    the value last changed as far as known, ``moved_is_bound`` where that is only "not later than". ``every`` is the learnt
    interval in seconds, None while unknown. ``writes`` seen, None in a shared file where a write of the same value cannot be told
    from another source's. ``history`` is newest first.
    """

    source: str
    value: Json
    shown: str
    verdict: str
    evidence: str
    file: str
    shared: bool
    moved_at: float | None = None
    moved_is_bound: bool = False
    every: float | None = None
    writes: int | None = None
    writes_unread: int = 0
    """Writes of its file, by whichever source, that came too fast to be read, over the same time."""
    reverts: int = 0
    """Lost updates: over the time watched, and what journals and poll logs tell of before."""
    reverts_recent: int = 0
    """Those of the last minutes, or where there are none, of the last hour."""
    reverts_is_bound: bool = False
    """True where there may have been more: not all writes were read, or a poll log tells of more than the file."""
    history: tuple[CursorSection, ...] = ()
    lock_holders: tuple[LockHolder, ...] = ()
    suspects: tuple[tuple[str, int], ...] = ()
    """Other sources that advanced in the very writes that reverted it, with in how many of ``reverts_recent``, most first."""
    unsafe: tuple[str, ...] = ()
    """What tells that this file is written unsafely, in words; names escaped."""
    polls: tuple[Poll, ...] = ()
    """What its poll log told, newest first; empty where none was named."""
    field: str | None = None
    """What in its section is the cursor, where a setting names it."""
    reverted_by: tuple[tuple[str, int], ...] = ()
    """Who wrote those writes, where that was seen: (command or pid, in how many), most first; escaped."""
    same_start: int = 0
    """How many of the last polls found something new from the same start: from 2 on nothing of it was kept."""
    cut: bool = False
    """True where its section is too large to be kept: ``value`` has its short fields, or says how long it is."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The one value a front end shows. ``sight`` holds the facts of the look; the rest is what ``observe`` concluded.

    ``history`` is the depth of each box, oldest first, one cell of ``cell`` seconds each, None where not watched yet.
    """

    sight: Sight
    rates: Rates
    cursors: tuple[Cursor, ...]
    problems: tuple[Problem, ...]
    history: Mapping[Box, tuple[float | None, ...]] = field(default_factory=dict)
    cell: float = 15.0
    not_judged: tuple[str, ...] = ()
    """What cannot be judged yet, in words ("rates (need 60s)")."""
    not_judged_codes: tuple[str, ...] = ()
    """The codes of problems that cannot be told yet, or not from here."""
    not_visible: tuple[str, ...] = ()
    lock_problems: Mapping[str, str] = field(default_factory=dict)
    """The locks that a problem is about: path → its code."""
    muted: Mapping[str, float] = field(default_factory=dict)
    """Sources whose cursor problems are not told, each with the end of that (epoch seconds)."""

    @property
    def taken_at(self) -> float:
        return self.sight.taken_at

    def lock_verdict(self, lock: Lock) -> str:
        """``BLOCKED`` or ``STALE`` where a problem says so. A lock that is waited for, but was taken just now, is held."""
        if lock.path in self.lock_problems:
            return "BLOCKED" if self.lock_problems[lock.path] == "lock-blocked" else "STALE"
        return "held" if lock.verdict == "blocked" else lock.verdict

    @property
    def watched_for(self) -> float:
        """Seconds since watching began."""
        return max(0.0, self.sight.taken_at - self.sight.watch.since) if self.sight.watch.since else 0.0
