"""The Spools view: several targets, a line each. It changes nothing: a target is opened first."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct
from textual.app import ComposeResult
from textual.events import Key

from spooltop.model.text import escape
from spooltop.monitor.glance import Glance

from ..commands import by_id, footer, only_in
from ..context import CommandContext, View
from ..control_protocol import SpoolsProtocol
from ..draw.elements.spans import BLANK, Line, Span, Style, crop, join, plain, shown
from ..draw.every_screen.header import notice_lines
from ..draw.spools import (
    SORTS,
    Frame,
    chosen_line,
    column_at,
    frame,
    in_order,
    matching,
    spool_line,
    spools_header,
    title_line,
)
from ..session import AppSession
from ..widgets import LinesView, VirtualList
from .base import ANYWHERE, TableScreen, footer_line
from .input import LineEdit
from .sort_menu import SortScreen

_ASCENDING = ("name",)
"""The orders that begin with the smallest, as they are chosen."""


class SpoolsState(Struct):
    """The choices of the user, which stay while a target is open. ``opening`` is the target that is being opened, ``moved`` is
    True once the cursor was moved or a target was opened: until then it is on the first line, whichever that is."""

    filter: str = ""
    sort: str = "worst"
    descending: bool = True
    troubled: bool = False
    frozen_at: float | None = None
    opening: str = ""
    moved: bool = False


class SpoolsScreen(TableScreen[None]):
    """``open_target`` begins to open a target, which takes its time; "" gives up the one that is being opened."""

    def __init__(self, session: AppSession, spools: SpoolsProtocol, open_target: Callable[[str], object]) -> None:
        super().__init__(session)
        self.spools = spools
        self.open_target = open_target
        self.state = SpoolsState()
        self.typing: LineEdit | None = None
        self.now = 0.0
        self.glances: list[Glance] = []
        self._generation = 0
        self._placed: Hashable = None
        """The row that the cursor was on at the end of the last update."""
        self._frame: tuple[tuple[str, ...], int, Frame] | None = None

    def body(self) -> ComposeResult:
        glyphs, colour = self.session.glyphs, self.session.options.colour
        yield LinesView(glyphs=glyphs, colour=colour, id="top")
        rows: VirtualList[Glance] = VirtualList(self._draw, lambda one: one.target, glyphs=glyphs, colour=colour, id="spools")
        rows.can_focus = False
        yield rows
        yield LinesView(glyphs=glyphs, colour=colour, id="bottom", classes="-two")

    @property
    def rows(self) -> VirtualList[Glance]:
        return self.query_one("#spools", VirtualList)

    @property
    def chosen(self) -> Glance | None:
        """The glance under the cursor."""
        return self.rows.cursor_item if self.ready else None

    def on_mount(self) -> None:
        self.update()

    def update(self) -> None:
        """Shows the newest glances, unless the display is frozen."""
        if not self.ready:
            return
        if self.state.frozen_at is None:
            self.glances = list(self.spools.glances())
            self.now = self.spools.now()
        found = matching(self.glances, self.state.filter, self._layout().distinct, troubled=self.state.troubled)
        found = in_order(found, self.state.sort, descending=self.state.descending)
        key = self.rows.cursor_key
        self.state.moved = self.state.moved or key != self._placed  # the mouse moves it, too
        at = next((place for place, one in enumerate(found) if one.target == key), None)
        self._generation += 1
        self.rows.empty = plain(f"   {self._why_empty()}", self.window_size[0], Style.DIM)
        self.rows.set_list(len(found), self._generation, cursor=at, anchor=key, items=found)
        if not self.state.moved:
            self.rows.home()
        self._placed = self.rows.cursor_key
        self.paint()

    def _why_empty(self) -> str:
        if self.state.filter:
            return f"nothing matches {shown(self.state.filter)}; Esc clears the filter"
        return "no spool has a problem; ! shows all" if self.state.troubled else "no spool is left; R looks for new ones"

    def _layout(self) -> Frame:
        width = self.rows.size.width or self.window_size[0]
        targets = tuple(one.target for one in self.glances)
        if self._frame is None or self._frame[:2] != (targets, width):
            self._frame = targets, width, frame(targets, width)
        return self._frame[2]

    def _draw(self, one: Glance, width: int, chosen: bool, marked: bool) -> Line:
        return spool_line(one, self._layout(), width, now=self.now, chosen=chosen)

    def context(self) -> CommandContext:
        state = self.state
        return CommandContext(
            View.SPOOLS, rows=len(self.rows) if self.ready else 0, filter=state.filter, frozen=state.frozen_at is not None,
            depth=bool(state.filter) + state.troubled + bool(state.opening),
        )  # fmt: skip

    # Painting

    def paint(self) -> None:
        if not self.ready or not self.app.screen_stack or self.app.screen_stack[-1] is not self:
            return
        state, layout, width = self.state, self._layout(), self.window_size[0]
        head = spools_header(
            self.glances, len(self.rows), width, place=layout.place, now=self.now, filter=state.filter,
            troubled=state.troubled, frozen=state.frozen_at is not None,
        )  # fmt: skip
        self.query_one("#top", LinesView).show([head, title_line(layout, width, sort=state.sort, descending=state.descending)])
        bottom = self._bottom(width)
        foot = self.query_one("#bottom", LinesView)
        if foot.styles.height is None or foot.styles.height.value != len(bottom):
            foot.styles.height = len(bottom)
        foot.show(bottom)

    def _bottom(self, width: int) -> list[Line]:
        if self.typing is not None:
            words = join(Span(" /", Style.KEY), shown(self.typing.text), Span("█", Style.KEY))
            keys = crop(join(words, f"  {len(self.rows):,} match · Enter keeps · Esc clears"), width)
        elif self.message:
            lines = notice_lines(self.message, width)
            return [*([BLANK] * (2 - len(lines))), *lines]
        else:
            keys = footer_line(footer(self.context()), width)
        return [chosen_line(self.chosen, width), keys]

    def on_virtual_list_resized(self, message: VirtualList.Resized) -> None:
        self.update()

    def on_virtual_list_cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        self.paint()

    def on_virtual_list_activated(self, message: VirtualList.Activated) -> None:
        self.command("enter")

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.update()

    # Keys and the mouse

    @property
    def edited(self) -> LineEdit | None:
        return self.typing

    def typed(self, event: Key) -> bool:
        edit = self.typing
        if edit is None or event.key in (*ANYWHERE, "up", "down", "pageup", "pagedown", "f1"):
            return False
        if event.key == "escape":
            self.typing, self.state.filter = None, ""
        elif event.key == "enter" or (event.key in ("backspace", "ctrl+h") and not edit.text):
            self.typing = None
        else:
            edit.key(event.key, event.character)
            self.state.filter = edit.text.strip()
        self.update()
        return True

    def pasted(self) -> None:
        self.state.filter = self.typing.text.strip() if self.typing is not None else self.state.filter
        self.update()

    def scrolled(self, lines: int) -> None:
        self.rows.move_by(lines)

    def clicked(self, widget: LinesView, x: int, y: int) -> None:
        """Sorts by the column whose title was clicked on; inverts the order where that is the column already."""
        if widget.id == "top" and y == 1 and (column := column_at(self._layout(), x)):
            if column == self.state.sort:
                self.command("I")
            else:
                self._sort_by(column)

    # Commands

    def run_command(self, id: str) -> None:
        self.state.moved = self.state.moved or (by_id(id).group == "move" and id not in ("back", "leave"))
        super().run_command(id)

    def do_step(self, lines: int) -> None:
        self.rows.move_by(lines)

    def do_page(self, pages: float) -> None:
        if abs(pages) == 1:
            self.rows.page(int(pages))
        else:
            self.rows.move_by(int(self.rows.size.height * pages))

    def do_first(self) -> None:
        self.rows.home()

    def do_last(self) -> None:
        self.rows.end()

    def do_open_spool(self) -> None:
        if (one := self.chosen) is not None:
            self.state.opening = one.target
            self.open_target(one.target)

    def opened(self, why_not: str = "") -> None:
        """Learns that the target is open, or why it is not."""
        self.state.opening = ""
        if why_not:
            self.show_notice(why_not)

    def waiting(self, target: str) -> None:
        """Learns that opening a target takes long."""
        if self.state.opening == target:
            self.show_notice(f"opening {escape(target)} … Esc gives up")

    def do_back(self) -> None:
        state = self.state
        if state.opening:
            state.opening = ""
            self.open_target("")
        elif state.filter:
            state.filter = ""
        else:
            state.troubled = False
        self.update()

    def do_filter(self) -> None:
        self.typing = LineEdit(self.state.filter)
        self.paint()

    def do_problems(self) -> None:
        self.state.troubled = not self.state.troubled
        self.update()

    def do_sort_menu(self) -> None:
        self.open_screen(SortScreen(self.session, tuple(SORTS.items()), self.state.sort), self._sort_by)

    def do_sort(self, step: int) -> None:
        sorts = list(SORTS)
        self._sort_by(sorts[(sorts.index(self.state.sort) + step) % len(sorts)])
        self.show_notice(f"sorted by {SORTS[self.state.sort]}")

    def do_sort_invert(self) -> None:
        self.state.descending = not self.state.descending
        self.update()

    def _sort_by(self, column: str | None) -> None:
        if column is not None:
            self.state.sort, self.state.descending = column, column not in _ASCENDING
            self.update()

    def do_freeze(self) -> None:
        self.state.frozen_at = self.now if self.state.frozen_at is None else None
        self.update()

    def do_look_again(self) -> None:
        self.spools.look_again()
        self.show_notice("looking again at all spools, and for new ones")

    def do_copy_path(self) -> None:
        if (one := self.chosen) is not None:
            path = escape(one.target)
            self.copy_text(path)
            self.show_notice(f"copied: {path}")

    def do_palette(self) -> None:
        from .palette import PaletteScreen

        self.open_screen(PaletteScreen(self.session, self.context()), self._choose)

    def _choose(self, id: str | None) -> None:
        if id is None:
            return
        command, context = by_id(id), self.context()
        reason = command.why_not(context) if context.view in command.views else only_in(command, context)
        if reason is not None:
            self.show_notice(reason)
        else:
            self.run_command(id)
