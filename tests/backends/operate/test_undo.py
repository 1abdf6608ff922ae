"""Undo: what it takes back, and what it says of a message that it cannot."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import SpoolWorld, message_id

NEW, TRASH = (Selection(box=box, everything=True) for box in (Box.NEW, Box.TRASH))
DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)


def test_a_requeue_goes_back_as_far_as_no_consumer_was_quicker(world: SpoolWorld) -> None:
    for number in (1, 2, 3):
        world.put(message_id(number))
    claims = world.claim_dead(3)
    done, _ = world.do(Action.REQUEUE, DEAD)
    process, _ = world.claim_living()
    (world.path / "new" / f"{message_id(2)},n=1,e=died").unlink()
    plan, _ = world.undo(done.operation[:6])
    assert [item.row.id for item in plan.items] == [message_id(3)] and claims[2] in world.names(Box.CUR)
    assert [refusal.reason for refusal in plan.refused] == [
        f"already claimed by a consumer, pid {process.pid}", "too late: already claimed by a consumer",
    ]  # fmt: skip


def test_no_claim_goes_back_to_a_consumer_whose_presence_file_went_since_the_plan(world: SpoolWorld) -> None:
    """In ``cur`` its holder would be unknown for ever."""
    world.put(message_id(1))
    world.claim_dead()
    done, _ = world.do(Action.REQUEUE, DEAD)
    with world.control() as control:
        plan = control.plan(Action.UNDO, NONE, options={"undoes": done.operation})
        with Spool(world.path, False) as spool:
            assert spool.recover() == []  # it holds nothing, so its file goes
        [item] = control.apply(plan).items
    reason = "its consumer has exited and left no presence file: it stays in new"
    assert (item.outcome, item.reason, world.names(Box.CUR)) == (Outcome.SKIPPED, reason, [])


def another(path: Path) -> None:
    """Puts another file in the place of one whose inode stays in use."""
    path.rename(path.with_name(".kept"))
    path.write_text("another")


def directory(path: Path) -> None:
    path.rename(path.with_name(".kept"))
    path.mkdir()


def linked(path: Path) -> None:
    os.link(path, path.parents[3] / "linked")


def file_for_folder(path: Path) -> None:
    path.parent.rename(path.parents[1] / ".elsewhere")
    path.parent.write_text("a file in its place")


def taken(path: Path) -> None:
    (path.parents[3] / "new" / path.name).write_text("second")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (taken, "new has another file of that name now"), (Path.unlink, "no longer in trash"),
        (another, "trash has another file of that name now"), (directory, "trash has another file of that name now"),
        (linked, "has another hard link"), (file_for_folder, os.strerror(errno.ENOTDIR)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 1201])
def test_what_changed_since_is_refused_with_the_reason_and_all_others_go_back(
    world: SpoolWorld, change: Callable[[Path], object], reason: str, count: int
) -> None:
    for number in range(count):
        world.put(message_id(number))
    done, result = world.do(Action.PURGE, NEW)
    assert result.count(Outcome.DONE) == count
    change(world.path / ".spooltop" / "trash" / done.operation / message_id(count // 2))
    plan, result = world.undo(done.operation)
    lost = count if change is file_for_folder else 1
    assert [reason in refusal.reason for refusal in plan.refused] == [True] * lost
    assert lost > 1 or plan.refused[0].row.id == message_id(count // 2)
    assert result.count(Outcome.DONE) == count - lost
    if 1 < count != lost:
        again, _ = world.undo(done.operation)
        assert again.notes[0] == f"{count - 1} of {count} undone already." and len(again.refused) == 1


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_undo_into_the_folder_of_another_operation_replaces_nothing_there(world: SpoolWorld, is_taken: bool) -> None:
    world.put("a")
    purged, _ = world.do(Action.PURGE, NEW)
    restored, _ = world.do(Action.RESTORE, TRASH)
    there = world.path / ".spooltop" / "trash" / purged.operation / "a"
    if is_taken:
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("somebody else's")
    assert world.undo(restored.operation)[1].count(Outcome.DONE) == (not is_taken)
    assert there.read_text() == ("somebody else's" if is_taken else "a") and world.names(Box.NEW) == ["a"] * is_taken
