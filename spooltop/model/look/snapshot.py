"""Frozen state of a spool that the front ends draw. Counts and lists on a screen come from one snapshot."""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum

from msgspec import Struct, field

from ..cursors import Cursor
from ..filters.selection import Selection
from ..vocabulary import Box
from .locks import Lock
from .observation import Observation

# Problems, worst first.

CODES = (
    "blind", "disk-full", "fs-readonly", "no-consumer", "poison", "failing", "claims-dead", "paused",
    "handed-back", "new-growing", "new-old",
    "cursor-unreadable", "cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing",
    "lock-blocked", "lock-failures", "claim-long", "tmp-abandoned", "tmp-old", "lock-stale", "ticket-orphan",
    "unsafe-writer", "lost", "conflict", "clock-skew", "untrimmed", "claims-unknown", "muted", "settings",
)  # fmt: skip
"""All codes, worst first: the order of the list of problems."""


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


class Problem(Struct, frozen=True):
    """A line of the list of problems.

    ``code`` is one of ``CODES``. ``selection`` is what ``r``, ``d`` and ``h`` on the line plan for and what Enter shows. ``view``
    is the view that Enter opens if there is no selection ("cursors", "locks"), ``subject`` the row in it (a source, a path).
    ``count`` is how many items the line is about, ``at_least`` if more were not looked at. ``text`` contains escaped names only.
    """

    code: str
    severity: Severity
    text: str
    count: int = 0
    selection: Selection | None = None
    view: str | None = None
    subject: str | None = None
    at_least: bool = False

    @property
    def rank(self) -> int:
        """Position in the order of problems, 0 is the worst."""
        return CODES.index(self.code)

    @property
    def box(self) -> Box | None:
        return self.selection.box if self.selection else None


class Percentiles(Struct, frozen=True):
    """Percentiles of ``samples`` durations in seconds; None below 20 samples."""

    samples: int
    p50: float | None
    p95: float | None
    p99: float | None


class Rates(Struct, frozen=True):
    """Flow over the last ``window`` seconds (at most 60). None: not measured yet, which is not 0.

    ``arrived``, ``retried`` (by consumers) and ``requeued`` (by operators) are counts in the window. ``done`` counts over
    ``done_window`` seconds of it (None: all of it); ``lower_bound`` if events may be missing. ``new_per_s`` is the slope of the
    depth of ``new`` over ``slope_window`` seconds (at most 300), without what operators moved.
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


class RateHistory(Struct, frozen=True):
    """Messages a second that came, were done, and were given back by their consumer: a figure for each cell of
    ``Snapshot.cell`` seconds, oldest first, None if not watched."""

    arrived: tuple[float | None, ...] = ()
    done: tuple[float | None, ...] = ()
    retried: tuple[float | None, ...] = ()


class Snapshot(Struct, frozen=True):
    """The one value that a front end shows. ``observation`` holds the facts of the look, the rest what ``observe`` concluded.

    ``history`` is the depth of each box, oldest first, one cell of ``cell`` seconds each, None if not watched yet.
    """

    observation: Observation
    rates: Rates
    cursors: tuple[Cursor, ...]
    problems: tuple[Problem, ...]
    history: Mapping[Box, tuple[float | None, ...]] = field(default_factory=dict)
    cell: float = 15.0
    rate_history: RateHistory = field(default_factory=RateHistory)
    not_judged: tuple[str, ...] = ()
    """Statements that cannot be made yet, in words ("rates (need 60s)")."""
    not_judged_codes: Mapping[str, str] = field(default_factory=dict)
    """Codes of problems that cannot be detected yet, or not from here, each with what would tell, or why nothing does."""
    not_visible: tuple[str, ...] = ()
    lock_problems: Mapping[str, str] = field(default_factory=dict)
    """Locks with a problem: path → its code."""
    muted: Mapping[str, float] = field(default_factory=dict)
    """Sources whose cursor problems are hidden, each with the end of the mute (epoch seconds)."""

    @property
    def taken_at(self) -> float:
        return self.observation.taken_at

    def not_judged_words(self, codes: Container[str] = CODES) -> list[str]:
        """Says which of ``codes`` were not judged, grouped by what would tell: ``new-growing (needs --watch 60s)``."""
        groups: dict[str, list[str]] = {}
        for code, why in self.not_judged_codes.items():
            if code in codes:
                groups.setdefault(why, []).append(code)
        return [f"{', '.join(group)} ({why})" for why, group in groups.items()]

    def lock_verdict(self, lock: Lock) -> str:
        """Returns ``BLOCKED`` or ``STALE`` if there is such a problem. A lock with waiters that was taken just now is held."""
        if lock.path in self.lock_problems:
            return "BLOCKED" if self.lock_problems[lock.path] == "lock-blocked" else "STALE"
        return "held" if lock.verdict == "blocked" else lock.verdict

    @property
    def watched_for(self) -> float:
        """Seconds since watching began."""
        return max(0.0, self.observation.taken_at - self.observation.watch.since) if self.observation.watch.since else 0.0
