"""Draws figures over time as columns of blocks: the depth of ``new``, and what comes, is done and is retried a second."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spooltop.model import units
from spooltop.model.snapshot import Snapshot
from spooltop.model.vocabulary import Box

from .spans import BARS, BLANK, UNWATCHED, Line, Lines, Span, Style, crop, fitted, merge, plain
from .text import clip, pad, pad_left, safe, text_width

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
        for at, text in enumerate(columns_of(values, top, high, wide)):
            edge = (scale if top else "") if at == 0 else "0" if at == high - 1 else ""
            label = Span(f" {pad(name if at == 0 else '', _LABEL)}")
            lines.append(crop((label, Style.DIM(f"{pad_left(edge, _SCALE)} "), Style.BAR(text)), width))
    ago = f"{units.duration(snapshot.cell * cells)} ago"
    axis = f"{ago:<{wide * cells - 3}}now"
    lines.append(fitted(width, " " * (_LABEL + _SCALE + 2), Style.DIM(axis)))
    return lines


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def _count(depth: float) -> str:
    return f"{depth:,.0f}" if depth < 1e6 else f"{depth / 1e6:,.1f}M"


# Draws how long the messages in ``new`` have waited: one column per class of age, one line per source.

_SOURCE, _TOTAL, _CELL = 12, 10, 9
_BARS, _SOURCES = 3, 5
_CLASS = 8
"""Cells of a class of age where each has a line."""
HISTOGRAM_LINES = _BARS + _SOURCES + 2
"""Lines of the histogram, whatever it shows: bars, column titles, totals and sources."""


def age_histogram(snapshot: Snapshot, width: int, rows: int = HISTOGRAM_LINES) -> Lines:
    """At most ``rows`` lines; none where the ages are not known. Figures of a sample are scaled up and marked ``~``."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    lines: Lines = []
    if ages.of:
        whole = ages.looked_at >= ages.of
        names = ["source", "all", *_classes(ages.bounds)]
        lines += _bars(ages.counts, width)
        lines.append(plain(_words(names, width), width, Style.DIM))
        scale = 1.0 if whole else ages.of / ages.looked_at
        lines.append(_row("all", [f"{ages.of:,}", *_figures(ages.counts, scale)], width))
        fits = _SOURCES if ages.sources <= _SOURCES else _SOURCES - 1
        for one in ages.by_source[:fits]:
            name = "unknown" if one.source is None else clip(safe(one.source), _SOURCE - 1)
            lines.append(_row(name, _figures((one.total, *one.counts), scale), width))
        if ages.sources > fits:
            lines.append(plain(f"   {ages.sources - fits:,} more sources", width, Style.DIM))
    else:
        lines.append(plain("   nothing waits", width, Style.DIM))
    return lines[:rows]


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
    return merge((Style.DIM(" · ".join(notes)),))


def _classes(bounds: Sequence[float]) -> list[str]:
    """Titles of the classes, ``<10s 10s-1m … over 1d``, youngest first."""
    words = [units.interval(bound) if bound < 60 else units.duration(bound) for bound in bounds]
    return [f"<{words[0]}", *(f"{a}–{b}" for a, b in pairwise(words)), f"≥{words[-1]}"]


def _cells(width: int) -> tuple[int, int]:
    """Widths in cells of the total and of each class."""
    return _TOTAL, max(7, min(_CELL, (width - 1 - _SOURCE - _TOTAL) // 6))


def _words(words: Sequence[str], width: int) -> str:
    total, cell = _cells(width)
    return f" {pad(words[0], _SOURCE)}{pad_left(words[1], total)}" + "".join(pad_left(word, cell) for word in words[2:])


def _row(name: str, figures: Sequence[str], width: int) -> Line:
    """A line of the table. Zeros are dim, so that the other figures stand out."""
    total, cell = _cells(width)
    spans = [Span(f" {pad(name, _SOURCE)}")]
    for i, figure in enumerate(figures):
        spans.append(Span(pad_left(figure, cell if i else total), Style.DIM if figure in ("0", "~0") else Style.NORMAL))
    return crop(spans, width)


def _figures(counts: Sequence[int], scale: float) -> list[str]:
    """Scaled figures are rounded to two significant digits."""
    if scale == 1.0:
        return [f"{n:,}" for n in counts]
    about = [float(f"{n * scale:.2g}") for n in counts]
    return [f"~{n / 1e6:,.1f}M" if n >= 1e6 else f"~{n:,.0f}" for n in about]


def _bars(counts: Sequence[int], width: int) -> Lines:
    """Draws the classes as bars above their columns; the highest bar fills the height."""
    total, cell = _cells(width)
    top = max(counts, default=0)
    lines: Lines = []
    for row in range(_BARS, 0, -1):
        spans = [Span(" " * (1 + _SOURCE + total))]
        for n in counts:
            eighths = max(round(n / top * _BARS * 8), 1) - (row - 1) * 8 if n and top else 0
            char = " " if eighths <= 0 else BARS[min(eighths, 8) - 1]
            spans += [Span("  "), Span(char * (cell - 2), Style.BAR if char != " " else Style.NORMAL)]
        lines.append(crop(spans, width))
    return lines


def new_age_bars(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """Draws what waits in ``new`` by age, a line for each class: the histogram for a narrow panel."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    scale = 1.0 if ages.looked_at >= ages.of else ages.of / ages.looked_at
    return age_bars(ages.bounds, _figures(ages.counts, scale), ages.counts, width)[:rows]


def age_bars(
    bounds: Sequence[float], figures: Sequence[str], counts: Sequence[int], width: int, notes: Sequence[Span] = ()
) -> Lines:
    """A line for each class of age, with its figure, a bar as long as its count, and a note."""
    cells = max((len(figure) for figure in figures), default=0) + 1
    behind = max((text_width(note.text) for note in notes), default=0)
    top, room = max(counts, default=0), max(1, width - _CLASS - cells - 3 - behind)
    lines: Lines = []
    for at, (name, figure, n) in enumerate(zip(_classes(bounds), figures, counts, strict=True)):
        style = Style.NORMAL if n else Style.DIM
        bar = Style.BAR("█" * max(1, round(n / top * room)) if n else "")
        note = notes[at] if notes else Span("")
        lines.append(crop((Span(f" {pad(name, _CLASS)}{pad_left(figure, cells)} ", style), bar, note), width))
    return lines
