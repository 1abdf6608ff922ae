"""State machines of what is no message: cursors, soft locks, the pause of a spool. Each thing has a state and is changed by
pollers, holders and operators."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from spooltop.engine import CursorFile, Spool
from spooltop.model.plan import Confirm, Plan, Selection
from spooltop.model.vocabulary import Action
from tests.builders import GONE

from .machine import Machine, Move, Operation, Pin, rule

__all__ = ["CursorMachine", "LockMachine", "PauseMachine"]


class SideMachine(Machine):
    """Things whose state is what is on the disk: the model expects it after each step. A thing without a pin is not there."""

    def prepare(self) -> None:
        Spool.create(self.root, False).close()
        self.things: dict[str, Pin] = {}

    def check(self) -> None:
        assert self.pins() == self.things

    def state(self, key: str) -> Pin | None:
        return self.things.get(key)

    def restore(self, key: str, before: Pin | None) -> None:
        self.things.pop(key, None)
        if before is not None:
            self.things[key] = before

    def left(self, operation: Operation) -> bool:
        pins = self.pins()
        return super().left(operation) and all(
            self.can_go_back(operation, key, pins) and self.same(operation, pins.get(key), move.after)
            for key, move in operation.moves.items()
        )

    def pinned(self, plan: Plan) -> dict[str, Move]:
        pins = self.pins()
        return {key: Move(self.state(key), pins.get(key)) for key in map(self.key, plan.items)}


class CursorMachine(SideMachine):
    """Pollers that advance their sections of one file, and operators that set them."""

    JOURNAL: ClassVar[str] = ".spooltop/cursors.jsonl"
    RARE: ClassVar[tuple[str, ...]] = (
        *Machine.RARE, "undo of an undo", "cursor changed between plan and apply", "another source goes on meanwhile",
        "undo after the poller went on", "other type refused", "other type by force", "set to what it is",
        "no such source", "two operators with one item",
    )  # fmt: skip

    def prepare(self) -> None:
        super().prepare()
        self.file = self.root / "cursors.json"
        self.things = {"mail": ("7",), "chat": ('{"id": 3}',), "news": ('"a"',)}
        self.file.write_text(json.dumps({key: json.loads(text) for key, (text,) in self.things.items()}))

    def pins(self) -> dict[str, Pin]:
        return {key: (json.dumps(value),) for key, value in json.loads(self.file.read_text()).items()}

    def key(self, item: Any) -> str:
        return str(item.row.id)

    def value(self, key: str, *, other_type: bool = False) -> Any:
        number = self.random.randrange(6)
        kinds = {"mail": number, "chat": {"id": number}, "news": "abcdef"[number]}
        return kinds["news" if key == "mail" else "mail"] if other_type else kinds[key]

    @rule(8)
    def advance(self, key: str = "") -> None:
        key = key or self.pick(sorted(self.things))
        value = self.value(key)
        CursorFile(self.file).advance(key, value)
        self.things[key] = (json.dumps(value),)

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        key, force, other = self.pick(sorted(self.things)), self.chance(0.4), self.chance(0.2)
        value = self.value(key, other_type=other)
        before = json.loads(self.things[key][0])
        if self.chance(0.1):
            self.reached("no such source")
            plan = self.make_plan(Action.SET_CURSOR, Selection(), source="nobody", value=value)
            assert (plan.count, [refusal.forceable for refusal in plan.refused]) == (0, [True])
            return None
        plan = self.make_plan(Action.SET_CURSOR, Selection(), force=force, source=key, value=value)
        self.note(key, before, "→", value)
        other = type(before) is not type(value)
        if before == value:
            self.reached("set to what it is")
        if other:
            self.reached("other type by force" if force else "other type refused")
        assert [item.id for item in plan.items] == ([key] if before != value and (force or not other) else []), plan
        assert bool(plan.items) != bool(plan.refused)
        assert plan.confirm is (Confirm.NOTHING if not plan.items else Confirm.NUMBER if force else Confirm.SMALL)
        return (plan, self.pinned(plan)) if plan.items else None

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        self.things[key] = (json.dumps(plan.options["value"]),)

    def happens(self, plan: Plan, key: str) -> None:
        way = self.random.randrange(3)
        if way == 0:
            self.advance(self.pick([other for other in sorted(self.things) if other != key]))
            self.reached("another source goes on meanwhile")
        elif way == 1:
            self.advance(key)
            if plan.action is Action.SET_CURSOR:
                self.reached("cursor changed between plan and apply")
        elif plan.action is Action.SET_CURSOR:
            again = self.make_plan(Action.SET_CURSOR, Selection(), force=True, source=key, value=[self.random.random()])
            self.apply(again, self.pinned(again))
            self.reached("two operators with one item")

    def plan_undo(self, operation: Operation) -> Plan | None:
        if operation.moves and self.chance(0.3):
            self.advance(next(iter(operation.moves)))
            self.reached("undo after the poller went on")
        return super().plan_undo(operation)


class LockMachine(SideMachine):
    """Soft locks: a file that names its holder, which lives, died, or takes it again."""

    JOURNAL: ClassVar[str] = ".spooltop/locks.jsonl"
    RARE: ClassVar[tuple[str, ...]] = (
        *(state for state in Machine.RARE), "lock taken again between plan and apply", "undo into a taken place",
        "holder lives: refused", "released by itself between plan and apply", "two operators with one item", "young lock refused",
    )  # fmt: skip
    LOOKS: ClassVar[bool] = False
    NAMES = ("a.lock", "b.lock", "c.lock")

    def pins(self) -> dict[str, Pin]:
        return {
            name: (path.read_text(), path.stat().st_mtime_ns, path.stat().st_ino)
            for name in self.NAMES
            if (path := self.root / name).exists()
        }

    def key(self, item: Any) -> str:
        return os.path.basename(item.row.id)

    def take(self, name: str, pid: int, age: float = 4000.0) -> None:
        text = f"{pid}\n{os.uname().nodename}\n{self.random.randrange(1 << 30)}\n"
        draft, at = self.base / "draft", int(self.clock() - age) * 10**9
        draft.write_text(text)
        os.utime(draft, ns=(at, at))
        os.replace(draft, self.root / name)
        self.things[name] = self.pins()[name]
        assert self.things[name][:2] == (text, at)

    def restore(self, key: str, before: Pin | None) -> None:
        self.things[key] = self.pins()[key]
        assert before is not None and self.things[key][:2] == before[:2]  # in a new file

    def crash(self, plan: Plan, pinned: Mapping[str, Move]) -> Operation | None:
        """A cut between the exchange and the removal leaves a lock of the process that died, which counts as stale later."""
        operation = super().crash(plan, pinned)
        if plan.action is Action.UNLOCK:
            for name, pin in self.pins().items():
                if name in pinned and pin != pinned[name].source:
                    self.things[name] = pin
        return operation

    @rule(12)
    def come(self) -> None:
        self.take(self.pick(self.NAMES), self.pick((GONE, GONE, GONE, os.getpid())), self.pick((10.0, 4000.0, 4000.0)))

    @rule(3)
    def leave(self, name: str = "") -> bool:
        if not self.things:
            return False
        name = name or self.pick(sorted(self.things))
        del self.things[name]
        os.unlink(self.root / name)
        return True

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        if not self.things:
            return None
        names = self.random.sample(sorted(self.things), self.random.randint(1, len(self.things)))
        plan = self.make_plan(Action.UNLOCK, Selection(ids=tuple(names)))
        living = {name for name in names if self.things[name][0].startswith(f"{os.getpid()}\n")}
        young = {name for name in names if self.clock() - self.things[name][1] / 1e9 < 300}
        pinned = self.pinned(plan)
        assert pinned.keys() == set(names) - living - young, (pinned, living, young, plan.refused)
        assert {self.key(refusal) for refusal in plan.refused} == living | young
        if living:
            self.reached("holder lives: refused")
        if young - living:
            self.reached("young lock refused")
        return (plan, pinned) if pinned else None

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        del self.things[key]

    def can_go_back(self, operation: Operation, key: str, pins: dict[str, Pin]) -> bool:  # type: ignore[override]
        return operation.undoes is None  # a lock that was put back is removed by another unlock

    def happens(self, plan: Plan, key: str) -> None:
        way = self.random.randrange(3)
        if way == 0 or plan.undoes:
            self.take(key, self.pick((GONE, os.getpid())))
            self.reached("undo into a taken place" if plan.undoes else "lock taken again between plan and apply")
        elif way == 1 and key in self.things:
            self.leave(key)
            self.reached("released by itself between plan and apply")
        else:
            other = self.make_plan(Action.UNLOCK, Selection(ids=(key,)))
            self.apply(other, self.pinned(other))
            self.reached("two operators with one item")


class PauseMachine(SideMachine):
    """The pause of a spool, which operators set and end."""

    JOURNAL: ClassVar[str] = ".spooltop/pauses.jsonl"
    RARE: ClassVar[tuple[str, ...]] = (
        *Machine.RARE, "undo of an undo", "paused twice refused", "resumed between plan and apply", "undo after another pause",
    )  # fmt: skip

    def pins(self) -> dict[str, Pin]:
        file = self.root / ".spooltop/paused"
        if not file.exists():
            return {}
        pause = json.loads(file.read_text())
        return {"pause": (pause["reason"], pause["at"], file.stat().st_ino, file.stat().st_mtime_ns)}

    def same(self, operation: Operation, pin: Pin | None, after: Pin | None) -> bool:
        """An undo brings the same pause back in another file, which a plan of before does not take for the one it was."""
        return (pin and pin[:2]) == (after and after[:2])

    def check(self) -> None:
        assert {key: pin[0] for key, pin in self.pins().items()} == {key: pin[0] for key, pin in self.things.items()}

    def key(self, item: Any) -> str:
        return "pause"

    def plan(self) -> tuple[Plan, dict[str, Move]]:
        action = Action.RESUME if self.things else Action.PAUSE
        opposite = self.make_plan(Action.PAUSE if self.things else Action.RESUME, Selection())
        assert not opposite.items and opposite.refused
        self.reached("paused twice refused")
        plan = self.make_plan(action, Selection(), **({"reason": f"reason {len(self.steps)}"} if not self.things else {}))
        return plan, self.pinned(plan)

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        self.things.clear()
        if action is Action.PAUSE:
            self.things.update(self.pins())
            assert self.things[key][0] == plan.options["reason"]

    def happens(self, plan: Plan, key: str) -> None:
        other, pinned = self.plan()
        self.apply(other, pinned)
        self.reached("undo after another pause" if plan.undoes else "resumed between plan and apply")
