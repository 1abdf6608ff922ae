"""Serves the screen's request for a list: a window of its rows, all of its keys, the next row that matches a filter."""

from __future__ import annotations

import time
from collections.abc import Callable

from spooltop.errors import SpooltopError
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import Listing
from spooltop.model.vocabulary import Key

from ..change_filter import CLOCK, ChangeFilter
from ..control_protocol import ControlProtocol
from .find_next import match
from .list_maker import ListMaker
from .messages import ClockMoved, Found, KeysRead, ListRequest, LookFailed, MatchFound, Page, RowsRead, SnapshotTaken

MARGIN = 50
"""Rows read above and below the window, so that a step beyond its edge shows rows at once."""


class ListServer:
    """Posts each snapshot that ``changes`` passes together with the page that was taken from the same look."""

    def __init__(
        self, control: ControlProtocol, post: Callable[[Found], object], changes: ChangeFilter,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._control = control
        self._post = post
        self._changes = changes
        self._maker = ListMaker(control, post, monotonic)
        self._posted: Page | None = None
        self._asked: tuple[object, ...] = ()
        self._shown_at = 0.0
        self._anchored: tuple[int, Key | None, int | None] = (0, None, None)
        self._keys_served = 0
        self._search_served = 0

    def serve(self, request: ListRequest, snapshot: Snapshot | None, unwanted: Callable[[bool], bool]) -> None:
        """Posts what ``request`` wants; ``snapshot`` where a look was taken for it. ``unwanted``: see ``ListMaker.listing``."""
        news = snapshot is not None and self._changes.passes(snapshot)
        # An invalid filter must not hide the snapshot.
        try:
            listing = self._maker.listing(request, snapshot, unwanted)
            page = None if listing is None else self._page(listing, request, news)
        except SpooltopError as error:
            if snapshot is not None:
                self._post(SnapshotTaken(snapshot, None))
            self._post(LookFailed(str(error), request.query))
            self._changes.pass_next()
            return
        if snapshot is not None:
            self._post_look(snapshot, page, news)
        elif page is not None:
            self._post(RowsRead(page))
        self._posted = page
        if listing is not None:
            self._answer(listing, request)

    def _post_look(self, snapshot: Snapshot, page: Page | None, news: bool) -> None:
        at = snapshot.taken_at
        if news or (page is not None and page.differs(self._posted)):
            self._shown_at = at
            self._post(SnapshotTaken(snapshot, page))
        elif not 0 <= at - self._shown_at < CLOCK:
            self._shown_at = at
            self._post(ClockMoved(at))

    def _answer(self, listing: Listing, request: ListRequest) -> None:
        if request.all_keys != self._keys_served:
            self._keys_served = request.all_keys
            self._post(KeysRead(listing.query, tuple(listing.keys())))
        search = request.search
        if search is not None and search.number != self._search_served:
            self._search_served = search.number
            self._post(MatchFound(listing.query, search, match(self._control.listing, listing, request, search)))

    def _page(self, listing: Listing, request: ListRequest, news: bool) -> Page:
        """The window of the listing that is requested; the page posted last where that is the same and there are no ``news``."""
        asked = (self._maker.generation, request.start, request.stop, request.anchor, request.anchor_index)
        if self._posted is not None and asked == self._asked and not news:
            return self._posted
        self._asked = asked
        at = None if request.anchor is None else self._place(listing, request.anchor)
        shift = 0 if at is None else at - request.anchor_index
        # As many rows as requested: another order may move the anchor from the end of a million to the beginning.
        first = max(0, min(request.start + shift, len(listing) - 1))
        start, stop = max(0, first - MARGIN), min(len(listing), first + request.stop - request.start + MARGIN)
        rows = tuple(listing.window(start, stop)) if stop > start else ()
        return Page(
            listing.query, self._maker.generation, len(listing), listing.complete, start, rows, request.anchor, at,
            ordered_over=listing.ordered_over,
        )  # fmt: skip

    def _place(self, listing: Listing, anchor: Key) -> int | None:
        """The place of ``anchor`` in the listing, looked up once: in a list of a million that takes time."""
        generation = self._maker.generation
        if self._anchored[:2] != (generation, anchor):
            self._anchored = (generation, anchor, listing.find(anchor))
        return self._anchored[2]
