"""Conclusions of a look at a spool, the limits that it states, and what lists, locks and plans say of the same moment."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import FileTicketQueue, Spool
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import GONE, SpoolWorld
from tests.cli.streams import spooltop

HOST = os.uname().nodename


def put_before(world: SpoolWorld, seconds: float, count: int = 1) -> list[str]:
    """Puts messages of our own with this age."""
    with Spool(world.path, durable=False, clock=lambda: time.time() - seconds) as spool:
        return spool.put_many([b"x"] * count)


def status(world: SpoolWorld) -> dict[str, Any]:
    return dict(json.loads(spooltop("status", world.path, "--json").out))


def test_the_newest_claim_is_the_last_only_where_nothing_was_claimed_and_finished_since(world: SpoolWorld) -> None:
    put_before(world, 2_000, 2)
    old = time.time() - 1_200
    first, second = world.names(Box.NEW)
    cur = world.path / "cur"
    os.rename(world.path / "new" / first, cur / f"{first},c={'ab' * 16}.{int(old * 1e6)}:2,P{GONE}")
    os.utime(cur, (old, old))
    assert abs(status(world)["last_claim_at"] - old) < 1
    with Spool(world.path, durable=False) as spool:
        claim = spool.claim()
        assert claim is not None and claim.id == second
        claim.ack()
        assert status(world)["last_claim_at"] is None
        with world.control() as control:
            control.look()
            notes = " ".join(control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), force=True).notes)
        assert "19m" not in notes and "20m" not in notes and "At work now: 1 consumer, last claim not known." in notes


def test_a_look_that_is_to_scan_again_scans_though_no_time_changed(world: SpoolWorld) -> None:
    os.utime(world.path / "new", (1, 1))
    with world.control() as control:
        assert control.look().observation.boxes[Box.NEW].count == 0
        world.put("1795220920443125.9155.vm")
        os.utime(world.path / "new", (1, 1))
        counts = [control.look(rescan=rescan).observation.boxes[Box.NEW].count for rescan in (False, True)]
    assert counts == [0, 1]


def test_the_logs_have_room_that_a_full_disk_cannot_take(world: SpoolWorld) -> None:
    world.put("a")
    world.do(Action.HOLD, Selection(box=Box.NEW, ids=("a",)))
    log = next((world.path / ".spooltop").rglob("journal*.jsonl"))
    assert log.stat().st_blocks * 512 >= 256 * 1024 > log.stat().st_size


def test_operations_leave_no_descriptor_open(world: SpoolWorld) -> None:
    world.put("a")
    with world.control() as control:
        counts = []
        for _ in range(4):
            held = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
            control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": held.operation}))
            control.look(rescan=True)
            counts.append(len(os.listdir("/proc/self/fd")))
    assert len(set(counts[1:])) == 1


def test_a_foreign_name_counts_by_its_time_and_not_by_its_letters(world: SpoolWorld) -> None:
    base = 1_795_222_000
    own = [world.put(f"{base + second}000000.P7R00000000000000aa.vm") for second in (10, 20)]
    for name, second in (("young", 15), ("old", 1)):
        os.utime(world.path / "new" / world.put(f"zzzzzzzzzzzzzzzz.{name}"), (base + second, base + second))
    with world.control() as control:
        control.look()
        tracked = control.follow([own[1], own[0]], 0.0)
        assert [(tracked[id].place, tracked[id].of) for id in own] == [(2, 4), (4, 4)]


@pytest.mark.parametrize(
    ("text", "holders"), [("1", [1]), ("0", []), ("-1", []), ("12345678901", []), ("1x", []), ("", [])]
)
def test_a_soft_lock_may_be_held_by_any_process_and_by_no_other_text(world: SpoolWorld, text: str, holders: list[int]) -> None:
    world.write("x.lock", f"{text}\n{HOST}\n1\n")
    with world.control() as control:
        (lock,) = control.look().observation.locks
    assert [holder.pid for holder in lock.holders] == holders
    assert text != "1" or (lock.kind, lock.verdict) == ("soft", "held")


def test_a_directory_that_is_named_like_a_ticket_waits_for_nothing(world: SpoolWorld) -> None:
    for number in (1, 2):
        world.ticket(number, os.getpid())
    (world.path / "job.lock.queue" / f"{3:020}.{os.getpid()}.{3:032x}").mkdir()
    with world.control() as control:
        (lock,) = control.look().observation.locks
    assert (lock.kind, len(lock.holders), len(lock.waiters)) == ("ticket", 1, 1)


def test_a_ticket_of_more_digits_is_served_and_shown(tmp_path: Path) -> None:
    (tmp_path / "seq").write_text("1")
    members = [f"{number}.{os.getpid()}.{'ab' * 16}" for number in ("99999999999999999999", "100000000000000000000")]
    for member in reversed(members):
        (tmp_path / member).touch()
    assert FileTicketQueue(tmp_path).is_head(99999999999999999999)
    for waiters in (1, 0):
        reported = json.loads(spooltop("status", tmp_path, "--json").out)
        (lock,) = [lock for lock in reported["locks"] if lock["kind"] == "ticket"]
        assert (len(lock["holders"]), len(lock["waiters"])) == (1, waiters)
        (tmp_path / members[0]).unlink(missing_ok=True)


def test_a_dashboard_that_watches_sees_a_pause_come_and_go_and_metrics_do(world: SpoolWorld) -> None:
    with world.control(watch=True) as watching:
        assert watching.look().observation.paused is None
        for action in (Action.PAUSE, Action.RESUME):
            world.do(action, Selection())
            is_paused = action is Action.PAUSE
            while (watching.look().observation.paused is not None) is not is_paused:
                assert watching.changes(10)
            value = float(is_paused)
            assert f'spooltop_paused{{target="{world.path}"}} {value}\n' in spooltop("metrics", world.path).out


def test_a_pause_that_is_not_visible_is_no_error_of_the_look(world: SpoolWorld) -> None:
    own = world.path / ".spooltop"
    own.symlink_to("/nowhere")
    with world.control() as control:
        assert control.look().observation.paused is None
    own.unlink()
    own.mkdir()
    os.mkfifo(own / "paused")
    with world.control() as control:
        pause = control.look().observation.paused
        assert pause is not None and pause.by is None
