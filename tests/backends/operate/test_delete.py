"""Emptying the trash and purging at once: the only two that delete, and they go on when nothing can be written."""

from __future__ import annotations

import errno
import json
import os
import time

import pytest

from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.units import size
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld

TRASH = Selection(box=Box.TRASH, everything=True)


def trashed(world: SpoolWorld, *names: str) -> str:
    for name in names:
        world.put(name, "x" * 5000)
    return world.do(Action.PURGE, Selection(ids=names))[0].operation


def test_emptying_deletes_what_is_in_the_trash_and_nothing_else(world: SpoolWorld) -> None:
    operation = trashed(world, "a", "b", "c")
    world.put("left")
    folder = world.path / ".spooltop/trash" / operation
    world.do(Action.EMPTY, Selection(ids=("c",)))
    assert sorted(os.listdir(folder)) == [".a.meta", ".b.meta", "a", "b"]
    blocks = sum(path.stat().st_blocks for path in folder.glob("[ab]"))
    plan, result = world.do(Action.EMPTY, TRASH)
    assert plan.confirm is Confirm.NUMBER and plan.deletes
    assert f"Frees {size(blocks * 512)} of disk space. This cannot be undone." in plan.notes
    assert (result.count(Outcome.DONE), result.undo) == (2, ())
    assert not folder.exists() and world.census() == {"left": ["new/left"]}
    with world.control() as control:
        newest, _, purge = control.operations()
        assert (newest.action, newest.done, newest.why_not_undo) == (Action.EMPTY, 2, "deleted permanently")
    undo, _ = world.undo(newest.operation)
    assert undo.count == 0 and any("permanently" in note for note in undo.notes)
    back, _ = world.undo(purge.operation)
    assert [refusal.reason for refusal in back.refused] == ["no longer in trash"] * 3
    audit = [json.loads(line) for line in (world.path / ".spooltop/audit.jsonl").read_text().splitlines()]
    events = [(line["event"], line["names"]) for line in audit if line["operation"] == newest.operation]
    assert events[0] == ("before", ["trash/a", "trash/b"]) and [event for event, _ in events] == ["before", "after"]


def test_emptying_by_the_box_alone_leaves_what_was_purged_within_the_hour(world: SpoolWorld) -> None:
    world.put_aside(Box.TRASH, "old", origin="new", at=time.time() - 3700)
    trashed(world, "young")
    with world.control() as control:
        plan = control.plan(Action.EMPTY, Selection(box=Box.TRASH))
    assert [item.row.name for item in plan.items] == ["old"]
    assert plan.command == ("spooltop", "purge", str(world.path), "--box", "trash", "old")


@pytest.mark.parametrize(("code", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, True), (errno.EIO, False)])
@pytest.mark.parametrize("now", [False, True])
def test_a_full_disk_stops_every_change_but_those_that_free_space(
    world: SpoolWorld, before_call: Interpose, code: int, full: bool, now: bool
) -> None:
    trashed(world, "a")
    world.put("b")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for operation in ("write", "create", "mkdir"):
        before_call(operation, fail)
    purge = Selection(ids=("b",))
    with pytest.raises(AuditFailed):
        world.do(Action.PURGE, purge)
    before = world.census()
    if not full:
        with pytest.raises(AuditFailed):
            world.do(Action.EMPTY, TRASH)
        assert world.census() == before
        return
    _, result = world.do(Action.PURGE, purge, now=True) if now else world.do(Action.EMPTY, TRASH)
    assert result.count(Outcome.DONE) == 1
    [[left]] = world.census().values()
    assert left.endswith("/a") if now else left == "new/b"
    assert any("not in the audit log" in note for note in result.notes)
    assert any("without a line in the journal" in note for note in result.notes)
