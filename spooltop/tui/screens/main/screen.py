"""The main screen: the eight views, and a message or a source in full on top of one of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Key, Resize
from textual.message import Message

from spooltop.model.operations.plan import Result
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action

from ...availability import READING, own_command
from ...commands import KeyCommand, by_id, only_in
from ...context import LISTS, CommandContext, View
from ...draw.panels import LISTS_WIDE, rows_below
from ...draw.spans import Line
from ...messages import Found
from ...session import Session
from ...snapshot_thread import deliver
from ...widgets import LinesView, VirtualList
from ..base import LineEdit, TableScreen
from . import commands, filtering, layout, navigation, updates
from .state import MainState

HELD = 0.05
"""Seconds for which the last view stays on the terminal while the list of the next one is made."""


class MainScreen(TableScreen[None]):
    """Shows ``state`` in its widgets and hands events to the modules that work on it. A command's handler is the function of that
    name in ``navigation`` or ``commands``, called with this screen as their ``MainView``; otherwise a method, as on any
    screen."""

    class NoticePosted(Message):
        """A notice from another thread."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    session: Session

    def __init__(self, session: Session, state: MainState) -> None:
        super().__init__(session)
        self.state = state
        self._answered_at = 0.0
        """The time (of the event clock) at which the reason was painted why the last plan was not opened."""

    def body(self) -> ComposeResult:
        glyphs, colour = self.session.glyphs, self.session.options.colour
        yield LinesView(glyphs=glyphs, colour=colour, id="top")
        yield LinesView(glyphs=glyphs, colour=colour, id="page")
        with Container(id="lists"):
            rows: VirtualList[Row] = VirtualList(
                partial(layout.draw_row, self.state), lambda row: row.key, glyphs=glyphs, colour=colour, id="rows"
            )
            rows.can_focus = False
            with Container(id="list"):
                yield rows
                yield LinesView(self._draw_below, glyphs=glyphs, colour=colour, id="below")
            yield LinesView(self._draw_detail, glyphs=glyphs, colour=colour, id="detail")
        yield LinesView(glyphs=glyphs, colour=colour, id="bottom")

    def on_mount(self) -> None:
        navigation.show(self, self.state.root)

    def handler(self, command: KeyCommand) -> Callable[[], object]:
        for module in (navigation, commands):
            if (function := getattr(module, command.handler, None)) is not None:
                return partial(function, self, *command.args)
        return super().handler(command)

    def ignores(self, event: Key) -> bool:
        """True for a key that confirms a plan and was typed with the key that opens one: it is meant for that plan, even where
        none has come, and copies nothing."""
        wanted = self.state.wanted
        if wanted.then or wanted.once_read:
            return self.refuse_confirming(event, "no plan is open yet")
        return event.time < self._answered_at and self.refuse_confirming(event, f"no plan was opened; {self.message}")

    def command(self, key: str) -> None:
        self.state.wanted.once_read = ""
        super().command(key)

    def _answered(self) -> None:
        self._answered_at = Message().time

    def say_why_not(self, command: KeyCommand, reason: str) -> None:
        if command.dangerous:
            self._answered_at = inf  # until it is painted
            self.call_after_refresh(self._answered)
            if reason.endswith(READING):
                self.state.wanted.once_read = command.id
                reason = f"{reason}; the plan opens then"
        action = command.args[0] if command.args else None
        own = own_command(self.context(), action) if isinstance(action, Action) else ""
        if own:
            self.copy_text(own)
        super().say_why_not(command, f"{reason} (copied)" if own else reason)

    def choose(self, id: str) -> None:
        """Runs a command chosen in the palette, or says why it is not available."""
        command, context = by_id(id), self.context()
        reason = command.why_not(context) if context.view in command.views else only_in(command, context)
        if reason is not None:
            self.show_notice(reason)
        else:
            self.run_command(id)

    # The widgets, as the modules of this screen see them

    @property
    def rows(self) -> VirtualList[Row]:
        return self.query_one("#rows", VirtualList)

    @property
    def row(self) -> Row | None:
        """The row under the cursor of the list in front."""
        return self.rows.cursor_item if self.state.root in LISTS else None

    def lines(self, name: str) -> LinesView:
        """The widget with this id."""
        return self.query_one(f"#{name}", LinesView)

    @property
    def in_front(self) -> bool:
        """True where the screen is composed and no panel hides it."""
        return self.ready and self.app.screen is self

    def context(self) -> CommandContext:
        return self.state.context(self.row, len(self.rows) if self.state.root in LISTS else 0)

    def paint(self, *, rows: bool = True) -> None:
        if self.in_front:
            layout.paint(self, rows=rows)

    def move_clock(self, at: float) -> None:
        """Shows the time of a look that found nothing new."""
        layout.move_clock(self, at)

    def shape(self) -> None:
        """Shows the widgets of the view in front: list and detail side by side from 120 columns on."""
        self.query_one("#lists").display = self.state.listed
        self.query_one("#page").display = not self.state.listed
        lists = self.query_one("#lists")
        width, height = self.window_size
        wide = width >= LISTS_WIDE
        box = self.state.box if self.session.control.layout != "mail" else None
        lists.set_class(wide, "-wide")
        below, rows = self.query_one("#below"), rows_below(box, width, height)
        below.display = rows > 0
        below.styles.height = rows
        lists.set_class(not wide and height < 12, "-none")
        lists.set_class(not wide and 12 <= height < 20, "-low")

    def hold(self) -> None:
        """Leaves the last view on the terminal until ``settle``, for a moment at most: a list that comes soon is drawn once."""
        if (terminal := self.session.terminal()) is not None:
            terminal.hold(HELD)

    def settle(self) -> None:
        """Shows the view in front as soon as it is drawn."""
        if (terminal := self.session.terminal()) is not None:
            self.call_after_refresh(terminal.release)

    def _draw_detail(self, width: int, height: int) -> list[Line]:
        return layout.draw_detail(self.state, self.row, width, height, self.window_size)

    def _draw_below(self, width: int, height: int) -> list[Line]:
        return layout.draw_below(self.state, width, height)

    # Events from the threads

    def post_notice(self, words: str) -> None:
        """Shows a notice; may be called in any thread."""
        deliver(self, self.NoticePosted(words))

    def on_main_screen_notice_posted(self, message: NoticePosted) -> None:
        self.show_notice(message.words)

    def take(self, found: Found) -> None:
        updates.take(self, found)

    def stale(self, waited: float | None, at: str = "") -> None:
        """Shows that a look has not finished for this many seconds (None: it has); ``at`` is what it waits for."""
        if self.state.times.set_stale(waited, f"{at or 'a look'} does not answer"):
            self.paint()

    def after_plan(self, result: Result | None) -> None:
        """Called after a plan was left. With a result, the marked messages are done."""
        state = self.state
        if result is not None:
            for one in state.lists.values():
                one.marks.clear()
            self.rows.set_marks(frozenset())
            if state.overlay is View.MESSAGE:  # it is elsewhere now
                state.overlay = None
                self.shape()
        self.paint()

    # Keys and the mouse

    @property
    def edited(self) -> LineEdit | None:
        return self.state.filter_input.edit if self.state.filter_input is not None else None

    def pasted(self) -> None:
        filtering.apply_filter(self)

    def typed(self, event: Key) -> bool:
        return filtering.type_filter(self, event)

    def scrolled(self, lines: int) -> None:
        navigation.step(self, lines)

    def clicked(self, widget: LinesView, x: int, y: int) -> None:
        if widget.id != "top":
            super().clicked(widget, x, y)
        elif y == 1 and self.state.sort is not None and self.state.overlay is None:
            self._sort_at(x)

    def _sort_at(self, x: int) -> None:
        """Sorts by the column whose title is at cell ``x``; inverts the order where that is the column already."""
        width = self.rows.size.width if self.state.listed else self.window_size[0]
        present, column = self.state.sort, layout.sort_column_at(self.state, x, width)
        if present is None or column is None:
            return
        if column == present.column:
            self.command("I")
        else:
            commands.sort_by(self, column)

    def on_virtual_list_rows_wanted(self, message: VirtualList.RowsWanted) -> None:
        self.state.wanted.window = (message.start, message.end)
        updates.request(self)

    def on_virtual_list_activated(self, message: VirtualList.Activated) -> None:
        self.command("enter")

    def on_virtual_list_resized(self, message: VirtualList.Resized) -> None:
        self.paint()

    def on_virtual_list_cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        chosen = self.state.list_state
        if chosen is None or self.rows.generation < 0:
            return  # a list that was left, or one that was not read yet
        chosen.cursor, chosen.index = message.key, message.index
        updates.request(self)
        self.paint(rows=False)  # the list has painted itself

    def on_resize(self, event: Resize) -> None:
        self.shape()  # the rest is done by the base, whose handler Textual calls as well
