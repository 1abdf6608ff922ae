"""Repair of messages that a crash left under two names: by one process at a time, and no name but that of the move."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from spooltop.errors import SpooltopError
from spooltop.model.plan import Outcome, Result, Selection
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld, message_id


def half_moved(world: SpoolWorld) -> str:
    """Makes a claim whose move back to ``new`` was cut off between link and unlink, and another claim; returns the name of the
    first."""
    for number in (1, 2):
        world.put(message_id(number))
    claims = world.claim_dead(2)
    os.link(world.path / "cur" / claims[0], world.path / "new" / f"{message_id(1)},n=1")
    return claims[0]


def requeue_second(world: SpoolWorld) -> Result:
    return world.do(Action.REQUEUE, Selection(ids=(message_id(2),)))[1]


def change(world: SpoolWorld) -> None:
    """Does any change: before it, what was cut off is repaired."""
    world.put("last")
    assert world.do(Action.PURGE, Selection(ids=("last",), box=Box.NEW))[1].count(Outcome.DONE) == 1


@pytest.fixture
def lock(world: SpoolWorld) -> Path:
    (world.path / ".spooltop").mkdir()
    return world.path / ".spooltop/repair.lock"


def test_the_lock_is_made_by_the_first_repair_and_stays(world: SpoolWorld, lock: Path) -> None:
    change(world)
    assert not lock.exists()
    half_moved(world)
    os.chmod(world.path / "new", 0o770)
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, Selection(ids=(message_id(2),)))
        assert len(world.names(Box.CUR)) == 2  # a plan changes nothing
        assert control.apply(plan).count(Outcome.DONE) == 1
    assert (world.names(Box.CUR), world.names(Box.NEW)[0]) == ([], f"{message_id(1)},n=1")
    assert (stat.S_IMODE(lock.stat().st_mode), lock.read_bytes()) == (0o660, b"")


def test_who_finds_the_lock_taken_leaves_the_repair_to_the_other(world: SpoolWorld, lock: Path) -> None:
    claim = half_moved(world)
    asked = world.claim_foreign("job")
    os.link(world.path / "cur" / asked, world.path / "new/job")
    with open(lock, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert requeue_second(world).count(Outcome.DONE) == 1
        assert sorted(world.names(Box.CUR)) == sorted([claim, asked])
        [item] = world.do(Action.REQUEUE, Selection(ids=("job",)))[1].items
        assert (item.outcome, item.reason, world.names(Box.CUR)) == (Outcome.DONE, "", [claim])  # but for what was asked for
    change(world)
    assert world.names(Box.CUR) == []


@pytest.mark.parametrize("planted", [lambda lock, other: os.mkfifo(lock), Path.symlink_to, Path.hardlink_to])
def test_something_else_in_place_of_the_lock_ends_the_change_before_it_begins(
    world: SpoolWorld, lock: Path, tmp_path: Path, planted: object
) -> None:
    claim, other = half_moved(world), tmp_path / "other"
    other.write_text("mine")
    planted(lock, other)  # type: ignore[operator]
    with pytest.raises(SpooltopError):
        requeue_second(world)
    assert claim in world.names(Box.CUR) and other.read_text() == "mine"


@pytest.mark.parametrize("count", [3, 100])
def test_a_half_move_is_finished_and_lasts_however_many_claims_stand_around_it(
    world: SpoolWorld, before_call: Interpose, count: int
) -> None:
    for number in range(count):
        world.put(message_id(number))
    claims, order = world.claim_dead(count), []
    os.link(world.path / "cur" / claims[1], world.path / "new" / f"{message_id(1)},n=1")
    os.link(world.path / "cur" / claims[2], world.path / "beside")  # a second name, but none in new
    before_call("unlink", lambda *_: order.append("gone"), claims[1])
    before_call("sync_dir", lambda fd: order.extend(["synced"] * os.path.samestat(os.fstat(fd), os.stat(world.path / "cur"))))
    change(world)
    assert world.names(Box.CUR) == sorted({*claims} - {claims[1]}) and order == ["gone", "synced"]
    assert world.names(Box.NEW) == [f"{message_id(1)},n=1"]


TOKEN = "a" * 32


@pytest.mark.parametrize(
    "claim", [f"job:2,P{os.getpid()}", f"job,c={TOKEN}.1795222800000000:2,P{os.getpid()}"], ids=["running", "unknown"]
)
def test_a_half_move_of_a_holder_that_may_run_is_left_to_it(world: SpoolWorld, claim: str) -> None:
    world.put(claim, box=Box.CUR)
    waiting = world.path / "new" / ("job,n=1" if TOKEN in claim else "job")
    os.link(world.path / "cur" / claim, waiting)
    change(world)
    assert world.names(Box.CUR) == [claim] and waiting.exists()


def held(world: SpoolWorld) -> Path:
    """Holds a message and returns its new path."""
    world.put("job")
    world.do(Action.HOLD, Selection(ids=("job",), box=Box.NEW))
    [path] = (world.path / ".spooltop/held").glob("*/job")
    return path


def cut_off(world: SpoolWorld, torn: bool = False) -> None:
    """Leaves the journal as if the last operation had been cut off before its result, or within it."""
    journal = world.path / ".spooltop/journal.jsonl"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if line.strip(b"\0")]
    result = [line for line in lines if b'"result' in line][-1]
    journal.write_bytes(b"".join(line for line in lines if line != result) + (result[: len(result) // 2] + b"\n") * torn)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("other", ["half moved", "backup", "new replaced", "held replaced"])
def test_the_new_name_of_an_interrupted_hold_goes_only_where_the_other_name_is_the_same_message_in_new(
    world: SpoolWorld, tmp_path: Path, other: str, torn: bool
) -> None:
    target, source = held(world), world.path / "new/job"
    cut_off(world, torn)
    os.link(target, tmp_path / "backup" if other == "backup" else source)
    if other.endswith("replaced"):
        place = source if other == "new replaced" else target
        os.rename(place, tmp_path / "elsewhere")
        (tmp_path / "another").write_text("another")
        os.link(tmp_path / "another", place)
    change(world)
    is_gone = other == "half moved"
    assert [target.exists(), target.with_name(".job.meta").exists()] == [not is_gone] * 2
    assert world.names(Box.NEW) == ([] if other == "backup" else ["job"])
