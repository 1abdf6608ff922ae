"""Draws the first view: problems on top, then the boxes, the flow, the cursors and the locks; in a large window as panels. Each
panel answers one question; its title names the key that shows it in full."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from spooltop.cursors.draw import cursor_glance
from spooltop.locks.draw import lock_lines
from spooltop.model.snapshot import Snapshot
from spooltop.model.vocabulary import Action, Box

from ..event_log import LoggedEvent
from .boxes import box_table, boxes_in_a_line, flow_lines, percentile_line, suppressed_line
from .frame import Section, frame
from .graphs import depth_chart
from .header import Moment
from .panels import ages_section, flow_section, happened_lines, ranked_rows, side_claims
from .problems import problem_block, problem_keys, problem_title, top_problems
from .spans import BLANK, Lines, Style, dim, join, paragraph, restyle
from .text import safe, shown

PANELS_WIDE, PANELS_HIGH = 120, 24
"""Cells and lines from which on there are panels: a window of 120×30 leaves so many below the header, even with a notice."""
_TWO_COLUMNS_WIDE, _TWO_COLUMNS_HIGH = 150, 36
"""The size from which on the problems share the width with the graphs; in less they have all of it: their text is long."""
_LEFT = 81
"""Cells of the left column at least, where there is room for them."""


def overview_panels(
    snapshot: Snapshot, events: Sequence[LoggedEvent], width: int, height: int, moment: Moment, *, chosen: int
) -> Lines:
    """Exactly ``height`` lines. ``events`` are newest first. Where figures are stale, all but the problems are dim."""
    rows = problem_rows(height) + 1
    hint = join(Style.DIM(problem_keys(snapshot)))
    problems = Section(problem_title(snapshot), partial(problem_block, snapshot, chosen=chosen), rows, rows, note=hint)
    two_columns = width >= _TWO_COLUMNS_WIDE and height >= _TWO_COLUMNS_HIGH
    panels = _sections(snapshot, events, moment, 17 if two_columns else 9, 8 if two_columns else 6)

    def column(*names: str) -> list[Section]:
        """The panels with these names, as far as there are any."""
        return [panels[name] if moment.stale_for is None else _dimmed(panels[name]) for name in names if name in panels]

    if two_columns:
        left = max(_LEFT, (width - 3) // 2)
        first = [problems, *column("boxes", "cursors", "locks", "happened")]
        second = column("flow", "claims", "tmp", "ages") or column("happened")
        return frame(height, (left, first), (width - 3 - left, second))
    left = (width - 3) // 2 - 1
    below = height - rows - 1
    top = frame(rows + 2, (width - 2, [problems]))
    first, second = column("boxes", "cursors", "locks", "tmp"), column("flow", "claims", "happened")
    if not first:
        return frame(below, (width - 2, second), top=top)
    return frame(below, (left, first), (width - 3 - left, second), top=top)


def _sections(
    snapshot: Snapshot, events: Sequence[LoggedEvent], moment: Moment, flow_most: int, claims_most: int
) -> dict[str, Section]:
    """The panels that this target has, by name."""
    observation = snapshot.observation

    def boxes(width: int, rows: int) -> Lines:
        lines = box_table(snapshot, width) + flow_lines(snapshot, width)
        return lines + percentile_line(snapshot, width) + suppressed_line(snapshot)

    happened = partial(happened_lines, snapshot, events, moment)
    panels = {"happened": Section("what happened, newest first", happened, 3)}
    if any(box in observation.boxes for box in Box):
        rows = 8 + bool(observation.suppressed)
        panels["boxes"] = Section("boxes", boxes, rows, rows)
    if Box.NEW in observation.boxes:
        panels["flow"] = flow_section(snapshot, 5, flow_most)
    if snapshot.cursors:
        panels["cursors"] = Section("cursors", partial(cursor_glance, snapshot), 5, 8, "5")
    if observation.locks:
        panels["locks"] = Section("locks", partial(lock_lines, snapshot), 3, 5, "6", last=True)
    if Box.CUR in observation.boxes:
        claims = partial(ranked_rows, snapshot, Box.CUR)
        panels["claims"] = Section("claims, dead ones first", claims, 3, claims_most, "3")
    if Box.TMP in observation.boxes:
        tmp = partial(ranked_rows, snapshot, Box.TMP)
        panels["tmp"] = Section("tmp, abandoned ones first", tmp, 3, 6, "4", last=True)
    if observation.ages is not None:
        panels["ages"] = ages_section(snapshot, "2", last=True)
    return panels


def _dimmed(section: Section) -> Section:
    return replace(section, draw=lambda width, rows: [restyle(line, Style.DIM) for line in section.draw(width, rows)])


_TINY = 14
"""Lines from which on space is reserved for problems that do not exist."""

_HIGH = 30
"""Lines from which on a narrow window shows claims and a graph below."""


def problem_rows(height: int) -> int:
    """The number of problems that fit. It depends on the height alone, so that nothing moves while one reads."""
    return max(1, min(4, height - 3)) if height < 40 else 8


def overview(
    snapshot: Snapshot | None, events: Sequence[LoggedEvent], width: int, height: int, moment: Moment, *, chosen: int
) -> Lines:
    """At most ``height`` lines. Where space is short, panels are omitted from the bottom up; the problems stay. A large window
    has panels with borders, in which ``events`` are shown, newest first; a high and narrow one shows some of their contents
    below."""
    if snapshot is None:
        return [BLANK, dim(" looking for the first time…")]
    if snapshot.observation.is_mail:
        return _mail(snapshot, width)
    if width >= PANELS_WIDE and height >= PANELS_HIGH:
        return overview_panels(snapshot, events, width, height, moment, chosen=chosen)
    lines = top_problems(snapshot, width, problem_rows(height), chosen=chosen)
    while height < _TINY and lines and lines[-1] == BLANK:
        lines.pop()
    room = height - len(lines)
    below: Lines = []
    boxes = box_table(snapshot, width) if snapshot.observation.has_boxes else []
    if boxes:
        if room > len(boxes):
            below.append(BLANK)
        below += boxes[:room] if room >= 2 else [boxes_in_a_line(snapshot)][:room]
        flow = flow_lines(snapshot, width)
        if room - len(below) >= len(flow):
            below += flow
            below += suppressed_line(snapshot)[: room - len(below)]
    glance = cursor_glance(snapshot, width, room - len(below))
    left = room - len(below) - len(glance)
    locks = lock_lines(snapshot, width, left) if height >= _TINY else []
    if glance and room - len(below) - len(glance) - len(locks) >= 2:
        below.append(BLANK)
        if locks:
            locks = [BLANK, *locks]
    below += glance + locks
    if height >= _HIGH:
        below.append(BLANK)
        below += side_claims(snapshot, width, height - len(lines) - len(below))
        chart = depth_chart(snapshot, width, height - len(lines) - len(below))
        below += [BLANK] * (height - len(lines) - len(below) - len(chart)) + chart
    if moment.stale_for is not None:
        below = [restyle(line, Style.DIM) for line in below]
    return lines + below


def _mail(snapshot: Snapshot, width: int) -> Lines:
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
    lines = [line for words in text for line in paragraph(words, width, margin=" ")]
    return [*lines, BLANK, *(restyle(line, Style.NORMAL) for line in box_table(snapshot, width))]
