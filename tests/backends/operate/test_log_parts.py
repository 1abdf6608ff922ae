"""A journal that has become large continues in a new part, whatever ends the process or fails on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.log_store import LogFiles, open_path
from spooltop.model.plan import BATCH, Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld

LOG = "journal.jsonl"
PARTS = [f"journal.{number:06}.jsonl" for number in range(1, 6)]


@pytest.fixture
def small(world: SpoolWorld, monkeypatch: pytest.MonkeyPatch) -> SpoolWorld:
    """World with the messages a to f in new, in which a part begins once there is a line."""
    monkeypatch.setattr("spooltop.backends.log_store.LogFiles.rotate_at", 1)
    for name in "abcdef":
        world.put(name)
    return world


def hold(world: SpoolWorld, *names: str) -> str:
    plan, result = world.do(Action.HOLD, Selection(box=Box.NEW, ids=names))
    assert result.count(Outcome.DONE) == len(names)
    return plan.operation


def operations(world: SpoolWorld) -> list[str]:
    with world.control() as control:
        return [record.operation for record in control.operations()]


def undo_plan(world: SpoolWorld, operation: str) -> Plan:
    with world.control() as control:
        return control.plan(Action.UNDO, Selection(), options={"undoes": operation})


def journals(world: SpoolWorld) -> list[str]:
    return sorted(path.name for path in (world.path / ".spooltop").glob("journal*"))


def fails(code: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


def forget(world: SpoolWorld, operation: str, name: str) -> None:
    """Takes away what an operation held, so that it can no longer be undone."""
    for file in (name, f".{name}.meta"):
        (world.path / ".spooltop/held" / operation / file).unlink()


@pytest.mark.parametrize("swaps", [True, False])
def test_operations_are_listed_and_undone_across_parts(small: SpoolWorld, before_call: Interpose, swaps: bool) -> None:
    os.chmod(small.path / "new", 0o750)
    if not swaps:
        before_call("swap", fails(errno.EINVAL))
    done = [hold(small, name) for name in "abc"]
    assert journals(small) == [*PARTS[:2], LOG] and operations(small) == done[::-1]
    assert {stat.S_IMODE((small.path / ".spooltop" / name).stat().st_mode) for name in journals(small)} == {0o640}
    back, result = small.undo(done[0])
    assert result.count(Outcome.DONE) == 1
    with small.control() as control:
        undone_by = {record.operation: record.undone_by for record in control.operations()}
    assert [undone_by[operation] for operation in done] == [back.operation, None, None]


@pytest.mark.parametrize("operation", ["lock_write", "write"])
def test_of_two_operators_that_begin_a_part_one_does_and_no_line_is_lost(
    small: SpoolWorld, before_call: Interpose, operation: str
) -> None:
    """The other one comes between the opening of the log and the lock or the line of this one."""
    done, others = [hold(small, "a")], []

    def come_between(*_: object) -> None:
        if not others:
            others.append(hold(small, "c"))

    before_call(operation, come_between)
    done.append(hold(small, "b"))
    assert sorted(operations(small)) == sorted(done + others)
    assert all(undo_plan(small, one).count == 1 for one in done + others)


def test_a_part_that_begins_while_the_journal_is_read_is_not_mixed_with_what_is_older(
    small: SpoolWorld, before_call: Interpose
) -> None:
    done = [hold(small, name) for name in "ab"]
    before_call("list", lambda *_: hold(small, "c") if (small.path / "new/c").exists() else None)
    assert operations(small)[-2:] == done[::-1]


def test_only_so_many_parts_are_kept_and_none_of_another_user_in_a_sticky_directory_goes(
    small: SpoolWorld, before_call: Interpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.backends.log_store.MOST_PARTS", 2)
    done = [hold(small, name) for name in "abcde"]
    assert journals(small) == [*PARTS[2:4], LOG] and operations(small) == done[:1:-1]
    before_call("unlink", fails(errno.EACCES), PARTS[2])
    hold(small, "f")
    assert journals(small) == [*PARTS[2:5], LOG]


def test_a_part_stays_though_nothing_in_it_can_be_undone_as_it_is_the_audit_log(small: SpoolWorld) -> None:
    done = [hold(small, name) for name in "abcd"]
    forget(small, done[1], "b")
    hold(small, "e")
    assert journals(small) == [*PARTS[:4], LOG] and set(done) < set(operations(small))
    with small.control() as control:
        assert [item.id for line in control.audit(done[1]).lines for item in line.results] == ["b"]


def test_an_operation_of_which_a_part_went_is_not_called_interrupted(
    small: SpoolWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.backends.log_store.MOST_PARTS", 2)
    names = [small.put(f"m{number:05}") for number in range(BATCH + 1)]
    done = hold(small, *names)
    assert journals(small) == [PARTS[0], LOG]
    for name in names[:BATCH]:
        (small.path / ".spooltop/held" / done / name).unlink()
    for name in "ab":
        hold(small, name)
    assert journals(small) == [*PARTS[1:3], LOG]
    with small.control() as control:
        record = next(record for record in control.operations() if record.operation == done)
    assert (record.open, record.done, record.count, record.why_not_undo) == (False, 1, BATCH + 1, None)
    assert record.words == "hold 1001; 1,000 of them can no longer be undone"
    assert small.undo(done)[1].count(Outcome.DONE) == 1


@pytest.mark.parametrize("swaps", [True, False])
def test_an_interrupted_batch_is_repaired_however_many_parts_have_begun_since(
    small: SpoolWorld, before_call: Interpose, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        before_call("swap", fails(errno.EINVAL))
    hold(small, "a")
    journal = small.path / ".spooltop" / LOG
    intent, *_ = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(intent)
    [held] = (small.path / ".spooltop/held").glob("*/a")
    os.link(held, small.path / "new/a")  # it was made by link and unlink, and killed between the two
    with monkeypatch.context() as repairless:  # who began before that repairs nothing
        repairless.setattr("spooltop.backends.journal.RecordLog.unfinished", lambda *_: [])
        for name in "bcd":
            hold(small, name)
    assert len(journals(small)) == 4
    hold(small, "e")
    assert not held.exists() and small.names(Box.NEW) == ["a", "f"]


def test_a_directory_for_logs_leaves_nothing_open_where_it_cannot_be_made(tmp_path: Path) -> None:
    class Failing(LogFiles):
        def close(self, fd: int) -> None:
            super().close(fd)
            if os.path.isdir(tmp_path / "a" / "b"):
                raise OSError(errno.EIO, "cannot be closed")

    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="cannot be closed"):
        open_path(Failing(), str(tmp_path / "a" / "b"))
    assert os.listdir("/proc/self/fd") == before
