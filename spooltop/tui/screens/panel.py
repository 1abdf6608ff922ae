"""Lines that know when they were first painted: what was typed before that was not meant for them."""

from __future__ import annotations

from textual.message import Message
from textual.strip import Strip

from ..widgets import LinesView

__all__ = ["Panel"]


class Panel(LinesView):
    """``painted_at`` is the time (that of events) at which what is shown was painted, None before."""

    painted_at: float | None = None

    def renew(self) -> None:
        """What is shown next has not been painted yet."""
        self.painted_at = None

    def render_line(self, y: int) -> Strip:
        if self.painted_at is None:
            self.painted_at = Message().time
        return super().render_line(y)
