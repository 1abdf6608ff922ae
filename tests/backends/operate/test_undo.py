from __future__ import annotations

import errno
import json
import os
import time

import pytest

from spooltop.backends.directory.operator.moving import mover
from spooltop.backends.journal.log_files import LogFiles
from spooltop.errors import AuditFailed, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box, Verdict

DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)


def undo(operations, operation):
    return operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": operation}))


def requeued(desk, *numbers):
    claims = desk.claim_and_die(*(desk.put(desk.id(number)) for number in numbers))
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, DEAD)
    assert operations.apply(plan).count(Outcome.DONE) == len(numbers)
    return operations, plan.operation, claims


def test_a_requeue_goes_back_as_far_as_no_consumer_was_quicker(desk):
    operations, operation, claims = requeued(desk, 1, 2, 3)
    desk.claim(f"{desk.id(1)},n=1,e=died")
    (desk.path / "new" / f"{desk.id(2)},n=1,e=died").unlink()
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": operation})
    assert [item.row.id for item in plan.items] == [desk.id(3)]
    assert [refusal.reason for refusal in plan.refused] == [
        "already claimed by a consumer, pid 4312",
        "too late: already claimed by a consumer",
    ]
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert claims[2] in desk.names(Box.CUR)


def test_the_plan_says_what_it_undoes_and_where_each_message_goes(desk):
    operations, operation, _ = requeued(desk, 1, 2)
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": operation[:6]})
    assert (plan.undone, plan.undoes) == (Action.REQUEUE, operation)
    for item in plan.items:
        assert (item.row.verdict, item.row.evidence, item.row.attempt) == (Verdict.DEAD, "back to cur", 1)
        assert item.row.in_box_since == (desk.path / "new" / item.name).stat().st_ctime
    put = operations.plan(Action.INJECT, Selection(), options={"count": 1})
    operations.apply(put)
    [item] = operations.plan(Action.UNDO, Selection(), options={"undoes": put.operation}).items
    assert (item.row.verdict, item.row.evidence) == (None, "back to trash")


def test_what_an_undo_cannot_look_at_is_refused_with_the_reason(desk):
    desk.put("job")
    operations = desk.operations()
    plan = operations.plan(Action.HOLD, Selection(ids=("job",), box=Box.NEW))
    assert operations.apply(plan).count(Outcome.DONE) == 1
    held = desk.path / ".spooltop" / "held"
    [folder] = held.iterdir()
    folder.rename(held.parent / "elsewhere")
    folder.write_text("a file in its place")
    again = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert (again.count, len(again.refused)) == (0, 1)
    assert os.strerror(errno.ENOTDIR) in again.refused[0].reason


def test_a_message_that_was_claimed_and_came_back_is_not_taken_back(desk):
    desk.put("job:2,P1", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    operations.apply(plan)
    waiting, claimed = desk.path / "new" / "job", desk.path / "cur" / "job:2,P2"
    moved = waiting.stat().st_ctime_ns
    *_, last = (desk.path / ".spooltop" / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    assert [(one["place"], one["ctime"]) for one in json.loads(last)["others"]] == [(0, moved)]
    while waiting.stat().st_ctime_ns == moved:  # before Linux 6.13 the times of files go by ticks
        waiting.rename(claimed)
        claimed.rename(waiting)
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert ["changed since" in refusal.reason for refusal in back.refused] == [True]


def test_a_taken_name_is_never_replaced_by_an_undo(desk):
    desk.put("one", "first")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=("one",)))
    operations.apply(plan)
    desk.put("one", "second")
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert [refusal.reason for refusal in back.refused] == ["new has another file of that name now"]
    (desk.path / "new" / "one").unlink()
    again = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    desk.put("one", "third")
    assert operations.apply(again).items[0].outcome is Outcome.FAILED
    assert sorted(desk.census()) == ["first", "third"]


def test_of_many_each_that_changed_is_refused_and_all_others_go_back(desk):
    for number in range(1, 1203):
        desk.put(desk.id(number), "first")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert operations.apply(plan).count(Outcome.DONE) == 1202
    [folder] = (desk.path / ".spooltop" / "trash").glob(plan.operation)
    desk.put(desk.id(7), "second")
    (folder / desk.id(8)).unlink()
    (folder / "draft").write_text("another")
    (folder / "draft").rename(folder / desk.id(9))
    os.link(folder / desk.id(1200), desk.path / "linked")
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert {refusal.row.id: refusal.reason for refusal in back.refused} == {
        desk.id(7): "new has another file of that name now",
        desk.id(8): "no longer in trash",
        desk.id(9): "trash has another file of that name now",
        desk.id(1200): "has another hard link",
    }
    desk.put(desk.id(10), "put after the plan")
    assert operations.apply(back).count(Outcome.DONE) == 1197
    assert (desk.path / "new" / desk.id(10)).read_text() == "put after the plan"
    again = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert again.notes[0] == "1197 of 1202 undone already."
    assert sorted(refusal.row.id for refusal in again.refused) == [desk.id(number) for number in (7, 8, 9, 10, 1200)]


def test_one_that_is_missing_costs_no_second_look_at_the_others(desk):
    class Counting(LogFiles):
        looks = 0

        def stat(self, name, dir_fd):
            self.looks += 1
            return super().stat(name, dir_fd)

    for number in range(1001):
        desk.put(desk.id(number))
    files = Counting()
    operations = desk.operations(files)
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert operations.apply(plan).count(Outcome.DONE) == 1001
    next((desk.path / ".spooltop" / "trash" / plan.operation).glob("*0500*")).unlink()
    files.looks = 0
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert (len(back.items), len(back.refused)) == (1000, 1)
    assert files.looks < 1100


def test_operations_are_found_after_a_restart_and_by_the_beginning_of_their_id(desk):
    _, operation, _ = requeued(desk, 1)
    later = desk.operations()
    [record] = later.records()
    assert (record.operation, record.action, record.user, record.done, record.open) == (
        operation, Action.REQUEUE, "ann", 1, False,
    )  # fmt: skip
    assert undo(later, operation[:4]).count(Outcome.DONE) == 1
    with pytest.raises(UsageError, match="no operation zzz"):
        undo(later, "zzz")
    with pytest.raises(UsageError, match="which operation"):
        undo(later, "")


def test_a_torn_journal_line_is_tolerated_and_said(desk):
    operations, operation, _ = requeued(desk, 1)
    journal = desk.path / ".spooltop" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    [record] = operations.records()
    assert record.open
    assert record.done == 1
    assert "interrupted" in record.words
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": operation})
    assert any("cut off" in note for note in plan.notes)
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert len(operations.records()) == 2  # the next lines were not glued to the torn one
    assert [record.open for record in operations.records()] == [False, True]


def test_a_forged_journal_leads_nowhere(desk, tmp_path):
    own = desk.path / ".spooltop"
    own.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("precious")
    desk.put("victim", "mine")
    found = os.stat(desk.path / "new" / "victim")

    def intent(operation, source, target):
        item = {"from": source, "to": target, "ino": found.st_ino, "size": found.st_size, "ctime": 0, "token": None}
        line = {
            "schema": 1, "line": "intent", "operation": operation, "action": "purge", "batch": 0, "time": 1.0, "user": "x",
            "count": 1, "force": False, "undoes": None, "items": [item],
        }  # fmt: skip
        return json.dumps(line)

    forged = [
        intent("a1", "new/../../precious", "new/victim"),
        intent("a2", "etc/passwd", "new/victim"),
        intent("a3", "trash/../victim", "new/victim"),
        intent("../../a4", "cur/x", "new/victim"),
        intent("a5", "cur/..", "new/victim"),
        intent("a6", "cur/\\x2f..\\x2fprecious", "new/victim"),
        intent("a7", "cur/\\x00", "new/victim"),
        intent("a8", "cur/" + "n" * 300, "new/victim"),
        "[" * 100_000,
        '{"schema": 1}',
        "null",
    ]
    (own / "journal.jsonl").write_text("\n".join(forged) + "\n")
    operations = desk.operations()
    assert [record.operation for record in operations.records()] == ["a8"]
    undone = undo(operations, "a8")
    assert [one.outcome for one in undone.items] == [Outcome.FAILED]
    assert precious.read_text() == "precious"
    assert desk.census() == {"mine": ["new/victim"]}


@pytest.mark.parametrize(
    ("member", "value"),
    [("count", True), ("count", -1), ("count", 1 << 64), ("count", 1.5), ("time", True), ("time", -1.0), ("time", 1e300)],
)
def test_a_journal_line_with_a_number_that_none_can_be_tells_of_no_operation(desk, member, value):
    requeued(desk, 1)
    journal = desk.path / ".spooltop" / "journal.jsonl"
    intent = json.loads(journal.read_bytes().splitlines()[0])
    journal.write_text(json.dumps({**intent, member: 0}) + "\n")
    assert len(desk.operations().records()) == 1
    journal.write_text(json.dumps({**intent, member: value}) + "\n")
    assert desk.operations().records() == []


def test_of_two_results_of_one_batch_the_first_counts(desk):
    requeued(desk, 1)
    journal = desk.path / ".spooltop" / "journal.jsonl"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if line.strip(b"\0")]
    [result] = [line for line in lines if b'"line":"result"' in line]
    other = {"place": 0, "outcome": "skipped", "reason": "", "moved": False, "ino": 0, "ctime": 0}
    forged = {**json.loads(result), "others": [other]}
    journal.write_bytes(b"".join(lines) + json.dumps(forged).encode() + b"\n")
    [record] = desk.operations().records()
    assert (record.done, record.skipped) == (1, 0)


def test_a_journal_that_is_a_link_is_not_followed_and_nothing_happens(desk, tmp_path):
    desk.put("a:2,P1", box=Box.CUR)
    (desk.path / ".spooltop").mkdir()
    target = tmp_path / "root's own file"
    target.write_text("")
    for name in ("journal.jsonl", "audit.jsonl"):
        (desk.path / ".spooltop" / name).symlink_to(target)
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(everything=True))
    with pytest.raises(AuditFailed):
        operations.apply(plan)
    assert target.read_text() == ""
    assert desk.names(Box.CUR) == ["a:2,P1"]


def undoable(desk, files):
    """Requeues 80 messages by ``files``, too many for a look at each. Returns how many of them are taken back, and the names of
    those that are not."""
    for number in range(80):
        desk.put(f"{number:02d}:2,P1", box=Box.CUR)
    operations = desk.operations(files)
    plan = operations.plan(Action.REQUEUE, Selection(everything=True), force=True)
    assert operations.apply(plan).count(Outcome.DONE) == 80
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    return len(back.items), [one.row.name for one in back.refused]


class AtMove(LogFiles):
    """Does something after each move, told its number from 1 and its name."""

    def __init__(self, happens):
        super().__init__()
        self.moves = 0
        self.happens = happens

    def rename_noreplace(self, name, dir_fd, to, to_fd):
        super().rename_noreplace(name, dir_fd, to, to_fd)
        self.moves += 1
        self.happens(self.moves, to)


@pytest.mark.parametrize("seconds", [-3, 3])
def test_a_clock_that_is_set_during_a_batch_refuses_nothing(desk, monkeypatch, seconds):
    off = 0

    def happens(number, name):
        nonlocal off
        off = seconds if number >= 5 else 0

    monkeypatch.setattr(mover, "time_ns", lambda: time.time_ns() + off * 10**9)
    assert undoable(desk, AtMove(happens)) == (80, [])


def test_what_goes_on_and_comes_back_in_a_pause_of_a_batch_is_not_taken_back(desk, monkeypatch):
    off = 0

    def happens(number, name):
        nonlocal off
        if number == 8:  # so long that the process may have stood still
            before, off = time.time_ns(), 10**9
            third = desk.path / "new" / "02"
            while third.stat().st_ctime_ns <= before:  # the times of files go by ticks
                third.rename(desk.path / "cur" / "02:2,P2")
                (desk.path / "cur" / "02:2,P2").rename(third)

    monkeypatch.setattr(mover, "time_ns", lambda: time.time_ns() + off)
    assert undoable(desk, AtMove(happens)) == (79, ["02"])


def test_what_could_not_be_looked_at_after_its_move_is_not_measured_by_when_the_others_were(desk):
    [claim] = desk.claim_and_die(desk.put(desk.id(0)))
    for number in (1, 2):
        desk.put(claim.replace(desk.id(0), desk.id(number)), box=Box.CUR)

    class Blind(LogFiles):
        to = ""

        def ordered(self, fd):
            return False  # each is looked at then

        def stat(self, name, dir_fd):
            if name == self.to:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().stat(name, dir_fd)

    files = Blind()
    operations = desk.operations(files)
    plan = operations.plan(Action.REQUEUE, DEAD)
    files.to = f"{desk.id(0)},n=1,e=died"
    assert operations.apply(plan).count(Outcome.DONE) == 3
    files.to = ""
    *_, last = (desk.path / ".spooltop" / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    written = json.loads(last)
    assert [(one["place"], one["ctime"] == 0) for one in written["others"]] == [(0, True), (1, False), (2, False)]
    assert undo(operations, plan.operation).count(Outcome.DONE) == 3
