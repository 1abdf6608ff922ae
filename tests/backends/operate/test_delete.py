"""Emptying the trash and purging at once: the only two that delete, and they go on when nothing can be written."""

from __future__ import annotations

import errno
import json
import os

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.units import size
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import Operations

TRASH = Selection(box=Box.TRASH, everything=True)


def do(operations, action, selection, **more):
    plan = operations.plan(action, selection, **more)
    return plan, operations.apply(plan)


def trashed(desk, *names):
    for name in names:
        desk.put(name, "x" * 5000)
    return do(desk.operations(), Action.PURGE, Selection(ids=names))[0].operation


def test_emptying_deletes_what_is_in_the_trash_and_nothing_else(desk):
    operation = trashed(desk, "a", "b")
    desk.put("c")
    operations = desk.operations()
    plan = operations.plan(Action.EMPTY, TRASH)
    assert plan.confirm is Confirm.NUMBER
    assert plan.deletes
    blocks = sum(path.stat().st_blocks for path in (desk.path / ".spooltop" / "trash" / operation).glob("[ab]"))
    assert blocks * 512 >= 10_000
    assert f"Frees {size(blocks * 512)} of disk space. This cannot be undone." in plan.notes
    result = operations.apply(plan)
    assert result.count(Outcome.DONE) == 2
    assert result.undo == ()
    assert not (desk.path / ".spooltop" / "trash" / operation).exists()
    assert list(desk.census().values()) == [["new/c"]]
    newest, purge = operations.records()
    assert (newest.action, newest.done, newest.why_not_undo) == (
        Action.EMPTY, 2, "deleted permanently",
    )  # fmt: skip
    undo = operations.plan(Action.UNDO, Selection(), options={"undoes": newest.operation})
    assert undo.count == 0
    assert any("permanently" in note for note in undo.notes)
    assert purge.why_not_undo is None
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": purge.operation})
    assert [refusal.reason for refusal in back.refused] == ["no longer in trash"] * 2


def test_a_part_of_the_trash_leaves_the_rest_with_its_metadata(desk):
    operation = trashed(desk, "a", "b")
    _, result = do(desk.operations(), Action.EMPTY, Selection(ids=("a",)))
    assert result.count(Outcome.DONE) == 1
    assert sorted(os.listdir(desk.path / ".spooltop" / "trash" / operation)) == [".b.meta", "b"]


def test_emptying_by_the_box_alone_leaves_what_was_purged_within_the_hour(desk):
    trashed(desk, "old")
    desk.clock.now += 3700
    trashed(desk, "young")
    operations = desk.operations()
    plan = operations.plan(Action.EMPTY, Selection(box=Box.TRASH))
    assert [item.row.name for item in plan.items] == ["old"]
    assert plan.command == ("spooltop", "purge", str(desk.path), "--box", "trash", "old")


def test_a_purge_at_once_deletes_and_says_so(desk):
    desk.put("a", "x")
    desk.put("left", "y", box=Box.TMP)
    desk.verdicts["left"] = Verdict.ABANDONED
    desk.claim(desk.put(desk.id(1), "z"))
    operations = desk.operations()
    plan, result = do(operations, Action.PURGE, Selection(ids=("a", "left", desk.id(1))), options={"now": True})
    assert plan.confirm is Confirm.NUMBER
    assert [refusal.forceable for refusal in plan.refused] == [False]
    assert result.count(Outcome.DONE) == 2
    assert list(desk.census()) == ["z"]
    assert "--now" in plan.command
    assert result.undo == ()
    [record] = operations.records()
    assert "without the trash" in record.words
    assert record.why_not_undo == "deleted permanently"


def test_what_changed_or_went_since_the_plan_is_not_deleted(desk):
    operation = trashed(desk, "a", "b", "c")
    folder = desk.path / ".spooltop" / "trash" / operation
    operations = desk.operations()
    plan = operations.plan(Action.EMPTY, TRASH)
    (folder / "a").write_text("another now")
    os.rename(folder / "b", desk.path / "new" / "b")
    os.link(folder / "c", desk.path / "second")
    result = operations.apply(plan)
    assert [item.outcome for item in result.items] == [Outcome.SKIPPED] * 3
    assert len(desk.census()) == 2
    assert (folder / "c").exists()


class FullDisk(LogFiles):
    """No file takes a byte or is made any more."""

    def __init__(self, code):
        super().__init__()
        self.code = code

    def _full(self):
        raise OSError(self.code, os.strerror(self.code))

    def write(self, fd, data):
        self._full()

    def create(self, *args, **more):
        self._full()

    def mkdir(self, *args, **more):
        self._full()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("now", [False, True])
def test_a_full_disk_stops_every_change_but_those_that_free_space(desk, code, now):
    trashed(desk, "a")
    desk.put("b")
    said = []
    operations = Operations(desk.operator(FullDisk(code)), str(desk.path), desk.clock, syslog=said.append)
    with pytest.raises(AuditFailed):
        do(operations, Action.PURGE, Selection(ids=("b",)))
    if now:
        plan, result = do(operations, Action.PURGE, Selection(ids=("b",)), options={"now": True})
    else:
        plan, result = do(operations, Action.EMPTY, TRASH)
    assert result.count(Outcome.DONE) == 1
    [[left]] = desk.census().values()
    assert left.endswith("/a") if now else left == "new/b"
    assert any("not in the audit log" in note for note in result.notes)
    assert any("without a line in the journal" in note for note in result.notes)
    assert [plan.operation in line for line in said] == [True] * len(result.notes)


def test_other_trouble_with_the_audit_log_stops_these_too(desk):
    trashed(desk, "a")
    operations = Operations(desk.operator(FullDisk(errno.EIO)), str(desk.path), desk.clock)
    with pytest.raises(AuditFailed):
        do(operations, Action.EMPTY, TRASH)
    assert desk.names(Box.TRASH) == ["a"]


def test_deleting_in_a_purge_that_is_still_going_on_hurts_nobody(desk):
    """The trash of another operation that is at it is emptied between two of its batches."""
    for number in range(2):
        desk.put(f"job{number}", f"{number}")
    purging, emptying = desk.operations(), desk.operations()
    plan = purging.plan(Action.PURGE, Selection(box=Box.NEW, everything=True), options={"rate": 1.0})

    def empty(tried):
        if tried == 1:
            assert do(emptying, Action.EMPTY, TRASH)[1].count(Outcome.DONE) == 1

    assert purging.apply(plan, on_progress=empty).count(Outcome.DONE) == 2
    assert desk.names(Box.TRASH) == ["job1"]


def killed(desk, action, selection, *, deleted=True, **more):
    """The operation in a process that is killed at its first unlink, when that is done, or before."""
    pid = os.fork()
    if pid == 0:
        class Dies(LogFiles):
            def unlink(self, name, dir_fd):
                if deleted:
                    super().unlink(name, dir_fd)
                os._exit(9)

        do(desk.operations(Dies()), action, selection, **more)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def change(desk):
    """Any change: before the first one, what was cut off is repaired. True where there was something to repair."""
    desk.put("last")
    assert do(desk.operations(), Action.HOLD, Selection(ids=("last",), box=Box.NEW))[1].count(Outcome.DONE) == 1
    return (desk.path / ".spooltop" / "repair.lock").exists()


def test_what_a_crash_left_beside_a_deleted_message_goes_at_the_next_change(desk):
    operation = trashed(desk, "a")
    killed(desk, Action.EMPTY, TRASH)
    folder = desk.path / ".spooltop" / "trash" / operation
    assert os.listdir(folder) == [".a.meta"]
    record = desk.operations().records()[0]
    assert (record.open, record.done) == (True, 1)
    assert change(desk)
    assert not folder.exists()


def test_what_is_known_of_a_message_that_was_not_deleted_before_the_crash_stays(desk):
    operation = trashed(desk, "a")
    killed(desk, Action.EMPTY, TRASH, deleted=False)
    assert not change(desk)
    assert sorted(os.listdir(desk.path / ".spooltop" / "trash" / operation)) == [".a.meta", "a"]


def test_where_a_crash_left_nothing_beside_a_deleted_message_nothing_is_repaired(desk):
    operation = trashed(desk, "a")
    killed(desk, Action.EMPTY, TRASH)
    (desk.path / ".spooltop" / "trash" / operation / ".a.meta").unlink()
    assert not change(desk)


@pytest.mark.parametrize("in_common", [True], indirect=True)
@pytest.mark.parametrize("box", [Box.TRASH, Box.HELD])
def test_after_a_crash_the_empty_folder_goes_with_what_was_known_of_all_in_it_but_for_held(desk, in_common, box):
    """A consumer, or another hold, may be setting aside into the one of another box."""
    desk.put("a")
    action = Action.PURGE if box is Box.TRASH else Action.HOLD
    operation = do(desk.operations(), action, Selection(box=Box.NEW, everything=True))[0].operation
    folder = desk.path / ".spooltop" / box / operation
    common = folder.with_name(f".{operation}.meta")
    assert os.listdir(folder) == ["a"] and common.exists()
    killed(
        desk, *((Action.EMPTY, TRASH) if box is Box.TRASH else (Action.PURGE, Selection(box=Box.HELD, everything=True))),
        options={} if box is Box.TRASH else {"now": True},
    )  # fmt: skip
    assert os.listdir(folder) == []
    assert change(desk) is (box is Box.TRASH)
    assert folder.exists() is common.exists() is (box is Box.HELD)


def test_the_audit_log_tells_of_what_was_deleted(desk):
    trashed(desk, "a")
    plan, _ = do(desk.operations(), Action.EMPTY, TRASH)
    lines = [json.loads(line) for line in (desk.path / ".spooltop" / "audit.jsonl").read_text().splitlines()]
    mine = [line for line in lines if line["operation"] == plan.operation]
    assert [(line["event"], line["action"]) for line in mine] == [("before", "empty"), ("after", "empty")]
    assert mine[0]["names"] == ["trash/a"]
