"""The palette: all commands of the view by name; ``:q`` quits."""

from __future__ import annotations

from textual.events import Key

from ..commands import KeyCommand, palette
from ..context import CommandContext, View
from ..draw.every_screen.header import palette_lines
from ..session import AppSession
from ..widgets import LinesView
from .input import LineEdit
from .scrolling import ChoosingScreen


class PaletteScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen command, None where it was left."""

    FIXED_LINES = 3

    def __init__(self, session: AppSession, about: CommandContext) -> None:
        super().__init__(session)
        self.about = about
        self.edit = LineEdit()

    def on_mount(self) -> None:
        self.paint()

    @property
    def found(self) -> list[tuple[KeyCommand, str]]:
        """The commands that match: available ones first, among them those whose name begins with the text."""
        text = self.edit.text.strip().lower()
        return sorted(palette(self.about, text), key=lambda pair: (bool(pair[1]), not pair[0].id.startswith(text)))

    def context(self) -> CommandContext:
        return CommandContext(View.PALETTE, snapshot=self.about.snapshot, rows=len(self.found), depth=1)

    @property
    def edited(self) -> LineEdit:
        return self.edit

    def typed(self, event: Key) -> bool:
        if self.edit.key(event.key, event.character):
            self.chosen = 0
            self.paint()
            return True
        return event.key in ("j", "k", "g", "G")

    def paint(self) -> None:
        if not self.ready:
            return
        width, height = self.window_size
        found = self.found
        self.clamp()
        entries = [(command.id, command.shown_keys, command.help, reason) for command, reason in found]
        lines = palette_lines(self.edit.text, entries, width, height, chosen=self.chosen, message=self.message)
        self.query_one(LinesView).show(lines)

    def do_run(self) -> None:
        if self.edit.text.strip() in ("q", "quit"):
            self.session.leave(0)
        elif self.found:
            self.dismiss(self.found[self.chosen][0].id)

    @property
    def texts(self) -> list[str]:
        return [command.id for command, _ in self.found]
