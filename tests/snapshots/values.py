"""A spool in trouble whose figures agree with each other (depth = rate × wait): what the pictures and the tests of the drawings
are made of, with the other ``states`` of it and what is ``asked`` of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from spooltop.cursors.model import Cursor, CursorSection, CursorSource, Poll, shown
from spooltop.model.plan import Selection
from spooltop.model.snapshot import (
    AGE_BOUNDS,
    Ages,
    BoxState,
    ConsumerList,
    ConsumerRate,
    ConsumerRow,
    Disk,
    Flow,
    Observation,
    Percentiles,
    Problem,
    RateHistory,
    Rates,
    Severity,
    Snapshot,
    SourceAges,
    Usage,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import Box, Json, Lock, LockHolder, Owner, Row, Verdict

NOW = 1_795_225_269.0
"""02:41:09 at one hour east of Greenwich."""
TZ = "CET-1"
"""Time zone of that hour as a value of ``TZ`` that needs no table of zones."""
ZONE = datetime.timezone(datetime.timedelta(hours=1))

TARGET = "/var/spool/memex"
CURSORS = "/opt/memex/cursors.json"
SOURCES = ("imessage", "signal", "email", "teams", "messenger")
WORKER = "python3 /opt/memex/worker.py"


def _id(at: float, micro: int, pid: int) -> str:
    return f"{int(at) * 1_000_000 + micro}.P{pid}R{(int(at) * 7919 + micro * 104_729) % 16**16:016x}.vm"


def claim(
    held: float = 2466.0, micro: int = 446_548, pid: int = 4312, verdict: Verdict = Verdict.DEAD, evidence: str = "exited", *,
    waited: float = 2.0, attempt: int | None = 1,
) -> Row:  # fmt: skip
    """Row in ``cur``, claimed ``held`` seconds ago after ``waited`` seconds in ``new``."""
    id = _id(NOW - held - waited, micro, 4290)
    return Row(
        key=("cur", id), box=Box.CUR, id=id, name=id, size=1200, enqueued_at=NOW - held - waited, in_box_since=NOW - held,
        source="imessage", attempt=attempt, verdict=verdict, evidence=evidence,
        owner=Owner("vm", pid, NOW - 9000, WORKER, "memex"),
    )  # fmt: skip


def claims() -> tuple[Row, ...]:
    return (
        claim(3307, 446_102, 5200, Verdict.ALIVE, "running · no CPU for 5m"),
        claim(2466, 446_548, 4312),
        claim(2465, 446_313, 4313, attempt=4),
        claim(0.1, 449_120, 5201, Verdict.ALIVE, "running", waited=424.0),
    )


@cache
def waiting(n: int = 4310, oldest: float = 424.0) -> tuple[Row, ...]:
    """Messages in ``new``, oldest first: as they arrived over ``oldest`` seconds, in the last 300 of 424 as fast as now."""
    rows = []
    slow = n * 740 // 4310
    for i in range(n):
        share = i / slow * 124 if i < slow else 124 + (i - slow) / (n - slow) * 300
        put = NOW - oldest * (1 - share / 424)
        id = _id(put, (i * 131_071) % 1_000_000, 4290)
        rows.append(Row(
            key=("new", id), box=Box.NEW, id=id, name=id, size=900 + i * 37 % 4200, enqueued_at=put, in_box_since=put,
            source=SOURCES[(0, 2, 1, 0, 2, 0, 1, 0, 2, 0)[i % 10]], attempt=0,
            not_before=NOW + 70 if i == 3 else None, canary=i == 5,
        ))  # fmt: skip
    return tuple(rows)


@cache
def ages(rows: tuple[Row, ...]) -> Ages:
    """Ages of these rows, all of which are examined."""

    def counts(some: list[Row]) -> tuple[int, ...]:
        edges = (float("-inf"), *AGE_BOUNDS, float("inf"))
        return tuple(sum(young <= (row.age(NOW) or 0.0) < old for row in some) for young, old in pairwise(edges))

    sources = sorted({row.source for row in rows}, key=lambda one: (-sum(row.source == one for row in rows), one or ""))
    each = {source: [row for row in rows if row.source == source] for source in sources}
    return Ages(
        AGE_BOUNDS, counts(list(rows)), tuple(SourceAges(source, len(some), counts(some)) for source, some in each.items()),
        len(each), len(rows), len(rows),
    )  # fmt: skip


def consumers() -> ConsumerList:
    """The holders of the claims, one that waits, and one that exited without a claim."""
    rates = {5200: ConsumerRate(0.0, 0.0), 5201: ConsumerRate(10.1, 0.2)}
    used = {5200: Usage(0.0, 41_300_000, False, WORKER), 5201: Usage(0.12, 38_000_000, False, f"{WORKER} --batch 1")}
    listed = []
    for row in claims():
        owner = row.owner or Owner()
        pid, user = owner.pid or 0, None if row.verdict is Verdict.DEAD else "memex"
        listed.append(ConsumerRow(
            row.verdict or Verdict.UNKNOWN, row.evidence, owner.replace(user=user), f"{pid:032x}", claims=1, ids=(row.id,),
            claimed_at=row.in_box_since, last_claim_at=row.in_box_since, rate=rates.get(pid, ConsumerRate()), usage=used.get(pid),
        ))  # fmt: skip
    waits = Owner("vm", 5202, NOW - 412, "python3 /opt/memex/index.py", "memex")
    exited = Owner("vm", 4100, NOW - 88_000, WORKER)
    listed.append(ConsumerRow(
        Verdict.ALIVE, "running", waits, f"{5202:032x}", last_claim_at=NOW - 95, rate=ConsumerRate(0.0, 0.0),
        usage=Usage(0.0, 22_000_000, False, "python3 /opt/memex/index.py"),
    ))  # fmt: skip
    listed.append(ConsumerRow(Verdict.DEAD, "exited", exited, f"{4100:032x}"))
    listed.sort(key=lambda one: (-one.rank, one.claimed_at or 0.0))
    return ConsumerList(tuple(listed), NOW, window=60.0)


def tmp_files() -> tuple[Row, ...]:
    def file(age: float, written: float, verdict: Verdict, evidence: str, size: int, pid: int, micro: int) -> Row:
        id = _id(NOW - age, micro, pid)
        return Row(
            key=("tmp", id), box=Box.TMP, id=id, name=id, size=size, enqueued_at=NOW - age, in_box_since=NOW - age,
            verdict=verdict, evidence=evidence, owner=Owner("vm", pid), written_at=NOW - written,
        )  # fmt: skip

    nobody = "4290 exited · nobody has it open"
    return (
        file(725, 725, Verdict.ABANDONED, nobody, 0, 4290, 20_118),
        file(724, 722, Verdict.ABANDONED, nobody, 4100, 4290, 20_119),
        file(563, 563, Verdict.ABANDONED, nobody, 0, 4290, 20_344),
        file(481, 0.4, Verdict.WRITING, "6120 rsync has it open", 1_900_000_000, 6120, 21_777),
    )


def trash() -> tuple[Row, ...]:
    rows = []
    for i in range(12):
        put = NOW - 4 * 86400 - i * 611
        id = _id(put, 301_007 + i, 4290)
        rows.append(Row(
            key=("trash", id), box=Box.TRASH, id=id, name=id, size=365_000 + i * 311, enqueued_at=put,
            in_box_since=NOW - 3 * 86400 - 600, source="teams", attempt=0 if i % 3 else 2, reason="purged from new by root",
        ))  # fmt: skip
    return tuple(rows)


def problems() -> tuple[Problem, ...]:
    dead = Selection(box=Box.CUR, verdict=Verdict.DEAD)
    return (
        Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers, pid 4312 and 4313, longest 41m", 2, dead),
        Problem("new-growing", Severity.CRITICAL, "new grows 1.8/s over 5m, oldest waits 7m; 2 consumers take work", view="new"),
        Problem("cursor-reverted", Severity.CRITICAL, "imessage reverted 89636→89632, 5× in 5m, as email wrote (3 of 5)", 5,
                view="cursors", subject="imessage"),
        Problem("claim-long", Severity.WARNING, "1 claim held 55m by 5200 worker.py: alive, no CPU for 5m", 1,
                Selection(box=Box.CUR, verdict=Verdict.ALIVE, older_than=600)),
        Problem("tmp-abandoned", Severity.WARNING, "3 abandoned in tmp, oldest 12m", 3,
                Selection(box=Box.TMP, verdict=Verdict.ABANDONED)),
        Problem("lock-stale", Severity.NOTE, "stale lock leader.lock: pid 99 has exited", 1, view="locks", subject="leader.lock"),
    )  # fmt: skip


def cursors() -> tuple[Cursor, ...]:
    ring = []
    for i in range(5):
        reverted, moved = NOW - 2 - 60 * i, NOW - 3 - 60 * i
        also = ("email",) if i % 2 == 0 else ()
        old, new = ({"cursor": value} for value in (89632, 89636))
        ring.append(CursorSection(reverted, old, also, shown="89632", lock_there=True, back=True, lost=True))
        ring.append(CursorSection(moved, new, shown="89636", lock_there=True))
    polls = tuple(
        Poll("imessage", NOW - 3 - 60 * i, 4, "89632", "89636", "poll ok: 4 new (cursor 89632 -> 89636)") for i in range(6)
    )

    def one(source: str, value: Json, verdict: str, evidence: str, moved: float, **more: Any) -> Cursor:
        return Cursor(source, value, shown(value), verdict, evidence, CURSORS, True, moved_at=NOW - moved, **more)

    def moves(value: int, step: int, every: float, last: float, *also: str) -> tuple[CursorSection, ...]:
        return tuple(
            CursorSection(
                NOW - last - every * i - (20 if also and i % 2 else 0), value - step * i, also if i % 2 == 0 else ()
            )
            for i in range(5)
        )

    return (
        one("imessage", {"cursor": 89632}, "reverted",
            "reverted 89636→89632, 5× in 5m; email advanced in 3 of 5 of these writes", 2,
            every=60.0, writes=10, reverts_recent=5, history=tuple(ring), suspects=(("email", 3),),
            unsafe=("common temp cursors.json.tmp seen",), polls=polls, same_start=6),
        one("teams", 77120, "not advancing", "not advancing for 2h, every 60s before; idle or stalled? give --poll-log", 7300,
            every=60.0),
        one("signal", 5120, "advancing", "every 60s, last 30s ago", 31, every=60.0, writes=5, history=moves(5120, 3, 60, 31)),
        one("email", 204511, "advancing", "every 60s, last 4s ago", 2, every=60.0, writes=5,
            history=moves(204511, 1, 60, 2, "imessage")),
        one("messenger", 18003, "idle", "within its usual interval, every 11m, last 14m ago", 840, every=660.0),
    )  # fmt: skip


def locks() -> tuple[Lock, ...]:
    return (
        Lock("/opt/memex/import.lock", "flock", (LockHolder(5304, "python3 /opt/memex/import.py", "memex", NOW - 12),),
             (LockHolder(5307, "python3 /opt/memex/import.py", "memex", NOW - 11),), "held"),
        Lock("/opt/memex/leader.lock", "soft", (LockHolder(99, None, "memex"),), (), "stale", "pid 99 has exited"),
        Lock("/opt/memex/.cursors.lock", "flock", verdict="free",
             evidence="the file exists, nobody holds a lock on it"),
    )  # fmt: skip


def trouble() -> Snapshot:
    boxes = {
        Box.TMP: BoxState(Box.TMP, 4, True, 1_900_000_000, False, NOW - 725),
        Box.NEW: BoxState(Box.NEW, 4310, True, 12_300_000, True, NOW - 424),
        Box.CUR: BoxState(Box.CUR, 4, True, 4800, False, NOW - 3307),
        Box.HELD: BoxState(Box.HELD, 0, True, 0),
        Box.REJECTED: BoxState(Box.REJECTED, 0, True, 0),
        Box.TRASH: BoxState(Box.TRASH, 12, True, 4_400_000, False, NOW - 3 * 86400 - 600),
    }
    observation = Observation(
        target=TARGET, layout="spool", taken_at=NOW, complete=True, boxes=boxes, claims=claims(), tmp=tmp_files(),
        counts=VerdictCounts(alive=2, dead=2, writing=1, abandoned=3), flow=Flow(measured=True),
        disk=Disk("ext4", 12_100_000_000, 29_500_000_000, 880, 1000),
        cursors=(CursorSource(CURSORS, True, {}, temp_files=("cursors.json.tmp",)),), locks=locks(),
        locks_had=604, locks_given_up=3,
        consumers=2, last_claim_at=NOW - 0.1, ages=ages(waiting()), who=Viewer("memex", 1000, "read-write"),
        watch=Watch("live", since=NOW - 312), generation=1,
    )  # fmt: skip
    return Snapshot(
        observation=observation,
        rates=Rates(
            60, 714, 606, 0, False, 1.8, 300, Percentiles(606, 410, 420, 425), Percentiles(606, 0.1, 0.3, 0.6), retried=0
        ),
        cursors=cursors(),
        problems=problems(),
        lock_problems={"/opt/memex/leader.lock": "lock-stale"},
        history={
            Box.TMP: (1.0,) * 4 + (2.0,) * 5 + (4.0,) * 11,
            Box.NEW: tuple(float(3797 + 27 * i) for i in range(20)),
            Box.CUR: (3.0,) * 3 + (4.0,) * 17,
        },
        rate_history=RateHistory(
            tuple(11.9 + (i * 7 % 5 - 2) * 0.4 for i in range(20)),
            tuple(10.1 + (i * 3 % 7 - 3) * 0.3 for i in range(20)),
            (0.0,) * 8 + (0.4, 0.7, 0.2) + (0.0,) * 9,
        ),
    )


def rows(snapshot: Snapshot) -> Mapping[Box, tuple[Row, ...]]:
    """Returns the rows in the lists of a snapshot: of a box with more than some thousand messages the first."""
    new = snapshot.observation.boxes[Box.NEW]
    waits = waiting(min(new.count or 0, 10_000), NOW - (new.oldest_at or NOW))
    return {Box.CUR: snapshot.observation.claims, Box.TMP: snapshot.observation.tmp, Box.NEW: waits, Box.TRASH: trash()}
