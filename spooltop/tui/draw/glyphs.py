"""Signs, and what stands for them where a terminal has none (``--ascii``, ``TERM=linux``, ``LANG=C``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.cells import cell_len

from .spans import Line, Span, merge

__all__ = ["ASCII", "BARS", "UNICODE", "UNWATCHED", "Glyphs"]

BARS = "▁▂▃▄▅▆▇█"
UNWATCHED = "·"

_SIGNS = {
    "✗": "x", "✓": "+", "▌": ">", "→": ">", "←": "<", "↑": "^", "↓": "v", "↩": "<", "›": ">", "×": "x", "—": "-", "–": "-",
    "·": ".", "…": "*", "≥": ">", "≤": "<", "µ": "u", "◆": "*", "’": "'", "‘": "'", "“": '"', "”": '"',
    "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+",
    "▁": "_", "▂": "-", "▃": "-", "▄": "=", "▅": "=", "▆": "#", "▇": "#", "█": "#",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Which signs a terminal can show. Lines are drawn with all signs and go through here last, so that widths stay."""

    name: str
    ascii: bool = False
    signs: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """The same text, as wide; what has no stand-in becomes ``?``, once a cell."""
        if not self.ascii or text.isascii():
            return text
        text = text.replace(" ≥", ">=")  # two signs for one, where there is room for them
        return "".join(c if c.isascii() else self.signs.get(c, "?" * cell_len(c)) for c in text)

    def line(self, line: Line) -> Line:
        """The same line, as wide."""
        return merge(Span(self.text(span.text), span.style) for span in line) if self.ascii else line


UNICODE = Glyphs("unicode")
ASCII = Glyphs("ascii", True, _SIGNS)
