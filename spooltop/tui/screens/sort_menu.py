"""The menu of the columns that a list can be sorted by."""

from __future__ import annotations

from collections.abc import Sequence

from ..context import CommandContext, View
from ..draw.elements.spans import Line, Span, Style, join, plain, restyle
from ..session import AppSession
from .scrolling import ChoosingScreen


class SortScreen(ChoosingScreen[str | None]):
    """Returns the id of the chosen column, None where it was left. ``columns`` are (id, title)."""

    def __init__(self, session: AppSession, columns: Sequence[tuple[str, str]], present: str) -> None:
        super().__init__(session)
        self.columns = columns
        self.chosen = next((at for at, (word, _) in enumerate(columns) if word == present), 0)

    def on_mount(self) -> None:
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.SORT, snapshot=self.session.snapshot, rows=len(self.columns), depth=1)

    def paint(self) -> None:
        if not self.ready:
            return
        self.clamp()
        width = self.window_size[0]
        lines: list[Line] = [plain(" Sort by", width, Style.TITLE), ()]
        for at, (word, title) in enumerate(self.columns):
            line = join(Span("▌" if at == self.chosen else " ", Style.KEY), plain(title or word, width - 2))
            lines.append(restyle(line, Style.STRONG) if at == self.chosen else line)
        self.show_panel(lines)

    def do_choose_sort(self) -> None:
        self.dismiss(self.columns[self.chosen][0])

    @property
    def texts(self) -> list[str]:
        return [title for _, title in self.columns]
