"""Draws figures over time as columns of blocks: the depth of ``new``, and what comes, is done and is retried a second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from spooltop.model import units
from spooltop.model.snapshot import Ages, Snapshot
from spooltop.model.vocabulary import Box

from .spans import BARS, BLANK, UNWATCHED, Line, Lines, Span, Style, dim, join, restyle
from .text import clip, pad, pad_left, safe, text_width

_LABEL, _SCALE = 7, 7
"""Cells at the left of the columns: the name of the figure, and the values at its upper and its lower edge."""
_MOST_ROWS = 6
_CHART, _HIGHEST = 6, 16
"""Lines of the chart of the depth, at least and at most."""


def _graph(values: Sequence[float | None], top: float, rows: int, wide: int, scale: str) -> Iterator[tuple[str, str]]:
    """The lines of a graph from 0 to ``top``, the highest first, each after the value at its edge: ``wide`` cells for each value,
    in eighths of a line. What is more than 0 is seen; ``·`` at the bottom marks what was not watched."""
    for row in range(rows, 0, -1):
        edge = scale if row == rows else "0" if row == 1 else ""
        yield edge, "".join(_cell(value, top, row, rows) * wide for value in values)


def _axis(snapshot: Snapshot, cells: int, wide: int) -> str:
    """The times below a graph of so many values, each ``wide`` cells."""
    past = f"{units.duration(snapshot.cell * cells)} ago"
    return f"{past:<{wide * cells - 3}}now"


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
    return (Style.DIM(f"{units.duration(snapshot.cell * cells)}, a cell is {units.duration(snapshot.cell)}"),)


def flow_graphs(snapshot: Snapshot, width: int, rows: int) -> Lines:
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
    lines: Lines = []
    for name, values, top, scale in figures:
        for at, (edge, text) in enumerate(_graph(values, top, high, wide, scale if top else "")):
            label = "" if at else name
            lines.append(join(f" {pad(label, _LABEL)}", Style.DIM(f"{pad_left(edge, _SCALE)} "), Style.BAR(text)))
    return [*lines, join(" " * (_LABEL + _SCALE + 2), Style.DIM(_axis(snapshot, cells, wide)))]


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def depth_chart(snapshot: Snapshot, width: int, height: int) -> Lines:
    """The depth of ``new`` as a graph that begins at 0; empty where ``height`` is too small."""
    values = snapshot.history.get(Box.NEW, ())
    if not values or height < _CHART + 2:
        return []
    wide = max(1, min(4, (width - 14) // len(values)))
    top = _highest(values)
    graph = _graph(values, top, min(_HIGHEST, height - 2), wide, f"{top:,.0f}")
    return [
        join(Style.TITLE(" depth of new"), Style.DIM(" · "), *flow_note(snapshot)),
        *(join(Style.DIM(f" {pad_left(edge, 10)} "), Style.BAR(text)) for edge, text in graph),
        dim(" " * 12 + _axis(snapshot, len(values), wide)),
    ]


def _count(depth: float) -> str:
    return f"{depth:,.0f}" if depth < 1e6 else f"{depth / 1e6:,.1f}M"


# Draws how long the messages in ``new`` have waited: one column per class of age, one line per source.

_SOURCE, _TOTAL, _CELL = 12, 10, 9
_BARS, _SOURCES = 3, 5
_CLASS = 8
"""Cells of a class of age where each has a line."""
HISTOGRAM_LINES = _BARS + _SOURCES + 2
"""Lines of the histogram, whatever it shows: bars, column titles, totals and sources."""


def age_histogram(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """At most ``HISTOGRAM_LINES``; none where the ages are not known. Figures of a sample are scaled up and marked ``~``."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    if not ages.of:
        return [dim("   nothing waits")]
    lines = [
        *_bars(ages.counts, width),
        restyle(_row("source", ["all", *_classes(ages.bounds)], width), Style.DIM),
        _row("all", [f"{ages.of:,}", *_figures(ages, ages.counts)], width),
    ]
    fits = _SOURCES if ages.sources <= _SOURCES else _SOURCES - 1
    for one in ages.by_source[:fits]:
        name = "unknown" if one.source is None else clip(safe(one.source), _SOURCE - 1)
        lines.append(_row(name, _figures(ages, (one.total, *one.counts)), width))
    if ages.sources > fits:
        lines.append(dim(f"   {ages.sources - fits:,} more sources"))
    return lines


def histogram_note(snapshot: Snapshot) -> Line:
    """The part of the messages that the histogram is about, where it is not all of them."""
    ages = snapshot.observation.ages
    if ages is None:
        return BLANK
    notes = []
    if ages.looked_at < ages.of:
        notes.append(f"~ from {ages.looked_at:,} of {ages.of:,}")
    if ages.undated:
        notes.append(f"{ages.undated:,} without a time")
    if ages.ahead:
        notes.append(f"{'' if ages.looked_at >= ages.of else '≥'}{ages.ahead:,} from the future")
    return join(Style.DIM(" · ".join(notes)))


def _classes(bounds: Sequence[float]) -> list[str]:
    """Titles of the classes, ``<10s 10s-1m … over 1d``, youngest first."""
    words = [units.interval(bound) if bound < 60 else units.duration(bound) for bound in bounds]
    return [f"<{words[0]}", *(f"{a}–{b}" for a, b in pairwise(words)), f"≥{words[-1]}"]


def _cells(width: int) -> tuple[int, int]:
    """Widths in cells of the total and of each class."""
    return _TOTAL, max(7, min(_CELL, (width - 1 - _SOURCE - _TOTAL) // 6))


def _row(name: str, figures: Sequence[str], width: int) -> Line:
    """A line of the table. Zeros are dim, so that the other figures stand out."""
    total, cell = _cells(width)
    cells = (Style.DIM(pad_left(figure, cell if i else total), figure in ("0", "~0")) for i, figure in enumerate(figures))
    return join(f" {pad(name, _SOURCE)}", *cells)


def _figures(ages: Ages, counts: Sequence[int]) -> list[str]:
    """The counts; of a sample scaled up and rounded to two significant digits."""
    if ages.looked_at >= ages.of:
        return [f"{n:,}" for n in counts]
    about = [float(f"{n * ages.of / ages.looked_at:.2g}") for n in counts]
    return [f"~{n / 1e6:,.1f}M" if n >= 1e6 else f"~{n:,.0f}" for n in about]


def _bars(counts: Sequence[int], width: int) -> Lines:
    """Draws the classes as bars above their columns; the highest bar fills the height."""
    total, cell = _cells(width)
    top = max(counts, default=0)
    lines: Lines = []
    for row in range(_BARS, 0, -1):
        chars = [_cell(n, top, row, _BARS) if n else " " for n in counts]
        bars = (join("  ", Style.BAR(char * (cell - 2), char != " ")) for char in chars)
        lines.append(join(" " * (1 + _SOURCE + total), *bars))
    return lines


def new_age_bars(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """Draws what waits in ``new`` by age, a line for each class: the histogram for a narrow panel."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    return age_bars(ages.bounds, _figures(ages, ages.counts), ages.counts, width)


def age_bars(
    bounds: Sequence[float], figures: Sequence[str], counts: Sequence[int], width: int, notes: Sequence[Span] = ()
) -> Lines:
    """A line for each class of age, with its figure, a bar as long as its count, and a note."""
    cells = max((len(figure) for figure in figures), default=0) + 1
    behind = max((text_width(note.text) for note in notes), default=0)
    top, room = max(counts, default=0), max(1, width - _CLASS - cells - 3 - behind)
    lines: Lines = []
    for at, (name, figure, n) in enumerate(zip(_classes(bounds), figures, counts, strict=True)):
        label = Style.DIM(f" {pad(name, _CLASS)}{pad_left(figure, cells)} ", not n)
        bar = Style.BAR("█" * max(1, round(n / top * room)) if n else "")
        lines.append(join(label, bar, *notes[at : at + 1]))
    return lines
