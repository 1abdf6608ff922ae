"""A widget of lines that knows when it was first painted, so that keys typed before do not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from textual.geometry import Size
from textual.message import Message
from textual.screen import ScreenResultType
from textual.strip import Strip

from ..draw.elements.spans import Line, line_text
from ..widgets import LinesView
from .scrolling import ScrollingScreen

# A screen with one text that scrolls.


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


class Panel(LinesView):
    """``painted_at`` is the time (of the event clock) at which the present lines were painted for a window of this size, None
    before. Painting while it is not ``readable`` does not count."""

    class Painted(Message):
        """The lines were painted for the first time."""

    readable: Callable[[], bool] = staticmethod(lambda: True)
    _painted: tuple[float, Size] | None = None

    @property
    def painted_at(self) -> float | None:
        return self._painted[0] if self._painted is not None and self._painted[1] == self.app.size else None

    def renew(self) -> None:
        """Makes the next lines count as not painted yet, even where they are the same as now."""
        self._painted = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self.painted_at is None and self.readable():
            self._painted = Message().time, self.app.size
            self.post_message(self.Painted())
        return super().render_line(y)
