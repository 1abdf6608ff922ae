"""Two operators who requeue, purge, hold, restore, undo and inject at random, while messages are put, worked on and given up."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import ASIDE, Action, Box
from tests.scratch import scratch

from .figures import Figure
from .history import Found, History, body, check, key_of
from .storm import Shared, Troupe, consume, figured, standing

__all__ = ["BAR", "NAME", "last", "run"]

NAME = "operators: 4 producers, 4 consumers killed at random, 2 operators at random"
BAR = "each message acked once, or rejected, held, in the trash, or still there"

PRODUCERS, CONSUMERS, OPERATORS = 4, 4, 2
DEEP = 300
"""So many waiting make producers pause."""
ENDS = 60
"""Seconds in which everybody comes to an end when told."""

Choice = tuple[Action, Box]

CHOICES: dict[Choice, int] = {
    (Action.REQUEUE, Box.CUR): 6, (Action.REQUEUE, Box.REJECTED): 2, (Action.REQUEUE, Box.HELD): 1,
    (Action.PURGE, Box.CUR): 2, (Action.PURGE, Box.NEW): 3, (Action.PURGE, Box.HELD): 1, (Action.PURGE, Box.REJECTED): 1,
    (Action.HOLD, Box.CUR): 2, (Action.HOLD, Box.NEW): 3, (Action.RELEASE, Box.HELD): 3,
    (Action.RESTORE, Box.TRASH): 4, (Action.RESTORE, Box.REJECTED): 1, (Action.RESTORE, Box.HELD): 1,
}  # fmt: skip
"""Actions of an operator with their relative frequencies. Nothing deletes: what is in the trash is there to be counted."""


def produce(path: Path, history: History, shared: Shared, writer: int) -> None:
    with Spool(path, durable=False) as spool:
        while not shared.over():
            while spool.depth() > DEEP and not shared.over():
                time.sleep(0.02)
            for number in shared.next(writer, 20):
                uid = f"{writer}.{number}"
                history.tell("P?", uid)
                history.tell("P!", uid, spool.put(body(uid)))


def operate(path: Path, history: History, shared: Shared, writer: int) -> None:
    """Operates at random, through the same API that the dashboard and the command line use."""
    done: list[str] = []
    with open_control(str(path), watch=False) as control:
        while not shared.over():
            chance = random.random()
            if chance < 0.2:
                inject(control, history, f"{writer}.{shared.next(writer)[0]}")
            elif chance < 0.45 and done:
                undo(control, history, random.choice(done[-8:]), done)
            else:
                action, box = random.choices(list(CHOICES), list(CHOICES.values()))[0]
                forced = box is Box.CUR and action is not Action.PURGE and random.random() < 0.3
                if plan := planned(control, path, action, box, force=forced):
                    time.sleep(random.random() * 0.02)  # the world moves on while somebody reads the plan
                    act(control, history, plan)
                    done.append(plan.operation)
            shared.confirm(writer, 1)


def planned(control: Control, path: Path, action: Action, box: Box, *, force: bool) -> Plan | None:
    """A few of a box, or all of it."""
    place = path / ".spooltop" / box if box in ASIDE else path / box
    try:
        there = [one.name for one in place.glob("*/*" if box in ASIDE else "*") if not one.name.startswith(".")]
    except FileNotFoundError:
        return None  # the other operator emptied a folder while it was listed
    if not there:
        return None
    few = random.sample(there, min(len(there), random.randint(1, 6)))
    # From live holders only a few are taken; what was set aside comes out as fast as it goes in.
    everything = random.random() < 0.4 and not force and action is not Action.PURGE and box is not Box.NEW
    chosen = Selection(box=box, everything=True) if everything else Selection(box=box, ids=tuple(few))
    plan = control.plan(action, chosen, force=force)
    return plan if plan.items else None


def act(control: Control, history: History, plan: Plan) -> None:
    """Applies a plan and writes down what it was to take from holders, and what it took."""
    word = "F" if plan.force else "Q"
    if anew := [item.row.id for item in plan.items if item.row.box is Box.REJECTED and plan.action is not Action.PURGE]:
        history.tell("N", *anew)
    history.tell(f"{word}?", *_keys([item.row.name for item in plan.items if item.row.box is Box.CUR]))
    result = control.apply(plan)
    took = [one.name for one in result.items if one.outcome is Outcome.DONE]
    history.tell(f"{word}!", *(_keys(took) if plan.items[0].row.box is Box.CUR else []))
    history.tell("O", plan.action, len(took), len(result.items) - len(took))


def undo(control: Control, history: History, operation: str, done: list[str]) -> None:
    plan = control.plan(Action.UNDO, Selection(), options={"undoes": operation})
    if not plan.items:
        return
    history.tell("U?")
    result = control.apply(plan)
    history.tell("U!")
    took = result.count(Outcome.DONE)
    history.tell("O", plan.action, took, len(result.items) - took)
    done.append(plan.operation)


def inject(control: Control, history: History, uid: str) -> None:
    history.tell("P?", uid)
    result = control.apply(control.plan(Action.INJECT, Selection(), options={"text": body(uid).decode()}))
    for one in result.items:
        if one.outcome is Outcome.DONE:
            history.tell("P!", uid, one.id)
    history.tell("O", Action.INJECT, result.count(Outcome.DONE), len(result.items) - result.count(Outcome.DONE))


def _keys(names: Sequence[str]) -> list[str]:
    return [key_of(name) for name in names]


def work() -> None:
    """Long enough that operators find claims."""
    time.sleep(random.random() * 0.02)


def storm(folder: str, seconds: float) -> Found:
    """Runs the storm. It forks, so the process must have no threads."""
    path, histories = Path(folder) / "spool", Path(folder) / "history"
    histories.mkdir()
    Spool.create(path, durable=False).close()
    shared = Shared(PRODUCERS + OPERATORS)
    troupe = Troupe(histories)
    for number in range(PRODUCERS):
        troupe.start(f"producer{number}", partial(produce, path, shared=shared, writer=number))
    for number in range(CONSUMERS):
        troupe.start(
            f"consumer{number}",
            partial(consume, path, over=shared.over, recover=number % 2 == 0, between=work, rejects=0.02),
        )
    for number in range(OPERATORS):
        troupe.start(f"operator{number}", partial(operate, path, shared=shared, writer=PRODUCERS + number))
    until = 0.0  # the time runs once every operator has come to do something
    given_up = time.monotonic() + ENDS
    while until == 0.0 or time.monotonic() < until:
        acting = all(shared.confirmed(PRODUCERS + number) for number in range(OPERATORS))
        if until == 0.0 and (acting or time.monotonic() > given_up):
            until = time.monotonic() + seconds
        time.sleep(random.random() * 0.1)
        # Operators too, but seldom: each has to come to do something.
        role = "operator" if random.random() < 0.04 else "consumer"
        troupe.kill(f"{role}{random.randrange(OPERATORS if role == 'operator' else CONSUMERS)}")
    shared.end()
    troupe.end(ENDS)
    return check(histories, standing(path), drained=False)


def last(seconds: float, say: Callable[[str], None]) -> Figure:
    folder = tempfile.mkdtemp(prefix="spooltop-operators-", dir=scratch())
    return figured(NAME, BAR, folder, storm, (folder, seconds), say)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    return last(6 if quick else 60, say)
