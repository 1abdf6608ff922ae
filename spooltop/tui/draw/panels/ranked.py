"""Draws the most important messages of a box, and the depth of ``new`` as a graph, for windows with room for them."""

from __future__ import annotations

import datetime

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import Sort
from spooltop.model.vocabulary import Box, Verdict

from ..columns import columns_for
from ..elements.spans import BLANK, Line, Span, Style, crop, join, pad_left, plain
from ..lists import row_line, title_line
from .graphs import columns_of

_CLAIMS, _CHART = 8, 6
"""Rows of the claims, and of the graph at least."""
_HIGHEST = 16
"""Maximum height of the graph in lines."""
RANK = {Verdict.DEAD: 0, Verdict.ABANDONED: 0, Verdict.UNKNOWN: 1, Verdict.WRITING: 2, Verdict.ALIVE: 2}
"""The order of verdicts where the ones with problems come first."""


def ranked_rows(
    snapshot: Snapshot, box: Box, width: int, rows: int, *, now: float, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """The titles of the columns, the most important claims or files in ``tmp``, and the number of those left out."""
    state = snapshot.observation.boxes[box]
    found = snapshot.observation.claims if box is Box.CUR else snapshot.observation.tmp
    if not found:
        return [plain("   none" if state.count == 0 else "   not judged", width, Style.DIM)]
    columns = columns_for(box, width)
    ranked = sorted(found, key=lambda row: (RANK.get(row.verdict, 1) if row.verdict else 1, row.in_box_since or 0.0))
    count = max(state.count or 0, len(found))
    fits = rows - 1 if count <= rows - 1 else rows - 2
    lines = [title_line(columns, width, sort=Sort(""))]
    lines += [row_line(row, columns, width, now=now, zone=zone) for row in ranked[: max(0, fits)]]
    more = count - min(fits, len(found))
    if more > 0:
        lines.append(plain(f"   {units.count(more, complete=state.complete)} more", width, Style.DIM))
    return lines[:rows]


def side_claims(
    snapshot: Snapshot, width: int, height: int, *, now: float, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """The most important claims under a title, in at most ``height`` lines, always as many; none where that is too few."""
    rows = min(_CLAIMS, height - 4) + 2
    if Box.CUR not in snapshot.observation.boxes or rows < 3:
        return []
    title = join(Span(" claims, dead ones first", Style.TITLE), Span(" · ", Style.DIM), Span("3", Style.KEY), " shows all")
    lines = [title, *ranked_rows(snapshot, Box.CUR, width, rows, now=now, zone=zone)]
    return lines + [BLANK] * (rows + 2 - len(lines))


def depth_chart(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """The depth of ``new`` as a graph that begins at 0; empty where ``height`` is too small."""
    values = list(snapshot.history.get(Box.NEW, ()))
    if not values or height < _CHART + 2:
        return []
    high = min(_HIGHEST, height - 2)
    wide = max(1, min(4, (width - 14) // len(values)))
    top = max((value for value in values if value is not None), default=0.0)
    over = units.duration(snapshot.cell * len(values))
    lines: list[Line] = [
        join(Span(" depth of new", Style.TITLE), Span(f" · {over}, a cell is {units.duration(snapshot.cell)}", Style.DIM))
    ]
    for at, cells in enumerate(columns_of(values, top, high, wide)):
        label = f"{top:,.0f}" if at == 0 else "0" if at == high - 1 else ""
        lines.append(crop(join(Span(f" {pad_left(label, 10)} ", Style.DIM), Span(cells, Style.BAR)), width))
    scale = f"{over} ago".ljust(wide * len(values) - 3) + "now"
    lines.append(crop((Span(f"{' ' * 12}{scale}", Style.DIM),), width))
    return lines
