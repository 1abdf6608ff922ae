"""The thread that looks, and the one that changes. Neither touches a widget: what they found goes out as past-tense messages.

The looker turns round as long as the dashboard runs: look, list what is in front, read what is chosen, post, wait for a
change. A look may hang for ever (a dead NFS server): the thread is a daemon, so quitting does not wait for it, and
``looking_for`` tells how long. Whatever the screen asks for is one frozen ``Wish``; a newer wish replaces an older one that
nobody served yet.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..errors import SpooltopError
from ..model.kind import Listing, ListQuery
from ..model.plan import OperationRecord, Plan, Result
from ..model.row import Payload, Row
from ..model.selection import Selection
from ..model.snapshot import Snapshot
from ..model.words import Action, Box, Json, Key

__all__ = ["Control", "Doer", "KeysRead", "LookFailed", "Looker", "Page", "PayloadRead", "RowsRead", "SnapshotTaken", "Wish"]

PAYLOAD_LIMIT = 65536
QUIET = 1.0
"""Seconds between two looks where nothing happens: a consumer that died makes no event."""
BUSY = 0.25
"""Seconds between two looks where much happens."""

SHARE = 3
"""How many times as long as a look took nothing is looked at: a large spool that never rests costs a quarter of a core."""
MARGIN = 50
"""Rows read above and below the window, so that a step over its edge shows rows at once."""

T = TypeVar("T")


class Control(Protocol):
    """What the dashboard asks of ``spooltop.control.Control``."""

    target: str
    layout: str

    def now(self) -> float: ...
    def look(self, rescan: bool = False) -> Snapshot: ...
    def changes(self, timeout: float) -> bool: ...
    def wake(self) -> None: ...
    def listing(self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False) -> Listing: ...
    def read(self, key: Key, limit: int = PAYLOAD_LIMIT) -> Payload: ...
    def plan(
        self, action: Action, selection: Selection, *, force: bool = False, options: Mapping[str, Json] | None = None
    ) -> Plan: ...
    def apply(
        self, plan: Plan, on_progress: Callable[[int], None] | None = None, stop: Callable[[], bool] | None = None
    ) -> Result: ...
    def operations(self) -> list[OperationRecord]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Wish:
    """What the screen wants to know besides the snapshot: a list with a window of rows, and one payload.

    ``anchor`` is the key that the cursor stands on, ``anchor_index`` where it stood. ``all_keys`` counts up each time all keys
    of the list are wanted.
    """

    query: ListQuery | None = None
    start: int = 0
    stop: int = 0
    anchor: Key | None = None
    anchor_index: int = 0
    payload: Key | None = None
    all_keys: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A window of a list; ``generation`` differs for each listing made. ``anchor_at``: where the wish's anchor stands in it,
    None where it is gone (or none was wished)."""

    query: ListQuery
    generation: int
    length: int
    complete: bool
    start: int
    rows: tuple[Row, ...]
    anchor: Key | None
    anchor_at: int | None


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A look came back; the page is of the same look."""

    snapshot: Snapshot
    page: Page | None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Another window, filter or order, out of the last look."""

    page: Page


@dataclass(frozen=True, slots=True)
class KeysRead:
    query: ListQuery
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class PayloadRead:
    """``payload`` None: it could not be read, ``error`` says why."""

    key: Key
    payload: Payload | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class LookFailed:
    """A look or a listing raised; what was seen before stays on the screen."""

    error: str
    query: ListQuery | None = None


Found = SnapshotTaken | RowsRead | KeysRead | PayloadRead | LookFailed


class Looker:
    """Looks in a thread of its own and posts what it found with ``post`` (called in that thread)."""

    def __init__(
        self,
        control: Control,
        post: Callable[[Found], object],
        *,
        quiet: float = QUIET,
        busy: float = BUSY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._post = post
        self._quiet = quiet
        self._busy = busy
        self._monotonic = monotonic
        self._lock = threading.Condition()
        self._wish = Wish()
        self._version = 0
        self._rescan = False
        self._stopped = False
        self._looking_since: float | None = None
        self._listing: Listing | None = None
        self._serial = 0
        self._keys_served = 0
        self._payload_served: PayloadRead | None = None
        self._thread = threading.Thread(target=self._run, name="looker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def wish(self) -> Wish:
        return self._wish

    def looking_for(self) -> float:
        """Seconds since the look that is under way began, 0 where none is."""
        since = self._looking_since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    def want(self, wish: Wish) -> None:
        """What the screen shows from now on. Served at once, even between two looks."""
        if wish != self._wish:
            with self._lock:
                self._wish = wish
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
                wish, version, rescan, self._rescan = self._wish, self._version, self._rescan, False
            look = due or rescan
            began = self._monotonic()
            try:
                self._serve(wish, version, look, rescan)
            except (SpooltopError, OSError) as error:
                self._post(LookFailed(str(error), wish.query))
            except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread that looks
                self._post(LookFailed(f"internal error, please report: {error!r}", wish.query))
            if look:
                looked_at = self._monotonic()
                rest = max(self._busy, SHARE * (looked_at - began))
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

    def _serve(self, wish: Wish, version: int, look: bool, rescan: bool) -> None:
        if look:
            self._looking_since = self._monotonic()
            try:
                snapshot = self._control.look(rescan)
            finally:
                self._looking_since = None
            # A filter that makes no sense must not hide the snapshot.
            try:
                page = self._page(wish, version, snapshot)
            except SpooltopError as error:
                self._post(SnapshotTaken(snapshot, None))
                self._post(LookFailed(str(error), wish.query))
                return
            self._post(SnapshotTaken(snapshot, page))
        elif (page := self._page(wish, version, None)) is not None:
            self._post(RowsRead(page))
        if self._listing is not None and wish.all_keys != self._keys_served:
            self._keys_served = wish.all_keys
            self._post(KeysRead(self._listing.query, tuple(self._listing.keys())))
        self._read(wish.payload, look)

    def _page(self, wish: Wish, version: int, snapshot: Snapshot | None) -> Page | None:
        """The window of the list in front; of a new listing after a look, unless nothing can have changed in it."""
        if wish.query is None:
            self._listing = None
            return None
        listing = self._listing
        if listing is not None and listing.query == wish.query:
            stale = snapshot is not None and (
                snapshot.sight.generation != listing.generation or wish.query.box is not Box.NEW or bool(wish.query.filter)
            )
        else:
            stale = True
        if listing is None or stale:
            listing = self._control.listing(wish.query, lambda: self._version != version)
            self._listing = listing
            self._serial += 1
        at = None if wish.anchor is None else listing.find(wish.anchor)
        shift = 0 if at is None else at - wish.anchor_index
        start = max(0, min(wish.start + shift, len(listing) - 1) - MARGIN)
        stop = min(len(listing), wish.stop + max(0, shift) + MARGIN)
        rows = tuple(listing.window(start, stop)) if stop > start else ()
        return Page(wish.query, self._serial, len(listing), listing.complete, start, rows, wish.anchor, at)

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


class Doer:
    """Plans and applies, one after the other, in a thread of its own, so that a slow disk freezes neither keys nor looks."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="doer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job`` in the thread and calls ``reply`` there with what it returned, or with the error that it raised."""

        def run() -> None:
            try:
                outcome: T | SpooltopError = job()
            except SpooltopError as error:
                outcome = error
            except OSError as error:
                outcome = SpooltopError(error.strerror or str(error), path=error.filename)
            except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread
                outcome = SpooltopError(f"internal error, please report: {error!r}")
            reply(outcome)

        self._jobs.put(run)

    def stop(self, timeout: float) -> bool:
        """Takes no more jobs; True where the one under way ended within ``timeout`` seconds."""
        self._jobs.put(None)
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
