"""From what the main screen keeps to what its widgets show. Every paint shows the same snapshot everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

from ...commands import footer
from ...context import LISTS, Scene, View
from ...draw.columns import columns_for
from ...draw.cursors import cursor_table
from ...draw.detail import detail, message_lines
from ...draw.freshness import Lamp
from ...draw.header import header, is_mail
from ...draw.lists import list_header, row_line, title_line
from ...draw.locks import lock_table
from ...draw.notices import said_lines
from ...draw.one_cursor import cursor_detail
from ...draw.overview import overview
from ...draw.problems import problem_lines
from ...draw.spans import BLANK, Line, Span, Style, crop, join, line_text, plain, restyle, shown
from ...widgets import LinesView
from ..footer import ALWAYS, footer_line, tab_line
from .commands import ZONES
from .updates import query_wanted

if TYPE_CHECKING:
    from .screen import MainScreen

__all__ = ["bottom", "clock", "detail_of", "main", "row"]

TITLES = {View.NEW: "New", View.CLAIMS: "Claims", View.TMP: "Tmp", View.ASIDE: "Aside"}
_ROOM_FOR_BOTH = 16
"""Rows from which on the banner has a line of its own below the views; else it takes their place."""


def main(screen: MainScreen, *, rows: bool = True) -> None:
    """Shows what the screen holds now. ``rows`` False: the rows of a list are drawn as they are already."""
    scene = screen.scene()
    listing = scene.view in LISTS
    width = screen.app.size.width
    lamp = _lamp(screen)
    screen.clock_at = screen.now
    screen.query_one("#top", LinesView).show(_top(screen, scene, width, lamp))
    last = bottom(screen, scene, width)
    view = screen.query_one("#bottom", LinesView)
    if view.styles.height is None or view.styles.height.value != len(last):
        view.styles.height = len(last)
    view.show(last)
    if listing:
        screen.rows.empty = plain(f"   {_why_empty(screen)}", width, Style.DIM)
        if rows:
            screen.rows.tick()
        screen.query_one("#detail", LinesView).redraw()
    else:
        page = screen.query_one("#page", LinesView)
        page.show(_page(screen, scene, width, screen.app.size.height - 2 - len(last), lamp))


def clock(screen: MainScreen, at: float) -> None:
    """Moves the time in the header on to ``at`` while nothing else changes."""
    if screen.snapshot is None or not screen.ready or screen.app.screen is not screen:
        return
    screen.clock_at = at
    top = _top(screen, screen.scene(), screen.app.size.width, _lamp(screen), at=at)
    screen.query_one("#top", LinesView).show(top)


def _lamp(screen: MainScreen) -> Lamp:
    return Lamp(screen.frozen_at, screen.stale_for, screen.stale_why if screen.stale_for else "")


def _top(screen: MainScreen, scene: Scene, width: int, lamp: Lamp, *, at: float | None = None) -> list[Line]:
    """The lines above a view, with the time of the snapshot on the screen, or ``at``."""
    zone = ZONES[screen.zone_index][2]
    state, snapshot = screen.state, screen.snapshot
    if snapshot is not None and at is not None:
        snapshot = replace(snapshot, sight=replace(snapshot.sight, taken_at=at))
    if scene.view not in LISTS or state is None:
        return header(snapshot, width, target=screen.control.target, now=screen.now, lamp=lamp, zone=zone)
    if snapshot is None:
        return [plain(" looking for the first time…", width), BLANK]
    page = screen.page
    mail = is_mail(snapshot)
    title = "Read mail" if mail and screen.root is View.CLAIMS else TITLES[screen.root]
    if screen.root is View.ASIDE:
        title += f" {state.box}"
    if state.problem is not None:
        title += f" › {state.problem.code}"
    elif state.problems_only:
        title += " › problems only"
    held = snapshot.sight.boxes.get(state.box)
    pending = page is None or page.query != query_wanted(screen)
    length = None if held is not None and held.count is None and not len(screen.rows) else len(screen.rows)
    if pending:
        length = held.count if held is not None and not state.filter and state.selection is None else None
    head = list_header(
        snapshot, title, length, width, now=screen.now, sort=None if mail else state.sort, marked=len(state.marks),
        complete=page.complete if page is not None else True, filter=state.filter, lamp=lamp, zone=zone,
        total=held.count if held is not None else None, pending=pending, share=_share(screen, pending=pending),
    )  # fmt: skip
    columns = columns_for(state.box, screen.rows.size.width or width, times=ZONES[screen.zone_index][0], mail=mail)
    return [head, title_line(columns, screen.rows.size.width or width, sort=state.sort)]


def sort_word(screen: MainScreen, x: int) -> str | None:
    """The word of the column whose title is the nearest to that cell, of those that a list can be sorted by."""
    if screen.box is None or screen.snapshot is None:
        return None
    mail = is_mail(screen.snapshot)
    width = screen.rows.size.width
    columns = columns_for(screen.box, width, mail=mail)
    words = line_text(title_line(columns, width, sort=screen.states[screen.box].sort))
    found: dict[int, str] = {}
    at = 0
    for column in columns:
        at = max(at, words.find(column.title, at))
        if column.sort and not mail:
            found[min(abs(x - at), abs(x - at - len(column.title) + 1))] = column.sort
        at += len(column.title)
    return found[min(found)] if found else None


def _share(screen: MainScreen, *, pending: bool) -> float | None:
    """How much of the work of the list that is asked for is done; None where nobody knows, or it is there."""
    if not pending:
        return screen.page.share if screen.page is not None else None
    advanced = screen.advanced
    return advanced.share if advanced is not None and advanced.query == query_wanted(screen) else None


EMPTY = {
    Box.NEW: "nothing waits in new", Box.CUR: "nothing is claimed", Box.TMP: "nothing is being written",
    Box.HELD: "nothing is held", Box.REJECTED: "nothing was rejected", Box.TRASH: "nothing is in the trash",
}  # fmt: skip


def _why_empty(screen: MainScreen) -> str:
    """What stands in place of the rows of a list that has none."""
    state, page = screen.state, screen.page
    if state is None or screen.snapshot is None or page is None:
        return "…"
    held = screen.snapshot.sight.boxes.get(state.box)
    if held is not None and held.error:
        return f"{shown(held.error)}; there is nothing to list"
    if state.filter:
        return f"nothing matches {shown(state.filter)}; Esc clears the filter"
    if state.problem is not None:
        return "it is over: nothing of this trouble is left; Esc goes back"
    if state.problems_only:
        return "nothing here is dead or abandoned; ! shows all"
    return EMPTY[state.box] + ("; 7 goes on to the next box" if screen.root is View.ASIDE else "")


def detail_of(screen: MainScreen, width: int, height: int) -> list[Line]:
    """The row under the cursor beside or below its list; asked for again by its widget once that has a size."""
    row = screen.row
    if row is None:
        return []
    payload, error = screen.payload_of(row)
    worked = screen.snapshot.rates.worked if screen.snapshot is not None else None
    zone = ZONES[screen.zone_index][2]
    return detail(row, payload, width, height, now=screen.now, zone=zone, error=error, worked=worked)


def row(screen: MainScreen, row: Row, width: int, selected: bool, marked: bool) -> Line:
    """One row of the list."""
    times, _, zone = ZONES[screen.zone_index]
    mail = screen.snapshot is not None and is_mail(screen.snapshot)
    columns = columns_for(screen.box or Box.NEW, width, times=times, mail=mail)
    line = row_line(row, columns, width, now=screen.now, marked=marked, selected=selected, zone=zone, times=times)
    return restyle(line, Style.DIM) if screen.stale_for is not None and not selected else line


def _page(screen: MainScreen, scene: Scene, width: int, height: int, lamp: Lamp) -> list[Line]:
    snapshot, now = screen.snapshot, screen.now
    zone = ZONES[screen.zone_index][2]
    if snapshot is None or screen.root is View.OVERVIEW:
        chosen = screen.chosen_in(View.OVERVIEW, scene.rows)
        if snapshot is not None and screen.all_problems:
            return problem_lines(snapshot, width, height, chosen=chosen)
        counted = screen.owner.options.counted() if snapshot is None else None
        return overview(snapshot, width, height, now=now, chosen=chosen, lamp=lamp, zone=zone, counted=counted)
    if scene.view is View.MESSAGE:
        return _message(screen, width, height)
    if scene.view is View.CURSOR and scene.cursor is not None:
        chosen = screen.chosen.get(View.CURSOR, 0)
        return cursor_detail(scene.cursor, snapshot, width, height, now=now, chosen=chosen, zone=zone)
    if screen.filter and not scene.rows:
        return [plain(f"   nothing matches {shown(screen.filter)}; Esc clears the filter", width, Style.DIM)]
    snapshot = screen.narrowed or snapshot
    if screen.root is View.CURSORS:
        return cursor_table(snapshot, width, height, now=now, chosen=screen.chosen_in(View.CURSORS, scene.rows), zone=zone)
    lines = lock_table(snapshot, width, height, now=now, chosen=screen.chosen_in(View.LOCKS, scene.rows))
    return lines or [plain(" no lock file was found in the spool or beside it", width)]


def _message(screen: MainScreen, width: int, height: int) -> list[Line]:
    row = screen.row
    if row is None:
        return [plain(" it is not there any more", width)]
    payload, error = screen.payload_of(row)
    zone = ZONES[screen.zone_index][2]
    lines, screen.scroll = message_lines(
        row, payload, width, height, scroll=screen.scroll, now=screen.now, zone=zone, error=error
    )  # fmt: skip
    return lines


def bottom(screen: MainScreen, scene: Scene, width: int) -> list[Line]:
    """The last lines: what was said, typed or can be done here; then the views. On the Overview one line has to do for both, and
    what needs more lines has them until the next key: a reason that is cut off before what to do about it is none."""
    said = _said(screen, width)
    keys = footer(scene)
    views = tab_line(screen.root, keys, width)
    banner = screen.owner.options.banner
    line = plain(banner, width, Style.STRONG) if banner else views
    tabs = [views, line] if banner and screen.app.size.height >= _ROOM_FOR_BOTH else [line]
    if scene.view in LISTS or scene.view in (View.CURSORS, View.LOCKS):
        if len(said) > 1:
            return said
        return [*(said or [footer_line([entry for entry in keys if entry[0] not in ALWAYS], width)]), *tabs]
    return said or (tabs if screen.over is None else [footer_line(keys, width)])


def _said(screen: MainScreen, width: int) -> list[Line]:
    typing = screen.filter_line
    if typing is not None:
        page, length = screen.page, len(screen.rows) if screen.state is not None else screen.scene().rows
        whole = page is not None and page.share is None
        if screen.state is None:
            counted = f"{length:,}"
        else:
            counted = "…" if page is None or page.query != query_wanted(screen) else f"{length:,}" if whole else f"≥{length:,} …"
        hint = typing.error or f"{counted} match · Enter keeps · Esc clears"
        return [crop(join(Span(" /", Style.KEY), shown(typing.edit.text), Span("█", Style.KEY), f"  {shown(hint)}"), width)]
    stale = f"{screen.stale_why}; this is as of the last look" if screen.stale_for and screen.root in LISTS else ""
    words, style = (screen.message, Style.STRONG) if screen.message else (screen.failed or stale, Style.BAD)
    if not words and screen.filter and screen.state is None and screen.over is None:
        words, style = f"/{screen.filter}   Esc clears the filter", Style.NORMAL
    if not words:
        return []
    return said_lines(words, width, style)
