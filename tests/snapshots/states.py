"""Other states of the spool of ``values``: calm, just begun, read-only, full, on a network, a mail folder, the demo."""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.model.backend import Capabilities
from spooltop.model.plan import Selection
from spooltop.model.snapshot import (
    BoxState,
    Disk,
    Percentiles,
    Problem,
    RateHistory,
    Rates,
    Severity,
    Snapshot,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import Box, Lock, LockHolder, Owner, Verdict

from .values import NOW, ages, claim, cursors, tmp_files, trouble, waiting

__all__ = ["calm", "demo", "disk_full", "first_seconds", "mail", "network", "read_only"]


def calm() -> Snapshot:
    """An hour of work with nothing wrong."""
    whole = trouble()
    boxes = {
        **whole.observation.boxes,
        Box.TMP: BoxState(Box.TMP, 0, True, 0),
        Box.NEW: BoxState(Box.NEW, 5, True, 11_000, False, NOW - 0.4),
        Box.CUR: BoxState(Box.CUR, 2, True, 2400, False, NOW - 0.2),
    }
    advancing = tuple(
        replace(one, verdict="advancing", evidence="every 60s, last 20s ago", every=60.0, writes=5, reverts_recent=0,
                moved_at=NOW - 20 - i * 7, history=())
        for i, one in enumerate(whole.cursors)
    )  # fmt: skip
    return replace(
        whole,
        observation=replace(
            whole.observation, boxes=boxes, tmp=(),
            claims=tuple(replace(whole.observation.claims[-1], key=("cur", n)) for n in range(2)),
            counts=VerdictCounts(alive=2), locks=whole.observation.locks[2:], ages=ages(waiting(5, 0.4)),
            watch=Watch("live", since=NOW - 3790),
        ),
        rates=Rates(
            60, 714, 714, 0, False, 0.0, 300, Percentiles(714, 0.3, 0.5, 0.9), Percentiles(714, 0.1, 0.3, 0.6), retried=0
        ),
        problems=(),
        cursors=advancing,
        history={
            Box.TMP: (0.0,) * 20,
            Box.NEW: tuple(float(3 + i * i % 7) for i in range(20)),
            Box.CUR: tuple(float(1 + i * 3 % 2) for i in range(20)),
        },
        rate_history=RateHistory((11.9,) * 20, (11.9,) * 20, (0.0,) * 20),
    )  # fmt: skip


def first_seconds() -> Snapshot:
    """Twelve seconds after the start: no rate and no update interval is known yet."""
    whole = calm()
    fresh = tuple(
        replace(one, verdict="new", evidence="seen once, no write yet", every=None, writes=None, moved_is_bound=True)
        for one in whole.cursors
    )
    return replace(
        whole,
        observation=replace(whole.observation, watch=Watch("live", since=NOW - 12)),
        rates=Rates(),
        cursors=fresh,
        history={box: (None,) * 19 + (whole.history[box][-1],) for box in whole.history},
        rate_history=RateHistory((None,) * 19 + (11.9,), (None,) * 20, (None,) * 19 + (0.0,)),
        not_judged=("rates (need 60s)", "cursors (need 2 writes of each source; signal 0, email 1)"),
    )


def read_only() -> Snapshot:
    whole = trouble()
    why = "you are deploy, cur belongs to memex 0750. Try: sudo -u memex spooltop /var/spool/memex"
    return replace(
        whole,
        observation=replace(
            whole.observation, capabilities=Capabilities.nothing(why),
            who=Viewer("deploy", 1001, "read-only: cur is memex:memex 0750")
        ),
    )  # fmt: skip


def disk_full() -> Snapshot:
    """Nothing is left for whoever runs the queue; what was put waits, acks go on."""
    whole = trouble()
    full = Problem("disk-full", Severity.CRITICAL, "disk full for memex: 0B free (root still has 1.9GB); puts and claims fail")
    disk = replace(whole.observation.disk, bytes_free=0, root_bytes_free=1_900_000_000)
    idle = Problem("no-consumer", Severity.WARNING, "no claim for 2m while 4,310 wait; 2 claims are at work", view="new")
    dead, _, reverted, *rest = whole.problems
    waits = tuple(replace(row, enqueued_at=(row.enqueued_at or NOW) - 130) for row in waiting())
    new = replace(whole.observation.boxes[Box.NEW], oldest_at=NOW - 554)
    return replace(
        whole,
        observation=replace(
            whole.observation, disk=disk, last_claim_at=NOW - 130, ages=ages(waits),
            boxes={**whole.observation.boxes, Box.NEW: new}
        ),
        rates=Rates(60, 0, 1, 0, False, 0.0, 300, retried=0),
        problems=(full, dead, reverted, idle, *rest),
        history={**whole.history, Box.NEW: (*whole.history[Box.NEW][9:], *(4310.0,) * 9)},
    )


def network() -> Snapshot:
    """A spool on a network file system: no events, so scans; a listing that broke off is a lower bound, other hosts' claims
    are not judged from here."""
    whole = trouble()
    away = "taken on host web2, ask there"
    claims = tuple(replace(row, verdict=Verdict.UNKNOWN, evidence=away, owner=Owner("web2")) for row in whole.observation.claims)
    boxes = {**whole.observation.boxes, Box.NEW: BoxState(Box.NEW, 310_000, False, 890_000_000, True, NOW - 424)}
    unknown = Problem(
        "claims-unknown", Severity.NOTE, f"4 claims of unknown holders, longest 55m: {away}", 4,
        Selection(box=Box.CUR, verdict=Verdict.UNKNOWN),
    )  # fmt: skip
    blind = Problem("blind", Severity.CRITICAL, "new: the listing broke off (Stale file handle)", view="new")
    return replace(
        whole,
        observation=replace(
            whole.observation, complete=False, boxes=boxes, claims=claims, counts=VerdictCounts(unknown=4, tmp_unknown=4),
            tmp=(), consumers=None,
            disk=Disk("nfs4", 1_210_000_000_000, 2_950_000_000_000), ages=None, locks=(), last_claim_at=None,
            watch=Watch("scan", "nfs4 sends no events", 5.0, NOW - 312),
        ),
        rates=replace(whole.rates, lower_bound=True, requeued=None, retried=None, new_per_s=None),
        problems=(blind, unknown),
        cursors=(),
        not_visible=("who is running on web2",),
    )  # fmt: skip


def mail() -> Snapshot:
    whole = calm()
    why = (
        "this is a mail folder (cur has :2,S flags; dovecot-uidlist): its cur is read mail, not stuck work, so nothing here is"
        " judged stale and nothing changes it; if it is a job spool all the same: spooltop --as spool /home/ann/Maildir"
    )
    boxes = {
        Box.TMP: BoxState(Box.TMP, 0, True, 0),
        Box.NEW: BoxState(Box.NEW, 3, True, 81_000, False, NOW - 5400),
        Box.CUR: BoxState(Box.CUR, 18_211, True, 1_310_000_000, True, NOW - 900 * 86400),
    }
    return replace(
        whole,
        observation=replace(
            whole.observation, target="/home/ann/Maildir", layout="mail", boxes=boxes,
            capabilities=Capabilities.nothing(why), claims=(), tmp=(),
            locks=(), cursors=(), consumers=None, ages=None, who=Viewer("ann", 1004, "read-only"),
        ),
        rates=Rates(),
        cursors=(),
        history={Box.TMP: (0.0,) * 20, Box.NEW: (2.0,) * 12 + (3.0,) * 8, Box.CUR: (18_211.0,) * 20},
    )  # fmt: skip


def demo() -> Snapshot:
    """The demo after twenty seconds: two consumers were killed, a writer died, ``imessage`` was reverted."""
    whole = trouble()
    old = tmp_files()
    dead = tuple(replace(claim(held, 446_000 + n, 14356 + n), attempt=n + 1) for n, held in enumerate((21.0, 14.0)))
    at_work = enumerate((21.0, 0.4, 0.2))
    alive = tuple(claim(held, 449_000 + n, 14351 + n, Verdict.ALIVE, "running", waited=0.4) for n, held in at_work)
    tmp = (
        replace(old[1], in_box_since=NOW - 20, enqueued_at=NOW - 20, written_at=NOW - 19, size=2100),
        replace(old[3], in_box_since=NOW - 21, enqueued_at=NOW - 21, size=1_900_000),
    )
    boxes = {
        **whole.observation.boxes,
        Box.TMP: BoxState(Box.TMP, 2, True, 1_902_100, False, NOW - 21),
        Box.NEW: BoxState(Box.NEW, 7, True, 790, False, NOW - 2.5),
        Box.CUR: BoxState(Box.CUR, 5, True, 660, False, NOW - 21),
        Box.TRASH: BoxState(Box.TRASH, 0, True, 0),
    }
    imessage, teams, signal, email, messenger = cursors()
    lock = Lock(
        "/tmp/spooltop-demo-k3v9x2aq/memex/import.lock", "flock", (LockHolder(14360, "import.py", "ann", NOW - 20),),
        (LockHolder(14361, "import.py", "ann", NOW - 18),), "blocked", "1 waits for it",
    )  # fmt: skip
    problems = (
        Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers, pid 14356 and 14357, longest 20s", 2,
                Selection(box=Box.CUR, verdict=Verdict.DEAD)),
        Problem("cursor-reverted", Severity.CRITICAL, "imessage reverted 89636→89632, 4× in 20s, as email wrote (4 of 4)", 4,
                view="cursors", subject="imessage"),
        Problem("lock-blocked", Severity.WARNING, "import.lock held 20s by 14360 import.py, 1 waits", 1, view="locks"),
        Problem("claim-long", Severity.WARNING, "1 claim held 20s by 14351 worker.py: alive", 1, Selection(box=Box.CUR)),
        Problem("tmp-abandoned", Severity.WARNING, "1 abandoned in tmp, oldest 20s", 1,
                Selection(box=Box.TMP, verdict=Verdict.ABANDONED)),
    )  # fmt: skip
    fresh = {"every": 6.0, "verdict": "advancing", "evidence": "every 6s, last 4s ago", "writes": 4}
    return replace(
        whole,
        observation=replace(
            whole.observation, target="/tmp/spooltop-demo-k3v9x2aq/memex",
            boxes=boxes, claims=dead + alive, tmp=tmp, locks=(lock,),
            counts=VerdictCounts(alive=3, dead=2, writing=1, abandoned=1), consumers=3, ages=ages(waiting(7, 2.5)),
            who=Viewer("ann", 1004, "read-write"), watch=Watch("live", since=NOW - 22),
        ),
        lock_problems={lock.path: "lock-blocked"},
        rates=Rates(22, 62, 59, 0, False, None, 0.0, Percentiles(59, 1.5, 2.4, 2.6), Percentiles(59, 0.5, 0.7, 0.8)),
        cursors=(
            replace(imessage, every=6.0, writes=8, reverts_recent=4, evidence="reverted 89636→89632, 4× in 20s"),
            replace(teams, moved_at=NOW - 3, **fresh),
            replace(signal, moved_at=NOW - 4, **fresh),
            replace(email, moved_at=NOW - 2, **fresh),
            replace(messenger, moved_at=NOW - 19, every=None, verdict="advancing", evidence="moved 1×", writes=1),
        ),
        problems=problems,
        history={
            Box.TMP: (None,) * 18 + (1.0, 2.0),
            Box.NEW: (None,) * 18 + (4.0, 7.0),
            Box.CUR: (None,) * 18 + (4.0, 5.0),
        },
    )  # fmt: skip
