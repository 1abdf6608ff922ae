"""Draws the first view: problems on top, then the boxes, the flow, the cursors and the locks; in a large window as panels. Each
panel answers one question; its title names the key that shows it in full."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Action, Box

from ..event_log import LoggedEvent
from .boxes import box_table, boxes_in_a_line, flow_lines, percentile_line, suppressed_line
from .cursors import cursor_glance
from .frame import Section, frame, stack
from .graphs import HISTOGRAM_LINES, age_histogram, flow_graphs, flow_note, histogram_note
from .header import Freshness, is_mail
from .locks import lock_lines
from .panels import depth_chart, happened_lines, ranked_rows, side_claims
from .problems import problem_block, problem_keys, problem_title, top_problems
from .spans import BLANK, Line, Span, Style, crop, join, merge, restyle, safe, shown, wrap

_MANY = 1000
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


_TINY = 14
"""Lines from which on space is reserved for problems that do not exist."""

_HIGH = 30
"""Lines from which on a narrow window shows claims and a graph below."""

"""Layouts that are not spools: a cursor file, tickets or lock files alone."""


def problem_rows(height: int) -> int:
    """The number of problems that fit. It depends on the height alone, so that nothing moves while one reads."""
    return max(1, min(4, height - 3)) if height < 40 else 8


def overview(
    snapshot: Snapshot | None,
    width: int,
    height: int,
    *,
    now: float,
    chosen: int = 0,
    freshness: Freshness = Freshness(),  # noqa: B008  frozen
    zone: datetime.tzinfo | None = None,
    events: Sequence[LoggedEvent] = (),
) -> list[Line]:
    """At most ``height`` lines. Where space is short, panels are omitted from the bottom up; the problems stay. A large window
    has panels with borders, in which ``events`` are shown, newest first; a high and narrow one shows some of their contents
    below."""
    if snapshot is None:
        return [BLANK, crop(join(" ", Span("looking for the first time…", Style.DIM)), width)][:height]
    if is_mail(snapshot):
        return _mail(snapshot, width)[:height]
    if width >= PANELS_WIDE and height >= PANELS_HIGH:
        return overview_panels(
            snapshot, events, width, height, now=now, chosen=chosen, problem_rows=problem_rows(height),
            stale=freshness.stale_for is not None, zone=zone,
        )  # fmt: skip
    lines = top_problems(snapshot, width, problem_rows(height), chosen=chosen)
    while height < _TINY and lines and lines[-1] == BLANK:
        lines.pop()
    room = height - len(lines)
    below: list[Line] = []
    boxes = box_table(snapshot, width, now=now) if snapshot.observation.has_boxes else []
    if boxes:
        if room > len(boxes):
            below.append(BLANK)
        below += boxes[:room] if room >= 2 else [boxes_in_a_line(snapshot, width)][:room]
        flow = flow_lines(snapshot, width, now=now)
        if room - len(below) >= len(flow):
            below += flow
            below += suppressed_line(snapshot, width)[: room - len(below)]
    glance = cursor_glance(snapshot, width, room - len(below), now=now)
    left = room - len(below) - len(glance)
    locks = lock_lines(snapshot, width, left, now=now) if height >= _TINY else []
    if glance and room - len(below) - len(glance) - len(locks) >= 2:
        below.append(BLANK)
        if locks:
            locks = [BLANK, *locks]
    below += glance + locks
    if height >= _HIGH:
        below.append(BLANK)
        below += side_claims(snapshot, width, height - len(lines) - len(below), now=now, zone=zone)
        chart = depth_chart(snapshot, width, height - len(lines) - len(below))
        below += [BLANK] * (height - len(lines) - len(below) - len(chart)) + chart
    if freshness.stale_for is not None:
        below = [restyle(line, Style.DIM) for line in below]
    return [crop(line, width) for line in (lines + below)[:height]]


def _mail(snapshot: Snapshot, width: int) -> list[Line]:
    override = f"spooltop --as spool {safe(snapshot.observation.target)}"
    why = shown(snapshot.observation.capabilities.why_not(Action.REQUEUE) or "")
    text = [
        why[:1].upper() + why[1:]
        or "This is a mail folder. Its cur is read mail, not stuck work, so nothing here is judged stale and no key changes it."
    ]
    if "; if it is" in text[0]:  # on a line of its own, to be copied
        why, _, how = text[0].partition("; if it is")
        text = [f"{why}.", f"If it is{how}"]
    elif "--as spool" not in text[0]:
        text.append(f"If it is a job spool all the same: {override}")
    lines: list[Line] = []
    for paragraph in text:
        lines += [crop((Span(f" {line}"),), width) for line in wrap(paragraph, max(1, width - 2))]
    table = box_table(snapshot, width, now=snapshot.taken_at)
    return [*lines, BLANK, *(restyle(line, Style.NORMAL) for line in table)]
