"""From the meanings of ``draw`` to the sixteen colours that every terminal has, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip

from spooltop.tui.draw.spans import Line, Style

__all__ = ["COLOURED", "UNCOLOURED", "line_strip"]

# Only the foreground is ever set, and the text beside a colour stays in the terminal's own: yellow alone is lost on white.
COLOURED: Mapping[Style, RichStyle] = {
    Style.NORMAL: RichStyle(),
    Style.DIM: RichStyle(dim=True),
    Style.STRONG: RichStyle(bold=True),
    Style.BAD: RichStyle(color="red", bold=True),
    Style.WARN: RichStyle(color="yellow", bold=True),
    Style.GOOD: RichStyle(color="green"),
    Style.TITLE: RichStyle(bold=True),
    Style.KEY: RichStyle(bold=True),
    Style.RULE: RichStyle(dim=True),
    Style.BAR: RichStyle(color="cyan", dim=True),
    Style.SELECTED: RichStyle(reverse=True),
    Style.MARKED: RichStyle(bold=True),
}

UNCOLOURED: Mapping[Style, RichStyle] = {meaning: style.without_color for meaning, style in COLOURED.items()}


def line_strip(line: Line, width: int, base: RichStyle, styles: Mapping[Style, RichStyle] = COLOURED) -> Strip:
    """One row of the screen, exactly ``width`` cells. Segments are never read as markup."""
    strip = Strip([Segment(span.text, base + styles[span.style]) for span in line])
    return strip.adjust_cell_length(width, base)
