"""The view of the main screen: the choices of the user, the data that is shown, and how both are drawn into its widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache, partial
from typing import Any

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import Container

from spooltop.cursors.draw import cursor_detail, cursor_facts, cursor_table
from spooltop.cursors.model import VERDICTS as CURSOR_VERDICTS
from spooltop.cursors.model import Cursor
from spooltop.locks.draw import LOCKS_HIGH, LOCKS_WIDE, lock_facts, lock_panels, lock_table, ranked
from spooltop.model import FIRST_SORT, ConsumerList, ConsumerRow, KeptView, ListQuery, Problem, Snapshot, Sort
from spooltop.model import query as filters
from spooltop.model.vocabulary import Box, Lock, Row, Verdict

from ..commands import BOX_OF, LISTS, ROOTS, SORTED, CommandContext, ListState, View, footer
from ..draw.elements import (
    ALONE,
    BLANK,
    Line,
    Lines,
    Moment,
    Style,
    Times,
    common_ends,
    dim,
    faded,
    header,
    join,
    notice_lines,
    point_out,
    problem_lines,
    restyle,
    safe,
    shown,
    within,
)
from ..draw.lists import (
    COLUMNS,
    CONSUMER_COLUMNS,
    MARKED,
    UNMARKED,
    Column,
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
    ranked_consumers,
    row_line,
    title_line,
)
from ..draw.panels import LISTS_WIDE, below_list, beside_list, overview, rows_below
from ..event_log import EventLog
from ..messages import NOT_READ, NOTHING_SEEN, ListAdvanced, Page, PayloadRead, Search
from ..options import Options
from ..widgets import LinesView, VirtualList
from .base import ALWAYS, ListScreen, Session, footer_line, tab_line

FORMATS = ((Times.AGE, "ages", None), (Times.LOCAL, "local time", None), (Times.UTC, "UTC", UTC))
"""The formats of times, in the order of ``t``: the format, its name, and the time zone (None: local)."""

VERDICTS = {
    View.CURSORS: CURSOR_VERDICTS, View.LOCKS: ("held", "blocked", "stale", "free", "unknown"),
    View.CONSUMERS: ("dead", "running", "stopped", "exited", "unknown"),
}  # fmt: skip
"""The words that a filter knows as verdicts, where they are not those on messages."""
MESSAGE_VERDICTS = tuple(Verdict)
_FIRST_SORT: Mapping[str, Sort] = {**FIRST_SORT, View.CONSUMERS: Sort("verdict")}
_COLUMNS: Mapping[Any, tuple[Column, ...]] = {**COLUMNS, View.CONSUMERS: CONSUMER_COLUMNS}


_parse = lru_cache(maxsize=8)(partial(filters.parse, lenient=True))


TITLES = {View.NEW: "New", View.CLAIMS: "Claims", View.TMP: "Tmp", View.ASIDE: "Aside"}
_BANNER_HEIGHT = 16
"""Window height from which on the banner has a line of its own below the views; else it replaces them."""
EMPTY = {
    Box.NEW: "nothing waits in new", Box.CUR: "nothing is claimed", Box.TMP: "nothing is being written",
    Box.HELD: "nothing is held", Box.REJECTED: "nothing was rejected", Box.TRASH: "nothing is in the trash",
    Box.DELIVERED: "nothing was delivered",
}  # fmt: skip


class MainView(ListScreen):
    """``root`` is the view in front, ``overlay`` the message or source that was opened on it. Every paint shows the same snapshot
    everywhere."""

    session: Session
    root = View.OVERVIEW
    overlay: View | None = None

    # The last finding of each kind; ``snapshot`` and ``page`` are from one look

    snapshot = NOTHING_SEEN
    """The snapshot on the screen: the newest, unless the display is frozen."""
    page: Page | None = None
    ends = ALONE
    """The parts that the ids of the list share, as far as its rows were seen."""
    advanced: ListAdvanced | None = None
    payload = NOT_READ
    consumer_list: ConsumerList | None = None
    """The consumers, as of the last look while their view was in front."""

    # The times, and how fresh they are

    format = 0
    """The place in ``FORMATS``."""
    frozen_at: float | None = None
    """The time of the display since it was frozen, epoch seconds."""
    moved_to = 0.0
    """The time of the last look that found nothing new, epoch seconds."""
    stale_for: float | None = None
    """Seconds for which a look has not finished, for the reason ``stale_why``."""
    stale_why = ""

    # The part of the list in front that is requested from the snapshot thread

    window = (0, 60)
    """The first row, and the one after the last."""
    all_keys = 0
    """Counts the requests for all keys of a list."""
    marking: ListQuery | None = None
    """The list whose keys are requested, to mark all, and are not there yet."""
    then = ""
    """Id of the command that was typed meanwhile: it is about all of them."""
    once_read = ""
    """Id of the command for a plan that was typed before the list was read: it is about the row that is chosen then."""
    search: Search | None = None

    # The choices of the user

    aside_box = Box.HELD
    """The box that the Aside view shows."""
    scroll = 0
    """The first line shown of an open message."""
    all_problems = False
    last_filter = ""
    """The filter that was set last, which ``n`` goes on with."""
    _ordered: tuple[ConsumerList, tuple[Sort, str], tuple[ConsumerRow, ...]] | None = None

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        views = (View.OVERVIEW, View.CURSORS, View.CURSOR, View.LOCKS, View.CONSUMERS)
        self.lists = {box: ListState(box, _FIRST_SORT.get(box, Sort())) for box in Box} | {
            view: ListState(sort=_FIRST_SORT.get(view, Sort())) for view in views
        }
        """The choices of the user, by the box that is listed, else by the view."""
        self.events = EventLog()
        """Events from one look to the next."""

    @property
    def share(self) -> float | None:
        """The share of the work of the list in front that is done (0 to 1); None where that is not known or it is complete."""
        return next((one.share for one in (self.page, self.advanced) if one is not None and one.query == self.list_query), None)

    def take_page(self, page: Page) -> None:
        """Takes a window of a list. What its ids share may become less while the list is scrolled, never more."""
        ids = [safe(row.id) for row in page.rows]
        same = self.page is not None and self.page.query == page.query
        self.ends = self.ends.narrowed(ids) if same else common_ends(ids)
        self.page, self.advanced = page, None

    @property
    def row(self) -> Row | None:
        """The row under the cursor of the list in front."""
        return self.rows.item if self.root in LISTS else None

    @property
    def read(self) -> PayloadRead:
        """As much of the payload of ``row`` as was read, and why it could not be read."""
        return self.payload if self.row is not None and self.payload.key == self.row.key else NOT_READ

    @property
    def moment(self) -> Moment:
        times, _, zone = FORMATS[self.format]
        return Moment(self.now, zone, times, self.frozen_at, self.stale_for, self.stale_why if self.stale_for else "")

    @property
    def front(self) -> View:
        return self.overlay or self.root

    @property
    def listed(self) -> bool:
        """True where a list of messages is in front, with nothing opened on it."""
        return self.overlay is None and self.root in LISTS

    @property
    def box(self) -> Box | None:
        return self.aside_box if self.root is View.ASIDE else BOX_OF.get(self.root)

    @property
    def panelled(self) -> Box | None:
        """The box in front, where its list has panels around it: not of mail, nor before the first look."""
        return self.box if self.snapshot is not NOTHING_SEEN and not self.snapshot.observation.is_mail else None

    @property
    def here(self) -> ListState:
        """The choices of the user in the view in front, whatever was opened on it."""
        return self.lists[self.box or self.root]

    @property
    def list_query(self) -> ListQuery | None:
        """The list in front, None where there is none."""
        chosen = self.here
        return None if chosen.box is None else ListQuery(chosen.box, chosen.filter, chosen.sort, chosen.selection)

    @property
    def filter(self) -> str:
        """The filter of the view in front."""
        return self.here.filter

    @property
    def filtered(self) -> Snapshot:
        """The snapshot on the screen; where Cursors or Locks are in front, with only those that their filter matches."""
        snapshot = self.snapshot
        if not self.filter:
            return snapshot
        wanted, now = self.parse(self.filter), self.now
        if self.root is View.CURSORS:
            cursors = tuple(one for one in snapshot.cursors if wanted.holds(cursor_facts(one, now)))
            return snapshot.replace(cursors=cursors)
        locks = snapshot.observation.locks
        left = tuple(one for one in locks if wanted.holds(lock_facts(one, snapshot.lock_verdict(one), now)))
        return snapshot.replace(observation=snapshot.observation.replace(locks=left))

    @property
    def filter_texts(self) -> tuple[str, ...]:
        """The texts of the filter in front, to be pointed out in what matches."""
        return self.parse(self.filter).texts

    def parse(self, text: str, root: View | None = None) -> filters.Query:
        """The parts of a filter that can be parsed, of the view ``root`` (None: the one in front)."""
        return _parse(text, verdicts=VERDICTS.get(root or self.root, MESSAGE_VERDICTS))

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self.filtered if self.root is View.CURSORS else self.snapshot).cursors

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The locks in the order that they are shown in: stale ones first."""
        return ranked(self.filtered if self.root is View.LOCKS else self.snapshot)

    @property
    def consumers(self) -> tuple[ConsumerRow, ...]:
        """The consumers in the order that they are shown in, those alone that the filter matches."""
        found, chosen = self.consumer_list, self.lists[View.CONSUMERS]
        if found is None:
            return ()
        order, key = self._ordered, (chosen.sort, chosen.filter)
        if order is None or order[0] is not found or order[1] != key:
            wanted = self.parse(chosen.filter, View.CONSUMERS)
            taken = tuple(one for one in found.consumers if wanted.holds(filters.consumer_facts(one, found.taken_at)))
            order = self._ordered = (found, key, ranked_consumers(taken, chosen.sort))
        return order[2]

    @property
    def consumer_place(self) -> int:
        """The place of the chosen consumer, which it keeps when others come and go; that of the one that went where it has."""
        listed, chosen = self.consumers, self.lists[View.CONSUMERS]
        found = (at for at, one in enumerate(listed) if one.key == chosen.cursor)
        return within(next(found, chosen.index), len(listed))

    @property
    def now(self) -> float:
        """The time that ages refer to: that of the snapshot on the screen."""
        return self.snapshot.taken_at or self.session.control.now()

    def place(self, length: int) -> int:
        """The place of the chosen line of the view in front, which has so many."""
        if self.root is View.CONSUMERS:
            return self.consumer_place
        return within(self.here.index, length)

    def kept(self) -> KeptView:
        """The choices that are kept for the next dashboard on this target: the orders that are not the first ones, too."""
        sorts = {name.value: one.sort for name, one in self.lists.items() if one.sort != _FIRST_SORT.get(name, Sort())}
        return KeptView(self.root.value, sorts, self.last_filter)

    def use(self, kept: KeptView, options: Options) -> None:
        """Takes up the choices that were kept, then those of ``options``, as far as they exist here."""
        for view in (kept.view, options.view):
            self.root = View(view) if view in ROOTS else self.root
        for name, one in self.lists.items():
            for sort in (kept.sorts.get(name), options.sort if one.box is not None else None):
                if sort is not None and any(column.sort == sort.column for column in _COLUMNS.get(name, ())):
                    one.sort = sort
        self.here.filter = options.filter
        self.last_filter = (options.filter if self.box is not None else "") or kept.last_filter

    def choices(self) -> dict[str, Any]:
        """The choices of the user, without marks, for when the same target is opened again."""
        lists = {name: replace(one, marks={}, scope=None) for name, one in self.lists.items()}
        return {"root": self.root, "lists": lists, "aside_box": self.aside_box, "last_filter": self.last_filter}

    def context(self) -> CommandContext:
        snapshot, row, name = self.snapshot, self.row, ""
        length = self.rows.length if self.root in LISTS else 0
        among_spools = self.session.to_spools is not None
        subjects: Sequence[Any] = ()
        match self.root:  # the field that holds what is chosen, where that is no message
            case View.OVERVIEW:
                name, subjects = "problem", snapshot.problems
            case View.CURSORS:
                name, subjects = "cursor", self.cursors
            case View.LOCKS:
                name, subjects = "lock", self.locks
            case View.CONSUMERS:
                name, subjects = "consumer", self.consumers
        if name:
            length = len(subjects)
        subject = {name: subjects[self.place(length)]} if subjects else {}
        unread = self.page is None or self.page.query != self.list_query or length > 0
        reading = self.consumer_list is None if self.root is View.CONSUMERS else self.root in LISTS and row is None and unread
        refined = bool(self.filter) or self.here.selection is not None
        return CommandContext(
            view=self.front,
            snapshot=snapshot,
            box=self.box,
            row=row,
            rows=length,
            marked=len(self.here.marks) if self.overlay is None else 0,
            filter=self.filter,
            last_filter=self.last_filter,
            **subject,
            depth=(self.overlay is not None) + refined + (self.root is not View.OVERVIEW) + self.all_problems + among_spools,
            among_spools=among_spools,
            reading=reading and not self.failed,
        )

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
    def in_front(self) -> bool:
        """True where the screen is composed and no panel hides it."""
        return self.ready and self.app.screen is self

    def shape(self) -> None:
        """Shows the widgets of the view in front: list and detail side by side from 120 columns on."""
        lists = self.query_one("#lists")
        lists.display = self.listed
        self.query_one("#page").display = not self.listed
        width, height = self.window_size
        wide = width >= LISTS_WIDE
        box = self.box if self.session.control.layout != "mail" else None
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
        chosen, box, snapshot, page = self.here, self.box, self.snapshot, self.page
        moment = self.moment
        if self.moved_to > snapshot.taken_at:
            snapshot = snapshot.replace(observation=snapshot.observation.replace(taken_at=self.moved_to))
        if context.view is View.CONSUMERS and snapshot is not NOTHING_SEEN:
            return consumer_header(
                snapshot, self.consumer_list, context.rows, width, moment, sort=self.here.sort, filter=self.filter
            )
        if context.view not in LISTS or box is None:
            return header(snapshot, width, self.session.control.target, moment)
        if snapshot is NOTHING_SEEN:
            return [join(" looking for the first time…"), BLANK]
        mail = snapshot.observation.is_mail
        title = "Read mail" if mail and self.root is View.CLAIMS else TITLES[self.root]
        if self.root is View.ASIDE:
            title += f" {box}"
        if isinstance(chosen.scope, Problem):
            title += f" › {chosen.scope.code}"
        elif chosen.scope is not None:
            title += f" › {consumer_name(chosen.scope)}"
        elif chosen.problems_only:
            title += " › problems only"
        held = snapshot.observation.boxes.get(box)
        total = held.count if held is not None else None
        pending = page is None or page.query != self.list_query
        length = None if held is not None and total is None and not self.rows.length else self.rows.length
        if pending:
            length = None if chosen.filter or chosen.selection is not None else total
        columns = columns_for(box, self.rows.size.width or width, times=moment.times, mail=mail)
        head = list_header(
            snapshot, title, length, width, moment, sort=None if mail else chosen.sort, columns=columns,
            marked=len(chosen.marks), complete=page is None or page.complete, filter=chosen.filter,
            total=total, pending=pending, share=self.share,
            ordered_over=None if page is None else page.ordered_over,
        )  # fmt: skip
        return [head, title_line(columns, chosen.sort)]

    def column_at(self, x: int) -> str | None:
        """The sort column whose title is nearest to cell ``x`` of the list; None where nothing can be sorted."""
        if self.front not in SORTED or self.snapshot is NOTHING_SEEN or self.snapshot.observation.is_mail:
            return None
        times = self.moment.times
        if self.box is None:
            columns = fitting(columns_of(self.consumer_list), list_width(self.window_size[0]), times=times)
        else:
            columns = columns_for(self.box, self.rows.size.width, times=times)
        return nearest_sort(columns, x) or None

    def _why_empty(self) -> str:
        """The text in place of the rows of an empty list."""
        chosen, box, snapshot = self.here, self.box, self.snapshot
        if box is None or snapshot is NOTHING_SEEN or self.page is None:
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
        return EMPTY[box] + ("; 7 shows the next box" if self.root is View.ASIDE else "")

    def _draw_detail(self, width: int, height: int) -> Lines:
        """The row under the cursor, next to or below its list; its widget asks for it again when it gets a size."""
        row, window = self.row, self.window_size
        read, snapshot, moment = self.read, self.snapshot, self.moment
        if self.panelled is not None and window[0] >= LISTS_WIDE:
            roomy = rows_below(self.panelled, *window) > 0
            lines = beside_list(row, read, snapshot, self.panelled, width, height, moment, roomy=roomy)
            return faded(lines, moment)
        return detail(row, read, width, height, moment=moment, worked=snapshot.rates.worked)

    def _draw_below(self, width: int, height: int) -> Lines:
        """The panels below a list."""
        if self.panelled is None:
            return []
        return faded(below_list(self.snapshot, self.panelled, width, height), self.moment)

    def _draw_row(self, row: Row, width: int, selected: bool, marked: bool) -> Line:
        moment = self.moment
        columns = columns_for(self.box or Box.NEW, width, times=moment.times, mail=self.snapshot.observation.is_mail)
        line = row_line(
            row, columns, moment, sign=MARKED if marked else UNMARKED, selected=selected, ends=self.ends,
            texts=self.filter_texts,
        )
        return restyle(line, Style.DIM) if self.stale_for is not None and not selected else line

    def _page(self, context: CommandContext, width: int, height: int) -> Lines:
        snapshot, moment, chosen = self.snapshot, self.moment, self.place(context.rows)
        if snapshot is NOTHING_SEEN or self.root is View.OVERVIEW:
            if self.all_problems and snapshot is not NOTHING_SEEN:
                return problem_lines(snapshot, width, height, chosen=chosen)
            return overview(snapshot, self.events.newest(moment.now), width, height, moment, chosen=chosen)
        if context.view is View.MESSAGE:
            if (row := self.row) is None:
                return [join(" the message is no longer there")]
            payload = self.read
            lines, self.scroll = message_lines(row, payload, width, height, scroll=self.scroll, moment=moment)
            return lines
        if context.view is View.CURSOR and context.cursor is not None:
            return cursor_detail(context.cursor, snapshot, width, height, moment, chosen=self.lists[View.CURSOR].index)
        if self.root is View.CONSUMERS:
            return consumer_lines(
                snapshot, self.consumer_list, self.consumers, width, height, moment, chosen=chosen, filter=self.filter
            )
        if self.filter and not context.rows:
            return [dim(f"   nothing matches {shown(self.filter)}; Esc clears the filter")]
        snapshot = self.filtered
        if self.root is View.CURSORS:
            lines = cursor_table(snapshot, width, height, moment, chosen=chosen)
        else:
            framed = width >= LOCKS_WIDE and height >= LOCKS_HIGH and bool(snapshot.observation.locks)
            lines = (lock_panels if framed else lock_table)(snapshot, width, height, chosen=chosen)
        if lines:
            return [point_out(line, self.filter_texts) for line in lines]
        return [join(" no lock file was found in the spool or next to it")]

    def _bottom(self, context: CommandContext, width: int) -> Lines:
        """The last lines: a notice, the filter or the keys; then the views. On the Overview one line serves for both. A notice
        has as many lines as it needs until the next key, because its end often says what to do."""
        notice = self._notice_lines(width)
        keys = footer(context)
        views = tab_line(self.root, keys, width, context.absent)
        banner = self.session.options.banner
        line = join(Style.STRONG(banner)) if banner else views
        tabs = [views, line] if banner and self.window_size[1] >= _BANNER_HEIGHT else [line]
        if context.view in ROOTS - {View.OVERVIEW}:
            if len(notice) > 1:
                return notice
            return [*(notice or [footer_line([entry for entry in keys if entry[0] not in ALWAYS], width)]), *tabs]
        return notice or (tabs if self.overlay is None else [footer_line(keys, width)])

    def _notice_lines(self, width: int) -> Lines:
        if self.typing is not None:
            page, counted = self.page, f"{self.context().rows:,}"
            if self.box is not None:
                if page is None or page.query != self.list_query:
                    counted = "…"
                elif page.share is not None:
                    counted = f"≥{counted} …"
            hint = self.parse(self.typing.text).hint or f"{counted} match · Enter keeps · Esc clears"
            return [self.typed_line(hint)]
        stale = f"{self.stale_why}; this is as of the last look" if self.stale_for and self.root in LISTS else ""
        words, style = (self.message, Style.STRONG) if self.message else (self.failed or stale, Style.BAD)
        if not words and self.filter and self.box is None and self.overlay is None:
            words, style = f"/{self.filter}   Esc clears the filter", Style.NORMAL
        return notice_lines(words, width, style)

