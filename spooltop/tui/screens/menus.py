"""The palette, which names all commands of the view (``:q`` quits), and the menu of the columns that a list can be sorted by."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Key

from ..commands import KeyCommand, palette
from ..context import CommandContext, View
from ..draw.spans import Lines, Style, crop, fitted, join, plain, restyle
from ..draw.text import pad, shown
from ..session import AppSession
from ..widgets import LinesView
from .base import ChoosingScreen, LineEdit


def palette_lines(
    typed: str, found: Sequence[tuple[str, str, str, str]], width: int, height: int, *, chosen: int = 0, message: str = ""
) -> Lines:
    """``found`` holds (id, keys, help, why it is not available or "") of each command that matches the words ``typed``."""
    lines: Lines = [fitted(width, Style.KEY(" :"), shown(typed), Style.KEY("█"))]
    room = height - 2
    top = max(0, chosen - room + 1)
    for i, (id, keys, words, reason) in enumerate(found[top : top + room], start=top):
        sign = "▌" if i == chosen else " "
        line = join(
            Style.KEY(sign), Style.STRONG(pad(id, 17)), Style.KEY(pad(keys, 12)), shown(reason or words)
        )
        lines.append(crop(restyle(line, Style.DIM) if reason else line, width))
    if not found:
        lines.append(plain("  no action matches these words", width, Style.DIM))
    lines += [()] * (height - 1 - len(lines))
    lines.append(plain(shown(message) or " ↑↓ choose · Enter run · Esc back · q and Enter quits", width))
    return lines


class PaletteScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen command, None where it was left."""

    FIXED_LINES = 3

    def __init__(self, session: AppSession, about: CommandContext) -> None:
        super().__init__(session)
        self.about = about
        self.edit = LineEdit()

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


class SortScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen column, None where it was left. ``columns`` are (id, title)."""

    def __init__(self, session: AppSession, columns: Sequence[tuple[str, str]], present: str) -> None:
        super().__init__(session)
        self.columns = columns
        self.chosen = next((at for at, (word, _) in enumerate(columns) if word == present), 0)

    def context(self) -> CommandContext:
        return CommandContext(View.SORT, snapshot=self.session.snapshot, rows=len(self.columns), depth=1)

    def draw(self, width: int, height: int) -> Lines:
        self.clamp()
        lines: Lines = [plain(" Sort by", width, Style.TITLE), ()]
        for at, (word, title) in enumerate(self.columns):
            line = join(Style.KEY("▌" if at == self.chosen else " "), plain(title or word, width - 2))
            lines.append(restyle(line, Style.STRONG) if at == self.chosen else line)
        return lines

    def do_choose_sort(self) -> None:
        self.dismiss(self.columns[self.chosen][0])

    @property
    def texts(self) -> list[str]:
        return [title for _, title in self.columns]
