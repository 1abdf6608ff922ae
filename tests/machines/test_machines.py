"""Plan, apply and undo of each source, walked by its state machine by fixed seeds; ``.ci/full`` walks fresh ones."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import pytest

from spooltop.engine.files import Files
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import LockWorld, SpoolWorld, message_id

from . import MACHINES
from .machine import run

STEPS = {"directory": 250, "cursors": 120, "locks": 150, "pause": 80, "layouts": 40, "streams": 250}
RUNS = {"directory": 12, "cursors": 4, "locks": 6, "pause": 4, "layouts": 30, "streams": 12}
"""Runs within which every rare state must be reached."""


@pytest.mark.parametrize("source", MACHINES)
def test_each_step_leaves_what_the_model_expects_and_every_rare_state_is_reached(source: str) -> None:
    rare: Counter[str] = Counter()
    missing = list(MACHINES[source].RARE)
    for seed in range(RUNS[source]):
        rare += run(MACHINES[source], seed, STEPS[source])
        missing = [state for state in missing if not rare[state]]
        if not missing:
            return
    raise AssertionError(f"never reached: {', '.join(missing)}")


def test_no_message_goes_to_new_under_the_name_of_a_claim(tmp_path: Path) -> None:
    """A machine found it: the undo of an interrupted release writes that the claim came from ``new``."""
    with SpoolWorld(tmp_path) as world:
        world.put(message_id(1))
        [claim] = world.claim_dead()
        (world.path / "cur" / claim).unlink()
        world.put_aside(Box.HELD, claim, origin="new")
        _, result = world.do(Action.RELEASE)
        assert [item.outcome for item in result.items] == [Outcome.DONE]
        assert world.names(Box.NEW) == [f"{message_id(1)},n=1"]


def test_an_undone_undo_takes_no_claim_from_its_running_holder(tmp_path: Path) -> None:
    with SpoolWorld(tmp_path) as world:
        world.put(message_id(1))
        _, [claim] = world.claim_living()
        forced, _ = world.do(Action.REQUEUE, force=True)
        undone, _ = world.undo(forced.operation)
        assert world.names(Box.CUR) == [claim]
        again, _ = world.undo(undone.operation)
        assert (again.count, world.names(Box.CUR)) == (0, [claim])
        assert [refusal.reason for refusal in again.refused] == ["claimed by a running consumer; requeue takes it with force"]


def test_a_lock_that_cannot_be_removed_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LockWorld(tmp_path) as world, world.control() as control:
        lock = world.soft_lock("job.lock")
        plan = control.plan(Action.UNLOCK, Selection(ids=("job.lock",)))
        kept, unlink, calls = lock.read_text(), Files.unlink, iter(range(99))

        def refuse_first(files: Files, name: str, dir_fd: int) -> None:
            if next(calls) == 0:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            unlink(files, name, dir_fd)

        with monkeypatch.context() as patch:
            patch.setattr(Files, "unlink", refuse_first)
            [item] = control.apply(plan).items
        assert (item.outcome, lock.read_text(), os.listdir(world.path)) == (Outcome.FAILED, kept, ["job.lock"])
