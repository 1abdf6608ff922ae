"""Lines that know when they were first painted: what was typed before that was not meant for them."""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ..widgets import LinesView

__all__ = ["Panel"]


class Panel(LinesView):
    """``painted_at`` is the time (that of events) at which what is shown was painted for a window of this size, None before. What
    is painted while it is not ``readable`` does not count."""

    class Painted(Message):
        """What is shown has been painted for the first time."""

    readable: Callable[[], bool] = staticmethod(lambda: True)
    _painted: tuple[float, Size] | None = None

    @property
    def painted_at(self) -> float | None:
        return self._painted[0] if self._painted is not None and self._painted[1] == self.app.size else None

    def renew(self) -> None:
        """What is shown next has not been painted yet, even where it is the same as what stands there."""
        self._painted = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self.painted_at is None and self.readable():
            self._painted = Message().time, self.app.size
            self.post_message(self.Painted())
        return super().render_line(y)
