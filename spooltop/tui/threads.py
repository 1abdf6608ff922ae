"""The threads of the dashboard. They touch no widget: one takes snapshots and puts past-tense messages into its mailbox, one
plans and applies, one reads what was kept of an earlier dashboard.

The first runs a loop: look, list the view in front, read the chosen message, wait for a change. A look may hang for ever (a dead
NFS server): the thread is a daemon thread, so quitting does not wait for it, and ``looking_for`` says how long it has lasted.
What the screens want is one frozen ``Requested``; a newer request replaces an older one that was not served yet.
"""

from __future__ import annotations

import queue
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import TypeVar

from textual.message_pump import MessagePump

from spooltop.control import Control
from spooltop.model import KeptView, Listing, ListQuery, Observation, Snapshot, SpooltopError
from spooltop.model.vocabulary import Clock, Key, Row

from .messages import (
    ClockMoved,
    ConsumersRead,
    Found,
    KeysRead,
    ListAdvanced,
    ListRequest,
    LookFailed,
    MatchFound,
    MessagesTracked,
    Page,
    PayloadRead,
    Requested,
    RowsRead,
    Search,
    SnapshotTaken,
)

# Decides whether a new snapshot is worth painting. A spool where nothing happens must cost the terminal nothing, and the thread
# that paints must not wake for it.

TICK = 10.0
"""Seconds after which ages are painted again although nothing else changed: their step below a minute."""
SOON = 1.0
"""The same during the first ``TICK`` seconds after a change, when ages are whole seconds."""

CLOCK = TICK / 2
"""Seconds between two updates of the clock in the header where nothing else changes: every second one comes with the ages."""


_OF_LOOK = attrgetter(
    "generation", "complete", "counts", "consumers", "suppressed", "capabilities.refusals", "watch.mode", "watch.reason", "hidden"
)
_OF_BOX = attrgetter("count", "complete", "oldest_at", "error")
_OF_ROW = attrgetter("key", "verdict", "size")
_OF_PROBLEM = attrgetter("code", "severity", "count", "subject")
_OF_CURSOR = attrgetter("source", "shown", "verdict", "reverts_recent", "moved_at")
_OF_LOCK = attrgetter("path", "verdict", "holders", "waiters")


def signature(snapshot: Snapshot) -> tuple[object, ...]:
    """Equal for two snapshots that differ only by the passing of time (ages, windows of rates, free disk space). A rate that
    becomes known is a change: after a stop (Ctrl-Z) the first look does not know all of them, the second does."""
    observation = snapshot.observation
    return (
        _OF_LOOK(observation),
        {box: _OF_BOX(state) for box, state in observation.boxes.items()},
        [*map(_OF_ROW, (*observation.claims, *observation.tmp))],
        [*map(_OF_PROBLEM, snapshot.problems)],
        [(_OF_CURSOR(cursor), cursor.history[:1], cursor.polls[:1]) for cursor in snapshot.cursors],
        [*map(_OF_LOCK, observation.locks)],
        [one.readonly for one in observation.capacities],
        snapshot.not_visible,
        (snapshot.rates.in_per_s is None, snapshot.rates.done_per_s is None),
        snapshot.muted,
    )


class ChangeFilter:
    """Passes a snapshot that has changes, or in which ages have a new step: every ``SOON`` seconds until ``TICK`` seconds after
    the last change, then every ``TICK`` seconds."""

    _last: tuple[object, ...] = ()
    _at: float | None = None
    _news_at = 0.0

    def passes(self, snapshot: Snapshot) -> bool:
        found = signature(snapshot)
        now = snapshot.taken_at
        news = found != self._last
        if news:
            self._news_at = now
        step = SOON if 0 <= now - self._news_at <= TICK + SOON else TICK
        if not news and self._at is not None and 0 <= now - self._at < step:
            return False
        self._last, self._at = found, now
        return True

    def pass_next(self) -> None:
        """Passes the next snapshot in any case."""
        self._at = None


T = TypeVar("T")


def outcome(job: Callable[[], T]) -> T | SpooltopError:
    """Returns the result of ``job``, or the error that it raised, so that no thread of the dashboard ends by one."""
    try:
        return job()
    except SpooltopError as error:
        return error
    except OSError as error:
        return SpooltopError(error.strerror or str(error), path=error.filename)
    except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread
        return SpooltopError(f"internal error, please report: {error!r}")


# Holds what the snapshot thread found until the screen takes it.

_ANSWERS = (KeysRead, MatchFound)
"""Answers to single requests about the list that precedes them."""


class Mailbox:
    """Stays small however long nothing is taken, as while a terminal does not read: a new message replaces an older one of its
    kind. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Found] = []
        self._wake: Callable[[], object] | None = None

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Calls ``wake`` from now on where a message is put into the empty mailbox, in the thread that puts it; at once where
        there is one already."""
        with self._lock:
            self._wake = wake
            waiting = bool(self._found)
        if waiting:
            wake()

    def put(self, found: Found) -> None:
        with self._lock:
            wake = None if self._found else self._wake
            if not isinstance(found, _ANSWERS):
                answered = max((place for place, one in enumerate(self._found) if isinstance(one, _ANSWERS)), default=-1)
                self._found = [
                    one for place, one in enumerate(self._found) if place <= answered or type(one) is not type(found)
                ]  # fmt: skip
            self._found.append(found)
        if wake is not None:
            wake()

    def take(self) -> list[Found]:
        """Returns all messages in order and empties the mailbox."""
        with self._lock:
            found, self._found = self._found, []
            return found


# Calls a screen from a thread.

EVERY = 0.2
"""Seconds between two reports of progress: to draw each of the thousands would take half of the time of the work."""


def deliver(pump: MessagePump, call: Callable[..., object], *arguments: object) -> bool:
    """Has ``pump`` make a call, asked for in another thread; False where it does not any more: the screen was left, or the
    dashboard ended while a look or a change was under way."""
    try:
        return pump.call_later(call, *arguments)
    except RuntimeError:
        # The event loop closed, or the screen lost its app, between Textual's own check and the post: no receiver is left.
        return False


def now_and_then(pump: MessagePump, call: Callable[[T], object]) -> Callable[[T], None]:
    """Returns a function that delivers progress from another thread to a ``call``, and none soon after that."""
    due = time.monotonic()

    def report(progress: T) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + EVERY
            deliver(pump, call, progress)

    return report


# Decides when the next look is due.

QUIET = 1.0
"""Seconds to wait for an event before the next look: a consumer that dies causes none."""
CALM = 5
"""Waits without any event after which looks become rarer."""
CALM_QUIET = 1.75
"""Multiples of ``QUIET`` to wait from then on: with ``BUSY``, a consumer that dies is seen within two seconds."""
ONLY_MESSAGES = 4.75
"""The same where only messages wait: with ``BUSY``, each look moves the clock."""
BUSY = 0.25
"""Seconds between two looks where much happens."""
STORM = 1_000
"""Messages a second that come, from which on nobody follows single ones. Then looks are as rare as ``FRESH`` allows: half of
what a storm costs is listing and drawing what nobody can read."""

SHARE = 3
"""Rest after a look as a multiple of its duration: a large spool that never rests takes a quarter of a core."""
LONGEST_REST = 10.0
"""Maximum rest in seconds: a look that hung for a minute does not mean a large spool."""
ORDINARY = 0.4
"""Maximum duration in seconds of a look at a spool that is not large."""
FRESH = 1.0
"""Seconds from one look to the next then: the work of a look grows with the rest before it, and so would the rest."""


def rest_after(took: float, busy: float) -> float:
    """Seconds to rest after a look that took ``took`` seconds; at least ``busy``.

    >>> rest_after(0.125, 0.25), rest_after(0.375, 0.25), rest_after(2.0, 0.25), rest_after(60.0, 0.25)
    (0.375, 0.625, 6.0, 10.0)
    """
    most = FRESH - took if took <= ORDINARY else LONGEST_REST
    return max(busy, min(most, SHARE * took))


class Pace:
    """The time of the last look and the rest that it earned. ``quiet`` and ``busy`` are seconds between two looks; times are
    those of a monotonic clock."""

    _silent = 0
    _storm = _only_messages = False
    _looked_at = _rest = 0.0

    def __init__(self, quiet: float = QUIET, busy: float = BUSY) -> None:
        self._quiet = quiet
        self._busy = busy

    def looked(self, began: float, ended: float) -> None:
        """Notes the last look."""
        self._looked_at = ended
        took = ended - began
        self._rest = rest_after(took, max(self._busy, FRESH - took) if self._storm else self._busy)

    def found(self, observation: Observation) -> None:
        """Notes what the last look found."""
        flow = observation.flow
        self._storm = flow.arrived > STORM * (flow.until - flow.since) > 0
        self._only_messages = observation.only_messages_wait

    @property
    def quiet(self) -> float:
        """Seconds to wait for an event before the next look."""
        if self._silent < CALM:
            return self._quiet
        return self._quiet * (ONLY_MESSAGES if self._only_messages else CALM_QUIET)

    def waited(self, changed: bool) -> None:
        """Notes whether an event ended the last wait."""
        self._silent = 0 if changed else self._silent + 1

    def rest(self, now: float) -> float:
        """Seconds left until the next look may begin; negative where it may."""
        return self._looked_at + self._rest - now

    def overdue(self, now: float) -> bool:
        """True where a look is due even if nothing changed."""
        return now - self._looked_at >= self.quiet


# Finds the next row of a list that matches the last filter.

def match(list_anew: Callable[[ListQuery], Listing], listing: Listing, request: ListRequest, search: Search) -> int | None:
    """The place of the match in ``listing``; None where there is none in that direction. Both lists have the same order, so a
    binary search finds it."""
    matches = list_anew(listing.query.replace(filter=search.text))
    found_at = None if request.anchor is None else listing.find(request.anchor)
    here = request.anchor_index if found_at is None else found_at

    def place(at: int) -> int | None:
        return listing.find(matches.window(at, at + 1)[0].key)

    def passed(at: int) -> bool:
        found = place(at)
        return found is None or (found > here if search.step > 0 else found >= here)

    first = bisect_left(range(len(matches)), True, key=passed)  # after the anchor, or backwards at it
    at = first if search.step > 0 else first - 1
    return place(at) if 0 <= at < len(matches) else None


# Shows a long listing at intervals while it is made. Each drawing takes time from the work itself.

FIRST = 0.1
"""Seconds before the first drawing: a faster listing is shown when it is complete."""
LONGER = 4.0
"""Factor from one interval to the next."""
LONGEST = 1.0
"""Maximum seconds between two drawings. Each takes about 0.05 s from the work."""


class IntervalProgress:
    """A ``model.backend.ListProgress``: when a drawing is due, ``show`` gets the share that is done (0 to 1), the rows and the
    count."""

    def __init__(self, monotonic: Clock, show: Callable[[float, Sequence[Row], int], None]) -> None:
        self._monotonic = monotonic
        self._show = show
        self._pause = FIRST
        self._next = monotonic() + FIRST

    def due(self) -> bool:
        return self._monotonic() >= self._next

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        self._show(share, rows, count)
        self._pause = min(LONGEST, LONGER * self._pause)
        self._next = self._monotonic() + self._pause


TIMED = 100
"""Factor of its duration for which a list is kept when nothing changed but the time: ages in a list of a million cost 1 %."""


MARGIN = 50
"""Rows read above and below the window, so that a step beyond its edge shows rows at once."""


class SnapshotThread:
    """Owns the thread. Posts each snapshot that has news together with the page that was taken from the same look. The last
    listing is kept as long as nothing in it can have changed; its number differs for each one made."""

    _step = ""
    """A description of the present work; empty where the control knows it better."""
    _since: float | None = None
    """The time at which that began or last made progress; None where there is none."""
    _listing: Listing | None = None
    _generation = 0
    _made_at = _took = 0.0
    _posted: Page | None = None
    _asked: tuple[object, ...] = ()
    _shown_at = 0.0
    _keys_served = 0
    _search_served = 0
    _tracking = False
    _payload: PayloadRead | None = None
    """The payload that was posted last."""
    _wanted = Requested()

    def __init__(
        self, control: Control, *, pace: Pace | None = None, monotonic: Clock = time.monotonic
    ) -> None:
        self.mailbox = Mailbox()
        self._control = control
        self._monotonic = monotonic
        self._pace = pace or Pace()
        self._changes = ChangeFilter()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        """Starts the thread; does nothing where it runs."""
        if self._thread.ident is None:
            self._thread.start()

    def looking_for(self) -> float:
        """Seconds since the present work (a look, a list, a payload) began or made progress; 0 where there is none. A look may
        hang for ever, as on a dead NFS server."""
        since = self._since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    def looking_at(self) -> str:
        """A description of the present work."""
        return self._step or self._control.current_step()

    def request(self, request: ListRequest) -> None:
        """Sets what the screen shows from now on. It is served at once, even between two looks."""
        if request != self._wanted.list:
            self._want(list=request)

    def follow(self, ids: Sequence[str], since: float = 0.0) -> None:
        """Follows these messages after each look; none where ``ids`` is empty."""
        self._want(ids=tuple(ids), since=since)

    def run(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job``, which shares the scan with the looks, between two of them and calls ``reply`` in the thread."""
        self._want(lambda: reply(outcome(job)))

    def look_again(self) -> None:
        """Asks for a full scan, now."""
        self._want(rescan=True)

    def stop(self, timeout: float) -> None:
        """Asks the thread to end, and waits for that, ``timeout`` seconds at most: it is a daemon thread."""
        self._want(stopped=True)
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _want(self, *jobs: Callable[[], object], **changes: object) -> None:
        with self._changed:
            wanted = self._wanted
            self._wanted = wanted.replace(version=wanted.version + 1, jobs=(*wanted.jobs, *jobs), **changes)
            self._changed.notify_all()
        self._control.wake()

    def _take(self) -> Requested:
        """Returns what is wanted now; what is wanted once is not any more."""
        with self._changed:
            wanted = self._wanted
            self._wanted = wanted.replace(rescan=False, jobs=())
            return wanted

    def _run(self) -> None:
        due = True
        shown = -1
        while not (wanted := self._take()).stopped:
            look = due or wanted.rescan
            began = self._monotonic()
            if wanted.version != shown:
                self._changes.pass_next()
                shown = wanted.version
            try:
                self._serve(wanted, look)
            except (SpooltopError, OSError) as error:
                self._failed(str(error))
            except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread that looks
                self._failed(f"internal error, please report: {error!r}")
            if wanted.jobs:
                with self._working("asking who has a file"):
                    for job in wanted.jobs:
                        job()
            if look:
                self._pace.looked(began, self._monotonic())
            due = self._wait(wanted.version)

    def _failed(self, error: str) -> None:
        self.mailbox.put(LookFailed(error))
        self._changes.pass_next()

    @contextmanager
    def _working(self, step: str = "") -> Iterator[None]:
        self._step, self._since = step, self._monotonic()
        try:
            yield
        finally:
            self._since = None

    def _serve(self, wanted: Requested, look: bool) -> None:
        query = wanted.list.query
        with self._working():
            snapshot = self._control.look(wanted.rescan) if look else None
            if snapshot is not None:
                self._pace.found(snapshot.observation)
            self._step = f"listing {query.box}" if query is not None else ""
            self._serve_list(wanted, snapshot)
            self._track(wanted.ids, wanted.since, look)
            self._step = "reading a message"
            self._read_payload(wanted.list.payload, look)
            self._step = "reading the consumers"
            if wanted.list.consumers:
                self.mailbox.put(ConsumersRead(self._control.consumers()))

    def _serve_list(self, wanted: Requested, snapshot: Snapshot | None) -> None:
        """Posts the list that is wanted: a window of its rows, all of its keys, the next row that matches a filter."""
        news = snapshot is not None and self._changes.passes(snapshot)
        # An invalid filter must not hide the snapshot.
        try:
            listing = self._list(wanted, snapshot)
            page = None if listing is None else self._page(listing, wanted.list, news)
        except SpooltopError as error:
            if snapshot is not None:
                self.mailbox.put(SnapshotTaken(snapshot, None))
            self._failed(str(error))
            return
        if snapshot is not None:
            at = snapshot.taken_at
            if news or (page is not None and page.differs(self._posted)):
                self._shown_at = at
                self.mailbox.put(SnapshotTaken(snapshot, page))
            elif not 0 <= at - self._shown_at < CLOCK:
                self._shown_at = at
                self.mailbox.put(ClockMoved(at))
        elif page is not None:
            self.mailbox.put(RowsRead(page))
        self._posted = page
        if listing is not None:
            self._answer(listing, wanted.list)

    def _list(self, wanted: Requested, snapshot: Snapshot | None) -> Listing | None:
        """The list that is wanted, made anew where ``snapshot``, that of a new look, may differ in it.

        A listing that was cancelled has no order yet. Then the old listing stays until the next look; where there was none the
        result is None, because the newest request is served next.
        """
        request = wanted.list
        if request.query is None:
            self._listing = None
            return None
        old = self._listing if self._listing is not None and self._listing.query == request.query else None
        if old is not None:
            aged = old.timed and self._monotonic() - self._made_at >= TIMED * self._took
            if snapshot is None or not (aged or snapshot.observation.generation != old.generation):
                return old
        given_up = False  # stays True when the user returns to a list: a listing that was cancelled is incomplete

        def cancelled() -> bool:
            nonlocal given_up
            given_up = self._overtaken(wanted, old is not None) or given_up
            return given_up

        began = self._monotonic()
        progress = None
        if old is None:  # an old listing shows more than a new one does before its end
            progress = IntervalProgress(self._monotonic, partial(self._show, request.query, request.anchor))
        listing = self._control.listing(request.query, cancelled, progress)
        self._made_at = self._monotonic()
        self._took = self._made_at - began
        if given_up and not listing.complete:
            self._listing = old
        else:
            self._listing = listing
            self._generation += 1
        return self._listing

    def _show(self, query: ListQuery, anchor: Key | None, share: float, rows: Sequence[Row], count: int) -> None:
        """Posts the part of a list that is made so far."""
        if not rows:
            self.mailbox.put(ListAdvanced(query, share))
            return
        self._generation += 1
        at = next((at for at, row in enumerate(rows) if row.key == anchor), None)
        self.mailbox.put(RowsRead(Page(query, self._generation, count, False, 0, tuple(rows), anchor, at, share)))

    def _answer(self, listing: Listing, request: ListRequest) -> None:
        if request.all_keys != self._keys_served:
            self._keys_served = request.all_keys
            self.mailbox.put(KeysRead(listing.query, tuple(listing.keys())))
        search = request.search
        if search is not None and search.number != self._search_served:
            self._search_served = search.number
            self.mailbox.put(MatchFound(listing.query, search, match(self._control.listing, listing, request, search)))

    def _page(self, listing: Listing, request: ListRequest, news: bool) -> Page:
        """The window of the listing that is requested; the page posted last where that is the same and there are no ``news``."""
        asked = (self._generation, request.start, request.stop, request.anchor, request.anchor_index)
        if self._posted is not None and asked == self._asked and not news:
            return self._posted
        self._asked = asked
        at = None if request.anchor is None else listing.find(request.anchor)
        shift = 0 if at is None else at - request.anchor_index
        # As many rows as requested: another order may move the anchor from the end of a million to the beginning.
        first = max(0, min(request.start + shift, len(listing) - 1))
        start, stop = max(0, first - MARGIN), min(len(listing), first + request.stop - request.start + MARGIN)
        rows = tuple(listing.window(start, stop)) if stop > start else ()
        return Page(
            listing.query, self._generation, len(listing), listing.complete, start, rows, request.anchor, at,
            ordered_over=listing.ordered_over,
        )  # fmt: skip

    def _track(self, ids: Sequence[str], since: float, looked: bool) -> None:
        """Posts the places of the followed messages after each look. Tells the control once when there are none left."""
        if ids or self._tracking:
            found = self._control.follow(ids, since)
            if looked and ids:
                self.mailbox.put(MessagesTracked(self._control.now(), found))
            self._tracking = bool(ids)

    def _read_payload(self, key: Key | None, looked: bool) -> None:
        """Reads the payload of ``key``, unless it was read since the last look, and posts it where it differs from what was read
        before; forgets that where ``key`` is None."""
        posted = self._payload
        if key is None:
            self._payload = None
        elif looked or posted is None or posted.key != key:
            try:
                self._payload = PayloadRead(key, self._control.read(key))
            except (SpooltopError, OSError) as error:
                self._payload = PayloadRead(key, None, str(error))
            if self._payload != posted:
                self.mailbox.put(self._payload)

    def _overtaken(self, served: Requested, replaceable: bool) -> bool:
        """True where the list that is being made for ``served`` is not needed any more: another one is wanted; where an older
        one may be shown instead, where anything else is."""
        self._since = self._monotonic()  # a list of a million is long, not stuck
        wanted = self._wanted
        return wanted.stopped or (
            wanted.version != served.version if replaceable else wanted.list.query != served.list.query
        )  # fmt: skip

    def _wait(self, version: int) -> bool:
        """Waits until there is work; True where a look is due. Two looks have a rest between them."""
        with self._changed:
            while (served := self._wanted.version == version) and (rest := self._pace.rest(self._monotonic())) > 0:
                self._changed.wait(rest)
        if served:
            self._pace.waited(self._control.changes(self._pace.quiet))
        # A request may have woken the thread. It is served without a look, but never delays a look that is due.
        return self._wanted.version == version or self._pace.overdue(self._monotonic())


class Worker:
    """Runs jobs (plans and operations) one after the other in a thread of its own, so that a slow disk blocks neither keys nor
    looks."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job`` in the thread and calls ``reply`` there with what it returned, or with the error that it raised."""
        self._jobs.put(lambda: reply(outcome(job)))

    def stop(self, timeout: float) -> None:
        """Ends the thread after the job under way, and waits for that, ``timeout`` seconds at most."""
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


_PATIENCE = 0.3
"""Seconds for which a home that does not answer is waited for."""


def kept_view(control: Control) -> KeptView:
    """Returns what was kept; the default where it cannot be read. May block."""
    found = outcome(control.kept_view)
    return KeptView() if isinstance(found, SpooltopError) else found


def read_kept(control: Control) -> Callable[[], KeptView | None]:
    """Begins to read what was kept in a thread. Returns a function for the result, which is None where the home does not answer:
    nothing is kept at the end then, either."""
    found: list[KeptView] = []
    thread = threading.Thread(target=lambda: found.append(kept_view(control)), name="kept", daemon=True)
    thread.start()

    def take() -> KeptView | None:
        thread.join(_PATIENCE)
        return found[0] if found else None

    return take
