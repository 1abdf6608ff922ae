"""Draws the Overview of a large window as panels. Each answers one question; its title names the key that shows it in full."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from spooltop.model import units
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Box

from ...tracking.event_log import LoggedEvent
from ..boxes import box_table, flow_lines, percentile_line, suppressed_line
from ..cursors import cursor_glance
from ..elements.spans import Line, Span, Style, clip_left, crop, join, merge, plain, restyle, safe
from ..locks import holder_info, lock_facts, lock_lines, locks_used, ranked
from ..problems import problem_block, problem_keys, problem_title
from .frame import Section, frame, stack
from .graphs import HISTOGRAM_LINES, age_histogram, flow_graphs, flow_note, histogram_note
from .lists import happened_lines, ranked_rows

# Draws the locks in a large window: a list, the facts of the chosen one, and who waits for whom and for how long.

LOCKS_WIDE, LOCKS_HIGH = 120, 22
"""Cells and lines from which on there are panels."""
_FACTS = 9
"""Lines of the facts of the chosen lock."""
_MANY = 1000
_DEEPEST = 8
"""Steps from the first holder to the last waiter that are drawn."""


def lock_panels(snapshot: Snapshot, width: int, height: int, *, now: float, chosen: int) -> list[Line]:
    """Exactly ``height`` lines."""
    locks = ranked(snapshot)
    left = (width - 3) * 3 // 5
    right = width - 3 - left
    troubled = len(snapshot.lock_problems)
    title = f"{len(locks):,} lock{'s' if len(locks) != 1 else ''}{f', {troubled:,} with problems first' if troubled else ''}"
    shown = locks[max(0, min(chosen, len(locks) - 1))]
    first = [
        Section(title, partial(lock_lines, snapshot, now=now, chosen=chosen), 4, _MANY),
        Section("the chosen lock", partial(_facts, shown, now=now), _FACTS, _FACTS),
    ]
    second = [Section("who waits for whom", partial(wait_lines, snapshot, now=now), 3, _MANY)]
    if locks_used(snapshot, width):
        second.append(Section("the engine's own locks", partial(_used, snapshot), 1, 1))
    return frame([(left, stack(first, left, height)), (right, stack(second, right, height))])


def _facts(lock: Lock, width: int, rows: int, *, now: float) -> list[Line]:
    kind = "" if lock.kind == "none" else f" {lock.kind}"
    path = join(" ", Span(clip_left(safe(lock.path), width - len(kind) - 2), Style.STRONG), Span(kind, Style.DIM))
    return [path, *lock_facts(lock, width, now)][:rows]


def _used(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    used = locks_used(snapshot, _MANY)
    return [crop(join(" ", *(Span(span.text.removeprefix(" the engine's own locks: "), span.style) for span in used)), width)]


def wait_lines(snapshot: Snapshot, width: int, rows: int, *, now: float) -> list[Line]:
    """A tree: below each holder, those who wait for its lock and, where they hold another one, those who wait for them. Processes
    that wait for each other in a circle are told as a deadlock."""
    locks = [lock for lock in ranked(snapshot) if lock.waiters]
    if not locks:
        return [plain(" nobody waits for a lock", width, Style.DIM)]
    waiting = {_identity(one) for lock in locks for one in lock.waiters}
    first = [lock for lock in locks if not any(_identity(one) in waiting for one in lock.holders)]
    drawn: set[str] = set()
    lines: list[Line] = []
    for lock in [*first, *locks]:
        if lock.path not in drawn:
            lines += [crop(line, width) for line in _tree(lock, locks, drawn, now, 0, waiting if lock not in first else set())]
    if len(lines) > rows > 0:
        lines = [*lines[: rows - 1], plain(f"   {len(lines) - rows + 1:,} more lines", width, Style.DIM)]
    return lines


def _tree(
    lock: Lock, locks: list[Lock], drawn: set[str], now: float, depth: int, waiting: set[tuple[int | None, str]]
) -> Iterator[Line]:
    drawn.add(lock.path)
    margin = " " * (2 * depth + 1)
    name = clip_left(safe(lock.path.rpartition("/")[2]), 24)
    circle = any(_identity(one) in waiting for one in lock.holders)
    for one in lock.holders or (LockHolder(None),):
        deadlock = Span(" DEADLOCK", Style.BAD) if circle else Span("")
        yield join(f"{margin}{_who(one)} holds ", Span(name, Style.STRONG), f" {_since(one, now)}", deadlock)
    for one in lock.waiters:
        yield join(f"{margin}└ {_who(one)} waits {_since(one, now)}")
        for other in locks:
            if depth < _DEEPEST and other.path not in drawn and _identity(one) in map(_identity, other.holders):
                yield from _tree(other, locks, drawn, now, depth + 1, set())


def _identity(one: LockHolder) -> tuple[int | None, str]:
    return (one.pid, "") if one.pid is not None else (None, one.command or "")


def _who(one: LockHolder) -> str:
    return f"{holder_info(one)}{f' of {safe(one.user)}' if one.user else ''}"


def _since(one: LockHolder, now: float) -> str:
    return "" if one.since is None else units.at_least(max(0.0, now - one.since))


PANELS_WIDE, PANELS_HIGH = 120, 24
"""Cells and lines from which on there are panels: a window of 120×30 leaves so many below the header, even with a notice."""
_TWO_COLUMNS_WIDE, _TWO_COLUMNS_HIGH = 150, 36
"""The size from which on the problems share the width with the graphs; in less they have all of it: their text is long."""
_LEFT = 81
"""Cells of the left column at least, where there is room for them."""


def overview_panels(
    snapshot: Snapshot, events: Sequence[LoggedEvent], width: int, height: int, *, now: float, chosen: int, problem_rows: int,
    stale: bool, zone: datetime.tzinfo | None = None,
) -> list[Line]:  # fmt: skip
    """Exactly ``height`` lines. ``events`` are newest first. ``stale`` dims all but the problems."""
    panels = _Panels(snapshot, events, now, zone, stale)
    rows = problem_rows + 1
    hint = merge((Span(problem_keys(snapshot), Style.DIM),))
    problems = Section(problem_title(snapshot), partial(problem_block, snapshot, chosen=chosen), rows, rows, note=hint)
    if width >= _TWO_COLUMNS_WIDE and height >= _TWO_COLUMNS_HIGH:
        left = max(_LEFT, (width - 3) // 2)
        right = width - 3 - left
        first = [problems, *panels.boxes(), *panels.cursors(), *panels.locks(), panels.happened()]
        second = [*panels.flow(17), *panels.claims(3, 8), *panels.tmp(), *panels.ages()] or [panels.happened()]
        return frame([(left, stack(first, left, height)), (right, stack(second, right, height))])
    left = (width - 3) // 2 - 1
    right = width - 3 - left
    below = height - rows - 1
    first = [*panels.boxes(), *panels.cursors(), *panels.locks(), *panels.tmp()]
    second = [*panels.flow(9), *panels.claims(3, 6), panels.happened()]
    top = (width - 2, stack([problems], width - 2, rows + 2))
    if not first:
        return frame([top], [(width - 2, stack(second, width - 2, below))])
    return frame([top], [(left, stack(first, left, below)), (right, stack(second, right, below))])


class _Panels(Struct, frozen=True):
    """The panels that there can be. A list is empty where the target has nothing of that kind."""

    snapshot: Snapshot
    events: Sequence[LoggedEvent]
    now: float
    zone: datetime.tzinfo | None
    stale: bool

    def _section(self, section: Section) -> Section:
        return replace(section, draw=partial(_dim, section.draw)) if self.stale else section

    def boxes(self) -> list[Section]:
        if not any(box in self.snapshot.observation.boxes for box in Box):
            return []
        rows = 8 + bool(self.snapshot.observation.suppressed)
        return [self._section(Section("boxes", self._draw_boxes, rows, rows))]

    def _draw_boxes(self, width: int, rows: int) -> list[Line]:
        lines = box_table(self.snapshot, width, now=self.now) + flow_lines(self.snapshot, width, now=self.now)
        return lines + percentile_line(self.snapshot, width) + suppressed_line(self.snapshot, width)

    def flow(self, most: int) -> list[Section]:
        if Box.NEW not in self.snapshot.observation.boxes:
            return []
        draw = partial(flow_graphs, self.snapshot)
        return [self._section(Section("depth and flow", draw, 5, most, note=flow_note(self.snapshot)))]

    def cursors(self) -> list[Section]:
        draw = partial(cursor_glance, self.snapshot, now=self.now)
        return [self._section(Section("cursors", draw, 5, 8, "5"))] if self.snapshot.cursors else []

    def locks(self) -> list[Section]:
        draw = partial(lock_lines, self.snapshot, now=self.now)
        return [self._section(Section("locks", draw, 3, 5, "6", last=True))] if self.snapshot.observation.locks else []

    def claims(self, least: int, most: int) -> list[Section]:
        return self._listed(Box.CUR, "claims, dead ones first", "3", least, most)

    def tmp(self) -> list[Section]:
        return self._listed(Box.TMP, "tmp, abandoned ones first", "4", 3, 6, last=True)

    def _listed(self, box: Box, title: str, key: str, least: int, most: int, *, last: bool = False) -> list[Section]:
        if box not in self.snapshot.observation.boxes:
            return []
        draw = partial(ranked_rows, self.snapshot, box, now=self.now, zone=self.zone)
        return [self._section(Section(title, draw, least, most, key, last=last))]

    def ages(self) -> list[Section]:
        if self.snapshot.observation.ages is None:
            return []
        draw, rows = partial(age_histogram, self.snapshot), HISTOGRAM_LINES
        return [self._section(Section("new by age and source", draw, rows, rows, "2", histogram_note(self.snapshot), last=True))]

    def happened(self) -> Section:
        draw = partial(happened_lines, self.snapshot, self.events, zone=self.zone)
        return self._section(Section("what happened, newest first", draw, 3, _MANY))


def _dim(draw: Callable[[int, int], Sequence[Line]], width: int, rows: int) -> list[Line]:
    return [restyle(line, Style.DIM) for line in draw(width, rows)]
