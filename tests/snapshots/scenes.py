"""The scenes that are drawn: what the spool is, which keys are pressed, what must stand there then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from spooltop.model.plan import Plan, Refusal, Result, RowItem, Selection, TrackedMessage
from spooltop.model.snapshot import ConsumerList, Snapshot
from spooltop.model.vocabulary import Action, Box, Holders, Holding, Key, Payload, Row

from ..tui.fake import FakeControl
from . import asked, states, values
from .other_programs import SeenQueue, jobs, mail
from .streams import stream

__all__ = ["LARGE", "SCENES", "SMALL", "Clock", "Scene", "SceneControl", "Step"]

Size = tuple[int, int]
SMALL, MIDDLE, LARGE = (80, 23), (120, 30), (160, 50)
TINY = (60, 18), (40, 10)


@dataclass(slots=True)
class Clock:
    """Seconds since start, as the looker measures how long a look takes; a scene can let more of them go by."""

    skipped: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped


class SceneControl(FakeControl):
    """A control whose every look gives the same picture: that of ``snapshot``, or of the queue of another program."""

    def __init__(self, snapshot: Snapshot, clock: Clock, queue: SeenQueue | None = None) -> None:
        rows = [row for box in values.rows(snapshot).values() for row in box] if queue is None else [*queue.rows]
        super().__init__(rows, target=snapshot.observation.target, capabilities=snapshot.observation.capabilities)
        self.layout = snapshot.observation.layout
        self.time = values.NOW if queue is None else queue.at
        self.queue = queue
        self.records = asked.operations()
        self.snapshot = snapshot
        self.clock = clock

    def look(self, rescan: bool = False) -> Snapshot:
        if not self.hang.is_set():
            self.clock.skipped += 41
        self.hang.wait()
        return self.snapshot

    def read(self, key: Key, limit: int = 65536) -> Payload:
        if self.queue is not None:
            return self.queue.payloads[key]
        return asked.payload(next(row for row in self.rows if row.key == key))

    def plan(self, action: Action, selection: Selection, **more: Any) -> Plan:
        plan = super().plan(action, selection, **more)
        if self.queue is not None:
            return self.queue.planned(plan)
        items = [
            RowItem(item.row, item.ref, "4 consumers died while processing it" if (item.row.attempt or 0) >= 4 else "")
            for item in plan.items
        ]
        idle = " · no CPU for 5m"

        def holder(row: Row) -> str:
            assert row.owner is not None
            return f"{row.owner.pid} worker.py"

        refused = [
            Refusal(one.row, f"{holder(one.row)}: running{idle if idle in one.row.evidence else ''}", True)
            for one in plan.refused
        ]
        notes = ("At work now: 2 consumers (5200, 5201), last claim 4s ago.",)
        warnings = Counter(item.warning for item in items if item.warning)
        return replace(
            plan, operation="c41d0a7e92", items=items, refused=refused, notes=notes, made_at=values.NOW + 6, warnings=warnings
        )

    def apply(self, plan: Plan, *args: Any, **more: Any) -> Result:
        result = super().apply(plan, *args, **more)
        self.time = values.NOW + 22
        return replace(result, finished_at=values.NOW + 10, notes=("in the audit log as memex",))

    def holders(self, key: Key) -> Holders:
        """The holder's presence file and somebody who reads."""
        presence = Holding(5200, "python3 /opt/memex/worker.py", "memex", "flock, holds", values.NOW - 3300, "its presence file")
        reading = Holding(6120, "less", "ann", "open for reading")
        return Holders("cur/x", (presence, reading), False, ("the files of 2 processes of root cannot be seen; root sees them",))

    def consumers(self) -> ConsumerList:
        shown = None if self.queue is None else self.queue.consumers
        return values.consumers() if shown is None else shown

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
    """Scene. Its words are kept in each of ``sizes``, a picture in each of ``pictured``, and a small light one if ``light``."""

    name: str
    snapshot: Callable[[], Snapshot] = values.trouble
    steps: tuple[Step, ...] = ()
    sizes: tuple[Size, ...] = (SMALL, LARGE)
    pictured: tuple[Size, ...] = (SMALL, LARGE)
    light: bool = False
    ascii: bool = False
    banner: str = ""
    several: bool = False
    """The Spools view on the targets of ``several``, in place of one."""
    queue: Callable[[], SeenQueue] | None = None
    """The queue of another program, or a stream, in place of ``snapshot``."""


def _pressed(*keys: str, see: tuple[str, ...]) -> Step:
    return Step(keys, see)


def _hang(control: SceneControl) -> None:
    control.hang.clear()
    control.change()


def _look_again(control: SceneControl) -> None:
    control.change()


BANNER = " DEMO, deleted on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
TITLE = ("PROBLEMS",)
NEW = _pressed("2", see=("New 4,310", "0640"))
CLAIMS = _pressed("3", see=("Claims 4", "presence lock"))
READ = Step(see=("presence lock is free",))
CURSORS = _pressed("5", see=("REVERTED",))
OPERATIONS = _pressed("z", see=("c41d0a7e92",))
STREAM_PLAN = _pressed("a", see=("6 marked",)), _pressed("r", see=("requeue 4", "~spooltop"))
PLAN = _pressed("a", see=("4 marked",)), _pressed("r", see=("requeue 2", "Esc Cancel"))


def _words(name: str, *steps: Step, **more: Any) -> Scene:
    """Scene of which only the words are kept, on a small screen."""
    return Scene(name, steps=steps, sizes=(SMALL,), pictured=(), **more)


SCENES: tuple[Scene, ...] = (
    Scene("overview", steps=(Step(see=TITLE),), sizes=(SMALL, LARGE, MIDDLE, (80, 24), *TINY), light=True),
    Scene("new", steps=(NEW,), sizes=(SMALL, LARGE, MIDDLE)),
    Scene("claims", steps=(CLAIMS, READ), sizes=(SMALL, LARGE, MIDDLE, *TINY), light=True),
    Scene("tmp", steps=(_pressed("4", see=("Tmp 4", "0640")),), sizes=(SMALL, LARGE, MIDDLE)),
    Scene("cursors", steps=(CURSORS,), sizes=(SMALL, LARGE, MIDDLE)),
    Scene("locks", steps=(_pressed("6", see=("leader.lock",)),), sizes=(SMALL, LARGE, MIDDLE)),
    Scene("aside", steps=(_pressed("7", see=("trash 12", "0640")),), sizes=(SMALL, LARGE, MIDDLE)),
    Scene("consumers", steps=(_pressed("8", see=("Consumers 6", "4312 worker.py")),), sizes=(SMALL, LARGE, *TINY)),
    Scene("operations", steps=(Step(see=TITLE), OPERATIONS)),
    Scene("cursor", steps=(CURSORS, _pressed("enter", see=("To stop it",)))),
    Scene("plan", steps=(CLAIMS, *PLAN), light=True),
    Scene("result", steps=(CLAIMS, *PLAN, _pressed("y", see=("Requeued 2",)), Step(act=_look_again, see=("since then",)))),
    Scene("help", steps=(CLAIMS, _pressed("question_mark", see=("requeue: move claims",)))),
    Scene("demo", states.demo, (Step(see=("DEMO",)),), banner=BANNER),
    _words("problems", Step(see=TITLE), _pressed("exclamation_mark", see=("stale lock",))),
    _words("calm", Step(see=("no problems detected",)), snapshot=states.calm),
    _words("first-seconds", Step(see=("Not judged yet",)), snapshot=states.first_seconds),
    _words("read-only", Step(see=("read-only",)), _pressed("r", see=("sudo -u memex",)), snapshot=states.read_only),
    _words("disk-full", Step(see=("disk full",)), snapshot=states.disk_full),
    _words("network", Step(see=("every 5s",)), snapshot=states.network),
    _words("mail", Step(see=("READ-ONLY", "mail folder")), snapshot=states.mail),
    _words("stale", Step(see=TITLE), Step(see=("STALE 40s", "does not answer"), act=_hang)),
    _words("stale-list", NEW, Step(see=("STALE 40s",), act=_hang)),
    _words("message", CLAIMS, READ, _pressed("enter", see=("see you at 7?",))),
    _words("inject", Step(see=TITLE), _pressed("i", see=("Inject test messages",))),
    _words("operation", Step(see=TITLE), OPERATIONS, _pressed("enter", see=("can be undone",))),
    _words("who", CLAIMS, _pressed("x", see=("root sees them",))),
    _words("follow", NEW, _pressed("F", see=("done after",))),
    _words("set-cursor", CURSORS, _pressed(*"e89640", see=("an integer",))),
    _words("palette", CLAIMS, _pressed("colon", see=("Enter run",)), _pressed("r", "e", see=(":re",))),
    Scene("spools", steps=(Step(see=("7 spools", "5 with problems")),), sizes=(SMALL, LARGE, *TINY), several=True),
    Scene("spools-ascii", steps=(Step(see=("7 spools",)),), sizes=(SMALL,), pictured=(), ascii=True, several=True),
    Scene("job-queue", steps=(Step(see=("claim of a dead consumer", "gone-1")),), queue=jobs),
    Scene("job-queue-claims", steps=(_pressed("3", see=("no process watches", "createdAt")),), queue=jobs),
    Scene("postfix", steps=(Step(see=("READ-ONLY", "PROBLEMS")),), queue=mail),
    Scene("postfix-new", steps=(_pressed("2", see=("letter.example", "the other side")), _pressed("d", see=("postsuper -d",))),
          queue=mail),
    Scene("stream", steps=(Step(see=("last consumer died", "last delivered")),), queue=stream),
    Scene("stream-claims", steps=(_pressed("3", see=("its lease ended", "no lease", "rowid")),), queue=stream),
    Scene("stream-plan", steps=(_pressed("3", see=("its lease ended",)), *STREAM_PLAN), queue=stream),
    _words("stream-cursors", _pressed("5", see=("Cursors › workers", "2 groups")), queue=stream),
    _words("stream-consumers", _pressed("8", see=("Consumers 5", "for a message")), queue=stream),
    Scene("ascii", steps=(Step(see=TITLE),), sizes=(SMALL, MIDDLE), pictured=(), ascii=True),
)
