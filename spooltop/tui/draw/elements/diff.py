"""Finds the part of a line that must be painted again. A terminal is written from the left edge of a widget up to a region's
right edge, so only that right edge matters."""

from __future__ import annotations

from collections.abc import Sequence

from .spans import Line, Style, line_width, text_width


def _cells(line: Line) -> list[tuple[str, Style]]:
    return [(char, span.style) for span in line for char in span.text]


def changed_until(old: Line | None, new: Line) -> int:
    """The right edge in cells of the last cell that differs; 0 where none does. ``old`` None: nothing was painted before."""
    if old == new:
        return 0
    width = max(line_width(old or ()), line_width(new), 1)
    if old is None or line_width(old) != line_width(new):
        return width
    before, after = _cells(old), _cells(new)
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    tail = "".join(char for char, _ in after[len(after) - same :])
    # A zero-width mark at the beginning of the tail belongs to the cell before it, which is painted with it.
    return max(1, width - text_width(tail))


def changed_rows(old: Sequence[Line], new: Sequence[Line], height: int) -> list[tuple[int, int]]:
    """(row, right edge in cells) of each of the first ``height`` rows that differ; missing rows are blank."""
    out = []
    for y in range(min(height, max(len(old), len(new)))):
        before = old[y] if y < len(old) else ()
        after = new[y] if y < len(new) else ()
        if edge := changed_until(before, after):
            out.append((y, edge))
    return out
