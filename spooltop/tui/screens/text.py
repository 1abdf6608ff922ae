"""A screen that is one text, longer than the window or not."""

from __future__ import annotations

from typing import Generic

from textual.screen import ScreenResultType

from ..draw.spans import Line, line_text
from .scrolling import SteppingScreen

__all__ = ["TextScreen"]


class TextScreen(SteppingScreen[ScreenResultType], Generic[ScreenResultType]):
    """A screen says what the text is; here it is scrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.scroll_at = 0

    def text(self, width: int) -> list[Line]:
        """All of it, as wide as that."""
        raise NotImplementedError

    def paint(self) -> None:
        if not self.ready:
            return
        whole = self.text(self.app.size.width)
        self.scroll_at = max(0, min(self.scroll_at, len(whole) - self.room))
        self.show_panel(whole[self.scroll_at :])

    @property
    def place(self) -> int:
        return self.scroll_at

    @property
    def texts(self) -> list[str]:
        return [line_text(line) for line in self.text(self.app.size.width)]

    @property
    def length(self) -> int:
        return len(self.text(self.app.size.width))

    def step(self, lines: int) -> None:
        self.scroll_at = max(0, self.scroll_at + lines)
        self.paint()
