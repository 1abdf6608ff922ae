"""The view in front and the choices made in it. Commands are judged by a ``CommandContext``, which knows nothing of drawing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from spooltop.cursors.model import Cursor
from spooltop.model.backend import Capabilities, Sort
from spooltop.model.plan import Plan, Selection
from spooltop.model.snapshot import BoxState, ConsumerRow, Problem, Snapshot
from spooltop.model.vocabulary import ASIDE, Box, Key, Lock, Row, Verdict

# Decides whether a new snapshot is worth painting. A spool where nothing happens must cost the terminal nothing, and the thread
# that paints must not wake for it.

TICK = 10.0
"""Seconds after which ages are painted again although nothing else changed: their step below a minute."""
SOON = 1.0
"""The same during the first ``TICK`` seconds after a change, when ages are whole seconds."""

CLOCK = TICK / 2
"""Seconds between two updates of the clock in the header where nothing else changes: every second one comes with the ages."""


def signature(snapshot: Snapshot) -> Hashable:
    """Equal for two snapshots that differ only by the passing of time (ages, windows of rates, free disk space). A rate that
    becomes known is a change: after a stop (Ctrl-Z) the first look does not know all of them, the second does."""
    observation = snapshot.observation
    return (
        observation.generation,
        observation.complete,
        tuple((box, state.count, state.complete, state.oldest_at, state.error) for box, state in observation.boxes.items()),
        tuple((row.key, row.verdict) for row in observation.claims),
        tuple((row.key, row.verdict, row.size) for row in observation.tmp),
        observation.counts,
        observation.consumers,
        tuple(sorted(observation.suppressed.items())),
        tuple((problem.code, problem.severity, problem.count, problem.subject) for problem in snapshot.problems),
        tuple(
            (
                cursor.source, cursor.shown, cursor.verdict, cursor.reverts_recent, cursor.moved_at, cursor.history[:1],
                cursor.polls[:1],
            )
            for cursor in snapshot.cursors
        ),
        tuple((lock.path, lock.verdict, lock.holders, lock.waiters) for lock in observation.locks),
        tuple(sorted(observation.capabilities.refusals.items())),
        tuple(one.readonly for one in observation.capacities),
        observation.watch.mode,
        observation.watch.reason,
        observation.hidden,
        snapshot.not_visible,
        (snapshot.rates.in_per_s is None, snapshot.rates.done_per_s is None),
        tuple(sorted(snapshot.muted.items())),
    )


class ChangeFilter:
    """Passes a snapshot that has changes, or in which ages have a new step: every ``soon`` seconds until ``tick`` seconds after
    the last change, then every ``tick`` seconds."""

    def __init__(self, tick: float = TICK, soon: float = SOON) -> None:
        self._tick = tick
        self._soon = soon
        self._last: Hashable = None
        self._at: float | None = None
        self._news_at = 0.0

    def passes(self, snapshot: Snapshot) -> bool:
        found = signature(snapshot)
        now = snapshot.taken_at
        news = found != self._last
        if news:
            self._news_at = now
        step = self._soon if 0 <= now - self._news_at <= self._tick + self._soon else self._tick
        if not news and self._at is not None and 0 <= now - self._at < step:
            return False
        self._last, self._at = found, now
        return True

    def pass_next(self) -> None:
        """Passes the next snapshot in any case."""
        self._at = None


class View(StrEnum):
    """The views and panels. SPOOLS lies below all others, where there are several targets. The next eight are reached by their
    number; the others lie on top of one of them."""

    SPOOLS = "spools"
    OVERVIEW = "overview"
    NEW = "new"
    CLAIMS = "claims"
    TMP = "tmp"
    CURSORS = "cursors"
    LOCKS = "locks"
    ASIDE = "aside"
    CONSUMERS = "consumers"
    MESSAGE = "message"
    CURSOR = "cursor"
    PLAN = "plan"
    RESULT = "result"
    OPERATIONS = "operations"
    OPERATION = "operation"
    HOLDERS = "holders"
    FOLLOW = "follow"
    SETTING = "setting"
    INJECT = "inject"
    SAVING = "saving"
    SORT = "sort"
    HELP = "help"
    PALETTE = "palette"


LISTS = frozenset({View.NEW, View.CLAIMS, View.TMP, View.ASIDE})
"""The views that list messages."""

BOX_OF = {View.NEW: Box.NEW, View.CLAIMS: Box.CUR, View.TMP: Box.TMP}


class ListState(Struct):
    """The choices of the user in one list. The cursor and the marks are kept by key, so that a refresh never moves the target."""

    box: Box
    sort: Sort = field(default_factory=Sort)
    filter: str = ""
    scope: Problem | ConsumerRow | None = None
    """The problem or consumer that the list was opened from, whose messages it shows."""
    problems_only: bool = False
    cursor: Key | None = None
    index: int = 0
    marks: dict[Key, None] = field(default_factory=dict)

    @property
    def selection(self) -> Selection | None:
        """The selection that limits the list in addition to the filter."""
        if self.scope is not None:
            return self.scope.selection
        if self.problems_only:
            return Selection(box=self.box, verdict=PROBLEM_VERDICTS[self.box]) if self.box in PROBLEM_VERDICTS else None
        return None


PROBLEM_VERDICTS = {Box.CUR: Verdict.DEAD, Box.TMP: Verdict.ABANDONED}
"""The verdict that "problems only" shows, by box."""


class CommandContext(Struct, frozen=True):
    """The facts that the commands of the table are judged by.

    ``rows`` is the length of the list in front (messages, problems, sources, operations), ``depth`` the number of steps that
    lead back to the Overview. ``last_filter`` is the filter that was set last; ``refined`` is True where a filter or a
    selection limits the list. ``plan`` is the plan in front; ``applying`` while it is being applied, ``early`` while no key
    confirms it yet. ``undoable`` says why the chosen operation cannot be undone ("" where it can). ``tracked`` counts the
    messages that a result or a timeline follows.
    """

    view: View
    snapshot: Snapshot | None = None
    box: Box | None = None
    row: Row | None = None
    rows: int = 0
    marked: int = 0
    filter: str = ""
    last_filter: str = ""
    refined: bool = False
    problem: Problem | None = None
    cursor: Cursor | None = None
    lock: Lock | None = None
    consumer: ConsumerRow | None = None
    plan: Plan | None = None
    applying: bool = False
    early: bool = False
    undoable: str = ""
    tracked: int = 0
    depth: int = 0
    among_spools: bool = True
    """True where the target was opened from the Spools view, or a panel does not know."""
    frozen: bool = False
    reading: bool = False
    """True where the list in front has not been read yet."""

    @property
    def capabilities(self) -> Capabilities:
        if self.snapshot is None:
            return Capabilities.nothing("nothing has been seen yet")
        return self.snapshot.observation.capabilities

    @property
    def absent(self) -> Mapping[str, str]:
        """Views that this kind of queue does not have, and why."""
        return {} if self.snapshot is None else self.snapshot.observation.absent

    @property
    def paused(self) -> bool:
        """True where the spool is paused."""
        return self.snapshot is not None and self.snapshot.observation.paused is not None

    @property
    def target_box(self) -> Box | None:
        """The box that an operation would act on."""
        if self.view is View.OVERVIEW:
            return self.problem.box if self.problem is not None else None
        return Box.CUR if self.view is View.CONSUMERS else self.box

    @property
    def target_count(self) -> int:
        """The number of messages that an operation would act on."""
        if self.view is View.OVERVIEW:
            return self.problem.count if self.problem is not None else 0
        if self.view is View.CONSUMERS:
            return self.consumer.claims if self.consumer is not None else 0
        return self.marked or (1 if self.row is not None else 0)

    @property
    def muted(self) -> float | None:
        """The end of the mute of the chosen source, epoch seconds; None where it is not muted."""
        if self.snapshot is None or self.cursor is None:
            return None
        return self.snapshot.muted.get(self.cursor.source)

    @property
    def trash(self) -> BoxState | None:
        return self.snapshot.observation.boxes.get(Box.TRASH) if self.snapshot is not None else None

    @property
    def expired(self) -> int:
        """The number of messages in the trash whose retention is over."""
        return self.trash.expired if self.trash is not None else 0

    @property
    def aside(self) -> bool:
        return self.target_box in ASIDE
