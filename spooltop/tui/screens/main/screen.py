"""The main screen: the seven views, and a message or a source in full on top of one of them."""

from __future__ import annotations

import datetime
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Key, Resize
from textual.message import Message

from spooltop.model.observation import Lock
from spooltop.model.plan import Result
from spooltop.model.protocols import Sort
from spooltop.model.row import Payload, Row
from spooltop.model.snapshot import Cursor, Snapshot
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from ...change_filter import Steady
from ...commands import by_id
from ...context import BOX_OF, LISTS, ORDER, ListState, Scene, View
from ...control_protocol import Control
from ...draw.locks import ranked
from ...draw.spans import Line
from ...threads.deliver import deliver
from ...threads.messages import Found, ListAdvanced, Page, PayloadRead, Search
from ...widgets import LinesView, VirtualList
from ..base import TableScreen
from ..input import LineEdit
from . import commands, layout, navigation, updates
from .filtering import FilterLine

__all__ = ["MainScreen"]


class MainScreen(TableScreen[None]):
    """``root`` is the view in front, ``over`` what was opened on it. Keeps for each list what was set in it (``ListState``)."""

    class Told(Message):
        """Something to say, from another thread."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, control: Control, view: View = View.OVERVIEW) -> None:
        super().__init__()
        self.control = control
        self.root = view
        self.over: View | None = None
        self.snapshot: Snapshot | None = None
        self.newest: Snapshot | None = None
        self.steady = Steady()
        self.clock_at = 0.0
        """The time that the header shows, epoch seconds."""
        self.frozen_at: float | None = None
        self.stale_for: float | None = None
        self.stale_why = ""
        self.failed = ""
        self.zone_index = 0
        self.chosen: dict[View, int] = {}
        self.scroll = 0
        self.states: dict[Box, ListState] = {box: ListState(box, ORDER.get(box, Sort())) for box in Box}
        self.aside_box = Box.HELD
        self.all_problems = False
        self.filter_line: FilterLine | None = None
        self.page: Page | None = None
        self.advanced: ListAdvanced | None = None
        self.payload: PayloadRead | None = None
        self.keys_wanted = 0
        self.sought = ""
        self.texts: dict[View, str] = {}
        """The filters of cursors and locks: a text that stands in what is shown of them."""
        self.search: Search | None = None
        self.range = (0, 60)

    def body(self) -> ComposeResult:
        glyphs, colour = self.owner.glyphs, self.owner.options.colour
        yield LinesView(glyphs=glyphs, colour=colour, id="top")
        yield LinesView(glyphs=glyphs, colour=colour, id="page")
        with Container(id="lists"):
            rows: VirtualList[Row] = VirtualList(self._draw_row, lambda row: row.key, glyphs=glyphs, colour=colour, id="rows")
            rows.can_focus = False
            yield rows
            yield LinesView(self._draw_detail, glyphs=glyphs, colour=colour, id="detail")
        yield LinesView(glyphs=glyphs, colour=colour, id="bottom")

    def on_mount(self) -> None:
        navigation.show(self, self.root)

    def run_command(self, id: str, key: str = "") -> None:
        handler = navigation.HANDLERS.get(id) or commands.HANDLERS.get(id)
        if handler is not None:
            handler(self, key)
        else:
            super().run_command(id, key)

    # What is in front

    @property
    def front(self) -> View:
        return self.over or self.root

    @property
    def box(self) -> Box | None:
        return self.aside_box if self.root is View.ASIDE else BOX_OF.get(self.root)

    @property
    def state(self) -> ListState | None:
        return self.states[self.box] if self.box is not None else None

    @property
    def rows(self) -> VirtualList[Row]:
        return self.query_one("#rows", VirtualList)

    @property
    def row(self) -> Row | None:
        return self.rows.cursor_item if self.root in LISTS else None

    @property
    def filter(self) -> str:
        """What narrows the list of the view in front."""
        return self.state.filter if self.state is not None else self.texts.get(self.root, "")

    def set_filter(self, text: str) -> None:
        """Narrows the list of the view in front."""
        if self.state is not None:
            self.narrow(self.state.box, filter=text)
            return
        self.texts[self.root] = text
        self.paint()

    @property
    def narrowed(self) -> Snapshot | None:
        """What was seen, but of cursors and locks, where they are in front, only those that have the text of their filter."""
        snapshot, text = self.snapshot, self.texts.get(self.root, "").lower()
        if snapshot is None or not text:
            return snapshot
        cursors = tuple(one for one in snapshot.cursors if text in f"{escape(one.source)} {one.verdict} {one.evidence}".lower())
        locks = tuple(one for one in snapshot.sight.locks if text in f"{escape(one.path)} {one.kind} {one.verdict}".lower())
        return replace(snapshot, cursors=cursors, sight=replace(snapshot.sight, locks=locks))

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        snapshot = self.narrowed if self.root is View.CURSORS else self.snapshot
        return snapshot.cursors if snapshot is not None else ()

    @property
    def locks(self) -> tuple[Lock, ...]:
        """As they are listed: troubled ones first."""
        snapshot = self.narrowed if self.root is View.LOCKS else self.snapshot
        return ranked(snapshot) if snapshot is not None else ()

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The zone that times are shown in; None: the local one."""
        return commands.ZONES[self.zone_index][2]

    @property
    def now(self) -> float:
        """The time that ages are shown for: that of the snapshot on the screen."""
        return self.snapshot.taken_at if self.snapshot is not None else self.control.now()

    def chosen_in(self, view: View, length: int) -> int:
        return max(0, min(self.chosen.get(view, 0), length - 1))

    def scene(self) -> Scene:
        snapshot, state = self.snapshot, self.state
        problems = snapshot.problems if snapshot is not None else ()
        cursors = self.cursors
        problem = cursor = lock = None
        length = 0
        if self.root is View.OVERVIEW:
            length = len(problems)
            problem = problems[self.chosen_in(View.OVERVIEW, length)] if problems else None
        elif self.root is View.CURSORS:
            length = len(cursors)
            cursor = cursors[self.chosen_in(View.CURSORS, length)] if cursors else None
        elif self.root is View.LOCKS:
            locks = self.locks
            length = len(locks)
            lock = locks[self.chosen_in(View.LOCKS, length)] if locks else None
        elif self.root in LISTS:
            length = len(self.rows)
        narrowed = bool(self.filter) or (state is not None and state.selection is not None)
        return Scene(
            view=self.front,
            snapshot=snapshot,
            box=self.box,
            row=self.row,
            rows=length,
            marked=len(state.marks) if state is not None and self.over is None else 0,
            filter=self.filter,
            sought=self.sought,
            narrowed=narrowed,
            problem=problem,
            cursor=cursor,
            lock=lock,
            depth=(self.over is not None) + narrowed + (self.root is not View.OVERVIEW) + self.all_problems,
            frozen=self.frozen_at is not None,
        )

    # What arrives, and what is wanted

    def tell(self, words: str) -> None:
        """Says a line; may be called in any thread."""
        deliver(self, self.Told(words))

    def on_main_screen_told(self, message: Told) -> None:
        self.say(message.words)

    def take(self, found: Found) -> None:
        """Something that a thread found."""
        updates.take(self, found)

    def want(self) -> None:
        """Tells the looker what is in front."""
        updates.want(self)

    def stale(self, waited: float | None, at: str = "") -> None:
        """A look has not come back for so many seconds (None: it has); ``at``: what it waits for, in words."""
        shown = None if waited is None else (waited if waited < 60 else waited // 10 * 10)
        if shown is not None:
            shown = float(int(shown) // 10 * 10) or 5.0
        if shown != self.stale_for:
            self.stale_for = shown
            self.stale_why = f"{at or 'a look'} does not answer"
            self.paint()

    def on_virtual_list_rows_wanted(self, message: VirtualList.RowsWanted) -> None:
        self.range = (message.start, message.end)
        self.want()

    def on_virtual_list_activated(self, message: VirtualList.Activated) -> None:
        self.command("enter")

    def clicked(self, widget: LinesView, x: int, y: int) -> None:
        state = self.state
        if widget.id != "top":
            super().clicked(widget, x, y)
        elif y == 1 and state is not None and self.over is None:
            self.sort_at(x)

    def sort_at(self, x: int) -> None:
        """Sorts by the column whose title stands there; the one that it is sorted by already is turned round."""
        state = self.state
        word = layout.sort_word(self, x)
        if state is None or word is None:
            return
        if word == state.sort.column:
            self.command("I")
        else:
            self.narrow(state.box, sort=replace(state.sort, column=word))

    def scrolled(self, lines: int) -> None:
        navigation.step(self, lines)

    def on_virtual_list_resized(self, message: VirtualList.Resized) -> None:
        self.paint()

    def on_virtual_list_cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        state = self.state
        if state is None or self.rows.generation < 0:
            return  # a list that was left, or one that was not read yet
        state.cursor, state.index = message.key, message.index
        self.want()
        self.paint(rows=False)  # the list has painted itself

    # What it looks like

    def on_resize(self, event: Resize) -> None:
        self.shape()
        super().on_resize(event)

    def shape(self) -> None:
        """Which widgets are there, and side by side from 120 columns on."""
        listing = self.root in LISTS and self.over is None
        self.query_one("#lists").display = listing
        self.query_one("#page").display = not listing
        lists = self.query_one("#lists")
        width, height = self.app.size
        wide = width >= 120
        lists.set_class(wide, "-wide")
        lists.set_class(not wide and height < 12, "-none")
        lists.set_class(not wide and 12 <= height < 20, "-low")

    def paint(self, *, rows: bool = True) -> None:
        if self.ready and self.app.screen is self:
            layout.main(self, rows=rows)

    def move_clock(self, at: float) -> None:
        """Shows the time of a look that found nothing new."""
        layout.clock(self, at)

    def _draw_row(self, row: Row, width: int, selected: bool, marked: bool) -> Line:
        return layout.row(self, row, width, selected, marked)

    def _draw_detail(self, width: int, height: int) -> list[Line]:
        return layout.detail_of(self, width, height)

    def payload_of(self, row: Row | None) -> tuple[Payload | None, str]:
        """What was read of a row so far, and why it could not be."""
        if row is None or self.payload is None or self.payload.key != row.key:
            return None, ""
        return self.payload.payload, self.payload.error

    # Typing

    def after_plan(self, result: Result | None) -> None:
        """A plan was left: with a result what was marked is dealt with."""
        if result is not None:
            for state in self.states.values():
                state.marks.clear()
            self.rows.set_marks(frozenset())
            if self.over is View.MESSAGE:  # it stands elsewhere now
                self.over = None
                self.shape()
        self.paint()

    def choose(self, id: str) -> None:
        """A command chosen in the palette: does it, or says why not."""
        command = by_id(id)
        reason = command.why_not(self.scene())
        if reason is not None:
            self.say(reason)
        else:
            self.run_command(id)

    @property
    def edited(self) -> LineEdit | None:
        return self.filter_line.edit if self.filter_line is not None else None

    def pasted(self) -> None:
        if self.filter_line is not None:
            self.filter_line.apply(self)

    def typed(self, event: Key) -> bool:
        return self.filter_line is not None and self.filter_line.typed(self, event)

    def narrow(self, box: Box, **changes: object) -> None:
        """Another filter, order or selection of a list: marks stay, the cursor keeps its key."""
        self.states[box] = replace(self.states[box], **changes)  # type: ignore[arg-type]
        self.want()
        self.paint()
