"""What the threads found, taken to the main screen, and what it wants of them next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spooltop.model.protocols import ListQuery

from ...change_filter import clock_period
from ...context import View
from ...threads.messages import (
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
    Wish,
)

if TYPE_CHECKING:
    from spooltop.model.snapshot import Snapshot

    from .screen import MainScreen

__all__ = ["query_wanted", "seek", "take", "want"]


def take(screen: MainScreen, found: Found) -> None:
    """Something that a thread found. Counts and lists on the screen stay of one look: they are taken together."""
    if not screen.ready:  # not composed yet, or torn down already: there is no list to put rows into
        if isinstance(found, SnapshotTaken):
            screen.newest = screen.snapshot = found.snapshot
        return
    match found:
        case SnapshotTaken():
            _take_snapshot(screen, found)
        case RowsRead() if _same(screen.page, found.page):
            screen.page = found.page  # where a key went, the rows of its page were there already
        case RowsRead():
            _take_page(screen, found.page)
            screen.paint()
        case ListAdvanced():
            screen.advanced = found
            screen.paint(rows=False)
        case KeysRead():
            _take_keys(screen, found)
        case MatchFound():
            _take_match(screen, found)
        case PayloadRead():
            screen.payload = found
            screen.paint(rows=False)
        case LookFailed():
            screen.failed = found.error
            screen.paint()


def _take_snapshot(screen: MainScreen, found: SnapshotTaken) -> None:
    screen.newest = found.snapshot
    screen.failed = ""
    fresh = screen.steady.takes(found.snapshot)
    if screen.frozen_at is not None:
        if found.page is not None and not _whole(screen.page, found.page):  # what was asked for since it was frozen
            _take_page(screen, found.page)
            screen.paint()
        return
    if fresh or screen.snapshot is None:
        _keep_write(screen, found.snapshot)
        screen.snapshot = found.snapshot
    if found.page is not None and (fresh or _differs(screen, found.page)):
        screen.snapshot = found.snapshot
        _take_page(screen, found.page)
        fresh = True
    if fresh:
        screen.paint()
    elif found.snapshot.taken_at - screen.clock_at >= clock_period(screen.app.size.width):
        screen.move_clock(found.snapshot.taken_at)


def _keep_write(screen: MainScreen, snapshot: Snapshot) -> None:
    """In one cursor's history the write that is chosen stays it when newer ones come above; at the top the newest is."""
    place = screen.chosen.get(View.CURSOR, 0)
    old = screen.scene().cursor if screen.over is View.CURSOR else None
    new = next((one for one in snapshot.cursors if old is not None and (one.source, one.file) == (old.source, old.file)), None)
    if old is None or new is None or not 0 < place < len(old.history):
        return
    at = old.history[place].at
    screen.chosen[View.CURSOR] = next((i for i, write in enumerate(new.history) if write.at == at), len(new.history) - 1)


def _differs(screen: MainScreen, page: Page) -> bool:
    old = screen.page
    return not _whole(old, page) or old is None or (old.length, old.start, old.rows) != (page.length, page.start, page.rows)


def _whole(old: Page | None, page: Page) -> bool:
    """Whether all of the list stands there already that ``page`` is of."""
    return old is not None and old.query == page.query and old.share is None


def _same(old: Page | None, page: Page) -> bool:
    """Whether a page says what another said, but for where the cursor was sought."""
    return old is not None and replace(page, anchor=old.anchor, anchor_at=old.anchor_at) == old


def _take_page(screen: MainScreen, page: Page) -> None:
    if page.query != query_wanted(screen):
        return  # of a view or a filter that was left meanwhile
    if page.share is None and _overtaken(screen, page):
        return  # the page around the row that was chosen meanwhile is wished for already
    screen.advanced = None
    screen.page = page
    if page.share is not None:
        screen.rows.set_passing(page.length, page.generation, cursor=page.anchor_at or 0, items=page.rows)
        return
    screen.rows.set_list(
        page.length, page.generation, cursor=page.anchor_at, anchor=page.anchor, start=page.start, items=page.rows
    )


def _overtaken(screen: MainScreen, page: Page) -> bool:
    """Whether the cursor was moved in what was shown before the end, to a row that the whole list's ``page`` lacks."""
    state, key = screen.state, screen.rows.cursor_key
    if state is None or screen.page is None or screen.page.share is None or key is None or key != state.cursor:
        return False
    return key != page.anchor and all(row.key != key for row in page.rows)


def _take_keys(screen: MainScreen, found: KeysRead) -> None:
    state = screen.states[found.query.box]
    if found.query == query_wanted(screen) and screen.frozen_at is None:
        state.marks.update(dict.fromkeys(found.keys))
        screen.rows.set_marks(state.marks)
        screen.say(f"{len(state.marks):,} marked")


def _take_match(screen: MainScreen, found: MatchFound) -> None:
    if found.query != query_wanted(screen) or found.search is not screen.search:
        return  # of a list that was left meanwhile, or not the last one asked for
    if found.index is None:
        screen.say(f"nothing {'below' if found.search.step > 0 else 'above'} matches {found.search.text}")
    else:
        screen.rows.go_to(found.index)


def seek(screen: MainScreen, step: int) -> None:
    """The next row that matches what was filtered by last (``step`` -1: the one before)."""
    state = screen.state
    if state is None:
        return
    if not state.filter:
        screen.search = Search(screen.search.number + 1 if screen.search is not None else 1, screen.sought, step)
        want(screen)
        return
    here = screen.rows.cursor_index
    screen.rows.move_by(step)
    if screen.rows.cursor_index == here:
        screen.say(f"this is the {'last' if step > 0 else 'first'} that matches {state.filter}")


def query_wanted(screen: MainScreen) -> ListQuery | None:
    state = screen.state
    return None if state is None else ListQuery(state.box, state.filter, state.sort, state.selection)


def want(screen: MainScreen) -> None:
    """Tells the looker what is in front, and where the cursor stands in it (where it stood, in a list just come back to)."""
    state, query = screen.state, query_wanted(screen)
    if state is None or query is None:
        screen.owner.looker.want(Wish(all_keys=screen.keys_wanted))
        return
    row = screen.row
    screen.owner.looker.want(
        Wish(
            query=query,
            start=screen.range[0],
            stop=screen.range[1],
            anchor=state.cursor,
            anchor_index=state.index,
            payload=row.key if row is not None else None,
            all_keys=screen.keys_wanted,
            search=screen.search,
        )
    )
