"""Draws figures over time as columns of blocks: the depth of ``new``, and what comes, is done and is retried a second."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Box

from ..elements.glyphs import BARS, UNWATCHED
from ..elements.spans import Line, Span, Style, crop, join, merge, pad, pad_left

_LABEL, _SCALE = 7, 7
"""Cells at the left of the columns: the name of the figure, and the values at its upper and its lower edge."""
_MOST_ROWS = 6


def columns_of(values: Sequence[float | None], top: float, rows: int, wide: int) -> list[str]:
    """The lines of a graph from 0 to ``top``, the highest first: ``wide`` cells for each value, in eighths of a line. What is
    more than 0 is seen; ``·`` at the bottom marks what was not watched."""
    return ["".join(_cell(value, top, row, rows) * wide for value in values) for row in range(rows, 0, -1)]


def _cell(value: float | None, top: float, row: int, rows: int) -> str:
    """The character of a column in line ``row`` of ``rows``; 1 is the lowest."""
    if value is None:
        return UNWATCHED if row == 1 else " "
    eighths = round(value / top * rows * 8) if top > 0 else 0
    here = max(eighths, 1) - (row - 1) * 8
    return " " if here <= 0 else BARS[min(here, 8) - 1]


def flow_note(snapshot: Snapshot) -> Line:
    """The time that the graphs are over."""
    cells = len(snapshot.history.get(Box.NEW, ())) or len(snapshot.rate_history.arrived)
    return (Span(f"{units.duration(snapshot.cell * cells)}, a cell is {units.duration(snapshot.cell)}", Style.DIM),)


def flow_graphs(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """The depth of ``new`` and the rates, each as a graph with its scale, and one line of time below all of them. What comes and
    what is done have the same scale: the difference is what ``new`` grows by."""
    history, depth = snapshot.rate_history, snapshot.history.get(Box.NEW, ())
    flow = max(_highest(history.arrived), _highest(history.done))
    retried = _highest(history.retried)
    figures = [
        ("new", depth, _highest(depth), _count(_highest(depth))),
        ("in", history.arrived, flow, units.rate(flow)),
        ("done", history.done, flow, units.rate(flow)),
        ("retried", history.retried, retried, units.rate(retried)),
    ]
    figures = [figure for figure in figures if figure[1]]
    high = min(_MOST_ROWS, (rows - 1) // len(figures)) if figures else 0
    if high < 1:
        return []
    cells = max(len(figure[1]) for figure in figures)
    wide = max(1, min(5, (width - _LABEL - _SCALE - 2) // cells))
    lines: list[Line] = []
    for name, values, top, scale in figures:
        for at, text in enumerate(columns_of(values, top, high, wide)):
            edge = (scale if top else "") if at == 0 else "0" if at == high - 1 else ""
            label = Span(f" {pad(name if at == 0 else '', _LABEL)}")
            lines.append(crop(merge((label, Span(f"{pad_left(edge, _SCALE)} ", Style.DIM), Span(text, Style.BAR))), width))
    ago = f"{units.duration(snapshot.cell * cells)} ago"
    axis = f"{ago:<{wide * cells - 3}}now"
    lines.append(crop(join(" " * (_LABEL + _SCALE + 2), Span(axis, Style.DIM)), width))
    return lines


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def _count(depth: float) -> str:
    return f"{depth:,.0f}" if depth < 1e6 else f"{depth / 1e6:,.1f}M"
