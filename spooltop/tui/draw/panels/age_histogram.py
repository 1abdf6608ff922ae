"""Draws how long the messages in ``new`` have waited: one column per class of age, one line per source."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot

from ..elements.glyphs import BARS
from ..elements.spans import BLANK, Line, Span, Style, clip, crop, merge, pad, pad_left, safe, text_width

_SOURCE, _TOTAL, _CELL = 12, 10, 9
_BARS, _SOURCES = 3, 5
_CLASS = 8
"""Cells of a class of age where each has a line."""
HISTOGRAM_LINES = _BARS + _SOURCES + 2
"""Lines of the histogram, whatever it shows: bars, column titles, totals and sources."""


def age_histogram(snapshot: Snapshot, width: int, rows: int = HISTOGRAM_LINES) -> list[Line]:
    """At most ``rows`` lines; none where the ages are not known. Figures of a sample are scaled up and marked ``~``."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    lines: list[Line] = []
    if ages.of:
        whole = ages.looked_at >= ages.of
        names = ["source", "all", *_classes(ages.bounds)]
        lines += _bars(ages.counts, width)
        lines.append(crop((Span(_words(names, width), Style.DIM),), width))
        scale = 1.0 if whole else ages.of / ages.looked_at
        lines.append(_row("all", [f"{ages.of:,}", *_figures(ages.counts, scale)], width))
        fits = _SOURCES if ages.sources <= _SOURCES else _SOURCES - 1
        for one in ages.by_source[:fits]:
            name = "unknown" if one.source is None else clip(safe(one.source), _SOURCE - 1)
            lines.append(_row(name, _figures((one.total, *one.counts), scale), width))
        if ages.sources > fits:
            lines.append(crop((Span(f"   {ages.sources - fits:,} more sources", Style.DIM),), width))
    else:
        lines.append(crop((Span("   nothing waits", Style.DIM),), width))
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
    return merge((Span(" · ".join(notes), Style.DIM),))


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
    return crop(merge(spans), width)


def _figures(counts: Sequence[int], scale: float) -> list[str]:
    """Scaled figures are rounded to two significant digits."""
    if scale == 1.0:
        return [f"{n:,}" for n in counts]
    about = [float(f"{n * scale:.2g}") for n in counts]
    return [f"~{n / 1e6:,.1f}M" if n >= 1e6 else f"~{n:,.0f}" for n in about]


def _bars(counts: Sequence[int], width: int) -> list[Line]:
    """Draws the classes as bars above their columns; the highest bar fills the height."""
    total, cell = _cells(width)
    top = max(counts, default=0)
    lines: list[Line] = []
    for row in range(_BARS, 0, -1):
        spans = [Span(" " * (1 + _SOURCE + total))]
        for n in counts:
            eighths = max(round(n / top * _BARS * 8), 1) - (row - 1) * 8 if n and top else 0
            char = " " if eighths <= 0 else BARS[min(eighths, 8) - 1]
            spans += [Span("  "), Span(char * (cell - 2), Style.BAR if char != " " else Style.NORMAL)]
        lines.append(crop(merge(spans), width))
    return lines


def new_age_bars(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    """Draws what waits in ``new`` by age, a line for each class: the histogram for a narrow panel."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    scale = 1.0 if ages.looked_at >= ages.of else ages.of / ages.looked_at
    return age_bars(ages.bounds, _figures(ages.counts, scale), ages.counts, width)[:rows]


def age_bars(
    bounds: Sequence[float], figures: Sequence[str], counts: Sequence[int], width: int, notes: Sequence[Span] = ()
) -> list[Line]:
    """A line for each class of age, with its figure, a bar as long as its count, and a note."""
    cells = max((len(figure) for figure in figures), default=0) + 1
    behind = max((text_width(note.text) for note in notes), default=0)
    top, room = max(counts, default=0), max(1, width - _CLASS - cells - 3 - behind)
    lines: list[Line] = []
    for at, (name, figure, n) in enumerate(zip(_classes(bounds), figures, counts, strict=True)):
        style = Style.NORMAL if n else Style.DIM
        bar = Span("█" * max(1, round(n / top * room)) if n else "", Style.BAR)
        note = notes[at] if notes else Span("")
        lines.append(crop(merge((Span(f" {pad(name, _CLASS)}{pad_left(figure, cells)} ", style), bar, note)), width))
    return lines
