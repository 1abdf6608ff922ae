"""The columns of a list: one of them is chosen to sort by."""

from __future__ import annotations

from collections.abc import Sequence

from ..context import Scene, View
from ..draw.spans import Line, Span, Style, join, plain, restyle
from .scrolling import SteppingScreen

__all__ = ["SortScreen"]


class SortScreen(SteppingScreen[str | None]):
    """Gives back the word of the column that was chosen, None where it was left. ``columns`` are (word, title)."""

    def __init__(self, columns: Sequence[tuple[str, str]], present: str) -> None:
        super().__init__()
        self.columns = columns
        self.chosen = next((at for at, (word, _) in enumerate(columns) if word == present), 0)

    def on_mount(self) -> None:
        self.paint()

    def scene(self) -> Scene:
        return Scene(View.SORT, snapshot=self.owner.snapshot, rows=len(self.columns), depth=1)

    def paint(self) -> None:
        if not self.ready:
            return
        width = self.app.size.width
        lines: list[Line] = [plain(" Sort by", width, Style.TITLE), ()]
        for at, (word, title) in enumerate(self.columns):
            line = join(Span("▌" if at == self.chosen else " ", Style.KEY), plain(title or word, width - 2))
            lines.append(restyle(line, Style.STRONG) if at == self.chosen else line)
        self.show_panel(lines)

    def do_choose_sort(self, key: str) -> None:
        self.dismiss(self.columns[self.chosen][0])

    def do_back(self, key: str) -> None:
        self.dismiss(None)

    @property
    def place(self) -> int:
        return self.chosen

    @property
    def texts(self) -> list[str]:
        return [title for _, title in self.columns]

    @property
    def length(self) -> int:
        return len(self.columns)

    def step(self, lines: int) -> None:
        self.chosen = max(0, min(self.chosen + lines, len(self.columns) - 1))
        self.paint()
