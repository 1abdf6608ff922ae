"""Maps the styles of ``draw`` to the sixteen colours that every terminal has, readable on light and on dark backgrounds."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.strip import Strip

from ..draw.elements.spans import Line, Style

# Only the foreground is set, and most text keeps the terminal's own colour: yellow text alone is hard to read on white.
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
    Style.SELECTED_BAD: RichStyle(color="red", bold=True, reverse=True),
    Style.SELECTED_WARN: RichStyle(color="yellow", bold=True, reverse=True),
    Style.SELECTED_GOOD: RichStyle(color="green", reverse=True),
    Style.SELECTED_STRONG: RichStyle(bold=True, reverse=True),
    Style.SELECTED_KEY: RichStyle(bold=True, reverse=True),
    Style.MARKED: RichStyle(bold=True),
    Style.MATCH: RichStyle(bold=True, underline=True),
    Style.SELECTED_MATCH: RichStyle(bold=True, underline=True, reverse=True),
}

UNCOLOURED: Mapping[Style, RichStyle] = {meaning: style.without_color for meaning, style in COLOURED.items()}


def line_strip(line: Line, width: int, base: RichStyle, styles: Mapping[Style, RichStyle] = COLOURED) -> Strip:
    """A row of the screen, exactly ``width`` cells. Segments are never parsed as markup."""
    strip = Strip([Segment(span.text, base + styles[span.style]) for span in line])
    return strip.adjust_cell_length(width, base)
