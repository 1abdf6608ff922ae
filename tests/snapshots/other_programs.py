"""Queues of other programs in the pictures, as a look at two stored ones tells of them where none of their workers runs."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from spooltop.model.backend import Capabilities
from spooltop.model.plan import Plan, Selection
from spooltop.model.snapshot import (
    AGE_BOUNDS,
    Ages,
    BoxState,
    ConsumerList,
    Disk,
    Observation,
    Problem,
    RateHistory,
    Rates,
    Severity,
    Snapshot,
    SourceAges,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import Action, Box, Key, Lock, Owner, Payload, Row, Verdict

from ..programs.stored import unpacked

__all__ = ["SeenQueue", "jobs", "mail"]

CELLS = 20
JOBS_AT, MAIL_AT = 1_795_407_645.0334103, 1_795_404_790.0
"""Times of the looks."""
HELD = 745.0
"""Seconds for which all that does not wait lies where it lies."""


@dataclass(frozen=True)
class SeenQueue:
    """What a scene shows: the snapshot, the rows of all boxes, what each message is, and who works there."""

    snapshot: Snapshot
    rows: tuple[Row, ...]
    payloads: dict[Key, Payload]
    consumers: ConsumerList | None = None
    """None: those of the spool of ``values``."""

    @property
    def at(self) -> float:
        return self.snapshot.observation.taken_at

    def planned(self, plan: Plan) -> Plan:
        """The plan with what the queue would say of its items."""
        return plan


def row(box: Box, name: str, size: int, put: float | None, **more: object) -> Row:
    """A message in the file ``name``, whose id is the last part of it."""
    plain = Row(
        key=(box.value, name), box=box, id=name.rpartition("/")[2], name=name, size=size, enqueued_at=put, in_box_since=put
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def seen(
    observation: Observation, rows: Iterable[Row], stored: str, *problems: Problem, extra: tuple[Box, ...] = ()
) -> SeenQueue:  # fmt: skip
    """The last of several looks that all found the same ``rows``. Their payloads are those of the stored queue. ``extra`` are
    boxes that not every program has."""
    at, rows = observation.taken_at, tuple(rows)
    boxes = {}
    for box in (Box.TMP, Box.NEW, Box.CUR, Box.HELD, Box.REJECTED, *extra):
        there = [row for row in rows if row.box is box]
        oldest = min((row.in_box_since or at for row in there), default=None)
        boxes[box] = BoxState(box, len(there), True, sum(row.size or 0 for row in there), oldest_at=oldest, as_of=at)
    waits = [row for row in rows if row.box is Box.NEW]
    sources = Counter(row.source for row in waits)
    ages = [SourceAges(source, count, (0, 0, 0, count, 0, 0)) for source, count in sources.items()]
    disk = Disk("ext4", 12_100_000_000, 30_000_000_000, 880, 1000)
    claims = tuple(row for row in rows if row.box is Box.CUR)
    ages.sort(key=lambda of_source: -of_source.total)
    observation = replace(
        observation, boxes=boxes, claims=claims, counts=VerdictCounts(dead=len(claims)), claims_all=True, disk=disk,
        ages=Ages(AGE_BOUNDS, (0, 0, 0, len(waits), 0, 0), tuple(ages), len(ages), len(waits), len(waits)), generation=1,
        watch=Watch("scan", period=2.0, since=at - 300),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        files, _ = unpacked(stored, Path(folder))
        data = {row.key: (files / row.name).read_bytes() for row in rows}
    payloads = {row.key: Payload(data[row.key], row.size or 0, False, (("file", row.name),)) for row in rows}
    snapshot = Snapshot(
        observation, Rates(new_per_s=0.0, slope_window=300.0), (), problems,
        history={box: (float(state.count or 0),) * CELLS for box, state in boxes.items()},
        rate_history=RateHistory(*[(None,) * CELLS] * 3), not_judged=("rates (need 60s)",),
        not_visible=("changes between two looks (2s apart)",),
    )  # fmt: skip
    return SeenQueue(snapshot, rows, payloads)


@cache
def jobs() -> SeenQueue:
    """A queue of job-queue: its only worker died, one job is there twice and one is lost."""
    put, evidence = 1_795_406_884.905, "no process watches queue/, so no worker runs; lease ended 11m ago"
    rows = (
        row(Box.NEW, "queue/000000000005-dup-1.msg", 82, put, id="dup-1"),
        row(Box.NEW, "queue/000000000002-dup-1.msg", 82, put, id="dup-1"),
        row(Box.NEW, "queue/000000000001-dup-1-before.msg", 82, put, id="dup-1-before"),
        row(Box.NEW, "queue/000000000006-cancelled-1.msg", 108, put, id="cancelled-1"),
        row(Box.NEW, "queue/000000000007-wait-1.msg", 103, put, id="wait-1"),
        row(Box.CUR, "processing/worker-1/slow-1.msg", 114, put - 1.345, id="slow-1", in_box_since=JOBS_AT - HELD, attempt=1,
            verdict=Verdict.DEAD, evidence=evidence, owner=Owner(command="worker-1")),
        row(Box.REJECTED, "errors/bad-1.error", 40, None, id="bad-1", in_box_since=JOBS_AT - HELD, reason="boom"),
    )  # fmt: skip
    lost = "gone-1: its state says processing, its message is nowhere, and its id is refused as a duplicate for ever"
    twice = "dup-1: twice in queue: two producers put it at once; the second claim replaces the first without a word"
    return seen(
        Observation(
            "/srv/mailer/jobs", "layout", JOBS_AT, True, {}, program="job-queue FileStorage",
            who=Viewer("ann", 1000, "read-write"), capabilities=Capabilities(boxes={Action.HOLD: (Box.NEW,)}),
            absent={"cursors": "job-queue FileStorage has no cursors"},
            locks=(Lock("/srv/mailer/jobs/cleanup-leader.lock", "lease", (), (), "free", "its lease has ended"),),
        ),
        rows, "job-queue",
        Problem("no-consumer", Severity.CRITICAL, "no claim for 5m while 5 wait", view="new"),
        Problem("claims-dead", Severity.CRITICAL, "1 claim of a dead consumer, held 12m", 1, Selection(box=Box.CUR)),
        Problem("new-old", Severity.WARNING, "the oldest of 5 in new waits 12m", selection=Selection(box=Box.NEW)),
        Problem("lost", Severity.WARNING, lost, 1, Selection(ids=("gone-1",))),
        Problem("conflict", Severity.WARNING, twice, 1, Selection(box=Box.NEW)), extra=(Box.TRASH,),
    )  # fmt: skip


@cache
def mail() -> SeenQueue:
    """A queue of Postfix, which alone may change it."""
    put, letter, slow = 1_795_404_029.65, "letter.example", "slow-letter.example"
    late = {"not_before": put + 299, "reason": "the other side is away"}
    nobody = "nobody locks pid/master.pid; nobody has it open"
    dead = {"in_box_since": MAIL_AT - HELD, "verdict": Verdict.DEAD, "evidence": nobody}
    rows = (
        row(Box.NEW, "deferred/A/A38AF41009E", 551, put, source=letter, attempt=None, **late),
        row(Box.NEW, "deferred/A/A53D34100A3", 551, put + 0.01, source=letter, attempt=None, **late),
        row(Box.NEW, "deferred/A/A92154100A4", 543, put + 0.03, source="shop.example", attempt=None, **late),
        row(Box.NEW, "incoming/BFB304100D7", 559, put + 0.13, source=slow, attempt=None),
        row(Box.NEW, "incoming/C343F410048", 559, put + 0.15, source=slow, attempt=None),
        row(Box.NEW, "maildrop/D69AD410047", 119, put + 0.23, source=letter, attempt=None),
        row(Box.CUR, "active/B83694100D5", 559, put + 0.1, source=slow, attempt=None, **dead),
        row(Box.CUR, "active/BC5DD4100D6", 559, put + 0.12, source=slow, attempt=None, **dead),
        row(Box.HELD, "hold/9D71341009F", 551, put, source=letter, attempt=None, in_box_since=MAIL_AT - HELD),
    )
    why, commands = "Postfix changes its own queue", {Action.PURGE: "postsuper -d {id}", Action.REQUEUE: "postqueue -i {id}"}
    return seen(
        Observation(
            "/var/spool/postfix", "layout", MAIL_AT, True, {}, program="Postfix queue", who=Viewer("ann", 1000, "READ-ONLY"),
            absent={"cursors": "Postfix queue has no cursors", "locks": "Postfix queue has no locks"},
            capabilities=Capabilities.nothing(why, commands),
        ),
        rows, "postfix",
        Problem("no-consumer", Severity.CRITICAL, "no claim for 5m while 6 wait", view="new"),
        Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers, longest 12m", 2, Selection(box=Box.CUR)),
        Problem("new-old", Severity.WARNING, "the oldest of 6 in new waits 12m", selection=Selection(box=Box.NEW)),
    )  # fmt: skip
