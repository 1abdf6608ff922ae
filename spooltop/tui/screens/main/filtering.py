"""The filter line: narrows the list while it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import Key

from spooltop.model import query

from ..input import LineEdit

if TYPE_CHECKING:
    from .screen import MainScreen

__all__ = ["FilterLine"]


class FilterLine:
    """Text that is being typed; ``error`` says what makes no sense yet."""

    def __init__(self, text: str = "") -> None:
        self.edit = LineEdit(text)
        self.error = ""

    def typed(self, screen: MainScreen, event: Key) -> bool:
        """Takes every key but those that leave the dashboard or move in the list. As in less and vi, Enter keeps what was typed,
        Esc clears it, and a Backspace where nothing is left leaves too."""
        if event.key in ("ctrl+c", "f10", "ctrl+z", "up", "down", "pageup", "pagedown", "f1"):
            return False
        if event.key == "escape":
            screen.filter_line = None
            screen.set_filter("")
        elif event.key == "enter" or (event.key in ("backspace", "ctrl+h") and not self.edit.text):
            screen.filter_line = None
            screen.paint()
        elif self.edit.key(event.key, event.character):
            self.apply(screen)
        return True

    def apply(self, screen: MainScreen) -> None:
        """What is no term yet is left out and said; the rest narrows at once. Kept for ``n``, also where Esc clears it."""
        if screen.state is None:
            screen.set_filter(self.edit.text)
            return
        found = query.parse(self.edit.text, lenient=True)
        self.error = found.hint
        screen.sought = str(found) or screen.sought
        screen.set_filter(str(found))
