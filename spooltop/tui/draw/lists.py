"""Draws the lists: the line above them, the titles, and a row."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import Sort
from spooltop.model.vocabulary import Box

from .columns import GAP, MARGIN, Column, Moment, sort_title
from .elements.spans import (
    ALONE,
    Ends,
    Line,
    Span,
    Style,
    clip,
    clip_left,
    crop,
    join,
    line_width,
    merge,
    pad,
    pad_left,
    point_out,
    safe,
    select,
    shown,
    spread,
    text_width,
)
from .every_screen.header import Freshness, Times, freshness_line


def list_header(
    snapshot: Snapshot | None,
    title: str,
    length: int | None,
    width: int,
    *,
    now: float,
    sort: Sort | None = None,
    columns: Sequence[Column] = (),
    marked: int = 0,
    complete: bool = True,
    filter: str = "",
    total: int | None = None,
    pending: bool = False,
    share: float | None = None,
    ordered_over: int | None = None,
    freshness: Freshness = Freshness(),  # noqa: B008  frozen
    zone: datetime.tzinfo | None = None,
) -> Line:
    """``Claims 4 · sorted by held ↓ · 0 marked new 4,310 +1.8/s · live 02:41:09``; with a filter ``New 3,963 of 12,412 match
    src:email``, where ``total`` is the number of messages in the box. ``pending``: the list asked for is not ready, the rows
    are older ones, and ``length`` None means that the number of matches is not known. ``share`` of the work is done,
    ``length`` match so far: ``New ≥1,234 … of 12,412 match src:email · sorting by age ↓ 45%``. The order is named by its title
    among ``columns``. Only the first ``ordered_over`` messages were looked at: ``≥20,000 · first 20,000 sorted by size ↓``."""
    counted = "…" if pending and length is None else units.count(length, complete=complete)
    if share is not None and not pending:
        counted += " …"
    left: list[Span] = [Span(f" {shown(title)} {counted}", Style.TITLE)]
    if filter:
        of = f" of {total:,}" if total is not None and total >= (length or 0) and (pending or length is not None) else ""
        left += [Span(f"{of} match "), Span(safe(filter), Style.KEY)]
    if sort is not None:
        how = "sorting" if pending or share is not None else "sorted"
        if ordered_over is not None and not pending:
            how = f"first {ordered_over:,} {how}"
        left.append(Span(f" · {how} by {safe(sort_title(sort, columns))} {'↓' if sort.descending else '↑'}"))
        if share is not None:
            left.append(Span(f" {int(100 * share)}%"))
    left.append(Span(f" · {marked:,} marked", Style.MARKED if marked else Style.NORMAL))
    short_freshness = freshness_line(snapshot, freshness=freshness, zone=zone, short=True, offset=False)
    right = short_freshness
    if snapshot is not None and Box.NEW in snapshot.observation.boxes:
        state = snapshot.observation.boxes[Box.NEW]
        slope = snapshot.rates.new_per_s
        growth = f" {units.rate(slope, signed=True)}" if slope is not None else ""
        right = join(f"new {units.count(state.count, complete=state.complete)}{growth} · ", short_freshness)
    if line_width(merge(left)) + line_width(right) + 2 > width:
        right = short_freshness
    return crop(spread(merge(left), right, width - 1), width)


def title_line(columns: Sequence[Column], width: int, *, sort: Sort | None = None) -> Line:
    """The titles above their columns; the column of the order has an arrow."""
    parts: list[Span] = [Span(" " * MARGIN)]
    for i, column in enumerate(columns):
        sorted_by = sort is not None and column.sort == sort.column and column.sort != ""
        arrow = ("↓" if sort.descending else "↑") if sort is not None and sorted_by else ""
        title = clip(column.title, column.width - text_width(arrow)) + arrow
        text = pad_left(title, column.width) if column.align == "right" else pad(title, column.width)
        parts.append(Span(text, Style.KEY if sorted_by else Style.DIM))
        if i < len(columns) - 1:
            parts.append(Span(" " * GAP, Style.DIM))
    return crop(merge(parts), width)


def row_line(
    row: object,
    columns: Sequence[Column],
    width: int,
    *,
    now: float,
    marked: bool = False,
    selected: bool = False,
    zone: datetime.tzinfo | None = None,
    times: Times = Times.AGE,
    ends: Ends = ALONE,
    texts: Sequence[str] = (),
) -> Line:
    """A row of the list, drawn by its ``columns``; exactly ``width`` cells where it is selected. ``ends`` of the ids are what all
    rows share; ``texts`` are pointed out in the columns that a filter looks at."""
    moment = Moment(now, zone, times)
    parts: list[Span] = [Span("▌" if selected else " ", Style.KEY), Span("*" if marked else " ", Style.MARKED), Span(" ")]
    for i, column in enumerate(columns):
        span = column.value(row, moment)
        fitted = Span(_fit(span.text, column, ends), span.style)
        parts += point_out((fitted,), texts) if column.key in FILTERED else (fitted,)
        if i < len(columns) - 1:
            parts.append(Span(" " * GAP))
    line = crop(merge(parts), width)
    if selected:
        line = select(line, width)
    return line


FILTERED = frozenset({"source", "owner", "evidence", "state", "reason", "message", "file"})
"""The columns that a text of a filter may be found in."""


def _fit(text: str, column: Column, ends: Ends) -> str:
    if column.shorten is not None:
        text = column.shorten(text, column.width, ends)
    text = clip_left(text, column.width) if column.cut == "left" else clip(text, column.width)
    return pad_left(text, column.width) if column.align == "right" else pad(text, column.width)
