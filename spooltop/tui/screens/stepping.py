"""How one moves in a screen that is one list or one text: the commands of moving as steps of so many lines."""

from __future__ import annotations

from typing import Generic

from textual.screen import ScreenResultType

from .base import TableScreen

__all__ = ["SteppingScreen"]


class SteppingScreen(TableScreen[ScreenResultType], Generic[ScreenResultType]):
    """A screen says what a step is and how far there is to go at most."""

    ROOM = 4
    """Lines of the screen that do not go by when one pages."""

    def step(self, lines: int) -> None:
        """So many lines down, up where negative. May be more than there are."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """As many lines as there can be."""
        raise NotImplementedError

    def do_move_down(self, key: str) -> None:
        self.step(1)

    def do_move_up(self, key: str) -> None:
        self.step(-1)

    def do_page_down(self, key: str) -> None:
        self.step(self.app.size.height - self.ROOM)

    def do_page_up(self, key: str) -> None:
        self.step(self.ROOM - self.app.size.height)

    def do_half_page_up(self, key: str) -> None:
        self.step(-(self.app.size.height // 2))

    def do_first(self, key: str) -> None:
        self.step(-self.length)

    def do_last(self, key: str) -> None:
        self.step(self.length)
