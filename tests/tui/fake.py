"""A control without a spool: the methods of ``spooltop.control.Control`` on lists that a test sets."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from spooltop.backends.row_listing import RowListing
from spooltop.cursors.model import Cursor
from spooltop.errors import Refused, Unreadable
from spooltop.model.backend import Capabilities, KeptView, ListProgress, ListQuery
from spooltop.model.plan import (
    EVERY,
    AuditTrail,
    Confirm,
    Item,
    ItemResult,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Refusal,
    Result,
    RowItem,
    Selection,
    TrackedMessage,
)
from spooltop.model.snapshot import (
    BoxState,
    ConsumerList,
    ConsumerRow,
    Disk,
    Observation,
    Pause,
    Problem,
    Rates,
    Severity,
    Snapshot,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Holders, Json, Key, Lock, LockHolder, Owner, Payload, Row, Verdict
from spooltop.monitor.spools_watch import Glance
from tests.clock import NOW

GOES = {
    Action.REQUEUE: Box.NEW, Action.RELEASE: Box.NEW, Action.RESTORE: Box.NEW, Action.HOLD: Box.HELD, Action.PURGE: Box.TRASH,
}  # fmt: skip
NO_MESSAGES = (Action.INJECT, Action.UNDO, Action.SET_CURSOR, Action.UNLOCK, Action.PAUSE, Action.RESUME)


def claim(number: int, verdict: Verdict = Verdict.DEAD, **changes: object) -> Row:
    row = Row(
        key=("cur", number), box=Box.CUR, id=f"17952228{number:08d}.{4000 + number}.vm",
        name=f"17952228{number:08d}.{4000 + number}.vm,c=1",
        size=1200, enqueued_at=NOW - 3000 - number, in_box_since=NOW - 2460 - number, source="imessage", attempt=1,
        verdict=verdict, evidence="exited" if verdict is Verdict.DEAD else "running",
        owner=Owner(host="vm", pid=4300 + number, command="worker.py"),
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def waiting(number: int, **changes: object) -> Row:
    row = Row(
        key=("new", number), box=Box.NEW, id=f"17952229{number:08d}.1.vm", name=f"17952229{number:08d}.1.vm", size=100,
        enqueued_at=NOW - 600 + number * 0.01, in_box_since=NOW - 600 + number * 0.01, source="email", attempt=0,
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def written(number: int, verdict: Verdict = Verdict.ABANDONED) -> Row:
    return Row(
        key=("tmp", number), box=Box.TMP, id=f"tmp{number}", name=f"tmp{number}", size=4100, enqueued_at=NOW - 720,
        in_box_since=NOW - 720, written_at=NOW - 720, verdict=verdict, evidence="nobody has it open",
    )  # fmt: skip


def confirmation(count: int) -> Confirm:
    """What a plan of so many items asks for."""
    large = Confirm.LARGE if count >= 10 else Confirm.SMALL
    return Confirm.NOTHING if count == 0 else Confirm.NUMBER if count >= 100 else large


class FakeControl:
    """``rows`` is the spool. ``change()`` reports a change; ``hang`` makes looks wait (``entered`` is set when one begins),
    ``gate`` makes plans wait."""

    layout = "spool"
    who_has = "who has"

    def __init__(
        self, rows: Sequence[Row] = (), *, target: str = "/var/spool/memex", capabilities: Capabilities | None = None
    ) -> None:
        self.target = target
        self.rows = list(rows)
        self.problems: tuple[Problem, ...] | None = None
        self.cursors: tuple[Cursor, ...] = ()
        self.locks: tuple[Lock, ...] = ()
        self.capabilities = capabilities or Capabilities()
        self.time = NOW
        self.generation = 1
        self.looks = 0
        self.rescans = 0
        self.applied: list[Plan] = []
        self.planned: list[tuple[Action, Selection, bool, Mapping[str, Json]]] = []
        self.records: list[OperationRecord] = []
        self.trails: dict[str, AuditTrail] = {}
        self.payloads: dict[Key, bytes] = {}
        self.saved: dict[str, bytes] = {}
        self.errors: dict[Box, str] = {}
        self.whereabouts: dict[str, TrackedMessage] = {}
        self.holding: Holders | Exception = Holders("", ())
        self.asked: list[Key] = []
        self.muted: dict[str, float] = {}
        self.kept = KeptView()
        self.keeps = 0
        self.poison = 0
        self.retention: float | None = None
        self.paused: Pause | None = None
        self.follows: list[tuple[tuple[str, ...], float]] = []
        self.confirm: Confirm | None = None
        self.broken: Exception | None = None
        self.entered = threading.Event()
        self.hang = threading.Event()
        self.hang.set()
        self.closed = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.judged = 0
        """Number of claims that are judged before a plan waits for the gate."""
        self.at_once = threading.Event()
        """While it is not set, a listing does not end: every second matching row is found."""
        self.at_once.set()
        self.given_up = 0
        """Number of plans that were cancelled before they were made."""
        self._changed = threading.Event()
        self.lock = threading.Lock()

    def now(self) -> float:
        return self.time

    def change(self) -> None:
        self.generation += 1
        self._changed.set()

    def of(self, box: Box) -> list[Row]:
        return [row for row in self.rows if row.box is box]

    def look(self, rescan: bool = False) -> Snapshot:
        self.entered.set()
        self.hang.wait()
        if self.broken is not None:
            raise self.broken
        self.looks += 1
        self.rescans += rescan
        verdicts = [row.verdict for row in self.rows]
        dead = [row for row in self.of(Box.CUR) if row.verdict is Verdict.DEAD]
        problems = self.problems
        if problems is None:
            problems = ()
            if dead:
                selection = Selection(box=Box.CUR, verdict=Verdict.DEAD)
                problems = (
                    Problem("claims-dead", Severity.CRITICAL, f"{len(dead)} claims of dead consumers", len(dead), selection),
                )
        boxes = {}
        for box in (*LIVE, *ASIDE):
            rows = self.of(box)
            times = [row.in_box_since for row in rows if row.in_box_since is not None]
            boxes[box] = BoxState(box, len(rows), bytes=sum(row.size or 0 for row in rows), oldest_at=min(times, default=None),
                                  as_of=self.time)  # fmt: skip
            if box is Box.TRASH and self.retention is not None:
                over = sum(row.expired(self.time) for row in rows)
                boxes[box] = replace(boxes[box], retention=self.retention, expired=over)
            if box in self.errors:
                boxes[box] = BoxState(box, None, complete=False, error=self.errors[box], as_of=self.time)
        observation = Observation(
            target=self.target, layout=self.layout, taken_at=self.time, complete=True, boxes=boxes,
            claims=tuple(self.of(Box.CUR)), tmp=tuple(self.of(Box.TMP)),
            counts=VerdictCounts(
                alive=verdicts.count(Verdict.ALIVE), dead=len(dead), writing=verdicts.count(Verdict.WRITING),
                abandoned=verdicts.count(Verdict.ABANDONED),
            ),
            disk=Disk("ext4", 12_100_000_000, 30_000_000_000, 880, 1000), locks=self.locks, consumers=1,
            paused=self.paused,
            who=Viewer("memex", 1000, "read-write" if self.capabilities.change else "read-only"), capabilities=self.capabilities,
            watch=Watch("live", since=self.time - 312), generation=self.generation,
        )  # fmt: skip
        stale = {lock.path: "lock-stale" for lock in self.locks if lock.verdict == "stale"}
        return Snapshot(observation, Rates(), self.cursors, problems, muted=dict(self.muted), lock_problems=stale)

    def changes(self, timeout: float) -> bool:
        changed = self._changed.wait(timeout)
        self._changed.clear()
        return changed

    def wake(self) -> None:
        self._changed.set()

    def listing(
        self, wanted: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> RowListing:
        boxed = self.of(wanted.box)
        listing = RowListing(wanted, boxed, now=self.time, complete=True, generation=self.generation)
        rows = listing.window(0, len(boxed))
        while not self.at_once.wait(0.01) and progress is not None and not cancelled():
            if progress.due():
                found = rows[1::2] if wanted.filter else []
                progress.advanced(0.45, found, len(found))
        return listing

    def chosen(self, selection: Selection) -> list[Row]:
        return list(filter(selection.matcher(self.time), self.rows))

    def read(self, key: Key, limit: int = 65536) -> Payload:
        if not any(row.key == key for row in self.rows):
            raise Unreadable("it is gone")
        data = self.payloads.get(key, b'{"source": "imessage"}\n')
        return Payload(data[:limit], len(data), len(data) > limit, (("owner", "pid 4312 of this host has exited"),))

    def save(self, key: Key, path: str) -> tuple[str, int]:
        if path in self.saved:
            raise Refused("exists already", path=path, advice="give another name")
        self.saved[path] = self.read(key, 1 << 30).data
        return f"/home/ann/{path}", len(self.saved[path])

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        self.follows.append((tuple(ids), since))
        return {id: self.whereabouts.get(id, TrackedMessage(id, self._box_of(id))) for id in ids}

    def consumers(self) -> ConsumerList:
        held: dict[tuple[object, ...], list[Row]] = {}
        for row in self.of(Box.CUR):
            token = re.search("c=([0-9a-f]{32})", row.name)
            held.setdefault((row.owner, row.verdict, token and token[1]), []).append(row)
        consumers = [
            ConsumerRow(
                rows[0].verdict or Verdict.UNKNOWN, rows[0].evidence, rows[0].owner or Owner(), token, claims=len(rows),
                claimed_at=rows[0].in_box_since, last_claim_at=rows[-1].in_box_since, ids=tuple(row.id for row in rows),
            )
            for (_, _, token), rows in held.items()
        ]  # fmt: skip
        return ConsumerList(tuple(consumers), self.time)

    def holders(self, key: Key) -> Holders:
        self.asked.append(key)
        if isinstance(self.holding, Exception):
            raise self.holding
        return self.holding

    def mute(self, source: str, seconds: float) -> float:
        self.muted[source] = self.time + seconds
        self.change()
        return self.muted[source]

    def unmute(self, source: str) -> bool:
        was = self.muted.pop(source, None) is not None
        self.change()
        return was

    def kept_view(self) -> KeptView:
        return self.kept

    def keep_view(self, kept: KeptView) -> bool:
        self.kept = kept
        self.keeps += 1
        return True

    def _box_of(self, id: str) -> Box | None:
        return next((row.box for row in self.rows if row.id == id), None)

    def current_step(self) -> str:
        return "readdir of new"

    def plan(
        self, action: Action, selection: Selection, *, force: bool = False, options: Mapping[str, Json] | None = None,
        on_progress: Callable[[str], object] | None = None, on_first: Callable[[Sequence[Item]], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Plan:  # fmt: skip
        progress = Progress(stop, on_progress, on_first)
        progress.begin("claims judged", 3 * EVERY)
        for _ in range(self.judged):
            progress.advance(1)
        progress.found([RowItem(row, row.key) for row in self.rows])
        while not self.gate.wait(0.01):
            self.given_up += progress.stopped()
            progress.check()
        self.planned.append((action, selection, force, dict(options or {})))
        if reason := self.capabilities.why_not(action):
            raise Refused(f"{action}: {reason}")
        chosen = dict(options or {})
        rows = [] if action in NO_MESSAGES else self.chosen(selection)
        live = [row for row in rows if row.verdict is Verdict.ALIVE and not force]
        items = [RowItem(row, row.key) for row in rows if row not in live]
        if action is Action.UNDO:
            items = [RowItem(claim(99), ("cur", 99))]
        if action is Action.INJECT:
            items = [RowItem(waiting(700 + n), ("new", 700 + n)) for n in range(int(str(chosen.get("count", 0))))]
        if action is Action.UNLOCK:
            named = [(str(key), Row(key=key, box=Box.CUR, id=str(key), name=str(key))) for key in selection.keys or ()]
            items = [RowItem(row, path, words=f"soft lock {path} of pid 77") for path, row in named]
        if action in (Action.PAUSE, Action.RESUME):
            items = [RowItem(Row(key="/", box=Box.CUR, id="/", name="paused"), "/", words="Consumers claim no message")]
        if action is Action.SET_CURSOR:
            source, value = str(chosen["source"]), chosen["value"]
            row = Row(key=source, box=Box.NEW, id=source, name=str(chosen["file"]))
            items = [RowItem(row, source, words=f"{source}: {value} in {chosen['file']}", value=value)]
        confirm = Confirm.NUMBER if force or action is Action.EMPTY else confirmation(len(items))
        return Plan(
            operation=f"op{len(self.planned)}", action=action, target=self.target, made_at=self.time, selection=selection,
            items=items, refused=tuple(Refusal(row, "its holder is running", forceable=True) for row in live),
            confirm=self.confirm or confirm, force=force, options=chosen, poison=self.poison,
            command=("spooltop", str(action), self.target, *(item.row.id for item in items)),
        )  # fmt: skip

    def with_rate(self, plan: Plan, rate: float | None) -> Plan:
        self.gate.wait()
        options = {name: value for name, value in plan.options.items() if name != "rate"}
        slowly = () if rate is None else ("--rate", f"{rate:g}")
        return replace(
            plan, options=options if rate is None else {**options, "rate": rate}, command=(*plan.command[:3], *slowly)
        )

    def apply(
        self, plan: Plan, on_progress: Callable[[int], None] | None = None, stop: Callable[[], bool] | None = None
    ) -> Result:
        self.applied.append(plan)
        done: list[ItemResult] = []
        stopped = False
        for item in plan.items:
            if stop is not None and stop():
                stopped = True
                break
            self.rows = [row for row in self.rows if row.key != item.row.key]
            if (box := GOES.get(plan.action)) is not None:
                self.rows.append(replace(item.row, key=(box.value, item.row.id), box=box, verdict=None, owner=None))
            done.append(ItemResult(item.row.id, item.row.name, Outcome.DONE))
            if on_progress is not None:
                on_progress(len(done))
            self.gate.wait()
        self.change()
        undo = ("spooltop", "undo", self.target, plan.operation) if done else ()
        record = OperationRecord(plan.operation, plan.action, self.time, "memex", plan.count, len(done), words=str(plan.action))
        self.records.insert(0, record)
        return Result(
            plan.operation, plan.action, self.target, self.time, done, stopped, len(plan.items) - len(done), undo=undo
        )

    def operations(
        self, stop: Callable[[], bool] | None = None, *, begins: str = "", most: int | None = None
    ) -> list[OperationRecord]:
        return [record for record in self.records if record.operation.startswith(begins)][:most]

    def audit(self, operation: str) -> AuditTrail:
        return self.trails.get(operation, AuditTrail())

    def close(self) -> None:
        self.hang.set()
        self.closed.set()


def a_cursor(source: str = "imessage", verdict: str = "reverted") -> Cursor:
    return Cursor(source, 89632, "89632", verdict, "reverted 5 times", "/opt/memex/cursors.json", True, NOW - 9, reverts_recent=5)


def a_lock() -> Lock:
    return Lock("/var/spool/memex/.cursors.lock", "flock", (LockHolder(5201, "worker.py", "memex", NOW - 3),), (), "held")


class FakeSpools:
    """A watch over several fake controls, by target. ``change()`` reports new glances; ``gate`` makes an opening wait."""

    def __init__(self, controls: Mapping[str, FakeControl], more: Sequence[Glance] = ()) -> None:
        self.controls = dict(controls)
        self.more = list(more)
        self.opened: list[str] = []
        self.calmed: list[bool] = []
        self.looked_again = 0
        self.gate = threading.Event()
        self.gate.set()
        self._wake: Callable[[], object] = lambda: None

    def now(self) -> float:
        return NOW

    def count(self) -> None:
        return

    def start(self) -> None:
        return

    def wake_with(self, wake: Callable[[], object]) -> None:
        self._wake = wake

    def change(self) -> None:
        self._wake()

    def glances(self) -> Sequence[Glance]:
        return [*(Glance(target, snapshot=control.look()) for target, control in self.controls.items()), *self.more]

    def look_again(self) -> None:
        self.looked_again += 1

    def calm(self, calm: bool) -> None:
        self.calmed.append(calm)

    def open(self, target: str) -> FakeControl:
        self.opened.append(target)
        self.gate.wait()
        if target not in self.controls:
            raise Unreadable("permission denied", path=target)
        return self.controls[target]
