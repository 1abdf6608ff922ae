"""The scenes that are drawn for the eye: what the spool is, which keys are pressed, what must stand there then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spooltop.cli.demo.command import BANNER
from spooltop.model.holders import Holders, Holding
from spooltop.model.plan import Item, Plan, Refusal, Result
from spooltop.model.row import Payload, Row
from spooltop.model.selection import Selection
from spooltop.model.snapshot import Snapshot
from spooltop.model.tracked import TrackedMessage
from spooltop.model.vocabulary import Action, Box, Key

from ..tui.fake import FakeControl
from . import asked, states, values

__all__ = ["LARGE", "SCENES", "SMALL", "Clock", "Scene", "SceneControl", "Step"]

SMALL, LARGE = (80, 23), (160, 50)


@dataclass(slots=True)
class Clock:
    """Seconds since start, as the looker measures how long a look takes; a scene can let more of them go by."""

    skipped: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped


class SceneControl(FakeControl):
    """A control whose every look gives the same picture."""

    def __init__(self, snapshot: Snapshot, clock: Clock) -> None:
        rows = [row for box in values.rows(snapshot).values() for row in box]
        super().__init__(rows, target=snapshot.observation.target, capabilities=snapshot.observation.capabilities)
        self.layout = snapshot.observation.layout
        self.time = values.NOW
        self.records = asked.operations()
        self.snapshot = snapshot
        self.clock = clock

    def look(self, rescan: bool = False) -> Snapshot:
        if not self.hang.is_set():
            self.clock.skipped += 41
        self.hang.wait()
        return self.snapshot

    def read(self, key: Key, limit: int = 65536) -> Payload:
        return asked.payload(next(row for row in self.rows if row.key == key))

    def plan(self, action: Action, selection: Selection, **more: Any) -> Plan:
        plan = super().plan(action, selection, **more)
        items = [
            Item(item.row, item.ref, "in work at 4 deaths" if (item.row.attempt or 0) >= 4 else "")
            for item in plan.items
        ]
        idle = ": no CPU for 5m"

        def holder(row: Row) -> str:
            assert row.owner is not None
            return f"{row.owner.pid} worker.py"

        refused = [
            Refusal(one.row, f"{holder(one.row)} is alive{idle if idle[2:] in one.row.evidence else ''}", True)
            for one in plan.refused
        ]
        notes = ("At work now: 2 consumers (5200, 5201), last claim 4s ago.",)
        return replace(plan, operation="c41d0a7e92", items=items, refused=refused, notes=notes, made_at=values.NOW + 6)

    def apply(self, plan: Plan, *args: Any, **more: Any) -> Result:
        result = super().apply(plan, *args, **more)
        self.time = values.NOW + 22
        return replace(result, finished_at=values.NOW + 10, notes=("in the audit log as memex",))

    def holders(self, key: Key) -> Holders:
        """The holder's presence file and somebody who reads."""
        presence = Holding(5200, "python3 /opt/memex/worker.py", "memex", "flock, holds", values.NOW - 3300, "its presence file")
        reading = Holding(6120, "less", "ann", "open for reading")
        return Holders("cur/x", (presence, reading), False, ("the files of 2 processes of root cannot be seen; root sees them",))

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        """Reports the first requeued message as taken and done, and the others as waiting."""
        done = values.NOW + 10
        found = {id: TrackedMessage(id, Box.NEW, place, 4309) for place, id in enumerate(ids)}
        return found | {id: TrackedMessage(id, claimed_at=done + 0.3, pid=5201, gone_at=done + 0.5) for id in ids[:1]}


@dataclass(frozen=True, slots=True)
class Step:
    """Keys, and words that stand on the screen after them. ``act`` does what no key does."""

    keys: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    act: Callable[[SceneControl], None] | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """Scene with a picture in each of ``sizes``. ``pictures`` False: only its words are kept, no SVG."""

    name: str
    snapshot: Callable[[], Snapshot] = values.trouble
    steps: tuple[Step, ...] = ()
    sizes: tuple[tuple[int, int], ...] = (SMALL, LARGE)
    ascii: bool = False
    pictures: bool = True
    banner: str = ""


def _pressed(*keys: str, see: tuple[str, ...]) -> Step:
    return Step(keys, see)


def _hang(control: SceneControl) -> None:
    control.hang.clear()
    control.change()


def _look_again(control: SceneControl) -> None:
    control.change()


TITLE = ("PROBLEMS",)
CLAIMS = _pressed("3", see=("Claims 4", "presence lock"))
PLAN = _pressed("a", see=("4 marked",)), _pressed("r", see=("requeue 2", "Esc Cancel"))

SCENES: tuple[Scene, ...] = (
    Scene("overview", steps=(Step(see=TITLE),)),
    Scene("problems", steps=(Step(see=TITLE), _pressed("exclamation_mark", see=("stale lock",)),)),
    Scene("calm", states.calm, (Step(see=("no problems detected",)),)),
    Scene("first-seconds", states.first_seconds, (Step(see=("Not judged yet",)),)),
    Scene("read-only", states.read_only, (Step(see=("read-only",)), _pressed("r", see=("sudo -u memex",)))),
    Scene("stale", steps=(Step(see=TITLE), Step(see=("STALE 40s", "does not answer"), act=_hang))),
    Scene("stale-list", steps=(_pressed("2", see=("New 4,310", "0640")), Step(see=("STALE 40s",), act=_hang))),
    Scene("demo", states.demo, (Step(see=("DEMO",)),), banner=BANNER),
    Scene("disk-full", states.disk_full, (Step(see=("disk full",)),)),
    Scene("network", states.network, (Step(see=("every 5s",)),)),
    Scene("mail", states.mail, (Step(see=("READ-ONLY", "mail folder")),)),
    Scene("new", steps=(_pressed("2", see=("New 4,310", "0640")),)),
    Scene("claims", steps=(CLAIMS, Step(see=("presence lock is free",)))),
    Scene("tmp", steps=(_pressed("4", see=("Tmp 4", "0640")),)),
    Scene("cursors", steps=(_pressed("5", see=("REVERTED",)),)),
    Scene("cursor", steps=(_pressed("5", see=("REVERTED",)), _pressed("enter", see=("What stops it",)))),
    Scene("locks", steps=(_pressed("6", see=("leader.lock",)),)),
    Scene("aside", steps=(_pressed("7", see=("trash 12", "0640")),)),
    Scene("message", steps=(CLAIMS, Step(see=("lock is free",)), _pressed("enter", see=("see you at 7?",)))),
    Scene("inject", steps=(Step(see=TITLE), _pressed("i", see=("Inject test messages",)))),
    Scene("operations", steps=(Step(see=TITLE), _pressed("z", see=("c41d0a7e92",)))),
    Scene("operation", steps=(Step(see=TITLE), _pressed("z", see=("c41d0a7e92",)), _pressed("enter", see=("can be undone",)))),
    Scene("who", steps=(CLAIMS, _pressed("x", see=("root sees them",)))),
    Scene("follow", steps=(_pressed("2", see=("New 4,310", "0640")), _pressed("F", see=("done after",)))),
    Scene("set-cursor", steps=(_pressed("5", see=("REVERTED",)), _pressed(*"e89640", see=("a number",)))),
    Scene("plan", steps=(CLAIMS, *PLAN)),
    Scene("result", steps=(CLAIMS, *PLAN, _pressed("y", see=("Requeued 2",)), Step(act=_look_again, see=("since then",)))),
    Scene("help", steps=(CLAIMS, _pressed("question_mark", see=("requeue: move claims",)))),
    Scene("palette", steps=(CLAIMS, _pressed("colon", see=("Enter run",)), _pressed("r", "e", see=(":re",)))),
    Scene("ascii", steps=(Step(see=TITLE),), sizes=(SMALL,), ascii=True),
    Scene("overview", steps=(Step(see=TITLE),), sizes=((80, 24), (60, 18), (40, 10)), pictures=False),
    Scene("claims", steps=(_pressed("3", see=("Claims 4",)),), sizes=((60, 18), (40, 10)), pictures=False),
)  # fmt: skip

