"""Draws the Overview of a large window as panels. Each answers one question; its title names the key that shows it in full."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Box

from ...tracking.event_log import LoggedEvent
from ..boxes import box_table, flow_lines, percentile_line, suppressed_line
from ..cursors import cursor_glance
from ..elements.spans import Line, Span, Style, merge, restyle
from ..locks import lock_lines
from ..problems import problem_block, problem_keys, problem_title
from .age_histogram import HISTOGRAM_LINES, age_histogram, histogram_note
from .frame import Section, frame, stack
from .graphs import flow_graphs, flow_note
from .happened import happened_lines
from .ranked import ranked_rows

PANELS_WIDE, PANELS_HIGH = 120, 24
"""Cells and lines from which on there are panels: a window of 120×30 leaves so many below the header, even with a notice."""
_TWO_COLUMNS_WIDE, _TWO_COLUMNS_HIGH = 150, 36
"""The size from which on the problems share the width with the graphs; in less they have all of it: their text is long."""
_LEFT = 81
"""Cells of the left column at least, where there is room for them."""
_MANY = 1000
"""More rows than a window has."""


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
