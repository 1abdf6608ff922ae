"""The help screen: the keys of one view from the table. Commands that are not available are dim and say why."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key

from ..commands import help_lines
from ..context import CommandContext, View
from ..draw.elements.spans import line_text
from ..draw.every_screen.header import notice_lines
from ..draw.help import LEGEND, MOUSE, HelpEntry, HelpSection
from ..draw.help import help_lines as draw_help
from ..session import AppSession
from ..threads.messages import Found
from ..widgets import LinesView
from .scrolling import ScrollingScreen


def sections(context: CommandContext, *, mouse: bool) -> list[HelpSection]:
    """The table's help of one view, as sections to draw; ``mouse``: the mouse is on."""
    out: list[HelpSection] = []
    title, entries = "", list[HelpEntry]()
    for keys, words, reason in [*help_lines(context), ("", "", "")]:
        if keys:
            entries.append(HelpEntry(keys, words, reason))
            continue
        if entries:
            out.append(HelpSection(title, tuple(entries)))
        title, entries = words, []
    # a view that this kind of queue does not have needs no legend
    legend = [section for section in LEGEND if section.title.lower() not in context.absent]
    return [*out, *((MOUSE,) if mouse else ()), *legend]


class HelpScreen(ScrollingScreen[None]):
    """``about`` gives the context of the screen that help was asked from, which changes while help is shown: lists are read."""

    FIXED_LINES = 2

    def __init__(self, session: AppSession, about: Callable[[], CommandContext]) -> None:
        super().__init__(session)
        self.about = about

    def _sections(self) -> list[HelpSection]:
        return sections(self.about(), mouse=self.session.options.mouse)

    def on_mount(self) -> None:
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.HELP, snapshot=self.about().snapshot, depth=1, rows=1)

    def take(self, found: Found) -> None:
        """Says what is available now."""
        self.paint()

    def paint(self) -> None:
        if not self.ready:
            return
        width, height = self.window_size
        notice = notice_lines(self.message, width) if self.message else []
        height = max(1, height - len(notice))
        everything = draw_help(self._sections(), width, 1000)
        self.scroll_at = max(0, min(self.scroll_at, len(everything) - height))
        lines = draw_help(self._sections(), width, height, scroll=self.scroll_at)
        self.query_one(LinesView).show([*lines, *[()] * (height - len(lines)), *notice] if notice else lines)

    @property
    def texts(self) -> list[str]:
        return [line_text(line) for line in draw_help(self._sections(), self.window_size[0], 1000)]

    def typed(self, event: Key) -> bool:
        if super().typed(event):
            return True
        if event.key in ("question_mark", "f1"):
            self.dismiss(None)
            return True
        return False
