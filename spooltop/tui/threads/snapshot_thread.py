"""Takes snapshots in a thread. It touches no widget: it posts past-tense messages.

It runs a loop: look, list the view in front, read the chosen message, post, wait for a change. A look may hang for ever (a dead
NFS server): the thread is a daemon thread, so quitting does not wait for it, and ``looking_for`` says how long it has lasted. The
screen's request is one frozen ``ListRequest``; a newer one replaces an older one that was not served yet.
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
"""Seconds between two looks where nothing happens: a consumer that dies causes no event."""
BUSY = 0.25
"""Seconds between two looks where much happens."""

SHARE = 3
"""Rest after a look as a multiple of its duration: a large spool that never rests takes a quarter of a core."""
LONGEST_REST = 10.0
"""Maximum rest in seconds: a look that hung for a minute does not mean a large spool."""
ORDINARY = 0.4
"""Maximum duration in seconds of a look at a spool that is not large."""
FRESH = 1.0
"""Seconds from one look to the next then: the work of a look grows with the rest before it, and so would the rest."""
TIMED = 100
"""Factor of its duration for which a list is kept when nothing changed but the time: ages in a list of a million cost 1 %."""
MARGIN = 50
"""Rows read above and below the window, so that a step beyond its edge shows rows at once."""


def rest_after(took: float, busy: float) -> float:
    """Seconds to rest after a look that took ``took`` seconds; at least ``busy``.

    >>> rest_after(0.125, 0.25), rest_after(0.375, 0.25), rest_after(2.0, 0.25), rest_after(60.0, 0.25)
    (0.375, 0.625, 6.0, 10.0)
    """
    most = FRESH - took if took <= ORDINARY else LONGEST_REST
    return max(busy, min(most, SHARE * took))


class SnapshotThread:
    """Takes snapshots in a thread of its own and posts what it found with ``post`` (called in that thread). Where ``post`` is
    None, findings wait for ``post_to``."""

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
        """Starts the thread; does nothing where it runs."""
        if self._thread.ident is None:
            self._thread.start()

    def post_to(self, post: Callable[[Found], object]) -> None:
        """Posts to ``post`` from now on, first what was found before."""
        with self._lock:
            unposted, self._unposted = self._unposted, []
            for found in unposted:
                post(found)
            self._to = post

    def looking_for(self) -> float:
        """Seconds since the present work began (a look, a list, a payload); 0 where there is none."""
        since = self._since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    def looking_at(self) -> str:
        """A description of the present work."""
        return self._at or self._control.current_step()

    def request(self, request: ListRequest) -> None:
        """Sets what the screen shows from now on. It is served at once, even between two looks."""
        if request != self._request:
            with self._lock:
                self._request = request
            self._wake()

    def follow(self, ids: Sequence[str], since: float = 0.0) -> None:
        """Follows these messages after each look; none where ``ids`` is empty."""
        with self._lock:
            self._following = (tuple(ids), since)
        self._wake()

    def run(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job``, which shares the scan with the looks, between two of them and calls ``reply`` in the thread."""
        with self._lock:
            self._asked.append(lambda: reply(outcome(job)))
        self._wake()

    def look_again(self) -> None:
        """Asks for a full scan, now."""
        with self._lock:
            self._rescan = True
        self._wake()

    def stop(self, timeout: float = 0.0) -> bool:
        """Asks the thread to end; True where it did within ``timeout`` seconds. It is a daemon thread, so waiting is optional."""
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
        """Waits until there is work; True where a look is due. Two looks are at least ``rest`` seconds apart."""
        with self._lock:
            while self._version == version and (left := looked_at + rest - self._monotonic()) > 0:
                self._lock.wait(left)
            changed = self._version == version
        if changed:
            self._control.changes(self._quiet)
        # A request may have woken the thread. It is served without a look, but never delays a look that is due.
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
        # An invalid filter must not hide the snapshot.
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
        """The window of the list in front, from a new listing after a look, unless nothing can have changed in it."""
        if request.query is None:
            self._listing = None
            return None
        listing = self._listing
        if listing is not None and listing.query == request.query:
            over = listing.timed and self._monotonic() - self._listed_at >= TIMED * self._listing_took
            stale = snapshot is not None and (snapshot.observation.generation != listing.generation or over)
        else:
            stale = True
        if listing is None or stale:
            listing = self._listed(request.query, request, version)
            if listing is None:
                return None
        at = None if request.anchor is None else self._found(listing, request.anchor)
        shift = 0 if at is None else at - request.anchor_index
        # As many rows as requested: another order may move the anchor from the end of a million to the beginning.
        first = max(0, min(request.start + shift, len(listing) - 1))
        start, stop = max(0, first - MARGIN), min(len(listing), first + request.stop - request.start + MARGIN)
        rows = tuple(listing.window(start, stop)) if stop > start else ()
        return Page(request.query, self._serial, len(listing), listing.complete, start, rows, request.anchor, at)

    def _found(self, listing: Listing, anchor: Key) -> int | None:
        """The place of ``anchor`` in the listing, looked up once: in a list of a million that takes time."""
        if self._anchored[:2] != (self._serial, anchor):
            self._anchored = (self._serial, anchor, listing.find(anchor))
        return self._anchored[2]

    def _listed(self, query: ListQuery, request: ListRequest, version: int) -> Listing | None:
        """Makes a new listing. One that a key cancelled has no order yet: the old listing stays until the next look; where there
        was none it is None, because the newest request is served next."""
        old = self._listing if self._listing is not None and self._listing.query == query else None
        broken_off = False

        def cancelled() -> bool:
            nonlocal broken_off
            self._since = self._monotonic()  # the listing makes progress: a list of a million is long, not stuck
            # Once true it stays true: when the user returns to this list, its listing is incomplete all the same.
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
        # An old listing shows more than a new one does before its end.
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
