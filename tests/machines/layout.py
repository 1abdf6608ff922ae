"""State machine of other programs' directories: each message is in one place, and an undo brings back its exact place."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from spooltop.errors import Refused
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import LAYOUTS, LayoutWorld

from .machine import Machine, Move, Operation, Pin

__all__ = ["LayoutMachine"]

ACTIONS = (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.EMPTY)


class LayoutMachine(Machine):
    """Messages by their contents. Where an action leads is for the layout to say: the machine adopts it, if it is one place."""

    RARE: ClassVar[tuple[str, ...]] = (
        *(state for state in Machine.RARE if state != "plan applied much later"), "undo of an undo", "undo of part",
        "gone between plan and apply", "replaced between plan and apply",
        "two operators with one item", "needs force", "cut off and settled",
    )  # fmt: skip
    LOOKS: ClassVar[bool] = False

    def prepare(self) -> None:
        self.layout = sorted(LAYOUTS)[self.random.randrange(1 << 32) % len(LAYOUTS)]
        self.world = LayoutWorld(self.base, self.layout)
        self.root = self.world.path
        self.things: dict[str, Pin] = self.pins()
        self.cut = False

    def journal(self) -> Path | None:
        return next(self.base.rglob("messages.jsonl"), None)

    def options(self) -> dict[str, Any]:
        return {"as_kind": self.layout}

    def pins(self) -> dict[str, Pin]:
        pins = {}
        for content, places in self.world.census().items():
            assert len(places) == 1, f"{content!r} is in {places}"
            name = places[0].partition(" = ")[0]
            file = next(path for path in (self.root / name, self.base / name) if path.exists())
            status, mark = file.stat(), " locked" if (file.parent / "locked").exists() else ""
            pins[content] = (places[0] + mark, status.st_ino, status.st_ctime_ns)
        return pins

    def check(self) -> None:
        assert {key: pin[:2] for key, pin in self.pins().items()} == {key: pin[:2] for key, pin in self.things.items()}

    def state(self, key: str) -> Pin | None:
        return self.things.get(key)

    def restore(self, key: str, before: Pin | None) -> None:
        assert self.cut or (before is not None and self.pins()[key][0] == before[0]), (key, self.pins()[key], before)

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        assert (key not in self.pins()) == plan.deletes

    def record(self, plan: Plan, pinned: Mapping[str, Move], done: Sequence[str], *args: Any, **options: Any) -> Operation:
        operation = super().record(plan, pinned, done, *args, **options)
        pins = self.pins()
        assert self.things.keys() - pins.keys() <= (set(done) if plan.deletes else set()), "a message is lost"
        assert pins.keys() <= self.things.keys()
        self.things = pins
        return operation

    def key(self, item: Any) -> str:
        path = item.row.key[1].lstrip("/")
        for content, (places, *_) in self.pins().items():
            for place in places.split(" = "):
                if f"/{place}/".startswith(f"/{path}/") or f"/{path}/" in f"/{place}/":
                    return content
        raise AssertionError(f"{item.row.key} is not there: {self.pins()}")

    def outcomes(self, plan: Plan, key: str, pinned: Pin | None, pins: Mapping[str, Pin]) -> set[Outcome]:
        if pins.get(key) != pinned:
            return {Outcome.SKIPPED, Outcome.FAILED}
        # The file in a directory that is a message does not tell that the directory was moved away and back.
        return {Outcome.DONE, Outcome.SKIPPED} if self.layout == "dirq-normal" else {Outcome.DONE}

    def same(self, operation: Operation, pin: Pin | None, after: Pin | None) -> bool:
        return pin is not None and after is not None and pin[:2] == after[:2]

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        action, box = self.pick(ACTIONS[: 6 if self.chance(0.1) else 5]), self.pick(list(Box))
        selection = Selection(box=box, everything=True)
        try:
            plan = self.make_plan(action, selection)
        except Refused:
            return None
        if any(refusal.forceable for refusal in plan.refused):
            self.reached("needs force")
            plan = self.make_plan(action, selection, force=True)
        self.note(self.layout, action, box)
        return (plan, self.pinned(plan)) if plan.items else None

    def crash(self, plan: Plan, pinned: Mapping[str, Move]) -> Operation | None:
        self.cut = True  # between the changes of one message, it is not yet where it will be
        operation = super().crash(plan, pinned)
        self.cut = False
        if operation is not None and not operation.exact:
            self.settle(operation)
        return operation

    def fail(self, plan: Plan, pinned: Mapping[str, Move]) -> Operation | None:
        self.cut = True
        operation = super().fail(plan, pinned)
        self.cut = False
        return operation

    def settle(self, operation: Operation) -> None:
        """Another operation, or the undo, finishes what was cut off: the list then has nothing open, and no message is lost."""
        control, undo = self.pick(self.operators), self.chance(0.5)
        if undo:
            plan = control.plan(Action.UNDO, Selection(), options={"undoes": operation.id})
        else:
            choices = [(action, box) for action in ACTIONS[:-1] for box in Box]
            plan = next(plan for plan in map(self.try_plan, self.random.sample(choices, len(choices))) if plan and plan.items)
        control.apply(plan)
        [record] = [record for record in control.operations() if record.operation == operation.id]
        assert not record.open or undo, (record, plan)
        pins = self.pins()
        assert pins.keys() == self.things.keys() and (not undo or not plan.items or operation.deletes or record.undone_by)
        self.things = pins
        self.operations = [other for other in self.operations if other.id != operation.id]
        for other in self.operations:
            other.exact = False
        self.plans.clear()
        self.reached("cut off and settled")

    def try_plan(self, choice: tuple[Action, Box]) -> Plan | None:
        try:
            return self.operators[0].plan(choice[0], Selection(box=choice[1], everything=True), force=True)
        except Refused:
            return None

    def happens(self, plan: Plan, key: str) -> None:
        box = next(item.box for item in plan.items if self.key(item) == key)
        path = self.root / self.things[key][0].removesuffix(" locked").partition(" = ")[0]
        way = self.random.randrange(4)
        if way == 0 and box is Box.NEW and path.is_file() and len(self.things) > 3:
            path.unlink()
            self.things = self.pins()
            self.reached("gone between plan and apply")
        elif way == 1 and box is Box.NEW and path.is_file() and self.layout != "dirq-normal":
            draft = self.base / "draft"
            draft.write_text(f"another {len(self.steps)}")
            os.replace(draft, path)
            self.things = self.pins()
            self.reached("replaced between plan and apply")
        elif not plan.undoes:
            other = self.make_plan(plan.action, plan.selection, force=plan.force)
            self.apply(other, self.pinned(other))
            self.reached("two operators with one item")
