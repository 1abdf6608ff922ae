"""Draws the first view: problems on top, then the boxes, the flow, the cursors and the locks."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Action

from ..tracking.event_log import LoggedEvent
from .boxes import box_table, boxes_in_a_line, flow_lines, suppressed_line
from .cursors import cursor_glance
from .elements.spans import BLANK, Line, Span, Style, crop, join, restyle, safe, shown, wrap
from .every_screen.header import Freshness, is_mail
from .locks import lock_lines
from .panels.lists import depth_chart, side_claims
from .panels.overview import PANELS_HIGH, PANELS_WIDE, overview_panels
from .problems import top_problems

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
