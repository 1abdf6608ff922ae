"""Hand-made snapshots and rows: what the drawings are looked at with."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from spooltop.model.can import Can
from spooltop.model.plan import Confirm, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal, Result
from spooltop.model.problem import Problem, Severity
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.sight import (
    BoxState,
    CursorSection,
    CursorSource,
    Disk,
    Flow,
    Lock,
    LockParty,
    Sight,
    VerdictCounts,
    Watch,
    Who,
)
from spooltop.model.snapshot import Cursor, Percentiles, Rates, Snapshot
from spooltop.model.words import Action, Box, Owner, Verdict

NOW = 1_795_222_869.0
ZONE = datetime.timezone(datetime.timedelta(hours=1))


def claim(
    n: int,
    *,
    verdict: Verdict = Verdict.DEAD,
    held: float = 2460.0,
    attempt: int | None = 1,
    pid: int = 4312,
    command: str | None = None,
    evidence: str = "gone",
) -> Row:
    id = f"{1_795_220_401_446_000 + n}.P4290Rdeadbeef00000000.vm"
    return Row(
        key=id, box=Box.CUR, id=id, name=f"{id},s=imessage,c=00:2,P{pid}", size=1200, enqueued_at=NOW - held - 2,
        in_box_since=NOW - held, source="imessage", attempt=attempt, verdict=verdict, evidence=evidence,
        owner=Owner(host="vm", pid=pid, command=command),
    )  # fmt: skip


def claims() -> tuple[Row, ...]:
    return (
        claim(102, verdict=Verdict.ALIVE, held=3300, pid=5200, command="worker.py", evidence="lives · no CPU for 5m"),
        claim(548),
        claim(313, attempt=4, pid=4313, evidence="gone · 4 died with it"),
        claim(900, verdict=Verdict.ALIVE, held=0.1, pid=5201, command="worker.py", evidence="lives"),
    )


def tmp_files() -> tuple[Row, ...]:
    def file(n: int, verdict: Verdict, age: float, evidence: str, size: int, pid: int) -> Row:
        id = f"{1_795_222_000_020_000 + n}.P{pid}R00ff.vm"
        return Row(
            key=id, box=Box.TMP, id=id, name=id, size=size, enqueued_at=NOW - age, in_box_since=NOW - age, verdict=verdict,
            evidence=evidence, owner=Owner(pid=pid), written_at=NOW - age,
        )  # fmt: skip

    return (
        file(118, Verdict.ABANDONED, 720, "4290 gone · nobody has it open", 0, 4290),
        file(119, Verdict.ABANDONED, 720, "4290 gone · nobody has it open", 4100, 4290),
        file(777, Verdict.WRITING, 480, "6120 rsync has it open", 1_900_000_000, 6120),
        file(1, Verdict.UNKNOWN, 80000, "written on host h, ask there", 1100, 1),
    )


def problems() -> tuple[Problem, ...]:
    dead = Selection(box=Box.CUR, verdict=Verdict.DEAD)
    return (
        Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers, pid 4312 and 4313, longest 41m", 2, dead),
        Problem("new-growing", Severity.CRITICAL, "new grows 1.8/s over 5m, oldest waits 7m; 1 consumer takes work", 4310,
                Selection(box=Box.NEW, everything=True)),
        Problem("cursor-reverted", Severity.CRITICAL, "imessage put back 89636→89632, 5× in 5m, as email wrote (2 of 5)", 5,
                view="cursors", subject="imessage"),
        Problem("claim-long", Severity.WARNING, "1 claim held 55m by 5200 worker.py: alive, no CPU for 5m", 1,
                Selection(box=Box.CUR, older_than=600)),
        Problem("tmp-abandoned", Severity.WARNING, "3 abandoned in tmp, longest 12m", 3,
                Selection(box=Box.TMP, verdict=Verdict.ABANDONED)),
        Problem("cursor-stalled", Severity.WARNING, "teams unmoved for 2h", 1, view="cursors", subject="teams"),
        Problem("lock-stale", Severity.NOTE, "leader.lock is left over, pid 99 is gone", 1, view="locks", subject="leader.lock"),
    )  # fmt: skip


def cursors() -> tuple[Cursor, ...]:
    file = "/opt/memex/cursors.json"
    ring = tuple(
        CursorSection(NOW - 2 - 30 * i, 89632 if i % 2 == 0 else 89636, 7, ("email",) if i % 4 == 0 else ()) for i in range(10)
    )

    def one(source: str, value: int, verdict: str, evidence: str, moved: float, **more: Any) -> Cursor:
        return Cursor(source, value, str(value), verdict, evidence, file, True, moved_at=NOW - moved, **more)

    return (
        one("imessage", 89632, "reverted", "as email wrote (2 of 5)", 9, every=60.0, writes=10, put_back=5, history=ring),
        one("teams", 77120, "unmoved", "idle or stopped", 7300, every=60.0),
        one("signal", 5120, "advancing", "", 31, every=60.0, writes=5),
        one("email", 204511, "advancing", "", 9, every=60.0, writes=5),
        one("messenger", 18003, "unmoved", "within rhythm", 840, every=660.0),
    )


def snapshot() -> Snapshot:
    """A spool in trouble: the figures agree with each other, depth = rate × wait."""
    boxes = {
        Box.TMP: BoxState(Box.TMP, 3, True, 4100, False, NOW - 720),
        Box.NEW: BoxState(Box.NEW, 4310, True, 12_300_000, True, NOW - 430),
        Box.CUR: BoxState(Box.CUR, 4, True, 4400, False, NOW - 3300),
        Box.HELD: BoxState(Box.HELD, 0, True, 0),
        Box.REJECTED: BoxState(Box.REJECTED, 0, True, 0),
        Box.TRASH: BoxState(Box.TRASH, 12, True, 4_400_000, False, NOW - 3 * 86400),
    }
    sight = Sight(
        target="/var/spool/memex",
        layout="spool",
        taken_at=NOW,
        complete=True,
        boxes=boxes,
        claims=claims(),
        tmp=tmp_files(),
        counts=VerdictCounts(2, 2, 0, 0, 3, 0),
        flow=Flow(measured=True),
        disk=Disk("ext4", 12_100_000_000, 29_500_000_000, 880, 1000),
        cursors=(CursorSource("/opt/memex/cursors.json", True, {}),),
        locks=(Lock("/var/spool/memex/.cursors.lock", "flock", verdict="free"),
               Lock("/opt/memex/leader.lock", "soft", (LockParty(99, None, "memex"),), (), "stale", "pid 99 is gone")),
        consumers=1,
        last_claim_at=NOW - 1,
        who=Who("memex", 1000, "may change"),
        watch=Watch("live", "", 1.0, NOW - 312),
    )  # fmt: skip
    return Snapshot(
        sight=sight,
        rates=Rates(60, 714, 606, 0, False, 1.8, 300, Percentiles(606, 410, 420, 425), Percentiles(606, 0.1, 0.3, 0.6)),
        cursors=cursors(),
        problems=problems(),
        history={
            Box.TMP: (0.0,) * 10 + (3.0,) * 10,
            Box.NEW: tuple(3800.0 + 27 * i for i in range(20)),
            Box.CUR: (4.0,) * 20,
        },
    )


def calm() -> Snapshot:
    """The same spool twelve seconds after the start, with nothing wrong in sight."""
    whole = snapshot()
    return replace(
        whole,
        sight=replace(whole.sight, watch=Watch("live", "", 1.0, NOW - 12), counts=VerdictCounts(2, 0, 0, 0, 0, 0)),
        rates=Rates(),
        problems=(),
        history={},
        not_judged=("rates (need 60s)", "cursors (need 2 writes of each source; signal 0, email 1)"),
    )


def read_only() -> Snapshot:
    whole = snapshot()
    return replace(
        whole,
        sight=replace(
            whole.sight,
            can=Can.nothing("cur is memex:memex 0750"),
            who=Who("deploy", 1001, "may look only: cur is memex:memex 0750"),
        ),
    )


def plan(*, items: int = 2, confirm: Confirm = Confirm.SMALL, force: bool = False) -> Plan:
    """Requeue of dead claims, one of them with a warning; a live one is refused."""
    rows = [claim(i) for i in range(items)]
    warning = "in work when 4 consumers died: h holds it instead"
    return Plan(
        "7f3a", Action.REQUEUE, "/var/spool/memex", NOW, Selection(box=Box.CUR),
        [Item(row, i, warning if i == 1 else "") for i, row in enumerate(rows)],
        [Refusal(claims()[0], "5200 worker.py is alive; end it and it turns DEAD by itself", True)],
        ("At work now: 1 consumer (5201), last claim 0.1s ago.",), confirm, force,
        ("spooltop", "requeue", "/var/spool/memex", *(row.id for row in rows)),
    )  # fmt: skip


def result() -> Result:
    items = [
        ItemResult("a1", "a1", Outcome.DONE),
        ItemResult("a2", "a2", Outcome.SKIPPED, "gone or requeued by another"),
        ItemResult("a3", "a3", Outcome.FAILED, "a file of that name is in new already"),
    ]
    return Result(
        "7f3a", Action.REQUEUE, "/var/spool/memex", NOW, items, undo=("spooltop", "undo", "/var/spool/memex", "7f3a"),
        notes=("in the audit log as memex",),
    )  # fmt: skip


def operations() -> list[OperationRecord]:
    return [
        OperationRecord("7f3a", Action.REQUEUE, NOW - 50, "memex", 3, 2, 1, 0),
        OperationRecord("7f39", Action.PURGE, NOW - 5000, "root", 312, 312, undone_by="7f3b"),
        OperationRecord("7f38", Action.INJECT, NOW - 90000, "root", 31, 0, open=True, why_not_undo="they were consumed"),
    ]


def mail() -> Snapshot:
    whole = snapshot()
    reason = (
        "this is a mail folder (cur has :2,S flags; dovecot-uidlist): its cur is read mail, not stuck work, so nothing here is"
        " judged stale and nothing changes it; if it is a job spool all the same: spooltop --as spool /var/spool/memex"
    )
    return replace(
        whole,
        sight=replace(whole.sight, layout="mail", can=Can.nothing(reason), claims=(), tmp=(), locks=()),
        problems=(),
        cursors=(),
    )
