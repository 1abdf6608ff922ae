"""The main screen: its widgets and how its state is drawn into them, what the threads found for it, and its commands. Every paint
shows the same snapshot everywhere."""

from __future__ import annotations

from functools import partial
from math import inf

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import Container
from textual.events import Key
from textual.message import Message

from spooltop.cursors.draw import cursor_detail, cursor_table
from spooltop.cursors.form import SetCursorScreen
from spooltop.locks.draw import LOCKS_HIGH, LOCKS_WIDE, lock_panels, lock_table
from spooltop.model import ASIDE, Action, Box, Problem, Result, Row, Selection, Snapshot, Sort, SpooltopError, escape, escape_text

from ..commands import BOX_OF, LISTS, READING, ROOTS, SORTED, TABS, CommandContext, KeyCommand, View, by_id, footer, own_command
from ..draw.elements import BLANK, Line, Lines, Style, dim, faded, join, point_out, restyle, shown, when, within
from ..draw.header import header, notice_lines, problem_lines
from ..draw.lists import (
    COLUMNS,
    MARKED,
    UNMARKED,
    columns_for,
    columns_of,
    consumer_header,
    consumer_lines,
    consumer_name,
    detail,
    fitting,
    list_header,
    list_width,
    message_lines,
    nearest_sort,
    row_line,
    title_line,
)
from ..draw.panels import LISTS_WIDE, below_list, beside_list, overview, rows_below
from ..messages import (
    NOTHING_SEEN,
    ClockMoved,
    ConsumersRead,
    Found,
    KeysRead,
    ListAdvanced,
    LookFailed,
    MatchFound,
    Page,
    PayloadRead,
    RowsRead,
    Search,
    SnapshotTaken,
)
from ..threads import deliver
from ..widgets import LinesView, VirtualList
from .base import ALWAYS, LineEdit, ListScreen, Session, footer_line, tab_line
from .changes import InjectScreen, OperationsScreen, SaveScreen
from .follow import FollowScreen, HoldersScreen
from .main_state import FORMATS, MainState
from .plan import PlanScreen

TITLES = {View.NEW: "New", View.CLAIMS: "Claims", View.TMP: "Tmp", View.ASIDE: "Aside"}
_BANNER_HEIGHT = 16
"""Window height from which on the banner has a line of its own below the views; else it replaces them."""
EMPTY = {
    Box.NEW: "nothing waits in new", Box.CUR: "nothing is claimed", Box.TMP: "nothing is being written",
    Box.HELD: "nothing is held", Box.REJECTED: "nothing was rejected", Box.TRASH: "nothing is in the trash",
    Box.DELIVERED: "nothing was delivered",
}  # fmt: skip
HELD = 0.05
"""Seconds at most for which the last view stays on the terminal while the list of the next one is made, until ``settle``: a list
that comes soon is drawn once."""
_SOON = 5.0
"""Seconds that are shown for a look that has lasted less than ten."""
MUTED_FOR = 3600.0
"""Seconds for which m mutes a source."""


class MainScreen(ListScreen):
    """The eight views, and a message or a source in full on top of one of them. Takes what the threads found into ``state``,
    requests what is shown next, and has the handlers of the commands. None of them changes the spool."""

    session: Session
    _answered_at = 0.0
    """The time (of the event clock) at which the reason was painted why the last plan was not opened."""

    def __init__(self, session: Session, state: MainState) -> None:
        super().__init__(session)
        self.state = state

    def body(self) -> ComposeResult:
        options = self.session.options
        yield LinesView(options, "top")
        yield LinesView(options, "page")
        with Container(id="lists"):
            with Container(id="list"):
                yield VirtualList(self._draw_row, lambda row: row.key, options, "rows")
                yield LinesView(options, "below", self._draw_below)
            yield LinesView(options, "detail", self._draw_detail)
        yield LinesView(options, "bottom")

    @property
    def row(self) -> Row | None:
        """The row under the cursor of the list in front."""
        return self.rows.item if self.state.root in LISTS else None

    @property
    def in_front(self) -> bool:
        """True where the screen is composed and no panel hides it."""
        return self.ready and self.app.screen is self

    def context(self) -> CommandContext:
        return self.state.context(self.row, self.rows.length if self.state.root in LISTS else 0)

    def shape(self) -> None:
        """Shows the widgets of the view in front: list and detail side by side from 120 columns on."""
        lists = self.query_one("#lists")
        lists.display = self.state.listed
        self.query_one("#page").display = not self.state.listed
        width, height = self.window_size
        wide = width >= LISTS_WIDE
        box = self.state.box if self.session.control.layout != "mail" else None
        lists.set_class(wide, "-wide")
        below, rows = self.query_one("#below"), rows_below(box, width, height)
        below.display = rows > 0
        below.styles.height = rows
        lists.set_class(not wide and height < 12, "-none")
        lists.set_class(not wide and 12 <= height < 20, "-low")

    def settle(self) -> None:
        """Shows the view in front as soon as it is drawn."""
        if (terminal := self.session.terminal()) is not None:
            self.call_after_refresh(terminal.release)

    def paint(self, *, rows: bool = True) -> None:
        """Shows the state as it is now. ``rows`` False: the rows of a list are up to date."""
        if not self.in_front:
            return
        context = self.context()
        width, height = self.window_size
        self.lines("top").show(self._top(context, width))
        last = self._bottom(context, width)
        self.lines("bottom").show_all(last)
        if context.view in LISTS:
            self.rows.empty = dim(f"   {self._why_empty()}")
            if rows:
                self.rows.tick()
            self.lines("detail").redraw()
            self.lines("below").redraw()
        else:
            self.lines("page").show(self._page(context, width, height - 2 - len(last)))

    def _top(self, context: CommandContext, width: int) -> Lines:
        """The lines above a view, with the time of the last look: that of the snapshot on the screen, or of one that found
        nothing new."""
        state = self.state
        chosen, box, snapshot, page = state.here, state.box, state.snapshot, state.page
        moment = state.moment
        if state.moved_to > snapshot.taken_at:
            snapshot = snapshot.replace(observation=snapshot.observation.replace(taken_at=state.moved_to))
        if context.view is View.CONSUMERS and snapshot is not NOTHING_SEEN:
            return consumer_header(
                snapshot, state.consumer_list, context.rows, width, moment, sort=state.here.sort, filter=state.filter
            )
        if context.view not in LISTS or box is None:
            return header(snapshot, width, self.session.control.target, moment)
        if snapshot is NOTHING_SEEN:
            return [join(" looking for the first time…"), BLANK]
        mail = snapshot.observation.is_mail
        title = "Read mail" if mail and state.root is View.CLAIMS else TITLES[state.root]
        if state.root is View.ASIDE:
            title += f" {box}"
        if isinstance(chosen.scope, Problem):
            title += f" › {chosen.scope.code}"
        elif chosen.scope is not None:
            title += f" › {consumer_name(chosen.scope)}"
        elif chosen.problems_only:
            title += " › problems only"
        held = snapshot.observation.boxes.get(box)
        total = held.count if held is not None else None
        pending = page is None or page.query != state.query
        length = None if held is not None and total is None and not self.rows.length else self.rows.length
        if pending:
            length = None if chosen.filter or chosen.selection is not None else total
        columns = columns_for(box, self.rows.size.width or width, times=moment.times, mail=mail)
        head = list_header(
            snapshot, title, length, width, moment, sort=None if mail else chosen.sort, columns=columns,
            marked=len(chosen.marks), complete=page is None or page.complete, filter=chosen.filter,
            total=total, pending=pending, share=state.share,
            ordered_over=None if page is None else page.ordered_over,
        )  # fmt: skip
        return [head, title_line(columns, chosen.sort)]

    def column_at(self, x: int) -> str | None:
        """The sort column whose title is nearest to cell ``x`` of the list; None where nothing can be sorted."""
        state = self.state
        if state.front not in SORTED or state.snapshot is NOTHING_SEEN or state.snapshot.observation.is_mail:
            return None
        times = state.moment.times
        if state.box is None:
            columns = fitting(columns_of(state.consumer_list), list_width(self.window_size[0]), times=times)
        else:
            columns = columns_for(state.box, self.rows.size.width, times=times)
        return nearest_sort(columns, x) or None

    def _why_empty(self) -> str:
        """The text in place of the rows of an empty list."""
        state = self.state
        chosen, box, snapshot = state.here, state.box, state.snapshot
        if box is None or snapshot is NOTHING_SEEN or state.page is None:
            return "…"
        held = snapshot.observation.boxes.get(box)
        if held is not None and held.error:
            return f"{shown(held.error)}; there is nothing to list"
        if held is not None and held.count is None and held.note:
            return f"not visible: {shown(held.note)}"
        if chosen.filter:
            return f"nothing matches {shown(chosen.filter)}; Esc clears the filter"
        if isinstance(chosen.scope, Problem):
            return "none of its messages are left; Esc goes back"
        if chosen.scope is not None:
            return "it holds no claim now; Esc goes back"
        if chosen.problems_only:
            return "nothing here is dead or abandoned; ! shows all"
        return EMPTY[box] + ("; 7 shows the next box" if state.root is View.ASIDE else "")

    def _draw_detail(self, width: int, height: int) -> Lines:
        """The row under the cursor, next to or below its list; its widget asks for it again when it gets a size."""
        state, row, window = self.state, self.row, self.window_size
        read, snapshot, moment = state.payload_of(row), state.snapshot, state.moment
        if state.panelled is not None and window[0] >= LISTS_WIDE:
            roomy = rows_below(state.panelled, *window) > 0
            lines = beside_list(row, read, snapshot, state.panelled, width, height, moment, roomy=roomy)
            return faded(lines, moment)
        return detail(row, read, width, height, moment=moment, worked=snapshot.rates.worked)

    def _draw_below(self, width: int, height: int) -> Lines:
        """The panels below a list."""
        state = self.state
        if state.panelled is None:
            return []
        return faded(below_list(state.snapshot, state.panelled, width, height), state.moment)

    def _draw_row(self, row: Row, width: int, selected: bool, marked: bool) -> Line:
        state, moment = self.state, self.state.moment
        columns = columns_for(state.box or Box.NEW, width, times=moment.times, mail=state.snapshot.observation.is_mail)
        line = row_line(
            row, columns, moment, sign=MARKED if marked else UNMARKED, selected=selected, ends=state.ends,
            texts=state.filter_texts,
        )
        return restyle(line, Style.DIM) if state.stale_for is not None and not selected else line

    def _page(self, context: CommandContext, width: int, height: int) -> Lines:
        state = self.state
        snapshot, moment, chosen = state.snapshot, state.moment, state.place(context.rows)
        if snapshot is NOTHING_SEEN or state.root is View.OVERVIEW:
            if state.all_problems and snapshot is not NOTHING_SEEN:
                return problem_lines(snapshot, width, height, chosen=chosen)
            return overview(snapshot, state.log.newest(moment.now), width, height, moment, chosen=chosen)
        if context.view is View.MESSAGE:
            if (row := self.row) is None:
                return [join(" the message is no longer there")]
            payload = state.payload_of(row)
            lines, state.scroll = message_lines(row, payload, width, height, scroll=state.scroll, moment=moment)
            return lines
        if context.view is View.CURSOR and context.cursor is not None:
            return cursor_detail(context.cursor, snapshot, width, height, moment, chosen=state.lists[View.CURSOR].index)
        if state.root is View.CONSUMERS:
            return consumer_lines(
                snapshot, state.consumer_list, state.consumers, width, height, moment, chosen=chosen, filter=state.filter
            )
        if state.filter and not context.rows:
            return [dim(f"   nothing matches {shown(state.filter)}; Esc clears the filter")]
        snapshot = state.filtered
        if state.root is View.CURSORS:
            lines = cursor_table(snapshot, width, height, moment, chosen=chosen)
        else:
            framed = width >= LOCKS_WIDE and height >= LOCKS_HIGH and bool(snapshot.observation.locks)
            lines = (lock_panels if framed else lock_table)(snapshot, width, height, chosen=chosen)
        if lines:
            return [point_out(line, state.filter_texts) for line in lines]
        return [join(" no lock file was found in the spool or next to it")]

    def _bottom(self, context: CommandContext, width: int) -> Lines:
        """The last lines: a notice, the filter or the keys; then the views. On the Overview one line serves for both. A notice
        has as many lines as it needs until the next key, because its end often says what to do."""
        state = self.state
        notice = self._notice_lines(width)
        keys = footer(context)
        views = tab_line(state.root, keys, width, context.absent)
        banner = self.session.options.banner
        line = join(Style.STRONG(banner)) if banner else views
        tabs = [views, line] if banner and self.window_size[1] >= _BANNER_HEIGHT else [line]
        if context.view in ROOTS - {View.OVERVIEW}:
            if len(notice) > 1:
                return notice
            return [*(notice or [footer_line([entry for entry in keys if entry[0] not in ALWAYS], width)]), *tabs]
        return notice or (tabs if state.overlay is None else [footer_line(keys, width)])

    def _notice_lines(self, width: int) -> Lines:
        state = self.state
        if self.typing is not None:
            page, counted = state.page, f"{self.context().rows:,}"
            if state.box is not None:
                if page is None or page.query != state.query:
                    counted = "…"
                elif page.share is not None:
                    counted = f"≥{counted} …"
            hint = state.parse(self.typing.text).hint or f"{counted} match · Enter keeps · Esc clears"
            return [join(Style.KEY(" /"), shown(self.typing.text), Style.KEY("█"), f"  {shown(hint)}")]
        stale = f"{state.stale_why}; this is as of the last look" if state.stale_for and state.root in LISTS else ""
        words, style = (self.message, Style.STRONG) if self.message else (state.failed or stale, Style.BAD)
        if not words and state.filter and state.box is None and state.overlay is None:
            words, style = f"/{state.filter}   Esc clears the filter", Style.NORMAL
        return notice_lines(words, width, style)

    def on_mount(self) -> None:
        self.do_show(self.state.root)

    # What the threads found

    def take(self, found: Found) -> None:
        """Takes what a thread found. Counts and lists on the screen come from one look: they are taken together."""
        state = self.state
        if isinstance(found, SnapshotTaken):
            state.log.take(found.snapshot, self.session.results)
        if not self.ready:  # not composed yet, or removed already: there is no list for rows
            if isinstance(found, SnapshotTaken):
                state.snapshot = found.snapshot
            return
        match found:
            case SnapshotTaken():
                self._take_snapshot(found)
            case ClockMoved():
                if state.frozen_at is None:
                    state.moved_to = found.at
                    if self.in_front:
                        self.lines("top").show(self._top(self.context(), self.window_size[0]))
            case RowsRead() if _same(state.page, found.page):
                state.page = found.page  # the cursor moved to rows that are shown already
            case RowsRead():
                self._take_page(found.page)
                self.paint()
            case ListAdvanced():
                state.advanced = found
                self.paint(rows=False)
            case KeysRead():
                self._take_keys(found)
            case ConsumersRead():
                self._take_consumers(found)
            case MatchFound():
                self._take_match(found)
            case PayloadRead():
                state.payload = found
                self.paint(rows=False)
            case LookFailed():
                state.failed = found.error
                self.paint()
                self.settle()

    def _take_snapshot(self, found: SnapshotTaken) -> None:
        state, page = self.state, found.page
        state.failed = ""
        if state.frozen_at is None:
            self._keep_write(found.snapshot)
            state.snapshot, state.moved_to = found.snapshot, 0.0
        elif page is None or (state.page is not None and state.page.query == page.query and state.page.share is None):
            return  # the page was not requested since the display was frozen
        if page is not None:
            self._take_page(page)
        self.paint()

    def _keep_write(self, snapshot: Snapshot) -> None:
        """Keeps the chosen write of a cursor's history chosen when newer ones are added above; at the top the newest is chosen.
        """
        chosen = self.state.lists[View.CURSOR]
        old = self.context().cursor if self.state.overlay is View.CURSOR else None
        if old is None or not 0 < chosen.index < len(old.history):
            return
        new = snapshot.cursor(old.source, old.file)
        if new is None:
            return
        at = old.history[chosen.index].at
        chosen.index = next((i for i, write in enumerate(new.history) if write.at == at), len(new.history) - 1)

    def _take_page(self, page: Page) -> None:
        if page.query != self.state.query:
            return  # for a view or a filter that was left meanwhile
        if page.share is None and self._overtaken(page):
            return  # the page around the row chosen meanwhile is requested already
        self.state.take_page(page)
        self.settle()
        self.rows.set_list(
            page.length, page.generation, cursor=page.anchor_at, anchor=page.anchor, start=page.start, items=page.rows,
            passing=page.share is not None,
        )  # fmt: skip
        if page.share is None and (once_read := self.state.once_read) and self.in_front:
            self.state.once_read = ""
            self.choose(once_read)

    def _overtaken(self, page: Page) -> bool:
        """True where the cursor was moved, while the list was incomplete, to a row that the complete list's ``page`` lacks."""
        shown, key = self.state.page, self.rows.key
        if shown is None or shown.share is None or key is None or key != self.state.here.cursor:
            return False
        return key != page.anchor and all(row.key != key for row in page.rows)

    def _take_keys(self, found: KeysRead) -> None:
        state = self.state
        marks, then = state.lists[found.query.box].marks, state.then
        state.marking, state.then = None, ""
        if found.query == state.query and state.frozen_at is None:
            marks.update(dict.fromkeys(found.keys))
            self.rows.set_marks(marks)
            self.show_notice(f"{len(marks):,} marked")
            if then and self.in_front:
                self.choose(then)

    def _take_consumers(self, found: ConsumersRead) -> None:
        state = self.state
        if state.frozen_at is not None and state.consumer_list is not None:
            return
        state.lists[View.CONSUMERS].index = state.consumer_place
        state.consumer_list = found.found
        if state.root is View.CONSUMERS:
            self.paint()
            self.settle()

    def _take_match(self, found: MatchFound) -> None:
        if found.query != self.state.query or found.search is not self.state.search:
            return  # for a list that was left meanwhile, or not the last search
        if found.index is None:
            self.show_notice(f"nothing {'below' if found.search.step > 0 else 'above'} matches {found.search.text}")
        else:
            self.rows.go_to(found.index)

    def do_next_match(self, step: int) -> None:
        """Goes to the next row that matches the last filter (``step`` -1: the previous one)."""
        state = self.state
        if not state.filter:
            state.search = Search(state.search.number + 1 if state.search is not None else 1, state.last_filter, step)
            self.request()
            return
        self._move(step, f"match of {state.filter}")

    def _move(self, step: int, what: str) -> bool:
        """Moves the cursor of the list; False where it cannot, which is said: this is the first or last of ``what``."""
        here = self.rows.cursor
        self.rows.move_by(step)
        if self.rows.cursor != here:
            return True
        self.show_notice(f"this is the {'last' if step > 0 else 'first'} {what}")
        return False

    def refine(self, **changes: object) -> None:
        """Sets another filter, order or selection of the list in front: marks stay, the cursor keeps its key."""
        state = self.state
        state.lists[state.box or state.root] = replace(state.here, **changes)
        self.request()
        self.paint()

    def set_sort(self, sort: Sort) -> None:
        """Sorts the list of the view in front."""
        self.refine(sort=sort)

    def request(self) -> None:
        """Requests the list in front from the snapshot thread, with the place of the cursor in it (the last one, in a list just
        returned to)."""
        self.session.snapshot_thread.request(self.state.request(self.row))

    def stale(self, waited: float | None, at: str) -> None:
        """Shows that a look has not finished for this many seconds (None: it has); ``at`` is what it waits for."""
        state, stale_for = self.state, None if waited is None else float(int(waited) // 10 * 10) or _SOON
        if stale_for != state.stale_for:
            state.stale_for, state.stale_why = stale_for, f"{at or 'a look'} does not answer"
            self.paint()

    # Keys and the mouse

    def ignores(self, event: Key) -> bool:
        """True for a key that confirms a plan and was typed with the key that opens one: it is meant for that plan, even where
        none has come, and copies nothing."""
        if self.state.then or self.state.once_read:
            return self.refuse_confirming(event, "no plan is open yet")
        return event.time < self._answered_at and self.refuse_confirming(event, f"no plan was opened; {self.message}")

    def command(self, key: str) -> None:
        self.state.once_read = ""
        super().command(key)

    def _note_refusal(self) -> None:
        self._answered_at = Message().time

    def say_why_not(self, command: KeyCommand, reason: str) -> None:
        if command.dangerous:
            self._answered_at = inf  # until it is painted
            self.call_after_refresh(self._note_refusal)
            if reason.endswith(READING):
                self.state.once_read = command.id
                reason = f"{reason}; the plan opens then"
        own = own_command(self.context(), Action(str(command.does[1]))) if command.handler == "do_plan" else ""
        if own:
            self.app.copy_to_clipboard(own)
        super().say_why_not(command, f"{reason} (copied)" if own else reason)

    @property
    def sort(self) -> Sort:
        return self.state.here.sort

    def on_virtual_list_rows_wanted(self, message: VirtualList.RowsWanted) -> None:
        self.state.window = (message.start, message.end)
        self.request()

    def on_virtual_list_resized(self) -> None:
        self.paint()

    def on_virtual_list_cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        chosen = self.state.here
        if chosen.box is None or self.rows.generation < 0:
            return  # a list that was left, or one that was not read yet
        chosen.cursor, chosen.index = message.key, message.index
        self.request()
        self.paint(rows=False)  # the list has painted itself

    def on_resize(self) -> None:
        self.shape()  # the rest is done by the base, whose handler Textual calls as well

    # The filter, while it is typed

    def do_filter(self) -> None:
        """Opens the filter of the list in front; on the Overview that of New."""
        if self.state.root is View.OVERVIEW:
            self.do_show(View.NEW)
        elif self.state.overlay is not None:
            self.state.overlay = None
            self.shape()
        self.read_line(LineEdit(self.state.filter), self._filter, self._filtered)
        self.paint()

    def _filter(self, text: str) -> None:
        """Filters by the part of the text that can be parsed; the error names the rest. ``n`` uses this filter, even after Esc
        cleared it."""
        state, found = self.state, str(self.state.parse(text))
        if state.box is not None:
            state.last_filter = found or state.last_filter
        self.refine(filter=found)

    def _filtered(self, text: str | None) -> None:
        if text is None:
            self.refine(filter="")
        elif error := self.state.parse(text).hint:
            self.show_notice(f"not filtered by all of it: {error}")
        self.paint()

    # Commands that show something else: moving, opening, going back, the views

    def do_show(self, root: View) -> None:
        """Shows one of the eight views; its list is as the user left it."""
        state = self.state
        state.root, state.overlay, state.scroll = root, None, 0
        self.typing = None
        self.shape()
        chosen = state.here
        if chosen.box is None:
            self.settle()
        else:
            if (terminal := self.session.terminal()) is not None:
                terminal.hold(HELD)
            self.rows.set_list(0, -1)
            self.rows.set_marks(chosen.marks)
            state.page = None
            state.window = (max(0, chosen.index - 60), chosen.index + 60)
        self.request()
        self.paint()

    def do_step(self, lines: int) -> None:
        state = self.state
        if state.overlay is View.MESSAGE:
            state.scroll = max(0, state.scroll + lines)
            self.paint()
        elif state.listed:
            self.rows.move_by(lines)
        else:
            context, chosen = self.context(), state.lists[state.front]
            length = len(context.cursor.history) if state.overlay and context.cursor is not None else context.rows
            here = state.consumer_place if state.front is View.CONSUMERS else chosen.index
            chosen.index = within(here + lines, length)
            if state.front is View.CONSUMERS and state.consumers:
                chosen.cursor = state.consumers[chosen.index].key
            self.paint()

    def do_page(self, pages: float) -> None:
        """Moves this many pages down, up where negative. A list is paged; half a page moves its cursor."""
        if self.state.listed:
            self.rows.page(pages)
        else:
            self.do_step(int((self.window_size[1] - 4) * pages))

    def do_step_message(self, step: int) -> None:
        """Opens the next message of the list (-1: the previous one)."""
        if self._move(step, "one in the list"):
            self.state.scroll = 0
            self.paint()

    def do_open(self) -> None:
        state, context = self.state, self.context()
        if context.problem is not None:
            self._open_problem(context.problem)
        elif self.row is not None:
            state.overlay, state.scroll = View.MESSAGE, 0
            self.shape()
            self.paint()
        elif state.root is View.LOCKS:
            self.run_command("who")
        elif state.root is View.CURSORS:
            state.overlay = View.CURSOR
            state.lists[View.CURSOR].index = 0
            self.paint()
        elif (consumer := context.consumer) is not None:
            chosen = state.lists[Box.CUR]
            chosen.scope, chosen.filter, chosen.problems_only = consumer, "", False
            state.lists[View.CONSUMERS].cursor = consumer.key
            self.do_show(View.CLAIMS)

    def _open_problem(self, problem: Problem) -> None:
        """Shows what a problem is about."""
        state = self.state
        root = next((root for root, box in BOX_OF.items() if box is problem.box), None)
        if problem.selection is not None and root is not None:
            chosen = state.lists[BOX_OF[root]]
            chosen.scope, chosen.filter, chosen.problems_only = problem, "", False
            self.do_show(root)
        elif problem.view in tuple(View):
            target = View(problem.view)
            if target is View.CURSORS and problem.subject is not None:
                sources = [cursor.source for cursor in state.cursors]
                for view in (View.CURSORS, View.LOCKS, View.CONSUMERS):
                    state.lists[view].filter = ""
                if problem.subject in sources:
                    state.lists[View.CURSORS].index = sources.index(problem.subject)
            self.do_show(target)

    def do_back(self) -> None:
        """Goes back one step: from what was opened, from the problem, the filter, the view."""
        state, chosen = self.state, self.state.here
        if state.overlay is not None:
            state.overlay = None
            self.shape()
            self.paint()
        elif chosen.scope is not None:
            root = View.OVERVIEW if isinstance(chosen.scope, Problem) else View.CONSUMERS
            chosen.scope = None
            self.do_show(root)
        elif state.filter:
            self.refine(filter="")
        elif chosen.problems_only:
            self.refine(problems_only=False)
        elif state.root is not View.OVERVIEW:
            self.do_show(View.OVERVIEW)
        elif state.all_problems or self.session.to_spools is None:
            state.all_problems = False
            self.paint()
        else:
            self.session.to_spools()

    def do_spools(self) -> None:
        """Leaves the target for the Spools view that it was opened from."""
        if self.session.to_spools is not None:
            self.session.to_spools()
        elif (reason := by_id("spools").why_not(self.context())) is not None:
            self.show_notice(reason)

    def do_show_aside(self) -> None:
        """Shows the messages set aside: the first of its boxes that is not empty; in the Aside view the next box."""
        state = self.state
        counts = state.snapshot.observation.boxes
        boxes = (*ASIDE, Box.DELIVERED) if Box.DELIVERED in counts else ASIDE
        if state.root is View.ASIDE:
            state.aside_box = boxes[(boxes.index(state.aside_box) + 1) % len(boxes)]
        else:
            state.aside_box = next((box for box in boxes if box in counts and counts[box].count), state.aside_box)
        self.do_show(View.ASIDE)

    def do_show_next(self, step: int) -> None:
        """Shows the view ``step`` places further right."""
        state = self.state
        there = [tab for tab in TABS if tab not in state.snapshot.observation.absent or tab == state.root]
        self.do_show(View(there[(there.index(state.root) + step) % len(there)]))

    # Commands that mark, filter, sort, copy, and open plans

    def do_plan(self, action: Action) -> None:
        """Opens the plan of an action on the selected messages; those that ``a`` is about to mark are awaited first."""
        state = self.state
        if state.marking is not None and state.marking == state.query and not state.then:
            state.then = action.value
            self.show_notice("marking all; the plan opens then")
            return
        state.marking, state.then = None, ""
        selection = self.selected()
        if selection is not None:
            if action is Action.PURGE and not selection.named and selection.older_than is None:
                # A problem is about all messages that it counts: with an explicit age none is left out because it is recent.
                selection = selection.replace(older_than=0.0)
            self.open_plan(action, selection)

    def open_plan(self, action: Action, selection: Selection) -> None:
        self.open_screen(PlanScreen(self.session, action, selection), self.after_plan)

    def selected(self) -> Selection | None:
        """The messages that an operation would act on: those of a problem, the marked ones, or the row under the cursor."""
        context, state, chosen = self.context(), self.state, self.state.here
        if state.root is View.OVERVIEW:
            return context.problem.selection if context.problem is not None else None
        if context.consumer is not None:
            return context.consumer.selection
        if chosen.marks and state.overlay is None:
            return Selection(box=chosen.box, keys=tuple(chosen.marks))
        row = self.row
        return Selection(box=chosen.box, keys=(row.key,)) if row is not None else None

    def do_empty_expired(self) -> None:
        """Opens the plan to delete the messages whose retention in the trash is over, whatever is marked."""
        trash = self.context().trash
        if trash is not None and trash.retention is not None:
            self.open_plan(Action.EMPTY, Selection(box=Box.TRASH, older_than=trash.retention))

    def do_unlock(self) -> None:
        """Opens the plan to remove the chosen lock; for a problem, all locks that it is about."""
        context = self.context()
        paths = [context.lock.path] if context.lock is not None else []
        if context.problem is not None:
            code, subject = context.problem.code, context.problem.subject
            paths = [path for path, found in context.snapshot.lock_problems.items() if found == code]
            if code == "ticket-orphan" and subject in paths:
                paths = [subject]
        self.open_plan(Action.UNLOCK, Selection(keys=tuple(paths)))

    def do_who(self) -> None:
        context = self.context()
        file = context.lock.path if context.lock is not None else context.cursor.file if context.cursor is not None else None
        if context.row is not None:
            self.open_screen(HoldersScreen(self.session, context.row.key, context.row.id))
        elif file is not None:
            self.open_screen(HoldersScreen(self.session, file, file))

    def do_follow(self) -> None:
        if self.row is not None:
            self.open_screen(FollowScreen(self.session, [self.row.id]))

    def do_save(self) -> None:
        if (row := self.row) is not None:
            self.open_screen(SaveScreen(self.session, row.key, row.id), lambda words: self.show_notice(words) if words else None)

    def do_set_cursor(self) -> None:
        if (cursor := self.context().cursor) is not None:
            self.open_screen(SetCursorScreen(self.session, cursor))

    def do_inject(self) -> None:
        self.open_screen(InjectScreen(self.session))

    def do_operations(self) -> None:
        self.open_screen(OperationsScreen(self.session))

    def do_mute(self) -> None:
        context = self.context()
        if context.cursor is None:
            return
        source, control, mutes = context.cursor.source, self.session.control, context.muted is None

        def done(end: float | SpooltopError) -> None:
            words = f"{escape(source)} is no longer muted"
            if isinstance(end, SpooltopError):
                words = str(end)
            elif mutes:
                until = when(end, self.state.moment.zone)
                words = f"{escape(source)} is muted until {until}: its problems are not shown; m unmutes it"
            self.show_notice(words)

        job = partial(control.mute, source, MUTED_FOR) if mutes else partial(control.unmute, source)
        self.session.worker.submit(job, partial(deliver, self, done))

    def do_mark(self) -> None:
        chosen, row = self.state.here, self.row
        if row is None:
            return
        if row.key in chosen.marks:
            del chosen.marks[row.key]
        else:
            chosen.marks[row.key] = None
        self.rows.set_marks(chosen.marks)
        self.rows.move_by(1)
        self.paint()

    def do_mark_all(self) -> None:
        state = self.state
        state.all_keys += 1
        state.marking, state.then = state.query, ""
        self.request()

    def do_unmark_all(self) -> None:
        marks = self.state.here.marks
        marks.clear()
        self.rows.set_marks(marks)
        self.paint()

    def sort_columns(self) -> dict[str, str]:
        """The columns that the list in front can be sorted by: their ids and their titles, left to right."""
        box = self.state.box
        of_consumers = columns_of(self.state.consumer_list)
        columns = of_consumers if self.state.root is View.CONSUMERS else COLUMNS[box] if box is not None else ()
        return {column.sort: column.title for column in columns if column.sort}

    def do_problems(self) -> None:
        state, chosen = self.state, self.state.here
        if chosen.box is None:
            state.all_problems = not state.all_problems
            self.paint()
        else:
            scope = None if isinstance(chosen.scope, Problem) else chosen.scope
            self.refine(problems_only=not chosen.problems_only, scope=scope)

    def do_freeze(self) -> None:
        state = self.state
        if state.frozen_at is None:
            state.frozen_at = state.now
        else:
            state.frozen_at = None
            state.snapshot = self.session.snapshot
            self.session.snapshot_thread.look_again()
        self.paint()

    def do_times(self) -> None:
        self.state.format = (self.state.format + 1) % len(FORMATS)
        self.show_notice(f"times are shown as {FORMATS[self.state.format][1]}")

    def do_copy(self) -> None:
        context, row, text = self.context(), self.row, ""
        if context.view is View.MESSAGE and row is not None:
            payload = self.state.payload_of(row).payload
            text = escape_text(payload.data) if payload is not None else ""
        elif row is not None:
            text = escape(row.id)
        elif context.problem is not None:
            text = context.problem.text
        elif context.cursor is not None:
            cursor = context.cursor
            text = f"{escape(cursor.source)} {escape(cursor.shown)} {cursor.verdict}: {cursor.evidence}"
        elif context.lock is not None:
            text = escape(context.lock.path)
        elif context.consumer is not None:
            text = escape(str(context.consumer.owner.pid or context.consumer.owner.name or context.consumer.token))
        if not text:
            self.show_notice("copy: it has not been read yet")
            return
        first, _, rest = text.partition("\n")
        self.copy(text, first + (f" … ({len(text):,} characters)" if rest else ""))

    def do_look_again(self) -> None:
        self.session.snapshot_thread.look_again()
        self.show_notice("looking again at everything")

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


def _same(old: Page | None, page: Page) -> bool:
    """True where two pages differ only in the key that the cursor was searched by."""
    return old is not None and page.replace(anchor=old.anchor, anchor_at=old.anchor_at) == old
