"""A stream in the pictures: what a server tells of it after five minutes in which more came than was done."""

from __future__ import annotations

import json
from functools import cache

from msgspec.structs import replace

from spooltop.cursors.model import Cursor, CursorSection
from spooltop.model.plan import Confirm, Plan, Refusal, RowItem, Selection
from spooltop.model.snapshot import (
    BoxState,
    Capacity,
    ConsumerList,
    ConsumerRow,
    Flow,
    Observation,
    Problem,
    RateHistory,
    Rates,
    Severity,
    Snapshot,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import Action, Box, Owner, Payload, Row, Verdict

from .other_programs import CELLS, SeenQueue
from .values import NOW

__all__ = ["stream"]

FILE = "redis://queues/0#memex"
ADDRESS = f"{FILE}/workers"
NO_LEASE = "no lease, no connection has its name; asked 21m ago"
VERDICTS = {
    "vm-5200-60d1aa": (Verdict.ALIVE, "its lease runs"), "vm-5201-c4e85f": (Verdict.ALIVE, "its lease runs"),
    "vm-4312-1f09c2": (Verdict.DEAD, "its lease ended"), "vm-4313-93be07": (Verdict.DEAD, "its lease ended"),
    "report": (Verdict.UNKNOWN, NO_LEASE),
}  # fmt: skip
CLAIMS = (
    ("vm-5200-60d1aa", 3307.0, 1, "imessage", 118, "1795221960000-0"),
    ("vm-4313-93be07", 2465.0, 4, "teams", 139, "1795222802000-1"),
    ("vm-4312-1f09c2", 2460.0, 1, "imessage", 125, "1795222807000-1"),
    ("vm-4312-1f09c2", 2459.0, 2, "signal", 132, "1795222808000-0"),
    ("report", 1260.0, 1, "email", 146, "1795224007000-0"),
    ("vm-5201-c4e85f", 0.1, 1, "email", 153, "1795224844900-1"),
)  # fmt: skip
"""Claims, the oldest first: consumer, seconds since the delivery, deliveries, source, bytes, id."""


class SeenStream(SeenQueue):
    def planned(self, plan: Plan) -> Plan:
        """The plan as it would be made on the server, which knows workers of spooltop in the group."""
        if plan.action is not Action.REQUEUE:
            return plan
        warnings = {
            "1795222802000-1": "delivered 4 times, and its last consumer died",
            "1795224007000-0": "it may be done twice: its consumer may still be at work",
        }
        gone = [row for row in self.rows if row.box is Box.CUR and row.verdict is not Verdict.ALIVE]
        items = [RowItem(row, row.id, warnings.get(row.id, "")) for row in gone]
        return replace(
            plan, items=items, refused=tuple(replace(one, reason=f"{_name(one)}: its lease runs") for one in plan.refused),
            notes=("Handed over to ~spooltop, with the same id and number of tries: workers of spooltop take it first.",),
            confirm=Confirm.NUMBER, poison=1, effect="They are handed back to the group with the same ids; claimed next.",
            made_at=NOW + 6, warnings=dict.fromkeys(warnings.values(), 1),
            operation="c41d0a7e92", command=("spooltop", "requeue", ADDRESS, *(item.id for item in items)),
        )  # fmt: skip


def _name(refusal: Refusal) -> str:
    assert refusal.row.owner is not None
    return refusal.row.owner.name or ""


def _owner(consumer: str) -> Owner:
    host, _, rest = consumer.partition("-")
    return Owner(host, int(rest[:4]), name=consumer) if rest else Owner(name=consumer)


def _claims() -> tuple[Row, ...]:
    rows = []
    for consumer, held, tries, source, size, id in CLAIMS:
        verdict, evidence = VERDICTS[consumer]
        rows.append(Row(
            key=("cur", id, consumer, tries), box=Box.CUR, id=id, name=id, size=size, source=source, attempt=tries,
            enqueued_at=int(id[:13]) / 1000, in_box_since=NOW - held, verdict=verdict, evidence=evidence, owner=_owner(consumer),
        ))  # fmt: skip
    return tuple(rows)


def _waiting(number: int) -> Row:
    put = NOW - 424 + number * 0.084
    id, source = f"{int(put * 1000)}-0", ("imessage", "email", "signal")[number % 3]
    return Row(("new", id), Box.NEW, id, id, 96 + number % 40, put, put, source=source, attempt=0)


def _consumers(claims: tuple[Row, ...]) -> ConsumerList:
    rows = []
    for consumer in ("vm-4313-93be07", "vm-4312-1f09c2", "report", "vm-5200-60d1aa", "vm-5201-c4e85f"):
        held = [row for row in claims if row.owner == _owner(consumer)]
        first, last = held[0].in_box_since, held[-1].in_box_since
        rows.append(ConsumerRow(
            *VERDICTS[consumer], _owner(consumer), claims=len(held), claimed_at=first, last_claim_at=last,
            ids=tuple(row.id for row in held), asked_at=first,
        ))  # fmt: skip
    return ConsumerList(tuple(rows), NOW, measured=False)


def _group(source: str, last: int, step: int, behind: int) -> Cursor:
    """A group, of which ``last`` is the time in the id that was delivered last, ``step`` milliseconds after the one before."""
    ids = [f"{last - step * back}-0" for back in range(61)]
    history = tuple(CursorSection(NOW - 5 * back, id, shown=id) for back, id in enumerate(ids))
    return Cursor(
        source, ids[0], ids[0], "advancing", "every 5s, last 0s ago", FILE, True, moved_at=NOW, every=5.0, writes=60,
        history=history, in_file=False, behind=behind,
    )  # fmt: skip


@cache
def stream() -> SeenStream:
    """The stream at the end of five minutes."""
    claims = _claims()
    counts = {Box.REJECTED: (3, 7200), Box.HELD: (1, 5400), Box.TRASH: (12, 260_000)}
    boxes = {box: BoxState(box, count, True, oldest_at=NOW - age) for box, (count, age) in counts.items()}
    boxes[Box.NEW] = BoxState(Box.NEW, 4240, True, 1_389_870, True, NOW - 424)
    boxes[Box.CUR] = BoxState(Box.CUR, 6, True, oldest_at=NOW - 3307)
    poison, cur = claims[1], Selection(box=Box.CUR)
    problems = (
        Problem("poison", Severity.CRITICAL, f"{poison.id} was delivered 4 times, and its last consumer died", 1, cur),
        Problem("claims-dead", Severity.CRITICAL, "3 claims of dead consumers, pid 4313 and 4312, longest 41m", 3, cur),
        Problem("new-growing", Severity.CRITICAL, "new grows 1.8/s over 5m, oldest waits 7m", view="new"),
        Problem("claim-long", Severity.WARNING, "1 claim held 55m by vm-5200-60d1aa: alive", 1, cur),
        Problem("claim-long", Severity.WARNING, f"1 claim held 21m, holder unknown: {NO_LEASE}", 1, cur),
    )
    observation = Observation(
        ADDRESS, "stream", NOW, True, boxes, claims=claims, claims_all=True,
        counts=VerdictCounts(alive=2, dead=3, unknown=1), flow=Flow(measured=True, holders_counted=False),
        absent={what: f"a stream has no {what}" for what in ("tmp", "locks", "files")},
        resources=(Capacity("memory", 2_600_000_000, 12_000_000_000, "bytes", full="puts fail"),), consumers_seen=2,
        last_claim_at=NOW - 0.1, who=Viewer("ops", 1000, "read-write"), watch=Watch("live", since=NOW - 300),
    )  # fmt: skip
    depths = {box: (float(state.count or 0),) * CELLS for box, state in boxes.items()}
    depths[Box.NEW] = (*(3736.0 + 27 * cell for cell in range(CELLS - 1)), 4240.0)
    done = (*(10.06, 10.12, 10.13, 10.08) * 4, 10.06, 10.12, 10.13, 10.0)
    snapshot = Snapshot(
        observation, Rates(60, 714, 556, 0, False, 1.8, 300, done_window=55.0, retried=0),
        (_group("workers", 1_795_224_845_000, 4250, 4240), _group("archive", 1_795_221_149_000, 3000, 12_770)), problems,
        history=depths, rate_history=RateHistory((11.88, 11.87, 11.92, 11.93) * 5, done, (0.0,) * CELLS),
    )  # fmt: skip
    rows = (*claims, *map(_waiting, range(300)))
    payloads = {row.key: _payload(row, number) for number, row in enumerate(rows)}
    return SeenStream(snapshot, rows, payloads, _consumers(claims))


def _payload(row: Row, number: int) -> Payload:
    data = json.dumps({"source": row.source, "rowid": 89_633 + number, "text": "see you at 7?"}, indent=1).encode()
    return Payload(data, row.size or 0, False, (("entry", row.id), ("stream", "memex")))
