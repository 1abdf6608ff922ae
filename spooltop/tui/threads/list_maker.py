"""Makes the listing of the list in front."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import Listing, ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Key

from ..control_protocol import ControlProtocol
from .list_progress import IntervalProgress
from .messages import Found, ListAdvanced, ListRequest, Page, RowsRead

TIMED = 100
"""Factor of its duration for which a list is kept when nothing changed but the time: ages in a list of a million cost 1 %."""


class ListMaker:
    """Keeps the last listing as long as nothing in it can have changed. ``generation`` differs for each one made."""

    def __init__(
        self, control: ControlProtocol, post: Callable[[Found], object], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._control = control
        self._post = post
        self._monotonic = monotonic
        self._listing: Listing | None = None
        self._made_at = self._took = 0.0
        self.generation = 0

    def listing(self, request: ListRequest, snapshot: Snapshot | None, unwanted: Callable[[bool], bool]) -> Listing | None:
        """The list of ``request``, made anew where ``snapshot``, that of a new look, may differ in it. ``unwanted`` tells while
        it is made that it is not needed any more; its argument says that an older one may be shown instead.

        A listing that was cancelled has no order yet. Then the old listing stays until the next look; where there was none the
        result is None, because the newest request is served next.
        """
        if request.query is None:
            self._listing = None
            return None
        old = self._listing if self._listing is not None and self._listing.query == request.query else None
        if old is not None and not self._outdated(old, snapshot):
            return old
        cancelled = _Latch(lambda: unwanted(old is not None))
        began = self._monotonic()
        # An old listing shows more than a new one does before its end.
        progress = IntervalProgress(self._monotonic, self._showing(request.query, request.anchor)) if old is None else None
        listing = self._control.listing(request.query, cancelled, progress)
        self._made_at = self._monotonic()
        self._took = self._made_at - began
        if cancelled.closed and not listing.complete:
            self._listing = old
        else:
            self._listing = listing
            self.generation += 1
        return self._listing

    def _outdated(self, listing: Listing, snapshot: Snapshot | None) -> bool:
        if snapshot is None:
            return False
        aged = listing.timed and self._monotonic() - self._made_at >= TIMED * self._took
        return aged or snapshot.observation.generation != listing.generation

    def _showing(self, query: ListQuery, anchor: Key | None) -> Callable[[float, Sequence[Row], int], None]:
        """Returns a function that posts the part of a list that is made so far."""

        def show(share: float, rows: Sequence[Row], count: int) -> None:
            if not rows:
                self._post(ListAdvanced(query, share))
                return
            self.generation += 1
            at = next((at for at, row in enumerate(rows) if row.key == anchor), None)
            self._post(RowsRead(Page(query, self.generation, count, False, 0, tuple(rows), anchor, at, share)))

        return show


class _Latch:
    """A condition that stays true once it was: when the user returns to a list, its cancelled listing is incomplete all the
    same."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self.closed = False

    def __call__(self) -> bool:
        self.closed = self.closed or self._condition()
        return self.closed
