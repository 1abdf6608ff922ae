"""The widgets of the main screen, and how its state is drawn into them. Every paint shows the same snapshot everywhere."""

from __future__ import annotations

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import Container

from spooltop.cursors.draw import cursor_detail, cursor_table
from spooltop.locks.draw import LOCKS_HIGH, LOCKS_WIDE, lock_panels, lock_table
from spooltop.model.vocabulary import Box, Row

from ..commands import footer
from ..context import LISTS, CommandContext, View
from ..draw.consumers import columns_of, consumer_header, consumer_lines, consumer_name, list_width
from ..draw.detail import detail, message_lines
from ..draw.header import header, is_mail, notice_lines
from ..draw.lists import Moment, columns_for, fitting, list_header, row_line, title_line
from ..draw.overview import overview
from ..draw.panels import LISTS_WIDE, below_list, beside_list, rows_below
from ..draw.problems import problem_lines
from ..draw.spans import BLANK, Line, Lines, Style, fitted, line_text, plain, point_out, restyle
from ..draw.text import shown
from ..session import Session
from ..widgets import LinesView, VirtualList
from .base import ALWAYS, ListScreen, footer_line, tab_line
from .main_state import MainState

TITLES = {View.NEW: "New", View.CLAIMS: "Claims", View.TMP: "Tmp", View.ASIDE: "Aside"}
_BANNER_HEIGHT = 16
"""Window height from which on the banner has a line of its own below the views; else it replaces them."""
EMPTY = {
    Box.NEW: "nothing waits in new", Box.CUR: "nothing is claimed", Box.TMP: "nothing is being written",
    Box.HELD: "nothing is held", Box.REJECTED: "nothing was rejected", Box.TRASH: "nothing is in the trash",
    Box.DELIVERED: "nothing was delivered",
}  # fmt: skip
HELD = 0.05
"""Seconds for which the last view stays on the terminal while the list of the next one is made."""


class MainLayout(ListScreen):
    """The eight views, and a message or a source in full on top of one of them."""

    session: Session

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

    def lines(self, name: str) -> LinesView:
        """The widget with this id."""
        return self.query_one(f"#{name}", LinesView)

    @property
    def in_front(self) -> bool:
        """True where the screen is composed and no panel hides it."""
        return self.ready and self.app.screen is self

    def context(self) -> CommandContext:
        return self.state.context(self.row, self.rows.length if self.state.root in LISTS else 0)

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
            self.rows.empty = plain(f"   {self._why_empty()}", width, Style.DIM)
            if rows:
                self.rows.tick()
            self.lines("detail").redraw()
            self.lines("below").redraw()
        else:
            self.lines("page").show(self._page(context, width, height - 2 - len(last)))

    def move_clock(self, at: float) -> None:
        """Shows the time ``at`` in the header while nothing else changes."""
        self.state.moved_to = at
        if self.state.snapshot is not None and self.in_front:
            self.lines("top").show(self._top(self.context(), self.window_size[0]))

    def _top(self, context: CommandContext, width: int) -> Lines:
        """The lines above a view, with the time of the last look: that of the snapshot on the screen, or of one that found
        nothing new."""
        state = self.state
        chosen, snapshot, page = state.list_state, state.snapshot, state.page
        freshness, zone = state.freshness, state.zone
        if snapshot is not None and state.moved_to > snapshot.taken_at:
            snapshot = replace(snapshot, observation=replace(snapshot.observation, taken_at=state.moved_to))
        if context.view is View.CONSUMERS and snapshot is not None:
            return consumer_header(
                snapshot, state.consumer_list, context.rows, width, sort=state.consumer_sort, filter=state.filter,
                times=state.times, freshness=freshness, zone=zone,
            )  # fmt: skip
        if context.view not in LISTS or chosen is None:
            return header(snapshot, width, target=self.session.control.target, freshness=freshness, zone=zone)
        if snapshot is None:
            return [plain(" looking for the first time…", width), BLANK]
        mail = is_mail(snapshot)
        title = "Read mail" if mail and state.root is View.CLAIMS else TITLES[state.root]
        if state.root is View.ASIDE:
            title += f" {chosen.box}"
        if chosen.problem is not None:
            title += f" › {chosen.problem.code}"
        elif chosen.consumer is not None:
            title += f" › {consumer_name(chosen.consumer)}"
        elif chosen.problems_only:
            title += " › problems only"
        held = snapshot.observation.boxes.get(chosen.box)
        pending = page is None or page.query != state.query
        length = None if held is not None and held.count is None and not self.rows.length else self.rows.length
        if pending:
            length = held.count if held is not None and not chosen.filter and chosen.selection is None else None
        columns = columns_for(chosen.box, self.rows.size.width or width, times=state.times, mail=mail)
        head = list_header(
            snapshot, title, length, width, sort=None if mail else chosen.sort, columns=columns,
            marked=len(chosen.marks), complete=page is None or page.complete, filter=chosen.filter, freshness=freshness,
            zone=zone, total=held.count if held is not None else None, pending=pending, share=state.share,
            ordered_over=None if page is None else page.ordered_over,
        )  # fmt: skip
        return [head, title_line(columns, self.rows.size.width or width, sort=chosen.sort)]

    def column_at(self, x: int) -> str | None:
        """The sort column whose title is nearest to cell ``x`` of the list; None where nothing can be sorted."""
        state = self.state
        if state.snapshot is None:
            return None
        width = self.rows.size.width if state.listed else self.window_size[0]
        mail = is_mail(state.snapshot)
        columns = columns_for(state.box, width, mail=mail) if state.box is not None else ()
        columns = columns or fitting(columns_of(state.consumer_list), list_width(width))
        words = line_text(title_line(columns, width, sort=state.sort))
        found: dict[int, str] = {}
        at = 0
        for column in columns:
            at = max(at, words.find(column.title, at))
            if column.sort and not mail:
                found[min(abs(x - at), abs(x - at - len(column.title) + 1))] = column.sort
            at += len(column.title)
        return found[min(found)] if found else None

    def _why_empty(self) -> str:
        """The text in place of the rows of an empty list."""
        state = self.state
        chosen, snapshot = state.list_state, state.snapshot
        if chosen is None or snapshot is None or state.page is None:
            return "…"
        held = snapshot.observation.boxes.get(chosen.box)
        if held is not None and held.error:
            return f"{shown(held.error)}; there is nothing to list"
        if held is not None and held.count is None and held.note:
            return f"not visible: {shown(held.note)}"
        if chosen.filter:
            return f"nothing matches {shown(chosen.filter)}; Esc clears the filter"
        if chosen.problem is not None:
            return "none of its messages are left; Esc goes back"
        if chosen.consumer is not None:
            return "it holds no claim now; Esc goes back"
        if chosen.problems_only:
            return "nothing here is dead or abandoned; ! shows all"
        return EMPTY[chosen.box] + ("; 7 shows the next box" if state.root is View.ASIDE else "")

    def _draw_detail(self, width: int, height: int) -> Lines:
        """The row under the cursor, next to or below its list; its widget asks for it again when it gets a size."""
        state, row, window = self.state, self.row, self.window_size
        payload, error = state.payload_of(row)
        snapshot, now, zone = state.snapshot, state.now, state.zone
        if snapshot is not None and state.box is not None and window[0] >= LISTS_WIDE and not is_mail(snapshot):
            roomy = rows_below(state.box, *window) > 0
            lines = beside_list(row, payload, snapshot, state.box, width, height, zone=zone, error=error, roomy=roomy)
            return [restyle(line, Style.DIM) for line in lines] if state.stale_for is not None else lines
        worked = snapshot.rates.worked if snapshot is not None else None
        return [] if row is None else detail(row, payload, width, height, now=now, zone=zone, error=error, worked=worked)

    def _draw_below(self, width: int, height: int) -> Lines:
        """The panels below a list."""
        state = self.state
        snapshot = state.snapshot
        if snapshot is None or state.box is None or is_mail(snapshot):
            return []
        lines = below_list(snapshot, state.box, width, height)
        return [restyle(line, Style.DIM) for line in lines] if state.stale_for is not None else lines

    def _draw_row(self, row: Row, width: int, selected: bool, marked: bool) -> Line:
        state = self.state
        snapshot = state.snapshot
        mail = snapshot is not None and is_mail(snapshot)
        columns = columns_for(state.box or Box.NEW, width, times=state.times, mail=mail)
        line = row_line(
            row, columns, width, Moment(state.now, state.zone, state.times), marked=marked, selected=selected,
            ends=state.ends, texts=state.filter_texts,
        )  # fmt: skip
        return restyle(line, Style.DIM) if state.stale_for is not None and not selected else line

    def _page(self, context: CommandContext, width: int, height: int) -> Lines:
        state = self.state
        snapshot, now, zone, freshness = state.snapshot, state.now, state.zone, state.freshness
        if snapshot is None or state.root is View.OVERVIEW:
            chosen = state.place(context.rows)
            if snapshot is not None and state.all_problems:
                return problem_lines(snapshot, width, height, chosen=chosen)
            events = state.log.newest(now)
            return overview(
                snapshot, width, height, chosen=chosen, freshness=freshness, zone=zone, events=events
            )
        if context.view is View.MESSAGE:
            return self._message(width, height)
        if context.view is View.CURSOR and context.cursor is not None:
            chosen = state.chosen.get(View.CURSOR, 0)
            return cursor_detail(context.cursor, snapshot, width, height, chosen=chosen, zone=zone)
        if state.root is View.CONSUMERS:
            return consumer_lines(
                snapshot, state.consumer_list, state.consumers, width, height, chosen=state.consumer_place,
                filter=state.filter, times=state.times, zone=zone,
            )  # fmt: skip
        if state.filter and not context.rows:
            return [plain(f"   nothing matches {shown(state.filter)}; Esc clears the filter", width, Style.DIM)]
        snapshot = state.filtered or snapshot
        if state.root is View.CURSORS:
            lines = cursor_table(snapshot, width, height, chosen=state.place(context.rows), zone=zone)
        else:
            chosen = state.place(context.rows)
            framed = width >= LOCKS_WIDE and height >= LOCKS_HIGH and bool(snapshot.observation.locks)
            lines = (lock_panels if framed else lock_table)(snapshot, width, height, chosen=chosen)
        if lines:
            return [point_out(line, state.filter_texts) for line in lines]
        return [plain(" no lock file was found in the spool or next to it", width)]

    def _message(self, width: int, height: int) -> Lines:
        state, row = self.state, self.row
        if row is None:
            return [plain(" the message is no longer there", width)]
        payload, error = state.payload_of(row)
        lines, state.scroll = message_lines(
            row, payload, width, height, scroll=state.scroll, now=state.now, zone=state.zone, error=error
        )  # fmt: skip
        return lines

    def _bottom(self, context: CommandContext, width: int) -> Lines:
        """The last lines: a notice, the filter or the keys; then the views. On the Overview one line serves for both. A notice
        has as many lines as it needs until the next key, because its end often says what to do."""
        state = self.state
        notice = self._notice_lines(width)
        keys = footer(context)
        views = tab_line(state.root, keys, width, context.absent)
        banner = self.session.options.banner
        line = plain(banner, width, Style.STRONG) if banner else views
        tabs = [views, line] if banner and self.window_size[1] >= _BANNER_HEIGHT else [line]
        if context.view in LISTS or context.view in (View.CURSORS, View.LOCKS, View.CONSUMERS):
            if len(notice) > 1:
                return notice
            return [*(notice or [footer_line([entry for entry in keys if entry[0] not in ALWAYS], width)]), *tabs]
        return notice or (tabs if state.overlay is None else [footer_line(keys, width)])

    def _notice_lines(self, width: int) -> Lines:
        state = self.state
        if self.typing is not None:
            page, length = state.page, self.rows.length if state.list_state is not None else self.context().rows
            whole = page is not None and page.share is None
            if state.list_state is None:
                counted = f"{length:,}"
            else:
                counted = "…" if page is None or page.query != state.query else f"{length:,}" if whole else f"≥{length:,} …"
            hint = state.parse(self.typing.text).hint or f"{counted} match · Enter keeps · Esc clears"
            return [fitted(width, Style.KEY(" /"), shown(self.typing.text), Style.KEY("█"), f"  {shown(hint)}")]
        stale = f"{state.stale_why}; this is as of the last look" if state.stale_for and state.root in LISTS else ""
        words, style = (self.message, Style.STRONG) if self.message else (state.failed or stale, Style.BAD)
        if not words and state.filter and state.list_state is None and state.overlay is None:
            words, style = f"/{state.filter}   Esc clears the filter", Style.NORMAL
        if not words:
            return []
        return notice_lines(words, width, style)
