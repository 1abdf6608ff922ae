"""A widget of lines that knows when it was first painted, so that keys typed before do not count."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ..widgets import LinesView


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
