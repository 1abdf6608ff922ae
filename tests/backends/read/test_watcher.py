"""Events are hints: what they say is handed on, and whatever ends them leaves the scans and says so."""

from __future__ import annotations

import os
import queue
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from spooltop.backends.directory.events.folder_watch import Changes, FolderWatch
from spooltop.backends.directory.events.inotify import Events, inotify_source, parsed
from spooltop.backends.directory.events.side_watch import side_watch
from spooltop.backends.directory.events.watcher import EventReport, Watcher
from spooltop.model.vocabulary import Box
from spooltop.stop_event import StopEvent

MOVED_TO, OVERFLOW, IGNORED = 0x80, 0x4000, 0x8000


class Heard:
    """A watcher of ``new`` and ``cur``, and what it reports."""

    def __init__(self, spool: Path, **more: object) -> None:
        self.changed = threading.Event()
        paths = {Box.NEW: str(spool / "new"), Box.CUR: str(spool / "cur")}
        self.watcher = Watcher(paths, self.changed, **more)  # type: ignore[arg-type]
        self.watcher.start()

    def until(self, condition: Callable[[EventReport], object]) -> EventReport:
        for _ in range(300):
            report = self.watcher.take()
            if condition(report):
                return report
            self.changed.wait(0.1)
            self.changed.clear()
        raise AssertionError(f"not heard: {self.watcher.take()}")


@pytest.fixture
def heard(spool: Path) -> Iterator[Callable[..., Heard]]:
    made: list[Heard] = []

    def listen(**more: object) -> Heard:
        made.append(Heard(spool, **more))
        return made[-1]

    yield listen
    for one in made:
        one.watcher.close()


def test_a_move_is_heard_in_both_boxes_and_any_name_but_that_of_a_dot_file(spool: Path, heard: Callable[..., Heard]) -> None:
    hears = heard()
    hears.until(lambda report: report.listening)
    for name in (".hidden", "m", "\udcff"):
        (spool / "new" / name).touch()
        if name != ".hidden":
            report = hears.until(lambda report: report.batches)
            assert report.exact and report.batches[0].added == {Box.NEW: {name}}
    (spool / "new" / "m").rename(spool / "cur" / "m:2,P1")
    (batch,) = hears.until(lambda report: report.batches).batches
    assert (batch.deleted, batch.added) == ({Box.NEW: {"m"}}, {Box.CUR: {"m:2,P1"}})
    for path in (spool / "new").iterdir():
        path.unlink()
    (spool / "new").rmdir()
    assert hears.until(lambda report: report.restarted).reason


@pytest.mark.parametrize("how", ["overflown", "flood", "silence"])
def test_where_events_may_be_lost_all_is_listed_again(spool: Path, heard: Callable[..., Heard], how: str) -> None:
    """The kernel's queue overflowed, there were very many changes, or the thread slept for a minute."""
    steps = iter([0.0, 1.0, 2.0, 60.0 if how == "silence" else 3.0])
    yielded: dict[str, list[Events | Changes]] = {
        "overflown": [Events(), Events(added={f"{spool}/new": {"m"}}, count=1, lost=True)],
        "flood": [set(), {(1, f"{spool}/new/{number}") for number in range(10_000)}],
        "silence": [set(), set(), set()],
    }

    def source(_: Iterable[str], stop: threading.Event) -> Iterator[Events | Changes]:
        yield from yielded[how]
        stop.wait()

    report = heard(source=source, monotonic=lambda: next(steps, 60.0)).until(lambda report: report.restarted)
    assert report.listening and not report.exact


def test_a_watch_that_fails_again_and_again_says_why(heard: Callable[..., Heard]) -> None:
    rounds: list[int] = []

    def broken(_: Iterable[str], stop: threading.Event) -> Iterator[Changes]:
        rounds.append(1)
        yield set()
        raise OSError("inotify watch limit reached")

    hears = heard(source=broken, back_off=(0.0, 0.0, 0.0, 0.0, 3_600.0))
    hears.until(lambda _: len(rounds) == 5)
    assert hears.until(lambda report: not report.listening).reason == "change events failed: inotify watch limit reached"


# The kernel's events


def event(wd: int, mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16) if name else b""
    return struct.pack("iIII", wd, mask, 0, len(padded)) + padded


def test_lost_events_and_a_lost_directory_are_told() -> None:
    events = Events()
    parsed(event(-1, OVERFLOW) + event(1, MOVED_TO, b"m"), {1: "new"}, events)
    assert events.lost and not events.ended and events.added["new"] == {"m"}
    parsed(event(1, IGNORED), {1: "new"}, events)
    assert events.ended


def test_what_waited_while_nobody_read_is_told_at_once_and_how_long_it_was(spool: Path) -> None:
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
    assert (len(events.added[str(spool / "new")]), events.late) == (3_000, 60.0)


# What stands beside the boxes


class Source:
    """Yields what a test puts into it; ``watched`` are the folders of each time that somebody listened."""

    def __init__(self) -> None:
        self.watched: queue.Queue[list[str]] = queue.Queue()
        self.changes: queue.Queue[Changes | Exception] = queue.Queue()

    def __call__(self, paths: Iterable[str], stop: threading.Event) -> Iterator[Changes]:
        self.watched.put(list(paths))
        while not stop.is_set():
            try:
                found = self.changes.get(timeout=0.05)
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            yield found


def test_folders_that_come_go_and_fail_are_watched_for_the_names_that_matter(tmp_path: Path) -> None:
    source, notices = Source(), queue.Queue[None]()
    later = tmp_path / "later"
    ends = {str(tmp_path): lambda name: name.endswith(".lock"), str(later): lambda name: name.endswith(".log")}
    watch = FolderWatch(ends, lambda: notices.put(None), source=source, again=0.01, later=0.0)
    watch.start()
    try:
        assert source.watched.get(timeout=30) == [str(tmp_path)]
        source.changes.put({(1, f"{tmp_path}/message"), (2, f"{tmp_path}/below/x.lock"), (1, "/elsewhere/x.lock")})
        source.changes.put({(2, f"{tmp_path}/x.lock"), (1, f"{tmp_path}/y.lock")})
        notices.get(timeout=30)
        later.mkdir()
        source.changes.put(set())
        assert source.watched.get(timeout=30) == [str(tmp_path), str(later)]
        source.changes.put({(3, str(later))})  # it was replaced
        assert source.watched.get(timeout=30) == [str(tmp_path), str(later)]
        notices.get(timeout=30)
        for failure in (OSError("OS file watch limit reached"), ValueError("Unable to decode path")):
            source.changes.put(failure)
            source.watched.get(timeout=30)
        source.changes.put({(3, f"{later}/x.log")})
        notices.get(timeout=30)
        assert notices.empty()
    finally:
        watch.close()
        watch.close()


@pytest.mark.parametrize("changed", ["spool/x.lock", "spool.lock", "logs/poll-im.log", "config/config.toml", "state/mutes.json"])
def test_what_a_look_reads_besides_the_boxes_is_watched(tmp_path: Path, changed: str) -> None:
    for folder in ("spool", "logs", "config", "state"):
        (tmp_path / folder).mkdir()
    noticed = threading.Event()
    files = [str(tmp_path / "config/config.toml"), "/etc/spooltop.toml", str(tmp_path / "state/mutes.json")]
    watch = side_watch(str(tmp_path / "spool"), [f"{tmp_path}/lo*/poll-*.log", *files], [], noticed.set)
    watch.start()
    try:
        for number in range(300):  # until it listens: the library does not say when
            (tmp_path / "spool" / "cursors.json").write_text(str(number))
            (tmp_path / changed).write_text(str(number))
            if noticed.wait(0.2):
                return
    finally:
        watch.close()
    raise AssertionError("no change was reported")
