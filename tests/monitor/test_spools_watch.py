"""The watch over several targets: one that hangs, one that cannot be opened, one that changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.backends.directory.scan.count import count_boxes
from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import Unreadable
from spooltop.model.vocabulary import Box
from spooltop.monitor.glance import Glance, Level
from spooltop.monitor.spools_watch import SpoolsWatch

PATIENCE = 60.0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "waited too long"
        threading.Event().wait(0.01)


@pytest.fixture
def spools(tmp_path: Path) -> list[str]:
    for name in ("a", "b", "c"):
        Spool.create(tmp_path / name).close()
    return [str(tmp_path / name) for name in ("a", "b", "c")]


def opened(target: str) -> Control:
    return open_control(target, watch=False, settings={})


@contextmanager
def watching(targets: Sequence[str], **options: object) -> Iterator[SpoolsWatch]:
    options.setdefault("glancing", opened)
    watch = SpoolsWatch(targets, opened=opened, every=0.05, **options)  # type: ignore[arg-type]
    watch.start()
    try:
        yield watch
    finally:
        watch.close()


def seen(watch: SpoolsWatch, target: str) -> Glance:
    return next(one for one in watch.glances() if one.target == target)


def test_names_are_counted_before_anything_is_opened(spools: list[str]) -> None:
    with Spool(spools[1], durable=False) as queue:
        queue.put_many([b"x"] * 7)
    gate = threading.Event()

    def glancing(target: str) -> Control:
        gate.wait()
        return opened(target)

    with watching(spools, glancing=glancing, count=count_boxes) as watch:
        until(lambda: all(one.counted is not None for one in watch.glances()))
        assert [one.count(Box.NEW) for one in watch.glances()] == [0, 7, 0]
        assert {one.level for one in watch.glances()} == {Level.PENDING}
        gate.set()
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        assert seen(watch, spools[1]).count(Box.NEW) == 7


def test_a_change_is_seen_and_told(spools: list[str]) -> None:
    told = threading.Event()
    with watching(spools) as watch:
        watch.wake_with(told.set)
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        told.clear()
        with Spool(spools[2], durable=False) as queue:
            queue.put(b"x")
        until(lambda: seen(watch, spools[2]).count(Box.NEW) == 1)
        assert told.wait(PATIENCE)


@pytest.mark.parametrize(
    ("error", "says"), [(Unreadable("permission denied"), "permission denied"), (ZeroDivisionError("oh"), "please report")]
)
def test_one_that_cannot_be_opened_says_why_and_is_tried_again(spools: list[str], error: Exception, says: str) -> None:
    shut = [error]

    def glancing(target: str) -> Control:
        if target == spools[0] and shut:
            raise shut[0]
        return opened(target)

    with watching(spools, glancing=glancing) as watch:
        until(lambda: says in seen(watch, spools[0]).says and seen(watch, spools[2]).snapshot is not None)
        shut.clear()
        watch.look_again()
        until(lambda: seen(watch, spools[0]).level is Level.FINE)


def test_new_targets_are_found_and_gone_ones_leave(spools: list[str], tmp_path: Path) -> None:
    found = spools[:2]
    with watching(spools[:2], find=lambda: found) as watch:
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        found[:] = spools[1:]
        watch.look_again()
        until(lambda: [one.target for one in watch.glances()] == spools[1:])
        until(lambda: all(one.snapshot is not None for one in watch.glances()))


def test_more_than_may_stay_open_are_looked_at_all_the_same(spools: list[str]) -> None:
    with watching(spools, most_open=1) as watch:
        until(lambda: all(one.snapshot is not None for one in watch.glances()))
        with Spool(spools[0], durable=False) as queue:
            queue.put(b"x")
        watch.look_again()
        until(lambda: seen(watch, spools[0]).count(Box.NEW) == 1)
