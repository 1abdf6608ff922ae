"""Screens of one list or one text: all commands for moving are steps of a number of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from textual.events import Key
from textual.screen import ScreenResultType

from ..session import AppSession
from .base import ANYWHERE, TableScreen
from .input import LineEdit


class SteppingScreen(TableScreen[ScreenResultType], Generic[ScreenResultType]):
    """A screen that defines what a step is and how many lines there are."""

    finding: LineEdit | None = None
    """The text being typed to be found; None where none is."""
    FIXED_LINES = 4
    """Lines of the screen that do not move when it is paged."""

    def step(self, lines: int) -> None:
        """Moves this many lines down, up where negative. The number may be larger than the number of lines."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """The number of lines."""
        return len(self.texts)

    @property
    def place(self) -> int:
        """The place in ``texts`` of the line that is chosen or at the top."""
        raise NotImplementedError

    @property
    def texts(self) -> Sequence[str]:
        """The text of each line that can be gone to."""
        raise NotImplementedError

    @property
    def edited(self) -> LineEdit | None:
        return self.finding

    def typed(self, event: Key) -> bool:
        """Handles a key while a text to be found is typed: none is a command then."""
        edit = self.finding
        if edit is None or event.key in ANYWHERE:
            return False
        if event.key == "escape" or (event.key in ("backspace", "ctrl+h") and not edit.text):
            self.finding = None
            self.paint()
        elif event.key == "enter":
            self.finding = None
            self._find(edit.text)
        else:
            edit.key(event.key, event.character)
            self.pasted()
        return True

    def pasted(self) -> None:
        if self.finding is not None:
            self.show_notice(f"/{self.finding.text}_   Enter goes to the next match; Esc ends the search")
        else:
            super().pasted()

    def do_find(self) -> None:
        self.finding = LineEdit()
        self.pasted()

    def _find(self, text: str) -> None:
        texts, place = self.texts, self.place
        order = [*range(place + 1, len(texts)), *range(min(place + 1, len(texts)))]
        found = next((at for at in order if text and text.lower() in texts[at].lower()), None)
        if found is None:
            self.show_notice(f"no line has {text}" if text else "no text to search for")
        else:
            self.step(found - place)

    def scrolled(self, lines: int) -> None:
        self.step(lines)

    def do_step(self, lines: int) -> None:
        self.step(lines)

    def do_page(self, pages: float) -> None:
        """Moves a page or half a page down, up where negative."""
        height = self.window_size[1]
        lines = height - self.FIXED_LINES if abs(pages) == 1 else height // 2
        self.step(lines if pages > 0 else -lines)

    def do_first(self) -> None:
        self.step(-self.length)

    def do_last(self) -> None:
        self.step(self.length)


class ChoosingScreen(SteppingScreen[ScreenResultType], Generic[ScreenResultType]):
    """A list of entries, one of which is chosen: ``chosen`` is its place in ``texts``."""

    def __init__(self, session: AppSession) -> None:
        super().__init__(session)
        self.chosen = 0

    @property
    def place(self) -> int:
        return self.chosen

    def step(self, lines: int) -> None:
        # It is clamped as it is painted: a key may be typed before the entries are known.
        self.chosen += lines
        self.paint()

    def clamp(self) -> None:
        """Chooses the nearest entry that there is."""
        self.chosen = max(0, min(self.chosen, self.length - 1))


class ScrollingScreen(SteppingScreen[ScreenResultType], Generic[ScreenResultType]):
    """Lines that are scrolled: ``scroll_at`` is the place in ``texts`` of the first one shown."""

    def __init__(self, session: AppSession) -> None:
        super().__init__(session)
        self.scroll_at = 0

    @property
    def place(self) -> int:
        return self.scroll_at

    def step(self, lines: int) -> None:
        self.scroll_at = max(0, min(self.scroll_at + lines, self.length))
        self.paint()
