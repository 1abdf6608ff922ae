"""The mover does with many messages at once as with one at a time, and with metadata that are listed as with those that are read
with each message."""

from __future__ import annotations

import errno
import json
import os
import re

import pytest

from spooltop.backends.directory.operator.moving import mover
from spooltop.backends.directory.operator.moving.batches import batches_of
from spooltop.backends.directory.operator.moving.mover import Mover
from spooltop.backends.directory.operator.moving.recheck import Recheck
from spooltop.backends.directory.operator.moving.repair import Repaired
from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import LIVE, Action, Box
from spooltop.operate.operations import Operations

from .conftest import new_desk

COUNT = 16
PLAIN = (0, 5, 15)
"""Places of messages to which nothing happens."""


class Faulty(LogFiles):
    """Fails the moves of some messages, before or after the move is done."""

    def __init__(self, ordered, before, after):
        super().__init__()
        self.keeps_order = ordered
        self.before = before
        self.after = after

    def ordered(self, fd):
        return self.keeps_order

    def move(self, name, from_dir, to, to_dir, inode=None):
        if name in self.before:
            raise OSError(self.before[name], os.strerror(self.before[name]))
        super().move(name, from_dir, to, to_dir, inode)
        if name in self.after:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def fill(desk, box):
    """Puts messages into ``box``; in ``cur`` they are claims of one consumer, which has died."""
    waiting = [desk.put(desk.id(number)) for number in range(COUNT)]
    if box is Box.NEW:
        return
    desk.claim_and_die_here(waiting[0])
    [claim] = desk.names(Box.CUR)
    token = names.parse(claim, claimed=True).token
    for number, name in enumerate(waiting[1:], 1):
        os.rename(desk.path / "new" / name, desk.path / "cur" / names.in_cur(name, token, 1795222800000000 + number, 4312))


def disturb(desk, plan):
    """Lets something happen to most messages between the plan and the moves."""
    folder = desk.path / plan.items[0].box
    path = [folder / item.name for item in plan.items]
    path[1].unlink()
    path[2].write_text("longer than it was in the plan\n")
    path[3].chmod(0o600)
    path[4].rename(desk.path / "kept")
    path[4].write_text((desk.path / "kept").read_text())
    os.link(path[6], desk.path / "second name")
    path[7].unlink()
    path[7].mkdir()
    path[8].unlink()
    path[8].symlink_to("nowhere")
    if plan.items[9].ref.target is not None:
        desk.put(plan.items[9].ref.target.name, "another message")


def moved(desk, action, box, *, size, large=False, force=False, ordered=True):
    """Moves the messages in batches of ``size``: the batches, the outcomes of each, and the files there are then."""
    fill(desk, box)
    operations = Operations(desk.operator(), str(desk.path), desk.clock, new_operation=lambda: "a1b2c3")
    plan = operations.plan(action, Selection(box=box, everything=True), force=force)
    assert plan.count == COUNT
    disturb(desk, plan)
    name = [item.name for item in plan.items]
    files = Faulty(ordered, {name[10]: errno.EIO, name[11]: errno.ENOENT, name[12]: errno.ENOSPC}, {name[13], name[14]})
    with SpoolDirs(desk.path, files) as dirs:
        mover = Mover(dirs, Recheck(dirs, desk.again), Repaired(), large=large)
        parts = [slice(start, start + size) for start in range(0, COUNT, size)]
        batches = list(batches_of(mover.folders, plan, parts, user="ann", clock=lambda: desk.clock.now))
        return batches, [mover.run(batch, lambda: False) for batch in batches], contents(desk)


def contents(desk):
    """The content of each file by its path, in the boxes and set aside, metadata too."""
    folders = [*(desk.path / box for box in LIVE), *(desk.path / ".spooltop" / box for box in (Box.TRASH, Box.HELD))]
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {anonymous(str(path.relative_to(desk.path))): anonymous(path.read_text()) for path in files}


def anonymous(text):
    """The same text with a consumer that has no token of its own."""
    return re.sub(r"c=[0-9a-f]{32}", "c=token", text)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("action", "box", "force", "large"),
    [
        (Action.REQUEUE, Box.CUR, False, False), (Action.REQUEUE, Box.CUR, True, False), (Action.HOLD, Box.CUR, False, False),
        (Action.PURGE, Box.CUR, False, True), (Action.PURGE, Box.NEW, False, False), (Action.HOLD, Box.NEW, True, True),
    ],
)  # fmt: skip
def test_many_at_once_are_moved_as_one_at_a_time(tmp_path, action, box, force, large, ordered):
    compared, files = [], []
    for size in (COUNT, 1):
        desk = new_desk(tmp_path / str(size))
        batches, outcomes, there = moved(desk, action, box, size=size, large=large, force=force, ordered=ordered)
        assert [len(outcome) for outcome in outcomes] == [len(batch) for batch in batches] == [size] * (COUNT // size)
        assert all(len(batch.runs) == 1 for batch in batches)
        files.append(there)
        compared.append([])
        for batch, outcome in zip(batches, outcomes, strict=True):
            for place, (ino, result) in enumerate(zip(batch.column("ino"), batch.results(outcome), strict=True)):
                one = outcome.at(place, ino)
                assert (one.outcome, one.reason, one.ino or ino) == (result.outcome, result.reason, ino)
                compared[-1].append((result.id, anonymous(result.name), *one[:3], anonymous(result.became)))
    assert compared[0] == compared[1]
    assert files[0] == files[1]
    done = [place for place, (_, _, outcome, *_) in enumerate(compared[0]) if outcome is Outcome.DONE]
    assert done == sorted([*PLAIN, *([] if action is Action.REQUEUE else [9])]), "another message is in the way in new alone"


@pytest.mark.parametrize("size", [COUNT, 1])
@pytest.mark.parametrize(("ordered", "few"), [(True, 0), (False, 0), (True, COUNT)])
def test_it_is_recorded_when_a_message_came_into_new(tmp_path, monkeypatch, ordered, few, size):
    monkeypatch.setattr(mover, "_FEW", few)
    desk = new_desk(tmp_path)
    batches, outcomes, _ = moved(desk, Action.REQUEUE, Box.CUR, size=size, ordered=ordered)
    for place in PLAIN:
        batch, outcome = batches[place // size], outcomes[place // size]
        at = (desk.path / "new" / batch.column("to_name")[place % size]).stat().st_ctime_ns
        one = outcome.at(place % size)
        assert one.ctime_ns <= at <= (one.until_ns or one.ctime_ns), place
        by_clock = ordered and not few
        assert (one.until_ns == 0) is not by_clock, "few are looked at, and each where the times are not those of this machine"
        assert by_clock or one.ctime_ns == at


def set_aside(desk, how):
    """Sets messages aside that are restored to different places: each has metadata of its own, all have them in common, or of
    these some have their own, some metadata that are none, and some have lost them."""
    for number in range(COUNT):
        desk.put(desk.id(number))
    plan = Operations(desk.operator(), str(desk.path), desk.clock, new_operation=lambda: "b1").plan(
        Action.PURGE, Selection(box=Box.NEW, everything=True)
    )
    with SpoolDirs(desk.path) as dirs:
        mover = Mover(dirs, Recheck(dirs, desk.again), Repaired(), large=how != "own")
        for batch in batches_of(mover.folders, plan, [slice(0, COUNT)], user="ann", clock=lambda: desk.clock.now):
            mover.run(batch, lambda: False)
    folder = desk.path / ".spooltop" / "trash" / "b1"
    assert len(list(folder.glob(".*.meta"))) == (COUNT if how == "own" else 0)
    names = [item.name for item in plan.items]
    if how == "mixed":
        was = {"origin": "new", "reason": "hold by eve", "at": 1.0, "who": "eve", "operation": "z9"}
        foreign = {"origin": "held", "reason": "purge by eve", "at": 2.0, "who": "eve", "was": was}
        for place in (0, 1, 6):
            (folder / f".{names[place]}.meta").write_text(json.dumps(foreign))
        (folder / f".{names[5]}.meta").write_text("[1, 2")
        (folder / f".{names[15]}.meta").write_text(json.dumps({"origin": "tmp", "who": "eve"}))
    if how == "none":
        (folder.parent / ".b1.meta").unlink()
    return folder


@pytest.mark.parametrize("how", ["own", "common", "mixed", "none"])
@pytest.mark.parametrize("action", [Action.RESTORE, Action.EMPTY, Action.UNDO])
def test_metadata_that_are_listed_once_are_those_that_are_read_with_each_message(tmp_path, action, how):
    compared = []
    for many, size in ((True, COUNT), (True, 3), (False, 1)):
        desk = new_desk(tmp_path / f"{many}{size}")
        folder = set_aside(desk, how)
        operations = Operations(desk.operator(), str(desk.path), desk.clock, new_operation=lambda: "a1b2c3")
        if action is Action.UNDO:
            (desk.path / ".spooltop" / "journal.jsonl").write_text(journal_of(folder))
            plan = operations.plan(action, Selection(), options={"undoes": "b1"})
        else:
            plan = operations.plan(action, Selection(box=Box.TRASH, everything=True), force=True)
        assert plan.count == COUNT
        by_name = sorted(plan.items, key=lambda item: item.name)
        path = [folder / item.name for item in by_name]
        path[1].write_text("longer than it was in the plan\n")
        path[2].unlink()
        if action is not Action.EMPTY:
            desk.put(by_name[3].name, "in the way")
        with SpoolDirs(desk.path) as dirs:
            mover = Mover(dirs, Recheck(dirs, desk.again), Repaired())
            parts = [slice(start, start + size) for start in range(0, COUNT, size)]
            results, moves = [], []
            for batch in batches_of(mover.folders, plan, parts, user="ann", clock=lambda: 1.5, many=many):
                moves += [move._replace(ino=0, ctime_ns=0) for run in batch.moves() for move in run.moves()]
                results += batch.results(mover.run(batch, lambda: False))
        compared.append((sorted(results), moves, contents(desk)))
    assert compared[0] == compared[1] == compared[2]
    results, _, files = compared[0]
    left = [] if action is Action.EMPTY else [3]
    assert [result.outcome is Outcome.DONE for result in results] == [place not in (1, 2, *left) for place in range(COUNT)]
    metadata = sorted(name for name in files if name.startswith(".spooltop/trash/b1/."))
    kept = {"own": [1, 2, *left], "mixed": [1]}.get(how, [])
    assert metadata == [f".spooltop/trash/b1/.{results[place].name}.meta" for place in kept]


def journal_of(folder):
    """The journal of the purge that has filled ``folder``."""
    names = sorted(os.listdir(folder))
    names = [name for name in names if not name.startswith(".")]
    inos = [(folder / name).stat().st_ino for name in names]
    head = {"schema": 1, "operation": "b1", "batch": 0, "time": 1.0}
    run = {"from": "new", "to": "trash/b1", "names": names, "inos": inos, "sizes": 0, "ctimes": 0, "tokens": None}
    more = {"action": "purge", "user": "ann", "count": COUNT, "force": False, "undoes": None}
    lines = [{**head, **more, "line": "intent", "moves": [run]}, {**head, "line": "result", "tried": COUNT, "others": []}]
    return "".join(json.dumps(line) + "\n" for line in lines)
