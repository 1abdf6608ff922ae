"""Facts of a look, a list and a plan, each on a real spool through the API that every front end uses."""

from __future__ import annotations

import fcntl
import json
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
from spooltop.model.protocols import ListQuery, Sort
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


def test_an_empty_spool_is_seen_whole_and_nothing_of_it_is_estimated(path: Path) -> None:
    with control_of(path) as control:
        observation = control.look().observation
        new = observation.boxes[Box.NEW]
        assert (observation.complete, new.count, new.complete, new.bytes, new.bytes_estimated) == (True, 0, True, 0, False)
        assert control.listing(ListQuery(Box.NEW)).complete


def test_a_list_of_what_waits_says_that_it_is_whole(path: Path) -> None:
    put(path, "a", "b")
    with control_of(path) as control:
        control.look()
        listing = control.listing(ListQuery(Box.NEW))
        assert (listing.complete, len(listing)) == (True, 2)


@pytest.mark.parametrize("alone", ["cursors", "locks"])
def test_a_list_where_there_are_no_messages_is_as_old_as_the_look(tmp_path: Path, alone: str) -> None:
    (tmp_path / {"cursors": "cursors.json", "locks": "a.lock"}[alone]).write_text("{}")
    with open_control(str(tmp_path), watch=False, locks=alone == "locks") as control:
        observation = control.look().observation
        assert observation.layout == alone
        assert control.listing(ListQuery(Box.NEW)).generation == observation.generation


def test_without_tmp_the_rest_is_seen_whole(path: Path) -> None:
    put(path, "a")
    (path / "tmp").rmdir()
    with control_of(path) as control:
        observation = control.look().observation
        assert (observation.boxes[Box.TMP].count, observation.judged_all, observation.boxes[Box.NEW].count) == (None, True, 1)


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


@pytest.mark.parametrize("box", [Box.NEW, Box.HELD])
@pytest.mark.parametrize("descending", [False, True])
def test_a_list_is_sorted_by_size(path: Path, box: Box, descending: bool) -> None:
    for size, name in ((300, "a"), (5, "b"), (70, "c"), (0, "d")):
        put(path, name, size=size)
    with control_of(path) as control:
        control.look()
        if box is Box.HELD:
            applied(control, Action.HOLD, Selection(box=Box.NEW, everything=True))
            control.look(rescan=True)
        listing = control.listing(ListQuery(box, sort=Sort("size", descending)))
        names = [row.id for row in listing.window(0, 4)]
    assert names == (["a", "c", "b", "d"] if descending else ["d", "b", "c", "a"])


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


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_result_tells_of_each_message_what_it_is_called_now(path: Path, count: int) -> None:
    names = sorted(f"m{number:02}" for number in range(count))
    put(path, *names)
    with control_of(path) as control:
        control.look()
        result = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
        assert sorted((one.id, one.outcome, one.reason, one.became) for one in result.items) == [
            (name, Outcome.DONE, "", name) for name in names
        ]


def test_what_was_skipped_has_no_new_name(path: Path) -> None:
    put(path, "a", "b")
    with control_of(path) as control:
        control.look()
        plan = control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True))
        (path / "new" / "a").unlink()
        found = {one.id: (one.outcome, one.became) for one in control.apply(plan).items}
        assert found == {"a": (Outcome.SKIPPED, ""), "b": (Outcome.DONE, "b")}


def test_who_writes_a_file_in_tmp_is_named(path: Path) -> None:
    name = f"1795222000000000.{os.getpid()}.{HOST}"
    with (path / "tmp" / name).open("w"), control_of(path) as control:
        (row,) = control.look().observation.tmp
    assert row.owner is not None
    assert (row.owner.pid, bool(row.owner.command), bool(row.owner.user)) == (os.getpid(), True, True)


def test_an_undo_names_each_message_by_its_id_wherever_it_stands(path: Path) -> None:
    put(path, "waiting")
    (path / "cur" / "claimed:2,P999999").write_bytes(b"x")
    with control_of(path) as control:
        control.look()
        for action, box, ids in (
            (Action.HOLD, Box.NEW, ("waiting",)), (Action.HOLD, Box.CUR, ("claimed",)), (Action.REQUEUE, Box.CUR, ("claimed",)),
        ):  # fmt: skip
            plan = control.plan(action, Selection(box=box, ids=ids), force=True)
            assert [item.row.id for item in plan.items] == list(ids)
            control.apply(plan)
            undo = control.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
            assert [item.row.id for item in undo.items] == list(ids), action
            assert {one.outcome for one in control.apply(undo).items} == {Outcome.DONE}
    assert [path.name for path in (path / "cur").iterdir()] == ["claimed:2,P999999"]


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


def test_the_audit_tells_each_item_of_an_operation(path: Path) -> None:
    put(path, "a", "b")
    with control_of(path) as control:
        operation = applied(control, Action.HOLD, Selection(box=Box.NEW, everything=True))
        record = next(one for one in control.operations() if one.operation == operation)
        assert (record.done, record.skipped, record.failed, record.open, record.why_not_undo) == (2, 0, 0, False, None)
    lines = [json.loads(line) for line in _journal(path)]
    assert operation in json.dumps(lines)


def _journal(path: Path) -> list[bytes]:
    return [line for line in (path / ".spooltop" / "journal.jsonl").read_bytes().split(b"\n") if line.startswith(b"{")]
