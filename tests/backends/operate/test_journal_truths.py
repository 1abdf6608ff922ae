"""Journal and audit log give a true account of an operation, whatever cut it short and whoever writes into them."""

from __future__ import annotations

import json
import os
import resource
import sys

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import Spool
from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.operations.progress import BATCH
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import finish

NEW = Selection(box=Box.NEW, older_than=0.0)


def journal(desk):
    return desk.path / ".spooltop" / "journal.jsonl"


def held(desk, many):
    """Holds ``many`` messages; the operations and the id."""
    for number in range(many):
        desk.put(f"m{number:05}")
    operations = desk.operations()
    plan = operations.plan(Action.HOLD, NEW)
    assert operations.apply(plan).count(Outcome.DONE) == many
    return operations, plan.operation


def of(operations, operation):
    return next(record for record in operations.records() if record.operation == operation)


def undo(operations, operation):
    return operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": operation}))


def test_killed_between_two_batches_it_is_not_finished(desk):
    operations, operation = held(desk, BATCH + 2)
    assert not of(operations, operation).open
    lines = journal(desk).read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    journal(desk).write_bytes(b"".join(lines[:2]))
    record = of(operations, operation)
    assert (record.open, record.done, record.count) == (True, BATCH, BATCH + 2)
    assert "2 were not attempted" in record.words


def test_the_last_result_lasts_before_it_is_told(desk):
    calls = []

    class Noted(LogFiles):
        def write(self, fd, data):
            calls.append("write")
            return super().write(fd, data)

        def sync(self, fd):
            calls.append("sync")
            super().sync(fd)

    desk.put("a")
    operations = desk.operations(Noted())
    plan = operations.plan(Action.HOLD, NEW)
    assert [calls[-1] for _ in operations._operator.perform(plan)] == ["sync"]


def test_what_was_done_does_not_shrink_when_it_is_undone(desk):
    operations, operation = held(desk, 3)
    lines = journal(desk).read_bytes().splitlines(keepends=True)
    journal(desk).write_bytes(lines[0])  # killed before its result was written
    assert (of(operations, operation).done, of(operations, operation).open) == (3, True)
    back = undo(operations, operation)
    assert back.count(Outcome.DONE) == 3
    record = of(operations, operation)
    assert (record.done, record.undone_by, record.why_not_undo) == (3, back.operation, f"already undone by {back.operation}")
    again = operations.plan(Action.UNDO, Selection(), options={"undoes": operation})
    assert again.count == 0 and "3 of 3 undone already." in again.notes


@pytest.mark.parametrize("stands", ["a file", "a directory"])
def test_another_file_of_the_same_name_is_not_taken_back(desk, stands):
    operations, operation = held(desk, 1)
    [place] = (desk.path / ".spooltop" / "held" / operation).glob("m*")
    kept = place.with_name(".kept")  # its inode is not used again
    place.rename(kept)
    if stands == "a file":
        place.write_text("another")
    else:
        place.mkdir()
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": operation})
    assert [refusal.reason for refusal in plan.refused] == ["held has another file of that name now"]
    assert plan.count == 0


def test_the_first_result_of_a_batch_counts(desk):
    operations, operation = held(desk, 1)
    intent, result = journal(desk).read_bytes().splitlines(keepends=True)
    other = {"place": 0, "outcome": "failed", "reason": "", "moved": False, "ino": 0, "ctime": 0}
    journal(desk).write_bytes(intent + result + json.dumps({**json.loads(result), "others": [other]}).encode() + b"\n")
    assert (of(operations, operation).done, of(operations, operation).failed) == (1, 0)


@pytest.mark.parametrize("batch", ["true", "-1", "0.5", "1e400", f"{1 << 64}", '"0"', "null"])
def test_a_line_with_a_number_that_is_none_is_left_out(desk, batch):
    operations, operation = held(desk, 1)
    intent, _ = journal(desk).read_bytes().splitlines(keepends=True)
    journal(desk).write_bytes(intent.replace(b'"batch":0', b'"batch":' + batch.encode()))
    assert operations.records() == []
    journal(desk).write_bytes(intent)
    assert of(operations, operation).count == 1


def test_the_trail_of_an_operation_has_its_own_lines_only(desk):
    operations, operation = held(desk, 1)
    back = undo(operations, operation)  # its lines name the other one
    trail = operations.audited(operation)
    assert [(line.action, line.event) for line in trail.lines] == [("hold", "before"), ("hold", "after")]
    assert {line.action for line in operations.audited(back.operation).lines} == {"undo"}
    assert trail.problems == ()


def test_what_was_never_tried_is_counted_without_what_was_missing(desk):
    for name in ("a", "b"):
        desk.put(name)
    operations = desk.operations()
    plan = operations.plan(Action.HOLD, Selection(box=Box.NEW, ids=("a", "b", "gone")))
    assert (plan.count, plan.missing) == (2, ("gone",))
    result = operations.apply(plan, stop=lambda: True)
    assert (result.untried, result.stopped, result.count(Outcome.SKIPPED)) == (2, True, 1)


@pytest.mark.parametrize("deletes", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_only_what_frees_space_goes_on_without_an_audit_log_and_only_on_a_full_disk(desk, deletes, full):
    desk.put("a")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, NEW, options={"now": True} if deletes else {})
    operator = operations._operator

    def audit(line, *, sync=True):
        raise AuditFailed("no room" if full else "no permission", path="/spool", full=full)

    operator.audit = audit
    if deletes and full:
        result = operations.apply(plan)
        assert result.count(Outcome.DONE) == 1 and "not in the audit log: no room" in result.notes
        assert os.listdir(desk.path / "new") == []
        return
    with pytest.raises(AuditFailed):
        operations.apply(plan)
    assert os.listdir(desk.path / "new") == ["a"]


@pytest.mark.long
@pytest.mark.early
def test_without_descriptors_a_list_is_whole_or_says_that_it_is_not(tmp_path):
    with Spool.create(tmp_path / "s", durable=False) as box:
        box.put(b"x")
    assert finish(["hold", tmp_path / "s", "ALL", "--yes"]).code == 0
    outcomes = set()
    for limit in range(8, 16):
        done = finish(
            ["ls", tmp_path / "s", "--box", "held", "--json"],
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        )
        if done.code == 0:
            assert json.loads(done.out)["box"] == "held"
        else:
            assert done.out == "" and done.err.startswith("spooltop: ") and done.err.count("\n") == 1, done.err
        outcomes.add(done.code == 0)
    assert outcomes == {True, False}, sys.version
