"""A screen with one text that scrolls."""

from __future__ import annotations

from typing import Generic

from textual.screen import ScreenResultType

from ..draw.elements.spans import Line, line_text
from .scrolling import ScrollingScreen


class TextScreen(ScrollingScreen[ScreenResultType], Generic[ScreenResultType]):
    """Subclasses give the text; this class scrolls it."""

    def text(self, width: int) -> list[Line]:
        """The whole text, wrapped to ``width`` cells."""
        raise NotImplementedError

    def paint(self) -> None:
        if not self.ready:
            return
        whole = self.text(self.window_size[0])
        self.scroll_at = max(0, min(self.scroll_at, len(whole) - self.panel_height))
        self.show_panel(whole[self.scroll_at :])

    @property
    def texts(self) -> list[str]:
        return [line_text(line) for line in self.text(self.window_size[0])]
