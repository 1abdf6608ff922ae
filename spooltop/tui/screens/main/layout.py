"""Draws the state of the main screen into its widgets. Every paint shows the same snapshot everywhere."""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

from ...commands import footer
from ...context import LISTS, CommandContext, View
from ...draw.consumers import columns_of, consumer_header, consumer_lines, consumer_name, list_width
from ...draw.cursors import cursor_detail, cursor_table
from ...draw.detail import detail, message_lines
from ...draw.header import header, is_mail, notice_lines
from ...draw.lists import columns_for, fitting, list_header, row_line, title_line
from ...draw.locks import LOCKS_HIGH, LOCKS_WIDE, lock_panels, lock_table
from ...draw.overview import overview
from ...draw.panels import LISTS_WIDE, below_list, beside_list, rows_below
from ...draw.problems import problem_lines
from ...draw.spans import BLANK, Line, Span, Style, crop, join, line_text, plain, point_out, restyle, shown
from ..base import ALWAYS, footer_line, tab_line
from .state import MainState
from .view import MainView

TITLES = {View.NEW: "New", View.CLAIMS: "Claims", View.TMP: "Tmp", View.ASIDE: "Aside"}
_BANNER_HEIGHT = 16
"""Window height from which on the banner has a line of its own below the views; else it replaces them."""


def paint(view: MainView, *, rows: bool = True) -> None:
    """Shows the state as it is now. ``rows`` False: the rows of a list are up to date."""
    state, context = view.state, view.context()
    width, height = view.window_size
    view.lines("top").show(_top(view, context, width))
    last = _bottom(view, context, width)
    foot = view.lines("bottom")
    if foot.styles.height is None or foot.styles.height.value != len(last):
        foot.styles.height = len(last)
    foot.show(last)
    if context.view in LISTS:
        view.rows.empty = plain(f"   {_why_empty(state)}", width, Style.DIM)
        if rows:
            view.rows.tick()
        view.lines("detail").redraw()
        view.lines("below").redraw()
    else:
        view.lines("page").show(_page(view, context, width, height - 2 - len(last)))


def move_clock(view: MainView, at: float) -> None:
    """Shows the time ``at`` in the header while nothing else changes."""
    view.state.times.moved_to = at
    if view.state.received.snapshot is not None and view.in_front:
        view.lines("top").show(_top(view, view.context(), view.window_size[0]))


def _top(view: MainView, context: CommandContext, width: int) -> list[Line]:
    """The lines above a view, with the time of the last look: that of the snapshot on the screen, or of one that found nothing
    new."""
    state = view.state
    chosen, snapshot, page = state.list_state, state.received.snapshot, state.received.page
    freshness, zone = state.times.freshness, state.times.zone
    if snapshot is not None and state.times.moved_to > snapshot.taken_at:
        snapshot = replace(snapshot, observation=replace(snapshot.observation, taken_at=state.times.moved_to))
    if context.view is View.CONSUMERS and snapshot is not None:
        return consumer_header(
            snapshot, state.received.consumers, context.rows, width, sort=state.consumer_sort, filter=state.filter,
            times=state.times.format, freshness=freshness, zone=zone,
        )  # fmt: skip
    if context.view not in LISTS or chosen is None:
        return header(snapshot, width, target=view.session.control.target, now=state.now, freshness=freshness, zone=zone)
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
    length = None if held is not None and held.count is None and not len(view.rows) else len(view.rows)
    if pending:
        length = held.count if held is not None and not chosen.filter and chosen.selection is None else None
    columns = columns_for(chosen.box, view.rows.size.width or width, times=state.times.format, mail=mail)
    head = list_header(
        snapshot, title, length, width, now=state.now, sort=None if mail else chosen.sort, columns=columns,
        marked=len(chosen.marks), complete=page.complete if page is not None else True, filter=chosen.filter, freshness=freshness,
        zone=zone, total=held.count if held is not None else None, pending=pending, share=state.received.share(state.query),
        ordered_over=None if page is None else page.ordered_over,
    )  # fmt: skip
    return [head, title_line(columns, view.rows.size.width or width, sort=chosen.sort)]


def sort_column_at(state: MainState, x: int, width: int) -> str | None:
    """The sort column whose title is the nearest to cell ``x`` of a list of ``width`` cells; None where nothing can be sorted."""
    if state.sort is None or state.received.snapshot is None:
        return None
    mail = is_mail(state.received.snapshot)
    columns = columns_for(state.box, width, mail=mail) if state.box is not None else ()
    columns = columns or fitting(columns_of(state.received.consumers), list_width(width))
    words = line_text(title_line(columns, width, sort=state.sort))
    found: dict[int, str] = {}
    at = 0
    for column in columns:
        at = max(at, words.find(column.title, at))
        if column.sort and not mail:
            found[min(abs(x - at), abs(x - at - len(column.title) + 1))] = column.sort
        at += len(column.title)
    return found[min(found)] if found else None


EMPTY = {
    Box.NEW: "nothing waits in new", Box.CUR: "nothing is claimed", Box.TMP: "nothing is being written",
    Box.HELD: "nothing is held", Box.REJECTED: "nothing was rejected", Box.TRASH: "nothing is in the trash",
    Box.DELIVERED: "nothing was delivered",
}  # fmt: skip


def _why_empty(state: MainState) -> str:
    """The text in place of the rows of an empty list."""
    chosen, snapshot = state.list_state, state.received.snapshot
    if chosen is None or snapshot is None or state.received.page is None:
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


def draw_detail(state: MainState, row: Row | None, width: int, height: int, window: tuple[int, int]) -> list[Line]:
    """The row under the cursor, next to or below its list; its widget asks for it again when it gets a size. ``window``: columns
    and lines of the whole."""
    payload, error = state.received.payload_of(row)
    snapshot, now, zone = state.received.snapshot, state.now, state.times.zone
    if snapshot is not None and state.box is not None and window[0] >= LISTS_WIDE and not is_mail(snapshot):
        roomy = rows_below(state.box, *window) > 0
        lines = beside_list(row, payload, snapshot, state.box, width, height, now=now, zone=zone, error=error, roomy=roomy)
        return [restyle(line, Style.DIM) for line in lines] if state.times.stale_for is not None else lines
    worked = snapshot.rates.worked if snapshot is not None else None
    return [] if row is None else detail(row, payload, width, height, now=now, zone=zone, error=error, worked=worked)


def draw_below(state: MainState, width: int, height: int) -> list[Line]:
    """The panels below a list."""
    snapshot = state.received.snapshot
    if snapshot is None or state.box is None or is_mail(snapshot):
        return []
    lines = below_list(snapshot, state.box, width, height, now=state.now)
    return [restyle(line, Style.DIM) for line in lines] if state.times.stale_for is not None else lines


def draw_row(state: MainState, row: Row, width: int, selected: bool, marked: bool) -> Line:
    """A row of the list."""
    times, snapshot = state.times, state.received.snapshot
    mail = snapshot is not None and is_mail(snapshot)
    columns = columns_for(state.box or Box.NEW, width, times=times.format, mail=mail)
    line = row_line(
        row, columns, width, now=state.now, marked=marked, selected=selected, zone=times.zone, times=times.format,
        ends=state.received.ends, texts=state.filter_texts,
    )  # fmt: skip
    return restyle(line, Style.DIM) if times.stale_for is not None and not selected else line


def _page(view: MainView, context: CommandContext, width: int, height: int) -> list[Line]:
    state = view.state
    snapshot, now, zone, freshness = state.received.snapshot, state.now, state.times.zone, state.times.freshness
    if snapshot is None or state.root is View.OVERVIEW:
        chosen = state.chosen_in(View.OVERVIEW, context.rows)
        if snapshot is not None and state.all_problems:
            return problem_lines(snapshot, width, height, chosen=chosen)
        events = state.received.log.newest(now)
        return overview(
            snapshot, width, height, now=now, chosen=chosen, freshness=freshness, zone=zone, events=events
        )
    if context.view is View.MESSAGE:
        return _message(view, width, height)
    if context.view is View.CURSOR and context.cursor is not None:
        chosen = state.chosen.get(View.CURSOR, 0)
        return cursor_detail(context.cursor, snapshot, width, height, now=now, chosen=chosen, zone=zone)
    if state.root is View.CONSUMERS:
        return consumer_lines(
            snapshot, state.received.consumers, state.consumers, width, height, now=now, chosen=state.consumer_place,
            filter=state.filter, times=state.times.format, zone=zone,
        )  # fmt: skip
    if state.filter and not context.rows:
        return [plain(f"   nothing matches {shown(state.filter)}; Esc clears the filter", width, Style.DIM)]
    snapshot = state.filtered or snapshot
    if state.root is View.CURSORS:
        lines = cursor_table(snapshot, width, height, now=now, chosen=state.chosen_in(View.CURSORS, context.rows), zone=zone)
    else:
        chosen = state.chosen_in(View.LOCKS, context.rows)
        framed = width >= LOCKS_WIDE and height >= LOCKS_HIGH and bool(snapshot.observation.locks)
        lines = (lock_panels if framed else lock_table)(snapshot, width, height, now=now, chosen=chosen)
    if lines:
        return [point_out(line, state.filter_texts) for line in lines]
    return [plain(" no lock file was found in the spool or next to it", width)]


def _message(view: MainView, width: int, height: int) -> list[Line]:
    state, row = view.state, view.row
    if row is None:
        return [plain(" the message is no longer there", width)]
    payload, error = state.received.payload_of(row)
    lines, state.scroll = message_lines(
        row, payload, width, height, scroll=state.scroll, now=state.now, zone=state.times.zone, error=error
    )  # fmt: skip
    return lines


def _bottom(view: MainView, context: CommandContext, width: int) -> list[Line]:
    """The last lines: a notice, the filter or the keys; then the views. On the Overview one line serves for both. A notice has as
    many lines as it needs until the next key, because its end often says what to do."""
    state = view.state
    notice = _notice_lines(view, width)
    keys = footer(context)
    views = tab_line(state.root, keys, width, context.absent)
    banner = view.session.options.banner
    line = plain(banner, width, Style.STRONG) if banner else views
    tabs = [views, line] if banner and view.window_size[1] >= _BANNER_HEIGHT else [line]
    if context.view in LISTS or context.view in (View.CURSORS, View.LOCKS, View.CONSUMERS):
        if len(notice) > 1:
            return notice
        return [*(notice or [footer_line([entry for entry in keys if entry[0] not in ALWAYS], width)]), *tabs]
    return notice or (tabs if state.overlay is None else [footer_line(keys, width)])


def _notice_lines(view: MainView, width: int) -> list[Line]:
    state = view.state
    typing = state.filter_input
    if typing is not None:
        page, length = state.received.page, len(view.rows) if state.list_state is not None else view.context().rows
        whole = page is not None and page.share is None
        if state.list_state is None:
            counted = f"{length:,}"
        else:
            counted = "…" if page is None or page.query != state.query else f"{length:,}" if whole else f"≥{length:,} …"
        hint = typing.error or f"{counted} match · Enter keeps · Esc clears"
        return [crop(join(Span(" /", Style.KEY), shown(typing.edit.text), Span("█", Style.KEY), f"  {shown(hint)}"), width)]
    stale = f"{state.times.stale_why}; this is as of the last look" if state.times.stale_for and state.root in LISTS else ""
    words, style = (view.message, Style.STRONG) if view.message else (state.received.failed or stale, Style.BAD)
    if not words and state.filter and state.list_state is None and state.overlay is None:
        words, style = f"/{state.filter}   Esc clears the filter", Style.NORMAL
    if not words:
        return []
    return notice_lines(words, width, style)
