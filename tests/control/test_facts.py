"""Facts of a look, a list and a plan, each on a real spool through the API that every front end uses."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.look.locks import Lock
from spooltop.model.operations.plan import Outcome
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box

HOST = os.uname().nodename


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Spool.create(tmp_path / "spool", durable=False).close()
    return tmp_path / "spool"


@contextmanager
def control_of(path: Path) -> Iterator[Control]:
    settings = {"XDG_STATE_HOME": str(path.parent / "state")}
    with open_control(str(path), watch=False, settings=settings) as control:
        yield control


def put(path: Path, *names: str, size: int = 1) -> None:
    for name in names:
        (path / "new" / name).write_bytes(b"x" * size)


def applied(control: Control, action: Action, selection: Selection, **options: str) -> str:
    plan = control.plan(action, selection, options={**options})
    result = control.apply(plan)
    assert {one.outcome for one in result.items} == {Outcome.DONE}, result
    return plan.operation


def lock_of(path: Path, name: str) -> Lock:
    with control_of(path) as control:
        return next(lock for lock in control.look().observation.locks if os.path.basename(lock.path) == name)


@pytest.mark.parametrize("alone", ["cursors", "locks"])
def test_a_list_where_there_are_no_messages_is_as_old_as_the_look(tmp_path: Path, alone: str) -> None:
    (tmp_path / {"cursors": "cursors.json", "locks": "a.lock"}[alone]).write_text("{}")
    with open_control(str(tmp_path), watch=False, locks=alone == "locks") as control:
        observation = control.look().observation
        assert observation.layout == alone
        assert control.listing(ListQuery(Box.NEW)).generation == observation.generation


def test_files_in_tmp_are_counted_by_their_verdict(path: Path) -> None:
    with Spool(path, durable=False) as spool:
        names = [spool.put(b"x") for _ in range(3)]
        for name in names:
            (path / "new" / name).rename(path / "tmp" / name)
        with (path / "tmp" / names[0]).open("r+b") as writing:
            fcntl.flock(writing, fcntl.LOCK_EX)
            with control_of(path) as control:
                observation = control.look().observation
        assert observation.counts.writing == 1
        assert (observation.counts.abandoned + observation.counts.tmp_unknown, observation.counts.alive) == (2, 0)


def test_the_logs_have_room_that_a_full_disk_cannot_take(path: Path) -> None:
    put(path, "a")
    with control_of(path) as control:
        applied(control, Action.HOLD, Selection(box=Box.NEW, ids=("a",)))
    audit = next(found for found in (path / ".spooltop").rglob("audit*.jsonl"))
    assert audit.stat().st_blocks * 512 >= 256 * 1024 > audit.stat().st_size


def test_operations_leave_no_descriptor_open(path: Path) -> None:
    put(path, "a", "b", "c")
    with control_of(path) as control:
        counts = []
        for _ in range(4):
            held = applied(control, Action.HOLD, Selection(box=Box.NEW, everything=True))
            applied(control, Action.UNDO, Selection(), undoes=held)
            control.look(rescan=True)
            control.mute("imessage", 60)
            control.unmute("imessage")
            counts.append(len(os.listdir("/proc/self/fd")))
        assert len(set(counts[1:])) == 1


def test_who_writes_a_file_in_tmp_is_named(path: Path) -> None:
    name = f"1795222000000000.{os.getpid()}.{HOST}"
    with (path / "tmp" / name).open("w"), control_of(path) as control:
        (row,) = control.look().observation.tmp
    assert row.owner is not None
    assert (row.owner.pid, bool(row.owner.command), bool(row.owner.user)) == (os.getpid(), True, True)


def test_a_soft_lock_may_be_held_by_the_first_process(path: Path) -> None:
    (path / "x.lock").write_text(f"1\n{HOST}\n1\n")
    found = lock_of(path, "x.lock")
    assert (found.kind, found.verdict, [one.pid for one in found.holders]) == ("soft", "held", [1])


@pytest.mark.parametrize("text", ["0", "-1", "12345678901", "1x", ""])
def test_what_is_no_pid_makes_no_holder(path: Path, text: str) -> None:
    (path / "x.lock").write_text(f"{text}\n{HOST}\n1\n")
    assert [one.pid for one in lock_of(path, "x.lock").holders] == []


def test_a_directory_that_is_named_like_a_ticket_waits_for_nothing(path: Path) -> None:
    queue = path / "job.lock.queue"
    queue.mkdir()
    (queue / "seq").write_text("3")
    pid = os.getpid()
    for number in (1, 2):
        (queue / f"{number:020}.{pid}.{number:032x}").write_text("0")
    (queue / f"{3:020}.{pid}.{3:032x}").mkdir()
    found = lock_of(path, "job.lock.queue")
    assert (found.kind, len(found.holders), len(found.waiters)) == ("ticket", 1, 1)


def test_a_foreign_name_counts_by_its_time_and_not_by_its_letters(path: Path) -> None:
    base = 1_795_222_000
    own = [f"{base + second}000000.P7R00000000000000aa.vm" for second in (10, 20)]
    put(path, *own, "zzzzzzzzzzzzzzzz.young", "zzzzzzzzzzzzzzzz.old")
    os.utime(path / "new" / "zzzzzzzzzzzzzzzz.young", (base + 15, base + 15))
    os.utime(path / "new" / "zzzzzzzzzzzzzzzz.old", (base + 1, base + 1))
    with control_of(path) as control:
        control.look()
        found = control.follow([own[1], own[0]], 0.0)
        assert [(found[id].place, found[id].of) for id in own] == [(2, 4), (4, 4)]
