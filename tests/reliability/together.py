"""Two operators who plan changes of the same messages before either applies any; in some rounds one of them is killed at work."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple

from spooltop.control import open_control
from spooltop.engine.names import parse
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.bench.operate import claim_all, fill
from tests.scratch import scratch

from .figures import Figure

__all__ = ["BAR", "NAME", "run"]

NAME = "two operators on the same messages at the same time, one of them killed in every second round"
BAR = "each message is in one place, and was changed by one of them"

FORK = multiprocessing.get_context("fork")

Change = tuple[Action, Box, str]
"""An action, the box whose messages it changes, and the operation that it undoes."""


class Ended(NamedTuple):
    """What an operator told: its operation, and how many messages it changed; None where it was killed."""

    operation: str
    done: int | None


def operate(path: Path, change: Change, together: Barrier, told: Connection) -> None:
    action, box, undoes = change
    with open_control(str(path), watch=False) as control:
        plan = control.plan(action, Selection(box=box, everything=True), options={"undoes": undoes} if undoes else {})
        told.send(plan.operation)
        together.wait()
        told.send(control.apply(plan).count(Outcome.DONE))


def applied(path: Path, changes: Sequence[Change], kill_after: float | None) -> tuple[list[Ended], float]:
    """Has one operator for each of ``changes`` apply it when all have a plan; the last one is killed after some seconds. Also
    returns how long that took."""
    together = FORK.Barrier(len(changes) + 1)
    pipes = [FORK.Pipe(duplex=False) for _ in changes]
    asked = zip(changes, pipes, strict=True)
    running = [FORK.Process(target=operate, args=(path, change, together, told)) for change, (_, told) in asked]
    for process, (_, told) in zip(running, pipes, strict=True):
        process.start()
        told.close()
    together.wait()
    began = time.monotonic()
    if kill_after is not None:
        time.sleep(kill_after)
        running[-1].kill()
    ended = []
    for process, (heard, _) in zip(running, pipes, strict=True):
        operation, done = heard.recv(), None
        try:
            done = heard.recv()
        except EOFError:
            assert process is running[-1]  # the others are not killed
        process.join()
        ended.append(Ended(operation, done))
    return ended, time.monotonic() - began


def standing(path: Path) -> Counter[str]:
    """How many places each message is in, by its id."""
    folders = [path / "new", path / "cur", *(path / ".spooltop").glob("held/*"), *(path / ".spooltop").glob("trash/*")]
    names = (name for folder in folders if folder.is_dir() for name in os.listdir(folder) if not name.startswith("."))
    return Counter(parse(name, claimed=True).id for name in names)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    count = 2_000 if quick else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="spooltop-together-", dir=scratch()))
    try:
        path = folder / "spool"
        fill(path, count)
        claim_all(path)
        messages, wrong, trials, killed, took = standing(path), 0, 0, 0, 0.0
        requeue: Change = (Action.REQUEUE, Box.CUR, "")

        def both(first: Change, second: Change, *, of: int = count, kill: bool = False) -> list[Ended]:
            nonlocal wrong, trials, killed, took
            ended, took = applied(path, (first, second), random.random() * took if kill else None)
            found = standing(path)
            misplaced = sum(found[id] != 1 for id in messages) + sum(id not in messages for id in found)
            done = [one.done for one in ended if one.done is not None]
            uneven = len(done) == 2 and sum(done) != of
            killed += len(done) < 2
            wrong, trials = wrong + misplaced + uneven, trials + of
            say(f"{first[0]}, {second[0]}: {done}, {misplaced} misplaced")
            return ended

        # The smaller one first: its undo would be out of reach once two undos of the larger one fill the gigabyte of the journal.
        for operation, done in sorted(both(requeue, requeue), key=lambda one: one.done or 0):
            undo: Change = (Action.UNDO, Box.NEW, operation)
            both(undo, undo, of=done or 0)
        both(requeue, requeue, kill=True)
        both((Action.HOLD, Box.NEW, ""), (Action.PURGE, Box.NEW, ""))
        both((Action.RELEASE, Box.HELD, ""), (Action.RESTORE, Box.TRASH, ""), kill=True)
        return Figure(NAME, BAR, trials, wrong, explained=f"changes of {count:,} messages; operators killed: {killed}")
    finally:
        shutil.rmtree(folder)
