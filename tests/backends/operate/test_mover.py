"""The fast path of the mover, for a batch out of one box into one box, does as the slow one."""

from __future__ import annotations

import errno
import os
import re

import pytest

from spooltop.backends.directory.journal.log_files import LogFiles
from spooltop.backends.directory.operator.batches import batch_item_by_item, batches_of
from spooltop.backends.directory.operator.mover import Mover
from spooltop.backends.directory.operator.recheck import Recheck
from spooltop.backends.directory.operator.repair import Repaired
from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import Outcome
from spooltop.model.selection import Selection
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


def moved(desk, action, box, *, together, large, force, ordered):
    """Moves a batch by the fast path or the slow one: the batch, its outcomes, and the files there are then."""
    fill(desk, box)
    operations = Operations(desk.operator(), str(desk.path), desk.clock, new_operation=lambda: "a1b2c3")
    plan = operations.plan(action, Selection(box=box, everything=True), force=force)
    assert plan.count == COUNT
    disturb(desk, plan)
    name = [item.name for item in plan.items]
    files = Faulty(ordered, {name[10]: errno.EIO, name[11]: errno.ENOENT, name[12]: errno.ENOSPC}, {name[13], name[14]})
    with SpoolDirs(desk.path, files) as dirs:
        mover = Mover(dirs, Recheck(dirs, desk.again), Repaired(), large=large)
        if together:
            [batch] = batches_of(mover.folders, plan, [slice(0, COUNT)], user="ann", clock=desk.clock)
        else:
            batch = batch_item_by_item(mover.folders, plan, plan.items, user="ann", at=desk.clock.now)
        return batch, mover.run(batch, lambda: False), contents(desk)


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
def test_the_fast_path_moves_as_the_slow_one_and_says_the_same(tmp_path, action, box, force, large, ordered):
    fast_desk, slow_desk = new_desk(tmp_path / "fast"), new_desk(tmp_path / "slow")
    fast_batch, fast, fast_files = moved(fast_desk, action, box, together=True, large=large, force=force, ordered=ordered)
    slow_batch, slow, slow_files = moved(slow_desk, action, box, together=False, large=large, force=force, ordered=ordered)
    assert fast_batch.uniform is not None and slow_batch.uniform is None
    assert fast_files == slow_files
    compared = []
    for batch, outcomes in ((fast_batch, fast), (slow_batch, slow)):
        assert len(outcomes) == COUNT
        pinned = [(outcomes.at(place, ino), ino) for place, ino in enumerate(batch.column("ino"))]
        compared.append([(one.outcome, one.reason, one.moved, one.moved and one.ino == ino) for one, ino in pinned])
    assert compared[0] == compared[1]
    done = [place for place, (outcome, *_) in enumerate(compared[0]) if outcome is Outcome.DONE]
    assert done == sorted([*PLAIN, *([] if action is Action.REQUEUE else [9])]), "another message is in the way in new alone"
    results = [
        [(one.id, anonymous(one.name), one.outcome, one.reason, anonymous(one.became)) for one in batch.results(outcomes)]
        for batch, outcomes in ((fast_batch, fast), (slow_batch, slow))
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("ordered", [True, False])
def test_both_paths_record_when_a_message_came_into_new(tmp_path, ordered):
    for together in (True, False):
        desk = new_desk(tmp_path / str(together))
        batch, outcomes, _ = moved(
            desk, Action.REQUEUE, Box.CUR, together=together, large=False, force=False, ordered=ordered
        )  # fmt: skip
        for place in PLAIN:
            at = (desk.path / "new" / batch[place].to_name).stat().st_ctime_ns
            one = outcomes.others.get(place)
            from_ns, until_ns = outcomes.between if one is None else (one.ctime_ns, one.ctime_ns)
            assert from_ns <= at <= until_ns, (place, together)
