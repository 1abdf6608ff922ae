"""Signs, and their replacements where a terminal has none (``--ascii``, ``TERM=linux``, ``LANG=C``)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from rich.cells import cell_len

from .spans import Line, Span, merge

BARS = "▁▂▃▄▅▆▇█"
UNWATCHED = "·"

_SIGNS = {
    "✗": "x", "✓": "+", "▌": ">", "→": ">", "←": "<", "↑": "^", "↓": "v", "↩": "<", "›": ">", "×": "x", "—": "-", "–": "-",
    "‖": "=", "·": ".", "…": "*", "≥": ">", "≤": "<", "µ": "u", "◆": "*", "’": "'", "‘": "'", "“": '"', "”": '"',
    "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
    "▁": "_", "▂": "-", "▃": "-", "▄": "=", "▅": "=", "▆": "#", "▇": "#", "█": "#",
}  # fmt: skip


class Glyphs(Struct, frozen=True):
    """The signs that a terminal can show. Lines are drawn with all signs and converted last, so that widths stay the same."""

    name: str
    ascii: bool = False
    signs: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """The same text in the same width; a character without a replacement becomes one ``?`` per cell."""
        if not self.ascii or text.isascii():
            return text
        text = text.replace(" ≥", ">=")  # two characters for one sign, where they fit
        return "".join(c if c.isascii() else self.signs.get(c, "?" * cell_len(c)) for c in text)

    def line(self, line: Line) -> Line:
        """The same line in the same width."""
        return merge(Span(self.text(span.text), span.style) for span in line) if self.ascii else line


UNICODE = Glyphs("unicode")
ASCII = Glyphs("ascii", True, _SIGNS)
