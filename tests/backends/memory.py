"""A queue in memory as a backend, ``memory://NAME``: all that a further kind has to bring, in under 100 lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spooltop.backends.row_listing import RowListing
from spooltop.errors import NotASpool, Unreadable
from spooltop.model import backend as b
from spooltop.model import capabilities, protocols, queue, row, target
from spooltop.model.look import capacity, consumers, observation
from spooltop.model.operations import plan, tracked
from spooltop.model.operations.audit import AuditLog
from spooltop.model.vocabulary import Action, Box, Owner, Verdict
from spooltop.records import replace

from .memory_queue import MemoryQueue

__all__ = ["BOXES", "Memory", "MemoryBackend"]

GOES = {Action.REQUEUE: Box.NEW, Action.PURGE: Box.TRASH, Action.HOLD: Box.HELD, Action.RELEASE: Box.NEW, Action.RESTORE: Box.NEW}
CAN = capabilities.Capabilities({one: "not with a queue in memory" for one in Action if one not in (*GOES, Action.UNDO)})
LISTED = 500
BOXES = (Box.NEW, Box.CUR, Box.HELD, Box.REJECTED, Box.TRASH)


class Memory(MemoryQueue):
    """Reader and operator of one queue."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.log, self.lines, self.since = list[Any](), list[bytes](), self.clock()

    def see(self, *, rescan: bool = False) -> observation.Observation:
        claims, found = tuple(self.judged(Box.CUR)), {box: self.judged(box) for box in BOXES}
        states = {box: observation.BoxState(box, len(of), oldest_at=min((one.in_box_since or 0 for one in of), default=None), as_of=self.clock()) for box, of in found.items()}  # fmt: skip  # noqa: E501
        dead = sum(one.verdict is Verdict.DEAD for one in claims)
        return observation.Observation(
            self.name, "memory", self.clock(), True, states, claims, counts=observation.VerdictCounts(len(claims) - dead, dead),
            resources=(capacity.Capacity("memory", 1 << 30, 4 << 30),), consumers=len(claims) - dead,
            who=observation.Viewer("tester", os.geteuid()), capabilities=CAN, generation=self.generation,
            absent={"tmp": "a message is in memory at once", "cursors": "no cursors here", "locks": "no locks here"},
            watch=observation.Watch("scan", "memory", 1.0, self.since),
        )  # fmt: skip

    def listing(self, query: protocols.ListQuery, cancelled: object = None, progress: object = None) -> RowListing:
        found = self.judged(query.box)
        some = LISTED if len(found) > LISTED else None
        how = {"now": self.clock(), "complete": some is None, "generation": self.generation, "ordered_over": some}
        return RowListing(query, found[:some], **how)  # type: ignore[arg-type]

    def read(self, key: Any, limit: int) -> row.Payload:
        if (data := self.data.get(key[1])) is None:
            raise Unreadable("gone", path=key[1])
        return row.Payload(data[:limit], len(data), len(data) > limit)

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, Any]:
        return {id: tracked.TrackedMessage(id, None if (one := self.rows.get(id)) is None else one.box) for id in ids}

    def consumers(self) -> consumers.ConsumerList:
        held: dict[Owner, list[row.Row]] = {}
        for one in self.judged(Box.CUR):
            held.setdefault(one.owner or Owner(), []).append(one)
        make = consumers.ConsumerRow
        rows = [make(of[0].verdict or Verdict.UNKNOWN, of[0].evidence, who, claims=len(of)) for who, of in held.items()]
        return consumers.ConsumerList(tuple(rows), self.clock())

    def holders(self, key: object) -> Any:
        raise Unreadable("consumers of a queue in memory are threads of its process")

    def current_step(self) -> str:
        return "looking"

    def changes(self, timeout: float) -> bool:
        changed = self.wait(timeout)
        self.clear()
        return changed

    def why_not(self, action: Action) -> str | None:
        return CAN.why_not(action)

    def candidates(self, action: Action, selection: Any, *, options: Any, now: float, **rest: Any) -> plan.Candidates:
        if action is Action.UNDO:
            done = next(moved for record, moved in self.log if record.operation == options["undoes"])
            pairs = [(self.rows[after.id], before) for before, after in done if self.rows.get(after.id) == after]
            return plan.Candidates([plan.Item(one, before) for one, before in pairs])
        found = [one for box in BOXES for one in self.judged(box) if selection.matches(one, now)]
        alive = [one for one in found if one.verdict is Verdict.ALIVE and not rest["force"]]
        items = [plan.Item(one, self.rows[one.id]) for one in found if one not in alive]
        return plan.Candidates(items, [plan.Refusal(one, "its consumer is connected", True) for one in alive])

    def perform(self, of: plan.Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[plan.ItemResult]]:
        moved, results = [], []
        for item in of.items:
            before, pinned = self.rows.get(item.id), item.row.judged(None, "", item.row.owner)
            if before is None or before.box is not pinned.box or before.in_box_since != pinned.in_box_since:
                results.append(plan.ItemResult(item.id, item.name, plan.Outcome.SKIPPED, "it changed since"))
                continue
            self.move(before, item.ref.box if of.action is Action.UNDO else GOES[of.action], owner=None)
            moved.append((before, self.rows[item.id]))
            results.append(plan.ItemResult(item.id, item.name, plan.Outcome.DONE))
        record = plan.OperationRecord(of.operation, of.action, self.clock(), "tester", of.count, len(moved))
        self.log = [(replace(one, undone_by=of.operation) if one.operation == of.undoes else one, what) for one, what in self.log]
        self.log.insert(0, (record, moved))
        yield results

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        self.lines.append(line.rstrip())

    def audit_logs(self, operation: str) -> list[AuditLog]:
        return [AuditLog([line for line in self.lines if operation.encode() in line], False, 0, True)]

    def operations(self, progress: object, *, begins: str = "", most: int | None = None) -> list[plan.OperationRecord]:
        return [record for record, _ in self.log if record.operation.startswith(begins)][:most]


class MemoryBackend:
    name = "memory"

    def __init__(self, *queues: Memory) -> None:
        self.queues = {one.name: one for one in queues}

    def identify(self, spec: str, asked: b.OpenAs) -> target.Target | None:
        if not spec.startswith("memory://"):
            return None
        if spec not in self.queues:
            raise NotASpool("no queue of this name in memory", path=spec, advice="put something into it")
        return target.Target("memory", spec, spec, self.queues[spec], labels=target.Labels("who is connected for"))

    def open(self, found: target.Target, settings: b.OpenSettings) -> b.OpenedTarget:
        return b.OpenedTarget(found.where, lambda: b.OpenedOperator(found.where, keeps_trash=True))  # type: ignore[arg-type]

    def queue(self, found: target.Target, options: queue.QueueOptions) -> queue.Queue:
        return found.where  # type: ignore[return-value]
