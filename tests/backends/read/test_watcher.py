"""Events are hints: what they say is handed on, and whatever ends them leaves the scans and says so."""

from __future__ import annotations

import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.backends.directory.events.folder_watch import watchfiles_source
from spooltop.backends.directory.events.inotify import Events, in_order, inotify_source, parsed
from spooltop.backends.directory.events.watcher import EventReport, Watcher
from spooltop.model.vocabulary import Box
from spooltop.stop_event import StopEvent


@pytest.fixture
def started() -> Iterator[Callable[[Watcher], Watcher]]:
    watchers: list[Watcher] = []

    def start(watcher: Watcher) -> Watcher:
        watchers.append(watcher)
        watcher.start()
        return watcher

    yield start
    for watcher in watchers:
        watcher.close()


def take_until(watcher: Watcher, changed: threading.Event, condition: Callable[[EventReport], bool]) -> EventReport:
    for _ in range(300):
        report = watcher.take()
        if condition(report):
            return report
        changed.wait(0.1)
        changed.clear()
    raise AssertionError(f"not heard: {watcher.take()}")


def paths(spool: Path) -> dict[Box, str]:
    return {Box.NEW: str(spool / "new"), Box.CUR: str(spool / "cur")}


def test_a_move_is_heard_in_both_boxes(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed))
    take_until(watcher, changed, lambda report: report.listening)
    (spool / "new" / "m").touch()
    report = take_until(watcher, changed, lambda report: bool(report.batches))
    assert report.exact and report.batches[0].added == {Box.NEW: {"m"}}
    (spool / "new" / "m").rename(spool / "cur" / "m:2,P1")
    (batch,) = take_until(watcher, changed, lambda report: bool(report.batches)).batches
    assert (batch.deleted, batch.added) == ({Box.NEW: {"m"}}, {Box.CUR: {"m:2,P1"}})


def test_any_name_is_heard_but_that_of_a_dot_file(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed))
    take_until(watcher, changed, lambda report: report.listening)
    (spool / "new" / ".hidden").touch()
    Path(os.fsdecode(os.fsencode(spool) + b"/new/\xff")).touch()
    report = take_until(watcher, changed, lambda report: bool(report.batches))
    assert report.exact and report.batches[0].added == {Box.NEW: {"\udcff"}}


def event(wd: int, mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16) if name else b""
    return struct.pack("iIII", wd, mask, 0, len(padded)) + padded


MOVED_FROM, MOVED_TO, DELETE, OVERFLOW, IGNORED, IS_DIR = 0x40, 0x80, 0x200, 0x4000, 0x8000, 0x4000_0000


def test_of_what_came_and_went_the_last_is_known() -> None:
    events = Events()
    order = (MOVED_TO, b"a"), (MOVED_FROM, b"a"), (MOVED_FROM, b"b"), (MOVED_TO, b"b"), (MOVED_TO, b"c")
    for mask, name in (*order, (MOVED_FROM, b"c"), (MOVED_TO, b"c"), (MOVED_FROM, b"c")):
        parsed(event(1, mask, name), {1: "new", 2: "cur"}, events)
    assert events.added["new"] == events.deleted["new"] == {"a", "b", "c"} and events.added["cur"] == set()
    assert events.back is not None and events.back["new"] == {"b"} and events.count == 8


NAMES = st.sampled_from((b"a", b"b", b"0123456789abcde", b"0123456789abcdef", b"m" * 255, b".hidden", b"\xc3\xa9", b"\xff\xfe"))


@given(st.lists(st.tuples(st.sampled_from((1, 2, 3)), st.sampled_from((MOVED_TO, MOVED_FROM, DELETE | IS_DIR)), NAMES)))
def test_events_count_as_they_do_one_by_one(changes: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(event(*change) for change in changes)
    events, folders = Events(), {1: "new", 2: "cur"}
    parsed(data, folders, events)
    times, there = Counter[tuple[str, bool, str]](), dict[tuple[str, str], bool]()
    for one in in_order(data):
        if one.watch in folders and one.name[0] != ".":
            times[folders[one.watch], one.made, one.name] += 1
            there[folders[one.watch], one.name] = one.made
    for kind, found, again in ((True, events.added, events.repeats), (False, events.deleted, events.gone_again)):
        many = {(path, kind, name): 1 + again[path][name] for path, names in found.items() for name in names}
        assert many == {key: often for key, often in times.items() if key[1] is kind}
    both = {(path, name) for path, name in there if times[path, True, name] and times[path, False, name]}
    assert events.back is not None and events.count == len(changes)
    assert {(path, name) for path, names in events.back.items() for name in names} == {key for key in both if there[key]}


def test_how_long_nobody_read_is_told(spool: Path) -> None:
    now = [5.0]
    stop = StopEvent()
    source = inotify_source([str(spool / "new")], stop, lambda: now[0])
    next(source)
    (spool / "new" / "m").touch()
    now[0] = 65.0
    events = next(source)
    source.close()
    assert (events.added, events.late) == ({str(spool / "new"): {"m"}}, 60.0)


def test_what_waited_while_nobody_read_is_told_at_once(spool: Path) -> None:
    now = [5.0]
    source = inotify_source([str(spool / "new")], StopEvent(), lambda: now[0])
    next(source)
    names = [str(spool / "new" / f"{number:0180}") for number in range(3_000)]
    Path(names[0]).touch()
    for old, new in pairwise(names):  # two events each
        os.rename(old, new)
    now[0] = 65.0
    events = next(source)
    source.close()
    assert len(events.added[str(spool / "new")]) == 3_000


def test_lost_events_and_a_lost_directory_are_told() -> None:
    events = Events()
    parsed(event(-1, OVERFLOW) + event(1, MOVED_TO, b"m"), {1: "new"}, events)
    assert events.lost and not events.ended and events.added["new"] == {"m"}
    parsed(event(1, IGNORED), {1: "new"}, events)
    assert events.ended


def test_what_the_queue_lost_is_listed_again(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    def overflown(_: Iterable[str], stop: threading.Event) -> Iterator[Events]:
        yield Events()
        yield Events(added={f"{spool}/new": {"m"}}, count=1, lost=True)
        stop.wait()

    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed, source=overflown))
    report = take_until(watcher, changed, lambda report: bool(report.batches))
    assert report.restarted and report.listening and not report.exact


def test_a_name_that_is_not_utf8_ends_one_watch_and_not_the_watching(
    spool: Path, started: Callable[[Watcher], Watcher]
) -> None:
    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed, source=watchfiles_source, back_off=(0.01,)))
    take_until(watcher, changed, lambda report: report.listening)
    Path(os.fsdecode(os.fsencode(spool) + b"/new/\xff")).touch()
    report = take_until(watcher, changed, lambda report: report.restarted)
    assert not report.exact and not report.listening and "change events failed" in report.reason
    take_until(watcher, changed, lambda report: report.listening)
    (spool / "new" / "m").touch()
    report = take_until(watcher, changed, lambda report: bool(report.batches))
    assert report.batches[0].added == {Box.NEW: {"m"}}


def test_a_removed_directory_is_noticed(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed))
    take_until(watcher, changed, lambda report: report.listening)
    (spool / "new").rmdir()
    assert take_until(watcher, changed, lambda report: report.restarted).reason


def test_so_many_changes_that_some_may_be_lost(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    def flood(_: Iterable[str], stop: threading.Event) -> Iterator[set[tuple[int, str]]]:
        yield set()
        yield {(1, f"{spool}/new/{number}") for number in range(10_000)}
        stop.wait()

    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed, source=flood))
    report = take_until(watcher, changed, lambda report: bool(report.batches))
    assert report.restarted and not report.exact


def test_after_a_silence_of_the_thread_all_is_listed_again(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    steps = iter([0.0, 1.0, 2.0, 60.0])

    def beats(_: Iterable[str], stop: threading.Event) -> Iterator[set[tuple[int, str]]]:
        yield set()
        yield set()
        yield set()
        stop.wait()

    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed, source=beats, monotonic=lambda: next(steps, 60.0)))
    assert take_until(watcher, changed, lambda report: report.restarted).listening


def test_a_watch_that_fails_again_and_again_says_why(spool: Path, started: Callable[[Watcher], Watcher]) -> None:
    rounds: list[int] = []

    def broken(_: Iterable[str], stop: threading.Event) -> Iterator[set[tuple[int, str]]]:
        rounds.append(1)
        yield set()
        raise OSError("inotify watch limit reached")

    changed = threading.Event()
    watcher = started(Watcher(paths(spool), changed, source=broken, back_off=(0.0, 0.0, 0.0, 0.0, 3_600.0)))
    report = take_until(watcher, changed, lambda _: len(rounds) == 5)
    report = take_until(watcher, changed, lambda report: not report.listening)
    assert report.reason == "change events failed: inotify watch limit reached"
