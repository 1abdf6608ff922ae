"""When a look lists a box: events are hints, and whatever ends them leaves the scans, which are the truth, and says so."""

from __future__ import annotations

import os
import queue
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.directory import watcher
from spooltop.backends.directory.scan import BoxScanner, scan_box
from spooltop.backends.directory.storage import System
from spooltop.backends.directory.watcher import Events, inotify_source, parsed
from spooltop.model.vocabulary import Box
from spooltop.stop_event import StopEvent

from .conftest import Opened
from .table import see, see_until

MOVED_TO, OVERFLOW, IGNORED = 0x80, 0x4000, 0x8000
NEW = "1795220920443125.P9R0123456789abcdef.vm,s=email"
CUR = f"{NEW},c={'ab' * 16}.1795220925443125:2,P7"


class Told(queue.Queue[Any]):
    """The events that the watch of a Control receives: those that a test puts here."""

    def __call__(self, _: Iterable[str], stop: threading.Event) -> Iterator[Any]:
        yield Events()
        while not stop.is_set():
            with suppress(queue.Empty):
                yield self.get(timeout=0.05)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    events = Told()
    monkeypatch.setattr(watcher, "kernel_source", events)
    return events


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        (Events(lost=True), 0.0),
        ({(1, f"new/{number}") for number in range(10_000)}, 0.0),
        (Events(), 60.0),
    ],
    ids=["the queue overflowed", "very many from watchfiles, which does not tell", "the thread slept"],
)
def test_where_events_may_be_lost_all_is_listed_at_once(
    spool: Path, opened: Opened, told: Told, events: Any, seconds: float
) -> None:
    now = [0.0]
    control = opened(spool, watch=True, least=1_000.0, monotonic=lambda: now[0])
    see_until(control, lambda observation: observation.watch.mode == "live")
    (spool / "new" / "m").touch()
    assert control.look().observation.boxes[Box.NEW].count == 0
    now[0] = seconds
    told.put(events)
    observation = see_until(control, lambda observation: observation.boxes[Box.NEW].count == 1)
    assert observation.watch.mode == "live" and not observation.flow.exact


def test_what_watchfiles_tells_is_counted(spool: Path, opened: Opened, told: Told) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.measured)
    (spool / "new" / NEW).touch()
    told.put({(1, str(spool / "new" / NEW))})
    see_until(control, lambda observation: observation.flow.arrived == 1)


@pytest.mark.parametrize("claim", [CUR, CUR.replace(",c=", ",n=1,c=")])
def test_what_is_read_late_is_counted_and_no_sample_of_times(spool: Path, opened: Opened, told: Told, claim: str) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.measured)
    boxes = {"new": Counter([NEW]), "cur": Counter([claim])}
    told.put(Events(added=boxes, deleted=boxes, count=4, late=60.0))
    flow = see_until(control, lambda observation: observation.flow.done == 1).flow
    assert [(passage.put_at, passage.claimed_at) for passage in flow.completions] == [(None, None)]


def test_the_put_of_a_claim_that_was_listed_before_its_events_came_has_arrived(spool: Path, opened: Opened, told: Told) -> None:
    control = opened(spool, watch=True)
    see_until(control, lambda observation: observation.flow.measured)
    (spool / "cur" / "plain:2,P4242").touch()
    assert len(see(control).claims) == 1
    added = {"new": Counter(["plain"]), "cur": Counter(["plain:2,P4242"])}
    told.put(Events(added=added, deleted={"new": Counter(["plain"])}, count=3))
    flow = see_until(control, lambda observation: observation.flow.claimed == 1).flow
    assert (flow.arrived, flow.retried) == (1, 0)


def test_a_watch_that_fails_says_why_and_scans_go_on(spool: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Iterable[str], stop: threading.Event) -> Iterator[Events]:
        yield Events()
        raise OSError("inotify watch limit reached")

    monkeypatch.setattr(watcher, "kernel_source", broken)
    control = opened(spool, watch=True)
    observation = see_until(control, lambda observation: observation.watch.mode == "scan")
    assert observation.watch.reason == "change events failed: inotify watch limit reached"
    (spool / "new" / "m").touch()
    see_until(control, lambda observation: observation.boxes[Box.NEW].count == 1)


@pytest.mark.parametrize(
    "changed", ["spool/x.lock", "spool.lock", "logs/poll-im.log", "config/spooltop/config.toml", "state/spooltop/mutes.json"]
)
def test_what_a_look_reads_besides_the_boxes_is_watched(
    tmp_path: Path, spool: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    for name in ("config", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    for folder in ("logs", "config/spooltop", "state/spooltop"):
        (tmp_path / folder).mkdir(parents=True)
    control = opened(spool, watch=True, poll_logs=[f"{tmp_path}/lo*/poll-*.log"], settings=None)
    see_until(control, lambda observation: observation.watch.mode == "live")
    while control.changes(0.3):
        control.look()
    for number in range(300):  # until it listens: the library does not say when
        (tmp_path / changed).write_text(f"# {number}")
        if control.changes(0.2):
            return
    raise AssertionError("no change was reported")


# Scans


@pytest.fixture
def box(tmp_path: Path) -> Iterator[int]:
    """Descriptor of a directory whose mtime no coarse clock can confuse with now."""
    (tmp_path / "no time in its name").touch()
    os.utime(tmp_path, (1_000_000_000, 1_000_000_000))
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("changes", [False, True])
def test_a_directory_that_changes_while_it_is_listed_is_due_again(box: int, tmp_path: Path, changes: bool) -> None:
    class Known(dict[str, int]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            """Asked while the listing is under way."""
            if changes:
                (tmp_path / "1795220920000001.1.vm").touch()

    scanner = BoxScanner(System(), scan=lambda fd, **more: scan_box(fd, **{**more, "known": Known()}))
    scanner.look(box)
    assert (scanner.due is not None) is changes


def test_where_changes_are_not_seen_time_tells_when_to_list(box: int, tmp_path: Path) -> None:
    now = [100.0]
    scanner = BoxScanner(System(monotonic=lambda: now[0]), least=1.0)
    first = scanner.look(box, unseen=True)
    now[0] += scanner.period
    again = scanner.look(box, unseen=True)
    assert again.number == first.number and again.as_of > first.as_of
    (tmp_path / "b").touch()
    os.utime(tmp_path, (1_000_000_000, 1_000_000_000))
    now[0] += scanner.period - 0.1
    assert scanner.look(box, unseen=True) is again
    now[0] += 0.1
    assert len(scanner.look(box, unseen=True).names) == 2


def test_a_fresh_mtime_is_not_trusted_to_tell_the_next_change(spool: Path, opened: Opened) -> None:
    now = [100.0]
    control = opened(spool, least=1.0, monotonic=lambda: now[0])
    for count in (0, 1):
        os.utime(spool / "new", (4_000_000_000, 4_000_000_000))
        assert control.look().observation.boxes[Box.NEW].count == count
        (spool / "new" / "m").touch()
        now[0] += 1.0


# The kernel's events


def event(wd: int, mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16) if name else b""
    return struct.pack("iIII", wd, mask, 0, len(padded)) + padded


def test_lost_events_and_a_lost_directory_are_told() -> None:
    events = Events()
    parsed(event(-1, OVERFLOW) + event(1, MOVED_TO, b"m"), {1: "new"}, events)
    assert events.lost and not events.ended and events.added["new"] == {"m": 1}
    parsed(event(1, IGNORED), {1: "new"}, events)
    assert events.ended


def test_what_waited_while_nobody_read_is_told_at_once_and_how_long_it_was(spool: Path) -> None:
    now = [5.0]
    source = inotify_source({str(spool / "new"): "new"}, StopEvent(), lambda: now[0])
    next(source)
    names = [str(spool / "new" / f"{number:0180}") for number in range(3_000)]
    Path(names[0]).touch()
    for old, new in pairwise(names):  # two events each
        os.rename(old, new)
    now[0] = 65.0
    events = next(source)
    source.close()
    assert (len(events.added["new"]), events.late) == (3_000, 60.0)
