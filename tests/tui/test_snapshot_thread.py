"""The snapshot thread: what it posts and when, and that no error of the control ends it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from spooltop.errors import SpooltopError, Unreadable
from spooltop.model.cursors.state import CursorSource
from spooltop.model.look.flow import Flow
from spooltop.model.look.observation import Observation, Watch
from spooltop.model.look.snapshot import Rates, Snapshot
from spooltop.model.protocols import ListProgress, ListQuery, Sort
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key, Verdict
from spooltop.tui.change_filter import CLOCK, TICK, ChangeFilter
from spooltop.tui.screens.input import LineEdit
from spooltop.tui.threads.list_progress import IntervalProgress
from spooltop.tui.threads.list_server import MARGIN
from spooltop.tui.threads.mailbox import Mailbox
from spooltop.tui.threads.messages import (
    ClockMoved,
    Found,
    KeysRead,
    ListAdvanced,
    ListRequest,
    LookFailed,
    Page,
    PayloadRead,
    RowsRead,
    SnapshotTaken,
)
from spooltop.tui.threads.pace import BUSY, CALM, CALM_QUIET, FRESH, ONLY_MESSAGES, ORDINARY, QUIET, Pace, rest_after
from spooltop.tui.threads.snapshot_thread import SnapshotThread
from spooltop.tui.threads.worker import Worker

from .driving import dashboard
from .fake import FakeControl, FakeListing, a_lock, claim, waiting, written

Made = Callable[[FakeListing, Callable[[], bool], ListProgress | None], None]
NOTHING = Observation("/var/spool/memex", "spool", 0.0, True, {}, watch=Watch("live"))


class Posts(Mailbox):
    """Keeps every message: none replaces another."""

    def __init__(self) -> None:
        super().__init__()
        self._posted: queue.Queue[Found] = queue.Queue()

    def put(self, found: Found) -> None:
        self._posted.put(found)

    def get(self) -> Found:
        return self._posted.get(timeout=30)

    @property
    def empty(self) -> bool:
        return self._posted.empty()


@pytest.fixture
def control() -> FakeControl:
    return FakeControl([claim(1), *(waiting(n) for n in range(500))])


@pytest.fixture
def posts() -> Posts:
    return Posts()


@contextmanager
def watching(control: FakeControl, posts: Posts, *requests: ListRequest) -> Iterator[SnapshotThread]:
    """A thread that looks at ``control``, with requests that were made before it began."""
    snapshot_thread = SnapshotThread(control, posts, pace=Pace(0.02, 0.0))
    for request in requests:
        snapshot_thread.request(request)
    snapshot_thread.start()
    try:
        yield snapshot_thread
    finally:
        control.hang.set()
        assert snapshot_thread.stop(timeout=20)


@pytest.fixture
def snapshot_thread(control: FakeControl, posts: Posts) -> Iterator[SnapshotThread]:
    with watching(control, posts) as snapshot_thread:
        yield snapshot_thread


class Listings(FakeControl):
    """Gives each listing to ``made``, with what tells whether it is cancelled and how far it is shown; ``timed``: the lists
    change with time."""

    timed = False

    def __init__(self, count: int, made: Made = lambda listing, cancelled, progress: None) -> None:
        super().__init__([waiting(n) for n in range(count)])
        self.made = made

    def listing(
        self, wanted: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> FakeListing:
        listing = super().listing(wanted, cancelled)
        listing.timed = self.timed
        self.made(listing, cancelled, progress)
        return listing


def next_page(posts: Posts) -> Page:
    found = posts.get()
    while not (isinstance(found, (RowsRead, SnapshotTaken)) and found.page is not None):
        found = posts.get()
    return found.page


def next_of(posts: Posts, kind: type[Found]) -> Found:
    while True:
        found = posts.get()
        if isinstance(found, kind):
            return found


def test_a_request_gets_its_window_and_the_place_of_the_cursor(snapshot_thread: SnapshotThread, posts: Posts) -> None:
    next_of(posts, SnapshotTaken)
    wanted = ListQuery(Box.NEW, sort=Sort("age", True))
    snapshot_thread.request(ListRequest(wanted, 100, 120, anchor=("new", 110), anchor_index=110))
    page = next_page(posts)
    assert (page.length, page.anchor_at) == (500, 110)
    assert page.start <= 100 and page.start + len(page.rows) >= 120
    assert page.rows[110 - page.start].key == ("new", 110)


@pytest.mark.parametrize(("timed", "changed"), [(False, False), (True, False), (False, True)])
def test_a_list_is_made_anew_only_where_it_may_be_another_one(posts: Posts, *, timed: bool, changed: bool) -> None:
    listed: list[FakeListing] = []
    control = Listings(20, lambda listing, cancelled, progress: listed.append(listing))
    control.timed = timed
    with watching(control, posts, ListRequest(ListQuery(Box.NEW, "src:imessage"), 0, 10)) as snapshot_thread:
        next_of(posts, SnapshotTaken)
        if changed:
            control.change()
        for _ in range(5):
            snapshot_thread.look_again()
            next_of(posts, SnapshotTaken)
        while len(listed) < 2 and (timed or changed):
            snapshot_thread.look_again()
            next_of(posts, SnapshotTaken)
        assert (len(listed) > 1) is (timed or changed)


@pytest.mark.parametrize(("stood", "stands"), [(450, 3), (3, 450)])
def test_an_anchor_that_went_far_brings_no_more_rows_than_requested(
    snapshot_thread: SnapshotThread, posts: Posts, stood: int, stands: int
) -> None:
    snapshot_thread.request(ListRequest(ListQuery(Box.NEW, sort=Sort("age", True)), stood, stood + 20, ("new", stands), stood))
    page = next_page(posts)
    assert page.anchor_at == stands and ("new", stands) in [row.key for row in page.rows]
    assert len(page.rows) <= 20 + 2 * MARGIN


@pytest.mark.parametrize("first", [True, False])
def test_a_key_leaves_the_list_in_its_order(posts: Posts, first: bool) -> None:
    wanted = ListQuery(Box.NEW, sort=Sort("age", True))
    keys = [ListRequest(wanted, 0, 10, anchor_index=1)] if first else []

    def interrupted(listing: FakeListing, cancelled: Callable[[], bool], progress: ListProgress | None) -> None:
        """While there are keys, the next of them interrupts a listing, which has no order yet then."""
        if keys:
            thread.request(keys.pop())
        if cancelled():
            listing.rows.reverse()
            listing.complete = False

    control = Listings(50, interrupted)
    control.timed = True
    thread = SnapshotThread(control, posts, pace=Pace(0.02, 0.0))
    thread.request(ListRequest(wanted, 0, 10))
    thread.start()
    orders: list[list[object]] = []
    for turn in range(4):
        page = next_page(posts)
        orders.append([row.key for row in page.rows])
        assert page.complete
        keys.append(ListRequest(wanted, 0, 10, anchor_index=2 + turn))
        control.change()
    assert thread.stop(timeout=20)
    assert all(order == orders[0] for order in orders)


def test_a_list_that_was_broken_off_is_made_again_where_it_is_wanted_again(posts: Posts) -> None:
    request = ListRequest(ListQuery(Box.NEW, "9522"), 0, 10, all_keys=1)
    keys = [replace(request, query=ListQuery(Box.NEW, "95222")), request]

    def overtaken(listing: FakeListing, cancelled: Callable[[], bool], progress: ListProgress | None) -> None:
        """Requests follow each other during the first listing: it ends where it is cancelled, and is complete where it is not
        cancelled at the end."""
        while keys:
            thread.request(keys.pop(0))
            if cancelled() and len(listing.rows) > 5:
                listing.rows = listing.rows[:5]
        listing.complete = not cancelled()

    thread = SnapshotThread(Listings(50, overtaken), posts, pace=Pace(0.02, 0.0))
    thread.request(request)
    thread.start()
    try:
        found = posts.get()
        while not (isinstance(found, (RowsRead, SnapshotTaken)) and found.page is not None):
            assert not isinstance(found, KeysRead)
            found = posts.get()
        assert (found.page.query, found.page.length, found.page.complete) == (request.query, 50, True)
        keys_read = next_of(posts, KeysRead)
        assert isinstance(keys_read, KeysRead) and len(keys_read.keys) == 50
    finally:
        assert thread.stop(timeout=20)


def test_only_a_list_of_which_nothing_stands_there_yet_is_shown_while_it_is_made(posts: Posts) -> None:
    progressive: list[bool] = []
    wanted = ListQuery(Box.NEW)

    def hear(listing: FakeListing, cancelled: Callable[[], bool], progress: ListProgress | None) -> None:
        progressive.append(progress is not None)
        if progress is not None:
            progress.advanced(0.25, [], 0)
            progress.advanced(0.5, control.rows[3:9], 6)

    control = Listings(20, hear)
    control.timed = True
    with watching(control, posts, ListRequest(wanted, 0, 10, anchor=("new", 4), anchor_index=7)):
        assert next_of(posts, ListAdvanced) == ListAdvanced(wanted, 0.25)
        found = next_of(posts, RowsRead)
        assert isinstance(found, RowsRead)
        page = found.page
        assert (page.share, page.complete, page.length, page.anchor_at) == (0.5, False, 6, 1)
        taken = next_of(posts, SnapshotTaken)
        assert isinstance(taken, SnapshotTaken) and taken.page is not None
        assert (taken.page.share, taken.page.length) == (None, 20)
        assert taken.page.generation > page.generation
        control.change()
        while len(progressive) < 2:
            next_of(posts, SnapshotTaken)
        assert progressive[:2] == [True, False]


def test_the_longer_a_list_takes_the_seldomer_it_is_shown() -> None:
    now = 0.0
    shown: list[float] = []
    waiting_for = IntervalProgress(lambda: now, lambda share, rows, count: shown.append(now))
    for hundredth in range(300):
        now = hundredth / 100
        if waiting_for.due():
            waiting_for.advanced(0.0, [], 0)
    assert [round(at, 1) for at in shown] == [0.1, 0.5, 1.5, 2.5]


def test_where_the_cursor_stands_is_looked_for_once_in_each_list(posts: Posts) -> None:
    keys: list[Key] = []

    class Sought(FakeListing):
        def find(self, key: Key) -> int | None:
            keys.append(key)
            return super().find(key)

    class Seeking(Listings):
        def listing(self, wanted: ListQuery, *more: object) -> FakeListing:
            found = Sought(wanted, self.of(wanted.box), self.generation)
            found.timed = False
            return found

    control = Seeking(20)
    with watching(control, posts, ListRequest(ListQuery(Box.NEW), 0, 10, anchor=("new", 7), anchor_index=7)) as snapshot_thread:
        for _ in range(3):
            snapshot_thread.look_again()
            next_of(posts, SnapshotTaken)
        assert keys == [("new", 7)]
        control.change()
        while len(keys) < 2:
            next_of(posts, SnapshotTaken)


def test_the_rows_of_a_list_at_rest_are_read_with_each_step_of_the_ages(posts: Posts) -> None:
    windows: list[tuple[int, int]] = []

    class Read(FakeListing):
        def window(self, start: int, stop: int) -> Sequence[Row]:
            windows.append((start, stop))
            return super().window(start, stop)

    class Reading(Listings):
        def listing(self, wanted: ListQuery, *more: object) -> FakeListing:
            found = Read(wanted, self.of(wanted.box), self.generation)
            found.timed = False
            return found

    control = Reading(20)
    with watching(control, posts, ListRequest(ListQuery(Box.NEW), 0, 10)) as snapshot_thread:
        next_of(posts, SnapshotTaken)
        looks = control.looks
        while control.looks < looks + 5:
            time.sleep(0)
        assert windows == [(0, 20)]
        control.time += 2 * TICK
        next_of(posts, SnapshotTaken)
        snapshot_thread.request(ListRequest(ListQuery(Box.NEW), 5, 15))
        next_page(posts)
        assert windows[:3] == [(0, 20)] * 3, "another window is another page"


def test_all_keys_are_read_once_for_each_time_they_are_wanted(snapshot_thread: SnapshotThread, posts: Posts) -> None:
    snapshot_thread.request(ListRequest(ListQuery(Box.NEW), 0, 10, all_keys=1))
    found = next_of(posts, KeysRead)
    assert isinstance(found, KeysRead) and len(found.keys) == 500


def test_a_payload_that_did_not_change_is_posted_once(
    snapshot_thread: SnapshotThread, posts: Posts, control: FakeControl
) -> None:
    snapshot_thread.request(ListRequest(ListQuery(Box.CUR), 0, 10, payload=("cur", 1)))
    found = next_of(posts, PayloadRead)
    assert isinstance(found, PayloadRead) and found.payload is not None and found.payload.size == 23
    again: list[Found] = []
    while sum(isinstance(one, SnapshotTaken) for one in again) < 5:
        control.time += 20
        again.append(posts.get())
    assert not any(isinstance(one, PayloadRead) for one in again)
    control.rows = []
    control.change()
    found = next_of(posts, PayloadRead)
    assert isinstance(found, PayloadRead) and found.payload is None and found.error == "it is gone"


@pytest.mark.parametrize("broken", [Unreadable("new cannot be read"), OSError(5, "I/O"), ZeroDivisionError("a defect")])
def test_a_look_that_fails_is_told_and_the_next_one_is_made(
    snapshot_thread: SnapshotThread, posts: Posts, control: FakeControl, broken: Exception
) -> None:
    next_of(posts, SnapshotTaken)
    control.broken = broken
    control.change()
    failed = next_of(posts, LookFailed)
    assert isinstance(failed, LookFailed) and failed.error
    control.broken = None
    next_of(posts, SnapshotTaken)


def test_a_filter_that_makes_no_sense_does_not_hide_the_snapshot(snapshot_thread: SnapshotThread, posts: Posts) -> None:
    snapshot_thread.request(ListRequest(ListQuery(Box.NEW, filter="age:x"), 0, 10))
    next_of(posts, LookFailed)
    next_of(posts, SnapshotTaken)


def test_a_look_that_hangs_is_known_to(control: FakeControl, posts: Posts) -> None:
    time = [100.0]
    snapshot_thread = SnapshotThread(control, posts, pace=Pace(0.02, 0.0), monotonic=lambda: time[0])
    control.hang.clear()
    assert snapshot_thread.looking_for() == 0.0
    snapshot_thread.start()
    assert control.entered.wait(30)
    time[0] += 41
    assert snapshot_thread.looking_for() == 41.0
    assert snapshot_thread.looking_at() == "readdir of new"
    control.hang.set()
    assert snapshot_thread.stop(timeout=20)


@pytest.mark.early
async def test_while_a_look_hangs_the_header_says_so_keys_answer_plans_open_and_q_quits() -> None:
    control = FakeControl([claim(1), claim(2, Verdict.ALIVE)])
    passed = [0.0]
    async with dashboard(control, monotonic=lambda: time.monotonic() + passed[0]) as driver:
        control.hang.clear()
        control.entered.clear()
        control.change()
        await driver.until(control.entered.is_set, "a look that hangs")
        passed[0] += 41
        text = await driver.see("STALE 40s: readdir of new does not answer", "as of", "1 claims of dead consumers")
        assert "live" not in text.split("\n")[0]
        await driver.walk(
            ("3", "Claims", "STALE 40s"), ("1", "1 claims of dead consumers"), ("r", "y requeue 1"), ("escape", "STALE"),
        )  # fmt: skip
        passed[0] += 30
        await driver.see("STALE 1m10s")
        control.hang.set()
        await driver.see("live · as of")
        control.hang.clear()
        control.entered.clear()
        passed[0] += 30
        control.change()
        await driver.until(control.entered.is_set, "another look that hangs")
        await driver.press("q")
        await driver.until(driver.app.session.leaving.is_set)
    assert driver.app.return_code == 0


def test_a_look_that_finds_nothing_new_posts_nothing_but_the_time_now_and_then(
    snapshot_thread: SnapshotThread, posts: Posts, control: FakeControl
) -> None:
    def looked(times: int) -> None:
        looks = control.looks
        while control.looks < looks + times:
            time.sleep(0)

    first = next_of(posts, SnapshotTaken)
    assert isinstance(first, SnapshotTaken)
    control.time += 2 * TICK  # from now on ages have a step every ten seconds
    next_of(posts, SnapshotTaken)
    control.time += 2 * TICK
    at = control.time
    next_of(posts, SnapshotTaken)
    for later in (CLOCK / 2, CLOCK, CLOCK * 3 / 2):
        control.time = at + later
        looked(3)
    assert posts.get() == ClockMoved(at + CLOCK)
    assert posts.empty
    snapshot_thread.request(ListRequest(ListQuery(Box.NEW), 0, 10))
    next_of(posts, SnapshotTaken)  # what a key changed is shown as of the next look
    control.change()
    control.rows.pop()
    next_of(posts, SnapshotTaken)


async def test_an_idle_spool_is_not_painted_again() -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control, quiet=0.01) as driver:
        painted: list[object] = []
        driver.app.main.paint = lambda: painted.append(1)  # type: ignore[method-assign]
        looks = control.looks
        await driver.until(lambda: control.looks > looks + 5)
        assert painted == []
        control.time += 11
        await driver.until(lambda: painted)


def test_steady_lets_news_through_at_once_and_time_each_step_of_an_age() -> None:
    control = FakeControl([claim(1)])
    change_filter = ChangeFilter()
    assert change_filter.passes(control.look())
    control.time += 0.5
    assert not change_filter.passes(control.look())
    control.rows.append(claim(2))
    assert change_filter.passes(control.look())
    taken = []
    for second in range(1, 41):  # what is new is counted in seconds, what is older in steps of ten
        control.time += 1
        if change_filter.passes(control.look()):
            taken.append(second)
    assert taken == [*range(1, 12), 21, 31]
    control.time += 10
    assert change_filter.passes(control.look())
    control.time -= 3600
    assert change_filter.passes(control.look()), "a clock that was set back must not freeze the screen"


def test_a_verdict_that_changes_is_news_though_all_counts_stay() -> None:
    snapshot = FakeControl([claim(1)]).look()
    one, other = claim(1), claim(2)

    def judged(first: Verdict, second: Verdict) -> Snapshot:
        rows = (replace(one, verdict=first), replace(other, verdict=second))
        return replace(snapshot, observation=replace(snapshot.observation, claims=rows))

    change_filter = ChangeFilter()
    assert change_filter.passes(judged(Verdict.DEAD, Verdict.ALIVE))
    assert not change_filter.passes(judged(Verdict.DEAD, Verdict.ALIVE))
    assert change_filter.passes(judged(Verdict.ALIVE, Verdict.DEAD))
    assert not change_filter.passes(judged(Verdict.ALIVE, Verdict.DEAD))
    one = replace(one, key=("another",))
    assert change_filter.passes(judged(Verdict.ALIVE, Verdict.DEAD))


def test_a_rate_that_can_be_told_now_is_shown_at_once_and_does_not_wait_for_the_time() -> None:
    snapshot = FakeControl([claim(1)]).look()
    change_filter = ChangeFilter()

    def at(second: int, done: int, done_window: float) -> Snapshot:
        rates = Rates(window=60.0, arrived=second, done=done, done_window=done_window)
        return replace(snapshot, observation=replace(snapshot.observation, taken_at=snapshot.taken_at + second), rates=rates)

    assert change_filter.passes(at(0, 0, 0.0))  # of the time before a stop nothing is left
    assert change_filter.passes(at(1, 0, 70.0))
    assert not change_filter.passes(at(1, 2, 71.0))


def test_jobs_are_done_one_after_the_other_and_errors_come_back() -> None:
    worker = Worker()
    replies: queue.Queue[object] = queue.Queue()
    worker.start()
    worker.submit(lambda: 1, replies.put)
    worker.submit(lambda: [][0], replies.put)
    worker.submit(lambda: os.stat("/no/such/file"), replies.put)
    assert replies.get(timeout=30) == 1
    for words in ("internal error", "/no/such/file"):
        error = replies.get(timeout=30)
        assert isinstance(error, SpooltopError) and words in str(error)
    assert worker.stop(timeout=20)


def test_a_line_is_edited_by_keys() -> None:
    edit = LineEdit()
    for char in "one two":
        assert edit.key(char, char)
    assert edit.key("ctrl+w", None) and edit.text == "one"
    assert edit.key("backspace", None) and edit.text == "on"
    assert edit.key("ctrl+u", None) and edit.text == ""
    assert not edit.key("enter", "\r") and not edit.key("f5", None)
    number = LineEdit(digits=True, limit=3)
    for char in "1x2345":
        number.key(char, char)
    assert number.text == "123"


@pytest.mark.parametrize("a_second", [0.1, 0.2, 0.28])
def test_a_stream_never_keeps_the_screen_still_for_longer_than_a_second(a_second: float) -> None:
    """A look takes ``a_second`` for each second of messages since the last one; one of the looks was delayed."""
    gap = FRESH
    for turn in range(50):
        took = ORDINARY if turn == 10 else a_second * gap
        gap = took + rest_after(took, 0.25)
        assert gap <= FRESH


def test_a_large_spool_costs_a_quarter_of_a_core() -> None:
    for took in (0.5, 1.0, 3.0):
        assert took / (took + rest_after(took, 0.25)) <= 0.25


def test_a_look_comes_each_second_while_thousands_of_messages_pass() -> None:
    pace = Pace()
    periods = []
    for arrived in (200, 4000, 200, 0):
        pace.found(replace(NOTHING, flow=Flow(since=10.0, until=10.5, arrived=arrived)))
        pace.looked(10.5, 10.51)
        periods.append(round(0.01 + pace.rest(10.51), 6))
    assert periods == [0.01 + BUSY, FRESH, 0.01 + BUSY, 0.01 + BUSY]


def test_looks_are_rarer_after_some_seconds_without_any_event() -> None:
    pace = Pace()
    waits = []
    for changed in (*[False] * (CALM + 1), True, False):
        waits.append(pace.quiet)
        pace.waited(changed)
    assert waits == [QUIET] * CALM + [CALM_QUIET, CALM_QUIET, QUIET]
    assert BUSY + CALM_QUIET == 2.0


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        ({}, ONLY_MESSAGES), ({"claims": (claim(1),)}, CALM_QUIET), ({"tmp": (written(1),)}, CALM_QUIET),
        ({"consumers": 1}, CALM_QUIET), ({"locks": (a_lock(),)}, CALM_QUIET), ({"complete": False}, CALM_QUIET),
        ({"layout": "mail"}, CALM_QUIET), ({"watch": Watch("scan", "nfs4 sends no events", 5.0)}, CALM_QUIET),
        ({"watch": Watch("live", "overlay", 5.0)}, CALM_QUIET),
        ({"cursors": (CursorSource("/opt/memex/cursors.json", True, None, ""),)}, CALM_QUIET),
    ],
)  # fmt: skip
def test_looks_are_rarest_where_only_messages_wait(changes: dict[str, Any], quiet: float) -> None:
    pace = Pace()
    for _ in range(CALM):
        pace.found(replace(NOTHING, **changes))
        assert pace.quiet == QUIET
        pace.waited(False)
    assert pace.quiet == quiet
    assert BUSY + ONLY_MESSAGES == CLOCK


def test_what_was_found_before_anybody_took_it_stays_in_the_mailbox() -> None:
    looked, woken = threading.Event(), threading.Event()

    class SignallingControl(FakeControl):
        def changes(self, timeout: float) -> bool:
            looked.set()  # the first look is over
            return super().changes(timeout)

    control = SignallingControl([waiting(1)])
    snapshot_thread = SnapshotThread(control, pace=Pace(0.02, 0.0))
    snapshot_thread.start()
    snapshot_thread.start()
    assert looked.wait(20)
    snapshot_thread.mailbox.wake_with(woken.set)
    assert woken.is_set()
    woken.clear()
    first = snapshot_thread.mailbox.take()
    control.time += TICK
    assert woken.wait(20)
    later = snapshot_thread.mailbox.take()
    assert isinstance(first[0], SnapshotTaken) and isinstance(later[0], SnapshotTaken)
    assert first[0].snapshot.taken_at <= later[0].snapshot.taken_at
    assert snapshot_thread.stop(timeout=20)
