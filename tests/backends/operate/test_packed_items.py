"""A large plan weighs little, and says the same as a list would."""

from __future__ import annotations

import gc
import os
import stat
import tracemalloc
from dataclasses import fields

import pytest

from spooltop.backends.directory.operator.moving.batches import Move, batches_of
from spooltop.backends.directory.operator.planning.packed_items import (
    KEEP,
    Batch,
    Message,
    MessageColumns,
    PackedItems,
    TargetColumns,
)
from spooltop.backends.directory.storage.folders import Folders
from spooltop.backends.directory.storage.location import Place, Ref
from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.chunked import CHUNK, columns_of, expand
from spooltop.model.operations.plan import Item, ItemResult, Outcome, boxes_of, item_columns, oldest_of, verdicts_of, warnings_of
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box


def message(number):
    """All that a message can be, names that are no text among it."""
    box = ("cur", "new", "tmp", "held")[number % 4]
    id = f"{1795222800000000 + number:016d}.P7R{number:016x}.vm" if number % 5 else f"{number}\udcff\x1b[31m\n"
    tail = f",c={'a' * 32}.1795222800000000:2,P{number}" if box in ("cur", "held") and number % 7 else ""
    name = f"{id},n=1{tail}"
    return Message(
        box, "op" if box == "held" else "", name, len(id) if number % 5 else 0, len(name) - len(tail) + 3 if tail else 0,
        stat.S_IFREG, 1 + number % 2, 2**63 + number, number, 10**18 + number, 10**18 + 7 * number, (1, 2),
        "dead" if number % 3 else None, "gone", ("vm", number, 3.5, "cmd", None) if number % 7 else None,
        2.5 + abs(number - 101) if box == "held" else None, "reason" if box == "held" else "",
    )  # fmt: skip


def move(number):
    meta = {"origin": "cur", "at": 1.0} if number % 13 == 0 else None
    kept, suffix = (KEEP, "") if number % 3 else (number % 4, f"id{number}")
    warning = "poison" if number % 4 == 0 else ""
    return (None, "", 0, "", meta, "held", warning) if number % 2 else ("new", "", kept, suffix, meta, None, warning)


def item(number):
    """The same as a plain item."""
    one, (to_box, _, kept, suffix, meta, to, warning) = message(number), move(number)
    target = None if to_box is None else Place(Box(to_box), one.name[:kept] + suffix)
    token = one.name[one.token_at : one.token_at + 32] if one.token_at and one.box == "cur" else None
    ref = Ref(
        Place(Box(one.box), one.name, one.folder), one.ino, one.size, one.ctime_ns, one.folder_id, token, target, meta,
        None if to is None else Box(to),
    )  # fmt: skip
    return Item(one.row, ref, warning)


def add(packed, numbers):
    messages, moves = [message(number) for number in numbers], [move(number) for number in numbers]
    since = [one.row.in_box_since for one in messages]
    packed.add(MessageColumns.of(messages), TargetColumns._make(columns_of(moves)), since)


def test_it_is_the_list_that_was_put_in():
    plain = [item(number) for number in range(2 * CHUNK + 7)]
    packed = PackedItems()
    for start, stop in ((0, 3), (3, CHUNK), (CHUNK, CHUNK + 1), (CHUNK + 1, 2 * CHUNK + 7)):
        add(packed, range(start, stop))
    assert len(packed) == len(plain)
    assert list(packed) == plain
    for start, stop in ((0, 3), (CHUNK - 2, CHUNK + 2), (5, 2 * CHUNK + 3), (2 * CHUNK, 9 * CHUNK), (7, 3), (-4, None)):
        assert list(packed[start:stop]) == plain[start:stop], (start, stop)
    assert [packed[place] for place in (0, -1, CHUNK, 2 * CHUNK)] == [plain[place] for place in (0, -1, CHUNK, 2 * CHUNK)]
    assert packed[::-500] == plain[::-500]
    assert oldest_of(packed) == oldest_of(plain) == 4.5
    assert oldest_of(PackedItems()) is oldest_of([]) is None
    assert warnings_of(packed) == warnings_of(plain) == {"poison": len(plain[::4])}
    assert boxes_of(packed) == boxes_of(plain)
    assert verdicts_of(packed) == verdicts_of(plain) and len(verdicts_of(plain)) > 1
    for start in (0, CHUNK, 2 * CHUNK):
        part = Batch.of(packed[start : start + CHUNK])
        refs, one_by_one = part.refs, [one.ref for one in plain[start : start + CHUNK]]
        assert list(expand(refs.token, len(part))) == [ref.token for ref in one_by_one]
        assert list(expand(refs.target_name, len(part))) == [ref.target.name if ref.target else "" for ref in one_by_one]
        assert list(item_columns(part).ids) == [one.id for one in plain[start : start + CHUNK]]


def test_the_row_of_an_item_says_all_that_is_known_of_the_message():
    row = message(8).row
    told = {field.name for field in fields(Row) if getattr(row, field.name) != field.default}
    assert told >= {"key", "box", "id", "name", "size", "enqueued_at", "in_box_since", "attempt", "verdict", "evidence", "owner"}
    assert message(3).row.reason == "reason" and message(3).row.in_box_since == 2.5 + 98


@pytest.mark.long
@pytest.mark.early
def test_a_plan_of_many_takes_at_most_150_bytes_an_item_and_is_done(desk):
    count = 3 * CHUNK
    for number in range(count):
        (desk.path / "cur" / f"{desk.id(number)},c={'a' * 32}.{1795222800000000 + number:016d}:2,P4290").write_bytes(b"")
    operations = desk.operations()
    wanted = Selection(box=Box.CUR, everything=True)
    operations.plan(Action.REQUEUE, wanted)  # what is loaded and kept for ever is none of its weight
    tracemalloc.start()
    plan = operations.plan(Action.REQUEUE, wanted)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    command, refused = plan.command, plan.refused
    assert (plan.count, refused, command[-1]) == (count, [], "-")
    first = plan.items[0]
    del plan
    gc.collect()
    without, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (kept - without) / count <= 150
    plan = operations.plan(Action.REQUEUE, wanted)
    assert plan.items[0] == first
    (desk.path / "cur" / plan.items[CHUNK].row.name).unlink()
    result = operations.apply(plan)
    assert [item.outcome for item in result.items].count(Outcome.SKIPPED) == 1
    assert result.items[CHUNK].outcome is Outcome.SKIPPED
    assert len(desk.names(Box.NEW)) == count - 1


@pytest.mark.parametrize("action", [Action.REQUEUE, Action.PURGE, Action.HOLD])
def test_the_moves_of_a_thousand_are_those_of_its_items(desk, action):
    for number in range(CHUNK):
        claim = f"{desk.id(number)},n={number % 4},c={'a' * 32}.{1795222800000000 + number:016d}:2,P4290"
        (desk.path / "cur" / claim).write_bytes(b"x" * (number % 3))
    plan = desk.operations().plan(action, Selection(box=Box.CUR, everything=True))
    batch = plan.items[:CHUNK]
    assert isinstance(batch, Batch)
    with SpoolDirs(desk.path) as dirs:
        [together] = batches_of(Folders(dirs), plan, [slice(0, CHUNK)], user="ann", clock=lambda: 1.5)
    [run] = together.runs
    assert len(together) == len(run.names) == CHUNK
    for item, row in zip(batch, run.rows(), strict=True):
        ref, move = item.ref, Move(*row)
        assert (move.name, move.ino, move.size, move.ctime_ns, move.token) == (
            ref.place.name, ref.ino, ref.size, ref.ctime_ns, ref.token,
        )  # fmt: skip
        assert (move.planned, move.to_name) == (item.verdict, item.name if ref.target is None else ref.target.name)
        assert (run.box, run.folder, run.folder_id) == (ref.place.box, ref.place.folder, ref.folder_id)
    assert [list(column) for column in item_columns(batch)] == [list(column) for column in item_columns(list(batch))]
    one = Batch.of(batch[:1])
    assert (list(one), one[0], one[-1]) == (batch[:1], batch[0], batch[0])
    for outside in (1, -2):
        with pytest.raises(IndexError):
            one[outside]


class Counted(LogFiles):
    """Notes which directories are synced, and what lies between the last write of the journal and its sync."""

    def __init__(self, ordered=True):
        super().__init__()
        self.keeps_order = ordered
        self.synced = []
        self.loose = set()

    def ordered(self, fd):
        return self.keeps_order

    def sync_dir(self, fd):
        self.synced.append(self.of(fd))
        super().sync_dir(fd)

    def write(self, fd, data):
        self.loose.add(self.of(fd))
        return os.write(fd, data)

    def sync(self, fd):
        self.loose.discard(self.of(fd))
        super().sync(fd)

    @staticmethod
    def of(fd):
        return os.path.relpath(os.readlink(f"/proc/self/fd/{fd}")).rpartition("/spool/")[2]


@pytest.mark.parametrize("ordered", [True, False])
def test_of_many_that_are_moved_those_which_are_not_as_planned_are_told(desk, ordered):
    """And what came of each is the same whether it was kept or is made anew; so is what an undo finds of it."""
    [claim] = desk.claim_and_die(desk.put(desk.id(0)))
    token = names.parse(claim, claimed=True).token
    for number in range(1, 2 * CHUNK + 5):
        (desk.path / "cur" / f"{desk.id(number)},c={token}.{1795222800000000 + number:016d}:2,P4312").write_bytes(b"")
    operations = desk.operations(Counted(ordered))
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    cur, new = desk.path / "cur", desk.path / "new"
    (cur / plan.items[3].name).unlink()
    (cur / plan.items[5].name).write_text("more")
    os.link(cur / plan.items[7].name, desk.path / "second name")
    desk.put(f"{plan.items[9].id},n=1,e=died", "progress")
    result = operations.apply(plan)
    odd = {
        3: (Outcome.SKIPPED, "acknowledged or moved meanwhile"),
        5: (Outcome.SKIPPED, "changed since the plan"),
        7: (Outcome.SKIPPED, "changed since the plan"),
        9: (Outcome.FAILED, "new already has a file of that name; it stays in cur"),
    }
    assert list(result.items) == [
        ItemResult(one.id, one.name, *odd[place])
        if place in odd
        else ItemResult(one.id, one.name, Outcome.DONE, "", f"{one.id},n=1,e=died")
        for place, one in enumerate(plan.items)
    ]
    assert result.items[CHUNK : CHUNK + 2] == [result.items[CHUNK], result.items[CHUNK + 1]]
    assert result.count(Outcome.DONE) == plan.count - len(odd)
    assert desk.names(Box.CUR) == sorted(plan.items[place].name for place in (5, 7, 9))
    for place in (0, 8, CHUNK):
        os.rename(new / result.items[place].became, cur / "taken:2,P1")
        os.rename(cur / "taken:2,P1", new / result.items[place].became)
    back = operations.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
    assert [one.row.name for one in back.refused] == [result.items[place].became for place in (0, 8, CHUNK)]
    assert operations.apply(back).count(Outcome.DONE) == plan.count - len(odd) - 3


@pytest.mark.parametrize("ordered", [True, False])
def test_one_sync_is_enough_where_the_file_system_keeps_the_order_of_changes(desk, ordered):
    """The one sync is of the directory that was changed last: another may have been synced by somebody since, which proves
    nothing."""
    for number in range(1, 7):
        attempts = 5 if number in (2, 3) else 1
        name = f"{desk.id(number)},n={attempts},c={'a' * 32}.{1795222800000000 + number:016d}:2,P4290"
        (desk.path / "cur" / name).write_bytes(b"x")
    files = Counted(ordered)
    operations = desk.operations(files)
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), options={"hold_poison": True})
    files.synced.clear()
    assert operations.apply(plan).count(Outcome.DONE) == 6
    held = f".spooltop/held/{plan.operation}"
    boxes = [name for name in files.synced if name in (held, "new", "cur")]
    if ordered:
        assert boxes[-1] == "new", "the last that was changed"
        assert "cur" not in boxes
    else:
        assert sorted(boxes[-3:]) == sorted([held, "new", "cur"])
        assert boxes[-1] == "cur", "the targets first: never in neither"


def test_what_is_written_of_an_operation_is_synced_in_the_end_however_it_ends(desk):
    for number in range(3):
        (desk.path / "new" / desk.id(number)).write_bytes(b"x")
    files = Counted()
    operations = desk.operations(files)
    for stop_after in (1, 2, 3):
        plan = operations.plan(Action.HOLD, Selection(everything=True), options={"rate": 1.0})
        asked = iter(range(100))
        operations.apply(plan, stop=lambda most=stop_after, asked=asked: next(asked) >= most)
        assert not {name for name in files.loose if name.endswith(".jsonl")}, stop_after
