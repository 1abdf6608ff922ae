"""Takes what the threads found into the state of the main screen, and requests what it shows next."""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import Sort
from spooltop.model.vocabulary import Box

from ...context import View
from ...messages import (
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
    SnapshotTaken,
)
from .view import MainView


def take(view: MainView, found: Found) -> None:
    """Takes what a thread found. Counts and lists on the screen come from one look: they are taken together."""
    received = view.state.received
    if isinstance(found, SnapshotTaken):
        received.log.take(found.snapshot, view.session.state.results)
    if not view.ready:  # not composed yet, or removed already: there is no list for rows
        if isinstance(found, SnapshotTaken):
            received.newest = received.snapshot = found.snapshot
        return
    match found:
        case SnapshotTaken():
            _take_snapshot(view, found)
        case ClockMoved():
            if view.state.times.frozen_at is None:
                view.move_clock(found.at)
        case RowsRead() if _same(received.page, found.page):
            received.page = found.page  # the cursor moved to rows that are shown already
        case RowsRead():
            _take_page(view, found.page)
            view.paint()
        case ListAdvanced():
            received.advanced = found
            view.paint(rows=False)
        case KeysRead():
            _take_keys(view, found)
        case ConsumersRead():
            _take_consumers(view, found)
        case MatchFound():
            _take_match(view, found)
        case PayloadRead():
            received.payload = found
            view.paint(rows=False)
        case LookFailed():
            received.failed = found.error
            view.paint()
            view.settle()


def _take_snapshot(view: MainView, found: SnapshotTaken) -> None:
    received, page = view.state.received, found.page
    received.newest = found.snapshot
    received.failed = ""
    if view.state.times.frozen_at is None:
        _keep_write(view, found.snapshot)
        received.snapshot, view.state.times.moved_to = found.snapshot, 0.0
    elif page is None or _whole(received.page, page):
        return  # the page was not requested since the display was frozen
    if page is not None:
        _take_page(view, page)
    view.paint()


def _keep_write(view: MainView, snapshot: Snapshot) -> None:
    """Keeps the chosen write of a cursor's history chosen when newer ones are added above; at the top the newest is chosen."""
    place = view.state.chosen.get(View.CURSOR, 0)
    old = view.context().cursor if view.state.overlay is View.CURSOR else None
    new = next((one for one in snapshot.cursors if old is not None and (one.source, one.file) == (old.source, old.file)), None)
    if old is None or new is None or not 0 < place < len(old.history):
        return
    at = old.history[place].at
    view.state.chosen[View.CURSOR] = next((i for i, write in enumerate(new.history) if write.at == at), len(new.history) - 1)


def _whole(old: Page | None, page: Page) -> bool:
    """True where the list of ``page`` is shown completely already."""
    return old is not None and old.query == page.query and old.share is None


def _same(old: Page | None, page: Page) -> bool:
    """True where two pages differ only in the key that the cursor was searched by."""
    return old is not None and replace(page, anchor=old.anchor, anchor_at=old.anchor_at) == old


def _take_page(view: MainView, page: Page) -> None:
    if page.query != view.state.query:
        return  # for a view or a filter that was left meanwhile
    if page.share is None and _overtaken(view, page):
        return  # the page around the row chosen meanwhile is requested already
    view.state.received.advanced = None
    view.state.received.take_page(page)
    view.settle()
    if page.share is not None:
        view.rows.set_passing(page.length, page.generation, cursor=page.anchor_at or 0, items=page.rows)
        return
    view.rows.set_list(
        page.length, page.generation, cursor=page.anchor_at, anchor=page.anchor, start=page.start, items=page.rows
    )
    if (once_read := view.state.wanted.once_read) and view.in_front:
        view.state.wanted.once_read = ""
        view.choose(once_read)


def _overtaken(view: MainView, page: Page) -> bool:
    """True where the cursor was moved, while the list was incomplete, to a row that the complete list's ``page`` lacks."""
    chosen, shown, key = view.state.list_state, view.state.received.page, view.rows.cursor_key
    if chosen is None or shown is None or shown.share is None or key is None or key != chosen.cursor:
        return False
    return key != page.anchor and all(row.key != key for row in page.rows)


def _take_keys(view: MainView, found: KeysRead) -> None:
    marks, wanted = view.state.lists[found.query.box].marks, view.state.wanted
    then, wanted.marking, wanted.then = wanted.then, None, ""
    if found.query == view.state.query and view.state.times.frozen_at is None:
        marks.update(dict.fromkeys(found.keys))
        view.rows.set_marks(marks)
        view.show_notice(f"{len(marks):,} marked")
        if then and view.in_front:
            view.choose(then)


def _take_consumers(view: MainView, found: ConsumersRead) -> None:
    state = view.state
    if state.times.frozen_at is not None and state.received.consumers is not None:
        return
    state.chosen[View.CONSUMERS] = state.consumer_place
    state.received.consumers = found.found
    if state.root is View.CONSUMERS:
        view.paint()
        view.settle()


def _take_match(view: MainView, found: MatchFound) -> None:
    if found.query != view.state.query or found.search is not view.state.wanted.search:
        return  # for a list that was left meanwhile, or not the last search
    if found.index is None:
        view.show_notice(f"nothing {'below' if found.search.step > 0 else 'above'} matches {found.search.text}")
    else:
        view.rows.go_to(found.index)


def seek(view: MainView, step: int) -> None:
    """Goes to the next row that matches the last filter (``step`` -1: the previous one)."""
    state, chosen = view.state, view.state.list_state
    if chosen is None:
        return
    if not chosen.filter:
        state.wanted.seek(state.last_filter, step)
        request(view)
        return
    here = view.rows.cursor_index
    view.rows.move_by(step)
    if view.rows.cursor_index == here:
        view.show_notice(f"this is the {'last' if step > 0 else 'first'} match of {chosen.filter}")


def refine(view: MainView, box: Box, **changes: object) -> None:
    """Sets another filter, order or selection of a list: marks stay, the cursor keeps its key."""
    view.state.lists[box] = replace(view.state.lists[box], **changes)
    request(view)
    view.paint()


def set_filter(view: MainView, text: str) -> None:
    """Filters the list of the view in front."""
    chosen = view.state.list_state
    if chosen is not None:
        refine(view, chosen.box, filter=text)
        return
    view.state.texts[view.state.root] = text
    view.paint()


def set_sort(view: MainView, sort: Sort) -> None:
    """Sorts the list of the view in front."""
    chosen = view.state.list_state
    if chosen is not None:
        refine(view, chosen.box, sort=sort)
        return
    view.state.consumer_sort = sort
    view.paint()


def request(view: MainView) -> None:
    """Requests the list in front from the snapshot thread, with the place of the cursor in it (the last one, in a list just
    returned to)."""
    state = view.state
    wanted = state.wanted.request(state.query, state.list_state, view.row, consumers=state.root is View.CONSUMERS)
    view.session.snapshot_thread.request(wanted)
