"""Rules for every kind of queue: what is stopped, paced and said of the consumers. Confirmation and printed commands are in
tests/behaviour and tests/cli."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spooltop.control import Control
from spooltop.engine import Spool
from spooltop.errors import UsageError
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import ALL, LockWorld, SpoolWorld

NONE = Selection()
NEW = Selection(box=Box.NEW, everything=True)


def test_the_beginning_of_an_id_that_several_operations_have_names_none(world: SpoolWorld) -> None:
    operations: list[str] = []
    while len({operation[0] for operation in operations}) == len(operations):
        world.put("m")
        operations.append(world.do(Action.PURGE, NEW)[0].operation)
    with world.control() as control, pytest.raises(UsageError):
        control.plan(Action.UNDO, NONE, options={"undoes": operations[-1][0]})


def test_what_is_stopped_or_missing_is_not_called_tried(world: SpoolWorld) -> None:
    for number in range(5):
        world.put(f"m{number}")
    ids = tuple(f"m{number}" for number in range(5))
    with world.control() as control:
        steps = iter((False, False, True))
        result = control.apply(control.plan(Action.HOLD, Selection(ids=(*ids, "lost"))), stop=lambda: next(steps, True))
        assert [one.outcome for one in result.items] == [Outcome.DONE, Outcome.DONE, Outcome.SKIPPED]
        assert (result.stopped, result.untried) == (True, 3)
        progress: list[int] = []
        result = control.apply(control.plan(Action.HOLD, Selection(ids=(*ids, "lost"))), on_progress=progress.append)
        assert (result.stopped, result.untried, result.count(Outcome.DONE), progress) == (False, 0, 3, [3])


def test_a_plan_is_paced_without_another_look(world: SpoolWorld) -> None:
    for number in (1, 2):
        world.claim_foreign(f"id{number}")
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, ALL, options={"hold_poison": True})
        for name in world.names(Box.CUR):
            (world.path / "cur" / name).unlink()
        slow = control.with_rate(plan, 0.5)
        assert (slow.rate, slow.command[3:]) == (0.5, ("--hold-poison", "--rate", "0.5", "id1", "id2"))
        assert control.with_rate(slow, None) == plan


def test_locks_are_removed_at_a_rate_with_progress_and_one_after_the_other_until_stopped(tmp_path: Path) -> None:
    with LockWorld(tmp_path) as world, world.control() as control:
        names = tuple(f"{number}.lock" for number in range(4))
        for name in names:
            world.soft_lock(name)
        plan = control.plan(Action.UNLOCK, Selection(ids=names), force=True, options={"rate": 20.0})
        assert plan.command[3:5] == ("--rate", "20")
        progress: list[int] = []
        began = time.monotonic()
        result = control.apply(plan, progress.append, lambda: len(progress) == 3)
        assert time.monotonic() - began >= 0.1 and progress == [1, 2, 3]
        assert (result.count(Outcome.DONE), result.untried, result.stopped) == (3, 1, True)
        undo = control.plan(Action.UNDO, NONE, options={"undoes": plan.operation, "rate": 20.0})
        assert control.apply(undo).count(Outcome.DONE) == 3 and all((world.path / name).exists() for name in names)


def test_a_plan_says_who_is_at_work_only_of_what_goes_back(world: SpoolWorld) -> None:
    def notes(control: Control, action: Action, box: Box) -> str:
        return "\n".join(control.plan(action, Selection(box=box, everything=True), force=True).notes)

    for name in "1234":
        world.put(name)
    with world.control() as control:
        processes = [world.claim_living()[0] for _ in range(2)]
        with Spool(world.path, False) as idle:
            idle.get_nowait().ack()
            assert "At work now: 3 consumers, last claim " in notes(control, Action.REQUEUE, Box.CUR)  # one is not known
            pause = control.plan(Action.PAUSE, NONE)
            assert pause.notes[0].startswith("At work now: 3 spooltop consumers (pid "), pause.notes
        world.claim_foreign("foreign", pid=os.getpid())
        pids = f"{processes[0].pid}, {processes[1].pid}, {os.getpid()}"
        assert f"At work now: 3 consumers ({pids}), last claim " in notes(control, Action.REQUEUE, Box.CUR)
        assert "at work" not in notes(control, Action.HOLD, Box.NEW).lower()
        for process in processes:
            world.kill(process)
        world.do(Action.REQUEUE, force=True)
        world.put_aside(Box.REJECTED, "bad", origin="cur")
        assert "Nobody is at work now" in notes(control, Action.REQUEUE, Box.REJECTED)
