"""Scenes of operators: a queue in a state, and an action on it. Their tests are in ``test_files``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import ASIDE, Action, Box
from tests.builders import ALL, GONE, CursorWorld, LayoutWorld, LockWorld, SpoolWorld, TicketWorld, World, message_id

from .cuts import Mode, cut

__all__ = ["DIRECTORY", "SCENES", "Scene", "Stage", "alone"]

NONE = Selection()
POISON = f"{message_id(1)},n=3,c={'a' * 32}.1795222800000000:2,P9"
MANY = 1001
"""Messages whose metadata lie in one file for all of them."""


@dataclass
class Stage:
    """World of a scene as it is before the act, and the operation that the act undoes."""

    world: World
    operation: str = ""


@dataclass(frozen=True)
class Scene:
    """Action on a queue that ``build`` makes in a folder.

    ``undone``: the act is the undo of this action. ``deletes``: what it acts upon may be gone. ``register``: it changes the
    content of a file. ``adds``: content of messages that it makes. ``each``: calls of one site are cut so often, and its last.
    ``cut_at``: it was begun before without renameat2, and cut off at the first call of a method in a file.
    """

    name: str
    build: Callable[[Path], World]
    action: Action
    selection: Selection = ALL
    options: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False
    undone: bool = False
    deletes: bool = False
    adds: str = ""
    register: bool = False
    each: int | None = None
    cut_at: tuple[str, str] | None = None

    @property
    def can_be_undone(self) -> bool:
        return self.action is not Action.EMPTY and not self.options.get("now")

    @property
    def is_reversible(self) -> bool:
        """True if a cut can be undone whatever it had done."""
        return (
            self.can_be_undone and not self.cut_at and not self.register and self.action is not Action.UNLOCK
            and not self.options.get("hold_poison") and not (self.undone and self.adds)
        )  # fmt: skip

    def prepare(self, folder: Path) -> Stage:
        stage = Stage(self.build(folder))
        if self.undone:
            plan, result = stage.world.do(self.action, self.selection, force=self.force, **self.options)
            assert result.count(Outcome.DONE) >= 1, (plan, result)
            stage.operation = plan.operation
        if self.cut_at is not None:
            call, file = self.cut_at
            assert cut(partial(self.act, stage), Mode(seen=frozenset({call}), old=True), file), self.name
        return stage

    def act(self, stage: Stage) -> list[str]:
        """Plans and applies it; returns what is told of anything that was not done."""
        action = Action.UNDO if self.undone else self.action
        options = {"undoes": stage.operation} if self.undone else self.options
        with stage.world.control() as control:
            plan = control.plan(action, NONE if self.undone else self.selection, force=self.force, options=options)
            told = [*(refusal.reason for refusal in plan.refused), *(note for note in plan.notes if "journal" in note)]
            result = control.apply(plan)
            told += [item.reason for item in result.items if item.outcome is not Outcome.DONE]
            return told + [note for note in result.notes if " of those done: " not in note]

    def view(self, stage: Stage, *, exact: bool = False) -> object:
        """Returns all that the queue holds, without its additions. Not ``exact``: names that differ each time are left out."""
        world = stage.world
        census = {
            content: places for content, places in world.census().items()
            if not (self.adds and self.adds.startswith(content))  # whole, or cut off while it was written
        }  # fmt: skip
        paused = (world.path / ".spooltop/paused").exists()
        if exact:
            return census, world.tree() if isinstance(world, LayoutWorld) else (), paused
        return {content: sorted(map(_without_chance, places)) for content, places in census.items()}, paused

    def check_one_place(self, stage: Stage, before: Mapping[str, Sequence[str]]) -> None:
        """Each file is there, at one place."""
        census = stage.world.census()
        if self.register:
            assert len(census) == len(before), census
            return
        for content, places in before.items():
            count = len(census.get(content, ()))
            assert count == len(places) or (self.deletes and (count < len(places)) is not self.undone), (content, census)


def _without_chance(place: str) -> str:
    place = re.sub(rf"(\.spooltop/(?:{'|'.join(ASIDE)})/)[^/]+(/\d+)?", r"\1*", place)
    return re.sub(r",c=[0-9a-f]{32}\.\d+:2,P\d+|[0-9a-f]{8,}", "*", place)


# Spools


def spool(folder: Path, *fill: Callable[[SpoolWorld], object]) -> SpoolWorld:
    world = SpoolWorld(folder)
    for put in fill:
        put(world)
    return world


def dead(world: SpoolWorld) -> None:
    world.put(message_id(1), "own")
    world.claim_dead()


def waiting(world: SpoolWorld, count: int = 2) -> None:
    for number in range(count):
        world.put(f"waiting{number}")


def foreign(world: SpoolWorld, pid: int = GONE) -> None:
    world.claim_foreign("claimed", pid=pid)


def poison(world: SpoolWorld) -> None:
    world.put(POISON, "poison", Box.CUR)


def rejected(world: SpoolWorld) -> None:
    world.put_aside(Box.REJECTED, "bad:2,P9", "bad", origin="cur")


def held(world: SpoolWorld) -> None:
    world.put_aside(Box.HELD, "waiting", origin="new")
    world.put_aside(Box.HELD, "claimed:2,P9", "claimed", origin="cur")


def trash(world: SpoolWorld) -> None:
    world.put_aside(Box.TRASH, "waiting", origin="new")
    world.put_aside(Box.TRASH, "half", origin="tmp")
    world.put_aside(Box.TRASH, "claimed:2,P9", "claimed", origin="held", was={"origin": "cur"})


def done(action: Action, selection: Selection = ALL) -> Callable[[World], object]:
    """Does an action beforehand."""
    return lambda world: world.do(action, selection)


def of(box: Box, **more: Any) -> Selection:
    return Selection(box=box, everything=True, **more)


def made(*fill: Callable[[SpoolWorld], object]) -> Callable[[Path], World]:
    return lambda folder: spool(folder, *fill)


MOST = partial(waiting, count=MANY)
DIRECTORY = [
    Scene("requeue", made(dead, foreign, waiting), Action.REQUEUE),
    Scene("requeue by force", made(partial(foreign, pid=os.getpid()), waiting), Action.REQUEUE, force=True),
    Scene("requeue of rejected", made(rejected), Action.REQUEUE, of(Box.REJECTED)),
    Scene("requeue of poison", made(foreign, poison), Action.REQUEUE, of(Box.CUR), {"hold_poison": True}, force=True),
    Scene("hold", made(foreign, waiting), Action.HOLD),
    Scene("hold of many", made(MOST), Action.HOLD, of(Box.NEW), each=1),
    Scene("release", made(held), Action.RELEASE),
    Scene("restore", made(trash), Action.RESTORE, of(Box.TRASH)),
    Scene("purge", made(foreign, waiting), Action.PURGE, of(Box.NEW)),
    Scene("purge of held", made(held), Action.PURGE, of(Box.HELD)),
    Scene("purge now", made(foreign, waiting), Action.PURGE, Selection(ids=("claimed", "waiting0")), {"now": True}, deletes=True),
    Scene("empty", made(trash), Action.EMPTY, of(Box.TRASH), deletes=True),
    Scene("empty of purged", made(waiting, done(Action.PURGE, of(Box.NEW))), Action.EMPTY, of(Box.TRASH), deletes=True),
    Scene("restore of purged", made(waiting, done(Action.PURGE, of(Box.NEW))), Action.RESTORE, of(Box.TRASH)),
    Scene("inject", made(waiting), Action.INJECT, NONE, {"count": 2, "text": "injected"}, adds="injected"),
    Scene("pause", made(waiting), Action.PAUSE, NONE, {"reason": "because"}),
    Scene("resume", made(waiting, done(Action.PAUSE, NONE)), Action.RESUME, NONE),
]
# Locks and cursors, alone and in a spool


def locks(world: World) -> None:
    """Makes a stale lock of each kind."""
    world.soft_lock("leader.lock")
    world.ticket(1)
    (world.path / "linked.lock").symlink_to(f"{os.uname().nodename}:{GONE}")


def strict(world: World) -> None:
    """Leaves filelock's strict lock of a process that has exited, which has two names."""
    world.write("strict.lock", "1\nfilelock-strict-v1\0\n0\n")
    who = f"filelock-strict-v1\n{1:032x}\n{GONE}\n{os.uname().nodename.encode().hex()}\n1\n"
    intent = world.write(f"strict.lock.filelock/claims/intent-v1-{1:032x}.claim", who)
    os.utime(intent, (1, 1))
    intent.with_name(f"held-v1-{1:032x}.claim").hardlink_to(intent)


def linked(world: World) -> None:
    """Locks an element by a second name."""
    (world.path / "job.lck").hardlink_to(world.write("job", "locked"))


def alone(kind: Callable[[Path], World], *fill: Callable[[Any], object]) -> Callable[[Path], World]:
    def build(folder: Path) -> World:
        world = kind(folder)
        for put in fill:
            put(world)
        return world

    return build


SET = {"source": "mail", "value": {"uid": 9}}
BESIDE = [
    Scene("set a cursor", alone(CursorWorld), Action.SET_CURSOR, NONE, SET, register=True),
    Scene("set a cursor in a spool", made(SpoolWorld.cursors), Action.SET_CURSOR, NONE, SET, register=True),
    Scene("unlock", alone(LockWorld, locks), Action.UNLOCK, force=True, deletes=True),
    Scene("unlock in a spool", made(waiting, locks), Action.UNLOCK, force=True, deletes=True),
    Scene("unlock a strict lock", alone(LockWorld, strict), Action.UNLOCK, force=True, deletes=True),
    Scene("unlock an element", alone(LockWorld, linked), Action.UNLOCK, Selection(ids=("job.lck",)), force=True, deletes=True),
    Scene("unlock a ticket", alone(TicketWorld), Action.UNLOCK, force=True, deletes=True),
]

# Layouts of other programs


def lost(world: World) -> None:
    """Leaves the state of a job whose message is nowhere."""
    os.utime(world.write("jobs/gone-1.state", "queued:1795220920720"), (1, 1))


def stateless(world: World) -> None:
    """Leaves a claim without the state of its job, which a requeue makes."""
    (world.path / "jobs/slow-1.state").unlink()


def unpaired(world: World) -> None:
    """Leaves a lock whose element is gone."""
    (world.path / "6b00e590/6b00e5b7c2149f").unlink()


def layout(name: str, *fill: Callable[[World], object]) -> Callable[[Path], World]:
    return alone(partial(LayoutWorld, layout=name), *fill)


BY_LAYOUT = {
    "job-queue": [
        (Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW), (Action.PURGE, Box.CUR), (Action.PURGE, Box.REJECTED),
        (Action.PURGE, Box.TMP), (Action.HOLD, Box.NEW),
    ],
    "dirq-simple": [(Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW), (Action.PURGE, Box.TMP), (Action.HOLD, Box.NEW)],
    "dirq-normal": [(Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW), (Action.HOLD, Box.NEW)],
    "huey": [(Action.REQUEUE, Box.TMP), (Action.PURGE, Box.NEW), (Action.PURGE, Box.TMP), (Action.HOLD, Box.NEW)],
    "kombu": [(Action.REQUEUE, Box.DELIVERED), (Action.PURGE, Box.NEW), (Action.PURGE, Box.DELIVERED), (Action.HOLD, Box.NEW)],
    "kombu-out": [
        (Action.REQUEUE, Box.DELIVERED), (Action.PURGE, Box.NEW), (Action.PURGE, Box.DELIVERED), (Action.HOLD, Box.NEW),
    ],
    "mailman": [(Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW), (Action.PURGE, Box.REJECTED), (Action.HOLD, Box.NEW)],
    "nq": [(Action.PURGE, Box.DELIVERED), (Action.PURGE, Box.CUR)],
    "nullmailer": [(Action.REQUEUE, Box.REJECTED), (Action.PURGE, Box.NEW), (Action.PURGE, Box.REJECTED), (Action.HOLD, Box.NEW)],
}  # fmt: skip
HELD, TRASH = done(Action.HOLD, of(Box.NEW)), done(Action.PURGE, of(Box.NEW))
WAIT = partial(Selection, ids=("wait-1",))
LAYOUT = [
    *(Scene(f"{name} {action} {box}", layout(name), action, of(box), force=True) for name, acts in BY_LAYOUT.items()
      for action, box in acts),
    Scene("job-queue release", layout("job-queue", HELD), Action.RELEASE, WAIT(box=Box.HELD)),
    Scene("job-queue requeue of held", layout("job-queue", HELD), Action.REQUEUE, WAIT(box=Box.HELD)),
    Scene("job-queue purge of held", layout("job-queue", HELD), Action.PURGE, WAIT(box=Box.HELD)),
    Scene("job-queue restore", layout("job-queue", TRASH), Action.RESTORE, WAIT(box=Box.TRASH)),
    Scene("dirq-normal restore", layout("dirq-normal", TRASH), Action.RESTORE, of(Box.TRASH)),
    Scene("dirq-normal empty", layout("dirq-normal", TRASH), Action.EMPTY, of(Box.TRASH), deletes=True),
    Scene("job-queue requeue of stateless", layout("job-queue", stateless), Action.REQUEUE, of(Box.CUR), force=True),
    Scene("job-queue purge of lost", layout("job-queue", lost), Action.PURGE, Selection(ids=("gone-1",))),
    Scene("dirq-simple unlock", layout("dirq-simple", unpaired), Action.UNLOCK, deletes=True),
]  # fmt: skip

DONE = [*DIRECTORY, *BESIDE, *LAYOUT]
ONCE = {scene.name: scene for scene in (
    *DONE, *(replace(scene, name=f"undo of {scene.name}", undone=True) for scene in DONE if scene.can_be_undone)
)}  # fmt: skip
MOVER, PERFORMER = "operator/moving.py", "layouts/operator/performer.py"
CUT_OFF = [
    ("hold", "unlink", MOVER), ("hold", "link", MOVER), ("requeue", "unlink", MOVER), ("empty", "unlink", MOVER),
    ("purge of held", "unlink", MOVER), ("undo of release", "link", MOVER),
    ("hold", "unlink", "engine/atomic.py"), ("job-queue purge new", "unlink", PERFORMER),
]  # fmt: skip
SCENES = ONCE | {
    name: replace(ONCE[first], name=name, cut_at=(call, file))
    for first, call, file in CUT_OFF if (name := f"{first} after a cut at {call} in {file.rpartition('/')[2]}")
}
