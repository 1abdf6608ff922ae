"""A screen that is one text, longer than the window or not."""

from __future__ import annotations

from typing import Generic

from textual.screen import ScreenResultType

from ..draw.spans import Line, line_text
from .scrolling import ScrollingScreen

__all__ = ["TextScreen"]


class TextScreen(ScrollingScreen[ScreenResultType], Generic[ScreenResultType]):
    """A screen says what the text is; here it is scrolled."""

    def text(self, width: int) -> list[Line]:
        """All of it, as wide as that."""
        raise NotImplementedError

    def paint(self) -> None:
        if not self.ready:
            return
        whole = self.text(self.window_size[0])
        self.scroll_at = max(0, min(self.scroll_at, len(whole) - self.room))
        self.show_panel(whole[self.scroll_at :])

    @property
    def texts(self) -> list[str]:
        return [line_text(line) for line in self.text(self.window_size[0])]
