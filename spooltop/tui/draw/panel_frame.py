"""Draws a panel with a border, on top of a view."""

from __future__ import annotations

from collections.abc import Sequence

from .spans import Line, Span, Style, clip, crop, join, line_width, merge, plain, shown, text_width, wrap

__all__ = ["WIDEST", "inner_width", "note_lines", "panel_frame"]

WIDEST = 120
"""Maximum width in cells: longer lines are hard to read."""


def inner_width(width: int) -> int:
    """Cells for text inside a panel of ``width`` cells."""
    return max(1, width - 4)


def panel_frame(title: str, right: str, body: Sequence[Line], width: int) -> list[Line]:
    """``body`` between borders, with the title at the left of the upper border and ``right`` at its end."""
    room = max(0, width - 6)
    right = f" {right} " if right and text_width(title) + text_width(right) + 4 <= room else ""
    title = f" {clip(title, max(1, room - text_width(right)))} "
    fill = "─" * max(0, width - 4 - text_width(title) - text_width(right))
    top = merge(
        (Span("┌─", Style.RULE), Span(title, Style.TITLE), Span(fill, Style.RULE), Span(right), Span("─┐", Style.RULE))
    )
    bottom: Line = (Span(f"└{'─' * max(0, width - 2)}┘", Style.RULE),)
    return [crop(top, width), *(_row(line, width) for line in body), crop(bottom, width)]


def _row(line: Line, width: int) -> Line:
    inside = crop(line, inner_width(width))
    gap = " " * (inner_width(width) - line_width(inside))
    return crop(join(Span("│", Style.RULE), " ", inside, f"{gap} ", Span("│", Style.RULE)), width)


def note_lines(notes: Sequence[str], inner: int) -> list[Line]:
    """Notes, wrapped over as many lines as they need."""
    return [plain(part, inner) for note in notes for part in wrap(shown(note), inner)]
