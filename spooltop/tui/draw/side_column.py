"""Draws what a wide window shows next to the Overview: claims, files in ``tmp``, ages of the messages in ``new``, writes of the
cursors, and the depth of ``new`` as a chart. Each has a fixed height, so that nothing moves when one of them fills."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import pairwise

from spooltop.model import units
from spooltop.model.cursors import CursorSection
from spooltop.model.protocols import Sort
from spooltop.model.row import Row
from spooltop.model.snapshot import Snapshot
from spooltop.model.vocabulary import Box, Verdict

from .age_histogram import HISTOGRAM_LINES, age_histogram
from .columns import columns_for
from .freshness import when
from .glyphs import BARS, UNWATCHED
from .lists import row_line, title_line
from .one_cursor import written
from .spans import BLANK, Line, Span, Style, clip, clip_left, crop, join, merge, pad, pad_left, plain, safe

__all__ = ["depth_chart", "side_claims", "side_column"]

_CLAIMS, _TMP, _WRITES, _CHART = 8, 5, 5, 6
"""Rows of each table; a minimum for the writes and the chart."""
_HIGHEST = 16
"""Maximum height of the chart in lines."""
_AROUND = 4
"""Lines of a table in addition to its rows."""
_RANK = {Verdict.DEAD: 0, Verdict.ABANDONED: 0, Verdict.UNKNOWN: 1, Verdict.WRITING: 2, Verdict.ALIVE: 2}


def side_column(
    snapshot: Snapshot, width: int, height: int, *, now: float, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """At most ``height`` lines."""
    observation = snapshot.observation
    lines: list[Line] = []
    lines += side_claims(snapshot, width, height, now=now, zone=zone)
    if Box.TMP in observation.boxes:
        lines += _rows("tmp, abandoned ones first", "4", Box.TMP, observation.tmp, _TMP, snapshot, width, now, zone)
    if height - len(lines) >= HISTOGRAM_LINES + _WRITES + 2:
        lines += age_histogram(snapshot, width)
    room = height - len(lines)
    if room > _WRITES and snapshot.cursors:
        lines += _writes(snapshot, width, room, zone)
    return lines[:height]


def side_claims(
    snapshot: Snapshot, width: int, height: int, *, now: float, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """The most important claims, in at most ``height`` lines; none where that is too few."""
    room = min(_CLAIMS, height - _AROUND)
    if Box.CUR not in snapshot.observation.boxes or room < 1:
        return []
    return _rows("claims, dead ones first", "3", Box.CUR, snapshot.observation.claims, room, snapshot, width, now, zone)


def _rows(
    title: str, key: str, box: Box, rows: Sequence[Row], room: int, snapshot: Snapshot, width: int, now: float,
    zone: datetime.tzinfo | None,
) -> list[Line]:  # fmt: skip
    """A title, the column titles, the rows, and the number of rows left out: always the same number of lines."""
    state = snapshot.observation.boxes[box]
    columns = columns_for(box, width)
    lines: list[Line] = [join(Span(f" {title}", Style.TITLE), Span(" · ", Style.DIM), Span(key, Style.KEY), " shows all")]
    if rows:
        lines.append(title_line(columns, width, sort=Sort("")))
        ranked = sorted(rows, key=lambda row: (_RANK.get(row.verdict, 1) if row.verdict else 1, row.in_box_since or 0.0))
        lines += [row_line(row, columns, width, now=now, zone=zone) for row in ranked[:room]]
        more = (state.count or 0) - min(room, len(rows))
        if more > 0:
            lines.append(plain(f"   {units.count(more, complete=state.complete)} more", width, Style.DIM))
    else:
        lines.append(plain("   none" if state.count == 0 else "   not judged", width, Style.DIM))
    return lines + [BLANK] * (room + _AROUND - len(lines))


def _writes(snapshot: Snapshot, width: int, room: int, zone: datetime.tzinfo | None) -> list[Line]:
    """The newest writes of all cursors, and the other sections that each changed."""
    seen: list[tuple[CursorSection, CursorSection | None, str]] = []
    for cursor in snapshot.cursors:
        ring: list[CursorSection | None] = [*cursor.history, None]
        seen += [(write, before, cursor.source) for write, before in pairwise(ring) if write is not None]
    seen.sort(key=lambda one: one[0].at, reverse=True)
    title = Span(" writes of the cursors, newest first", Style.TITLE)
    lines: list[Line] = [join(title, Span(" · ", Style.DIM), Span("5", Style.KEY), " shows all")]
    if not seen:
        return [*lines, plain("   none was seen since watching began", width, Style.DIM)]
    value = min(24, max(12, (width - 54) // 2))
    change = 2 * value + 5
    lines.append(plain(f"   {'time':<10}{'source':<12}{pad('value', change)}also changed", width, Style.DIM))
    lines += [_write(*one, width, value, change, zone) for one in seen[: room - 2]]
    return lines


def _write(
    write: CursorSection, before: CursorSection | None, source: str, width: int, value: int, change: int,
    zone: datetime.tzinfo | None,
) -> Line:  # fmt: skip
    to = clip_left(written(write), value)
    text = to if before is None else f"{clip_left(written(before), value)} → {to}{' ↓' if write.back else ''}"
    parts = (
        Span(f"   {pad(when(write.at, zone), 10)}{pad(clip(safe(source), 11), 12)}"),
        Span(pad(text, change), Style.BAD if write.back else Style.NORMAL),
        Span(", ".join(safe(one) for one in write.also_changed) or "nothing"),
    )
    return crop(merge(parts), width)


def depth_chart(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """The depth of ``new`` as a chart that begins at 0, one column per cell; empty where ``height`` is too small."""
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
    for row in range(high, 0, -1):
        label = f"{top:,.0f}" if row == high else "0" if row == 1 else ""
        cells = "".join(_cell(value, top, row, high) * wide for value in values)
        lines.append(crop(join(Span(f" {pad_left(label, 10)} ", Style.DIM), Span(cells, Style.BAR)), width))
    scale = f"{over} ago".ljust(wide * len(values) - 3) + "now"
    lines.append(crop((Span(f"{' ' * 12}{scale}", Style.DIM),), width))
    return lines


def _cell(value: float | None, top: float, row: int, high: int) -> str:
    """The character of a column in line ``row`` of the chart's ``high`` lines; ``row`` 1 is the lowest."""
    if value is None:
        return UNWATCHED if row == 1 else " "
    eighths = round(value / top * high * 8) if top else 0
    if value > 0 or row > 1:
        here = max(eighths, 1 if row == 1 else 0) - (row - 1) * 8
        return " " if here <= 0 else BARS[min(here, 8) - 1]
    return BARS[0]
