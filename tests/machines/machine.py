"""Common part of the state machines: rules drawn by one seed, operations with what they moved, crashes, counts of rare states.

A machine has a model of where each thing is. After each step the model must agree with a census of the disk. ``run`` is repeated
by its seed; a failure prints the last steps.
"""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any, ClassVar

from spooltop.control import Control, open_control
from spooltop.errors import Refused, SpooltopError, UsageError
from spooltop.model.plan import Confirm, Outcome, Plan, Result, Selection
from spooltop.model.vocabulary import Action
from tests.matrix.cuts import Mode, cut, interposed
from tests.scratch import scratch

__all__ = ["Machine", "Move", "Operation", "Pin", "rule", "run"]

Pin = tuple[Any, ...]
"""Identity of a thing on the disk: it differs when another step changed the thing."""


@dataclass
class Move:
    """Change of one thing by an operation: the state of the model ``before``, its pins there and ``after``."""

    before: Any
    source: Pin | None
    after: Pin | None = None


@dataclass
class Operation:
    """An applied plan. ``moves`` by key; ``undone`` are keys that an undo moved; ``exact`` is False after a cut, which leaves
    results to be found by looking: then ``announced`` are the moves of the plan that were not done, but may look so later."""

    id: str
    action: Action
    moves: dict[str, Move]
    announced: dict[str, Move] = field(default_factory=dict)
    undoes: Operation | None = None
    undone: set[str] = field(default_factory=set)
    last_undo: str | None = None
    exact: bool = True
    deletes: bool = False
    forgotten: bool = False


def rule(weight: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a method as a step; it returns False where it is not possible now."""

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        method.weight = weight  # type: ignore[attr-defined]
        return method

    return mark


class Machine:
    """Base of the machines. A source adds rules, ``pins`` (the census), ``check`` and what its actions do to the model."""

    RARE: ClassVar[tuple[str, ...]] = (
        "applied twice", "intent without result", "journal cut in its last bytes", "permission taken", "plan applied much later",
        "stopped in the middle", "undone already",
    )  # fmt: skip
    """States that a run must reach."""
    JOURNAL: ClassVar[str] = ".spooltop/journal.jsonl"
    SETTINGS: ClassVar[Mapping[str, str]] = {"SPOOLTOP_CLAIMS_PIDS": "this-host"}
    CALLS: ClassVar[int] = 30
    """Number of changes of files from which a crash is drawn: the later ones come after the end."""
    LOOKS: ClassVar[bool] = True
    """True where the list of operations finds out by looking what a cut operation did."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rare: Counter[str] = Counter()
        self.steps: list[str] = []
        self.base = Path(tempfile.mkdtemp(prefix="spooltop-machine-", dir=scratch()))
        self.root = self.base / "target"
        self.skew = 0.0
        self.operations: list[Operation] = []
        self.plans: list[tuple[Plan, dict[str, Move], int]] = []
        self.prepare()
        self.operators = [self.open(), self.open()]
        rules = [getattr(self, name) for name in dir(type(self)) if hasattr(getattr(type(self), name), "weight")]
        self.rules, self.weights = rules, [method.weight for method in rules]

    def clock(self) -> float:
        return time.time() + self.skew

    def open(self) -> Control:
        settings = {"XDG_STATE_HOME": str(self.base / "state"), **self.SETTINGS}
        return open_control(str(self.root), watch=False, clock=self.clock, settings=settings, **self.options())

    def journal(self) -> Path | None:
        path = self.root / self.JOURNAL
        return path if path.exists() else None

    def options(self) -> dict[str, Any]:
        return {}

    def step(self) -> None:
        """Takes one step that is possible, and compares the model with the disk."""
        while True:
            [chosen] = self.random.choices(self.rules, self.weights)
            self.steps.append(chosen.__name__)
            if chosen() is not False:
                break
            self.steps.pop()
        self.check()

    def note(self, *words: object) -> None:
        self.steps[-1] += " " + " ".join(map(str, words))

    def reached(self, state: str) -> None:
        self.rare[state] += 1

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    # What a source defines

    def prepare(self) -> None:
        raise NotImplementedError

    def pins(self) -> dict[str, Pin]:
        """Looks where each thing is: its pin by its key."""
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError

    def state(self, key: str) -> Any:
        """A copy of the model's state of ``key``."""
        raise NotImplementedError

    def restore(self, key: str, before: Any) -> None:
        """Sets the model's state of ``key`` as an undo leaves it."""
        raise NotImplementedError

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        """Sets the model's state of ``key`` as ``action`` leaves it."""
        raise NotImplementedError

    def key(self, item: Any) -> str:
        """The key of a plan's item or refusal."""
        raise NotImplementedError

    def can_go_back(self, operation: Operation, key: str, pins: Mapping[str, Pin]) -> bool:
        """Returns whether an undo takes ``key`` back now, apart from its pin."""
        return True

    def same(self, operation: Operation, pin: Pin | None, after: Pin | None) -> bool | None:
        """Returns whether ``pin`` is where the operation left the thing; None where nobody can tell."""
        return pin == after

    def outcomes(self, plan: Plan, key: str, pinned: Pin | None, pins: Mapping[str, Pin]) -> set[Outcome]:
        """The outcomes of which applying must have one for ``key``."""
        return {Outcome.DONE if pins.get(key) == pinned else Outcome.SKIPPED}

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        """Plans a random action, and compares items and refusals with the model; None where there is nothing to apply."""
        raise NotImplementedError

    def happens(self, plan: Plan, key: str) -> None:
        """Something happens to one item between plan and apply."""
        raise NotImplementedError

    # Plan, apply, undo

    def make_plan(self, action: Action, selection: Selection, *, force: bool = False, **options: Any) -> Plan:
        """Plans with one of the operators, which changes nothing."""
        before = self.pins()
        plan = self.pick(self.operators).plan(action, selection, force=force, options=options)
        assert self.pins() == before, "a plan changed something"
        assert not plan.items or plan.command
        assert all(refusal.reason for refusal in plan.refused)
        assert (plan.confirm is Confirm.NOTHING) == (plan.count == 0)
        return plan

    def pinned(self, plan: Plan) -> dict[str, Move]:
        """The plan's items as they are right after it was made."""
        pins = self.pins()
        return {key: Move(self.state(key), pins[key]) for key in map(self.key, plan.items)}

    def apply(
        self, plan: Plan, pinned: Mapping[str, Move], *, stop_after: int | None = None, operator: Control | None = None
    ) -> Operation:
        """Applies with one of the operators, and compares each outcome with the model's."""
        before, keys = self.pins(), list(pinned)
        expected = {key: self.outcomes(plan, key, pinned[key].source, before) for key in keys}
        tried = iter(range(len(keys) + 1))
        stop = None if stop_after is None else lambda: next(tried) >= stop_after
        result = (operator or self.pick(self.operators)).apply(plan, stop=stop)
        if stop_after is not None and result.stopped:
            assert len(result.items) + result.untried == len(plan.items) + len(plan.missing)
            self.reached("stopped in the middle")
        tried_items = [item for item in result.items if item.id not in plan.missing]
        outcomes = dict(zip(keys, (item.outcome for item in tried_items), strict=False))
        assert result.stopped or len(outcomes) == len(keys)
        assert all(outcome in expected[key] for key, outcome in outcomes.items()), (plan.action, result.items, expected)
        assert all(item.reason for item in result.items if item.outcome is not Outcome.DONE), result.items
        done = [key for key, outcome in outcomes.items() if outcome is Outcome.DONE]
        return self.record(plan, pinned, done, result)

    def record(
        self, plan: Plan, pinned: Mapping[str, Move], done: Sequence[str], result: Result | None = None, *, exact: bool = True
    ) -> Operation:
        """Brings the model up to what was done, and keeps the operation."""
        operation = Operation(plan.operation, plan.action, {}, exact=exact, deletes=plan.deletes)
        if plan.undoes:
            operation.undoes = next(one for one in self.operations if one.id == plan.undoes)
        for key in done:
            if operation.undoes is not None:
                self.restore(key, (operation.undoes.announced | operation.undoes.moves)[key].before)
            else:
                self.put_through(plan.action, key, plan)
        pins = self.pins()
        operation.moves = {key: replace(pinned[key], after=pins.get(key)) for key in done}
        operation.announced = {key: move for key, move in pinned.items() if key not in done}
        if operation.undoes is not None:
            operation.undoes.undone.update(done)
            operation.undoes.exact &= exact
            if done:
                operation.undoes.last_undo = operation.id
        if result is not None:
            assert bool(result.undo) == (bool(done) and not plan.deletes and not plan.has_no_undo), (plan.action, result.undo)
        if self.check_listed(operation):
            self.operations.append(operation)
        return operation

    def check_listed(self, operation: Operation) -> bool:
        """Compares an entry of the list of operations with the model; False where there is none, as nothing began."""
        listed = [record for record in self.operators[0].operations() if record.operation == operation.id]
        if operation.forgotten or (not operation.moves and not listed):
            assert not listed
            return False
        [record] = listed
        assert record.action is operation.action
        if not operation.exact:
            return True
        assert record.done == len(operation.moves), (record, operation)
        assert record.undone_by == operation.last_undo, record
        offered = bool(operation.moves) and not operation.deletes and self.left(operation)
        assert (record.why_not_undo is None) == offered, (record, operation)
        return True

    def left(self, operation: Operation) -> bool:
        """Returns whether an undo is offered for what is left of the operation."""
        return len(operation.undone) < len(operation.moves)

    def plan_undo(self, operation: Operation) -> Plan | None:
        """Plans an undo and compares its items with what still is where the operation left it."""
        if operation.forgotten:
            try:
                self.make_plan(Action.UNDO, Selection(), undoes=operation.id)
            except UsageError:
                self.reached("operation lost with its line")
                return None
            raise AssertionError("an operation without its intent is undone")
        plan = self.make_plan(Action.UNDO, Selection(), undoes=operation.id[: self.pick((6, 10))])
        assert (plan.undoes, plan.undone) == (operation.id, operation.action)
        pins = self.pins()
        there = {
            key: self.same(operation, pins.get(key), move.after) for key, move in operation.moves.items()
            if key not in operation.undone and not operation.deletes and self.can_go_back(operation, key, pins)
        }  # fmt: skip
        keys = {self.key(item) for item in plan.items}
        if operation.exact:
            certain = {key for key, same in there.items() if same}
            perhaps = {key for key, same in there.items() if same is None}
            assert certain <= keys <= certain | perhaps, (operation, keys, certain, perhaps, plan.refused)
        else:
            assert keys <= operation.moves.keys() | operation.announced.keys(), "an undo takes what was never planned"
        if operation.undone and operation.exact and not keys and not self.left(operation):
            self.reached("undone already")
        if 0 < len(keys) < len(operation.moves):
            self.reached("undo of part")
        return plan

    def crash(self, plan: Plan, pinned: Mapping[str, Move]) -> Operation | None:
        """Applies in a process that dies before a random change, and adopts what is on the disk."""
        number = self.random.randint(1, self.CALLS)
        before, keys = self.pins(), list(pinned)
        expected = {key: self.outcomes(plan, key, pinned[key].source, before) for key in keys}
        allowed = {key for key, outcomes in expected.items() if Outcome.DONE in outcomes}
        certain = {key for key, outcomes in expected.items() if outcomes == {Outcome.DONE}}
        finished = not cut(lambda: self.open().apply(plan), Mode(), number)
        self.note("dies at", number, "finished" if finished else "")
        pins = self.pins()
        moved = [key for key in keys if self.has_left(before.get(key), pins.get(key))]
        assert set(moved) <= allowed and (not finished or certain <= set(moved)), (moved, expected)
        listed = [record for record in self.operators[1].operations() if record.operation == plan.operation]
        assert listed or not moved, "something moved without an intent"
        if not listed:
            return None
        [record] = listed
        assert record.done == len(moved) or (record.open and not self.LOOKS), (record, moved)
        if record.open:
            self.reached("intent without result")
        return self.record(plan, pinned, moved, exact=not record.open)

    def has_left(self, before: Pin | None, now: Pin | None) -> bool:
        return before != now

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Has one change not permitted meanwhile."""
        number = self.random.randint(1, 20)

        def act(call: int, _: str, do: Callable[[], Any]) -> Any:
            if call == number:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return do()

        self.reached("permission taken")
        with interposed(Mode(), act):
            yield

    def fail(self, plan: Plan, pinned: Mapping[str, Move]) -> Operation | None:
        """Applies while something fails, and adopts what is on the disk: what is done must have moved."""
        before, keys = self.pins(), list(pinned)
        outcomes: dict[str, Outcome] = {}
        try:
            with self.failing():
                result = self.pick(self.operators).apply(plan)
            outcomes = dict(zip(keys, (item.outcome for item in result.items), strict=False))
        except SpooltopError:
            self.note("refused")
        pins = self.pins()
        moved = [key for key in keys if self.has_left(before.get(key), pins.get(key))]
        assert {key for key, outcome in outcomes.items() if outcome is Outcome.DONE} <= set(moved), "done, and it did not move"
        listed = any(record.operation == plan.operation for record in self.operators[0].operations())
        assert listed or not moved, "something moved without an intent"
        return self.record(plan, pinned, moved, exact=False) if listed else None

    def carry_out(self, plan: Plan, pinned: dict[str, Move]) -> None:
        """Applies in one of many ways."""
        way = self.random.random()
        if way < 0.3:
            self.happens(plan, self.pick(list(pinned)))
        if way < 0.6:
            self.apply(plan, pinned)
        elif way < 0.7:
            self.plans.append((plan, pinned, len(self.steps)))
        elif way < 0.8:
            self.crash(plan, pinned)
        elif way < 0.87:
            self.apply(plan, pinned, stop_after=self.random.randrange(len(pinned)))
        elif way < 0.93:
            self.fail(plan, pinned)
        else:
            operator = self.pick(self.operators)
            self.apply(plan, pinned, operator=operator)
            try:
                operator.apply(plan)
            except Refused:
                self.reached("applied twice")
            else:
                raise AssertionError("a plan was applied twice")

    @rule(30)
    def operate(self) -> bool:
        planned = self.plan()
        if planned is None:
            return False
        self.carry_out(*planned)
        return True

    @rule(4)
    def apply_kept(self) -> bool:
        if not self.plans:
            return False
        plan, pinned, at = self.plans.pop(self.random.randrange(len(self.plans)))
        if len(self.steps) > at + 10:
            self.reached("plan applied much later")
        self.apply(plan, pinned)
        return True

    @rule(16)
    def undo(self) -> bool:
        if not self.operations:
            return False
        operation = self.pick(self.operations[-5:])
        self.note(operation.action, operation.id)
        plan = self.plan_undo(operation)
        if plan is None or not plan.items:
            return True
        if operation.undoes is not None:
            self.reached("undo of an undo")
        self.carry_out(plan, self.pinned(plan))
        return True

    @rule(3)
    def cut_journal(self) -> bool:
        """Cuts the last bytes off the journal, as a power cut may: the last line is then unreadable."""
        journal = self.journal()
        if not self.operations or journal is None:
            return False
        last = self.operations[-1]
        data = journal.read_bytes()
        written = data.rstrip(b"\0")
        line = written.splitlines()[-1]
        if not last.exact or b'"result"' not in line or last.id.encode() not in line:
            return False
        count = self.pick((1, 2, 2, 9, len(line)))  # the last byte is the newline: a line without it counts as cut off
        with open(journal, "r+b") as file:
            file.truncate(len(written) - count)
            file.truncate(len(data) if len(data) > len(written) else len(written) - count)
        self.reached("journal cut in its last bytes")
        last.exact = False
        if last.undoes is not None:
            last.undoes.exact = False
        return True

    def close(self) -> None:
        for control in self.operators:
            control.close()
        rmtree(self.base)


def run(kind: type[Machine], seed: int, steps: int) -> Counter[str]:
    """Runs one machine and returns its counts of rare states; a failure tells how it is repeated."""
    machine = kind(seed)
    try:
        for _ in range(steps):
            machine.step()
    except Exception as error:
        last = "\n  ".join(machine.steps[-25:])
        error.add_note(f"seed {seed}, step {len(machine.steps)}: the last steps were\n  {last}")
        raise
    finally:
        machine.close()
    return machine.rare
