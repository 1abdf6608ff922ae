"""The thread that looks. It touches no widget: what it found goes out as past-tense messages.

It turns round as long as the dashboard runs: look, list what is in front, read what is chosen, post, wait for a
change. A look may hang for ever (a dead NFS server): the thread is a daemon, so quitting does not wait for it, and
``looking_for`` tells how long. Whatever the screen asks for is one frozen ``ListRequest``; a newer one
replaces an older one that was not served yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from spooltop.errors import SpooltopError
from spooltop.model.protocols import Listing, ListQuery
from spooltop.model.row import Row
from spooltop.model.snapshot import Snapshot
from spooltop.model.tracked import TrackedMessage
from spooltop.model.vocabulary import Key

from ..control_protocol import PAYLOAD_LIMIT, ControlProtocol
from .find_next import match
from .list_progress import IntervalProgress
from .messages import (
    Found,
    KeysRead,
    ListAdvanced,
    ListRequest,
    LookFailed,
    MatchFound,
    MessagesTracked,
    Page,
    PayloadRead,
    RowsRead,
    SnapshotTaken,
)
from .worker import outcome

__all__ = ["SnapshotThread", "rest_after"]

T = TypeVar("T")

QUIET = 1.0
"""Seconds between two looks where nothing happens: a consumer that died makes no event."""
BUSY = 0.25
"""Seconds between two looks where much happens."""

SHARE = 3
"""How many times as long as a look took nothing is looked at: a large spool that never rests costs a quarter of a core."""
LONGEST_REST = 10.0
"""Seconds: a look that hung for a minute is no large spool."""
ORDINARY = 0.4
"""Seconds that a look takes at most where the spool is no large one."""
FRESH = 1.0
"""Seconds from one look to the next then: what a look counts grows with the rest before it, and so would the rest."""
TIMED = 100
"""How many times as long as a list took to make it stands where nothing changed but the time: an age of a million costs 1 %."""
MARGIN = 50
"""Rows read above and below the window, so that a step over its edge shows rows at once."""


def rest_after(took: float, busy: float) -> float:
    """Seconds without a look after one that took ``took``; ``busy`` at least.

    >>> rest_after(0.125, 0.25), rest_after(0.375, 0.25), rest_after(2.0, 0.25), rest_after(60.0, 0.25)
    (0.375, 0.625, 6.0, 10.0)
    """
    most = FRESH - took if took <= ORDINARY else LONGEST_REST
    return max(busy, min(most, SHARE * took))


class SnapshotThread:
    """Looks in a thread of its own and posts what it found with ``post`` (called in that thread); where there is nobody yet to
    post to (None), what it finds waits for ``post_to``."""

    def __init__(
        self,
        control: ControlProtocol,
        post: Callable[[Found], object] | None = None,
        *,
        quiet: float = QUIET,
        busy: float = BUSY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._to = post
        self._unposted: list[Found] = []
        self._quiet = quiet
        self._busy = busy
        self._monotonic = monotonic
        self._lock = threading.Condition()
        self._request = ListRequest()
        self._version = 0
        self._rescan = False
        self._stopped = False
        self._since: float | None = None
        self._at = ""
        self._following: tuple[tuple[str, ...], float] = ((), 0.0)
        self._followed: Mapping[str, TrackedMessage] = {}
        self._asked: list[Callable[[], object]] = []
        self._searched = 0
        self._listing: Listing | None = None
        self._listed_at = self._listing_took = 0.0
        self._anchored: tuple[int, Key | None, int | None] = (0, None, None)
        self._serial = 0
        self._keys_served = 0
        self._payload_served: PayloadRead | None = None
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        """Begins to look; does nothing where it looks already."""
        if self._thread.ident is None:
            self._thread.start()

    def post_to(self, post: Callable[[Found], object]) -> None:
        """From now on ``post`` gets what is found, first what was found before."""
        with self._lock:
            unposted, self._unposted = self._unposted, []
            for found in unposted:
                post(found)
            self._to = post

    def looking_for(self) -> float:
        """Seconds since what is under way began (a look, a list, a payload), 0 where nothing is."""
        since = self._since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    def looking_at(self) -> str:
        """What that is at, in words."""
        return self._at or self._control.current_step()

    def request(self, request: ListRequest) -> None:
        """What the screen shows from now on. Served at once, even between two looks."""
        if request != self._request:
            with self._lock:
                self._request = request
            self._wake()

    def follow(self, ids: Sequence[str], since: float = 0.0) -> None:
        """Keeps an eye on these messages after each look, on none where it is empty."""
        with self._lock:
            self._following = (tuple(ids), since)
        self._wake()

    def run(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job``, which shares the scan with the looks, between two of them and calls ``reply`` there."""
        with self._lock:
            self._asked.append(lambda: reply(outcome(job)))
        self._wake()

    def look_again(self) -> None:
        """Scans everything, now."""
        with self._lock:
            self._rescan = True
        self._wake()

    def stop(self, timeout: float = 0.0) -> bool:
        """Asks the thread to end; True where it did within ``timeout`` seconds. It is a daemon: nobody has to wait."""
        self._stopped = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _post(self, found: Found) -> None:
        with self._lock:
            post = self._to
            if post is None:
                self._unposted.append(found)
                return
        post(found)

    def _wake(self) -> None:
        with self._lock:
            self._version += 1
            self._lock.notify_all()
        self._control.wake()

    def _run(self) -> None:
        due = True
        looked_at = rest = 0.0
        while not self._stopped:
            with self._lock:
                request, version, rescan, self._rescan = self._request, self._version, self._rescan, False
                asked, self._asked = self._asked, []
            look = due or rescan
            began = self._monotonic()
            try:
                self._serve(request, version, look, rescan)
            except (SpooltopError, OSError) as error:
                self._post(LookFailed(str(error), request.query))
            except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread that looks
                self._post(LookFailed(f"internal error, please report: {error!r}", request.query))
            if asked:
                self._answer(asked)
            if look:
                looked_at = self._monotonic()
                rest = rest_after(looked_at - began, self._busy)
            due = self._wait(version, looked_at, rest)

    def _wait(self, version: int, looked_at: float, rest: float) -> bool:
        """Until there is something to do; True: a look is due. Two looks are at least ``rest`` seconds apart."""
        with self._lock:
            while self._version == version and (left := looked_at + rest - self._monotonic()) > 0:
                self._lock.wait(left)
            changed = self._version == version
        if changed:
            self._control.changes(self._quiet)
        # What woke us may have been a wish: it is served without a look, but never puts off a look that is due.
        return self._version == version or self._monotonic() - looked_at >= self._quiet

    def _serve(self, request: ListRequest, version: int, look: bool, rescan: bool) -> None:
        self._since, self._at = self._monotonic(), ""
        try:
            snapshot = self._control.look(rescan) if look else None
            self._at = f"listing {request.query.box}" if request.query is not None else ""
            self._show(request, version, snapshot)
            self._follow(look)
            self._at = "reading a message"
            self._read(request.payload, look)
        finally:
            self._since = None

    def _show(self, request: ListRequest, version: int, snapshot: Snapshot | None) -> None:
        # A filter that makes no sense must not hide the snapshot.
        try:
            page = self._page(request, version, snapshot)
        except SpooltopError as error:
            if snapshot is not None:
                self._post(SnapshotTaken(snapshot, None))
            self._post(LookFailed(str(error), request.query))
            return
        if snapshot is not None:
            self._post(SnapshotTaken(snapshot, page))
        elif page is not None:
            self._post(RowsRead(page))
        if page is None or self._listing is None:
            return
        if request.all_keys != self._keys_served:
            self._keys_served = request.all_keys
            self._post(KeysRead(self._listing.query, tuple(self._listing.keys())))
        if request.search is not None and request.search.number != self._searched:
            self._searched = request.search.number
            found = match(self._control.listing, self._listing, request, request.search)
            self._post(MatchFound(self._listing.query, request.search, found))

    def _follow(self, look: bool) -> None:
        ids, since = self._following
        if not ids and not self._followed:
            return
        found = self._control.follow(ids, since)
        if look and ids:
            self._post(MessagesTracked(self._control.now(), found))
        self._followed = found

    def _answer(self, asked: Sequence[Callable[[], object]]) -> None:
        self._since, self._at = self._monotonic(), "asking who has a file"
        try:
            for job in asked:
                job()
        finally:
            self._since = None

    def _page(self, request: ListRequest, version: int, snapshot: Snapshot | None) -> Page | None:
        """The window of the list in front; of a new listing after a look, unless nothing can have changed in it."""
        if request.query is None:
            self._listing = None
            return None
        listing = self._listing
        if listing is not None and listing.query == request.query:
            over = listing.timed and self._monotonic() - self._listed_at >= TIMED * self._listing_took
            stale = snapshot is not None and (snapshot.sight.generation != listing.generation or over)
        else:
            stale = True
        if listing is None or stale:
            listing = self._listed(request.query, request, version)
            if listing is None:
                return None
        at = None if request.anchor is None else self._found(listing, request.anchor)
        shift = 0 if at is None else at - request.anchor_index
        # As many rows as are wished for: another order may bring the anchor from the end of a million to their beginning.
        first = max(0, min(request.start + shift, len(listing) - 1))
        start, stop = max(0, first - MARGIN), min(len(listing), first + request.stop - request.start + MARGIN)
        rows = tuple(listing.window(start, stop)) if stop > start else ()
        return Page(request.query, self._serial, len(listing), listing.complete, start, rows, request.anchor, at)

    def _found(self, listing: Listing, anchor: Key) -> int | None:
        """Where ``anchor`` stands in it: looked for once, in a million it takes its time."""
        if self._anchored[:2] != (self._serial, anchor):
            self._anchored = (self._serial, anchor, listing.find(anchor))
        return self._anchored[2]

    def _listed(self, query: ListQuery, request: ListRequest, version: int) -> Listing | None:
        """A new listing. One that a key broke off has no order yet: what was listed before stands until the next look, and
        where nothing was it is None, for the newest wish is served next."""
        old = self._listing if self._listing is not None and self._listing.query == query else None
        broken_off = False

        def cancelled() -> bool:
            nonlocal broken_off
            self._since = self._monotonic()  # who asks goes on: a million are a long list, not one that does not answer
            # Once true it stays so: where the keys come back to this list, it has been left half made all the same.
            broken_off = (
                broken_off or self._stopped or (self._version != version if old is not None else self._request.query != query)
            )
            return broken_off

        def show(share: float, rows: Sequence[Row], count: int) -> None:
            if not rows:
                self._post(ListAdvanced(query, share))
                return
            self._serial += 1
            at = next((at for at, row in enumerate(rows) if row.key == request.anchor), None)
            self._post(RowsRead(Page(query, self._serial, count, False, 0, tuple(rows), request.anchor, at, share)))

        began = self._monotonic()
        # What stands there already is more than what is known of it before the end.
        listing = self._control.listing(query, cancelled, IntervalProgress(self._monotonic, show) if old is None else None)
        self._listed_at = self._monotonic()
        self._listing_took = self._listed_at - began
        if broken_off and not listing.complete:
            self._listing = old
            return old
        self._listing = listing
        self._serial += 1
        return listing

    def _read(self, key: Key | None, look: bool) -> None:
        if key is None:
            self._payload_served = None
            return
        served = self._payload_served
        if not look and served is not None and served.key == key:
            return
        try:
            found = PayloadRead(key, self._control.read(key, PAYLOAD_LIMIT))
        except (SpooltopError, OSError) as error:
            found = PayloadRead(key, None, str(error))
        if found != served:
            self._payload_served = found
            self._post(found)
