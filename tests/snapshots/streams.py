"""A stream in the pictures: the facts of some looks, as a server would tell them, through the code that reads and judges."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from spooltop.backends.redis.operator.connection import OperatorConnection
from spooltop.backends.redis.operator.handing import chosen_way
from spooltop.backends.redis.operator.planning import _ChangeMaker, _effect
from spooltop.backends.redis.operator.rows import PinnedRow
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.streams.boxes import CounterFlow, box_states, capacities, cursor_source, verdict_counts
from spooltop.backends.redis.streams.consumers import consumer_list
from spooltop.backends.redis.streams.look import ConsumerState, GroupState, Look, ServerFacts, SideState
from spooltop.backends.redis.streams.reader import ABSENT
from spooltop.backends.redis.streams.rows import PendingEntry, claim_row, entry_row
from spooltop.backends.redis.streams.undelivered import Undelivered
from spooltop.backends.redis.streams.verdicts import PidJudge, judged_consumers
from spooltop.backends.surroundings import Surroundings
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.observation import Observation, Viewer, Watch
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.operations.plan import Item, Plan, Refusal
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.observe.observer import Observer
from spooltop.operate.confirm import confirm_for

from .values import NOW

__all__ = ["ADDRESS", "SeenStream", "stream"]

ADDRESS = "redis://queues/0#memex/workers"
_NAMES = StreamNames("memex", "workers")
_JUDGE = PidJudge(cast("Surroundings", None), "operator")
"""No consumer here has the name of this host: no process is asked about."""
_WATCHED = 300
_IN, _OUT = 11.9, 10.1
"""Messages a second."""
_ARCHIVED = 6.0
_FIRST = NOW - 86_400
"""Time of the first entry."""

_MEMBERS = {
    "vm-4312-1f09c2": (2460.0, 2, None), "vm-4313-93be07": (2465.0, 1, None), "vm-5200-60d1aa": (3307.0, 1, 6600),
    "vm-5201-c4e85f": (0.1, 1, 9100), "report": (1260.0, 1, None),
}  # fmt: skip
"""Consumers: seconds since each asked, claims, milliseconds left of the lease."""
_CLAIMS = (
    ("vm-5200-60d1aa", 3307.0, 1, "imessage", 89102), ("vm-4312-1f09c2", 2460.0, 1, "imessage", 89633),
    ("vm-4312-1f09c2", 2459.0, 2, "signal", 5119), ("vm-4313-93be07", 2465.0, 4, "teams", 77119),
    ("report", 1260.0, 1, "email", 204480), ("vm-5201-c4e85f", 0.1, 1, "email", 204511),
)  # fmt: skip
"""Claims: consumer, seconds since the delivery, deliveries, source and row."""


@dataclass(frozen=True)
class SeenStream:
    """What a scene shows: the snapshot at ``at``, the rows of all boxes, what each message is, and who works there."""

    snapshot: Snapshot
    rows: tuple[Row, ...]
    payloads: dict[Any, Payload]
    consumers: ConsumerList

    @property
    def at(self) -> float:
        return NOW

    def planned(self, plan: Plan) -> Plan:
        """The plan as it would be made on the server, which knows workers of spooltop in the group."""
        if plan.action is not Action.REQUEUE:
            return plan
        way = chosen_way(cast("OperatorConnection", _Server()), _NAMES, asked=False, groups=2)
        maker = _ChangeMaker(plan.target, plan.action, force=False, options={}, groups=2, way=way)
        chosen = [item.row for item in plan.items] + [one.row for one in plan.refused]
        rows = [row for row in self.rows if row in chosen]
        made = [maker.made(PinnedRow(row, row.id, row.owner.name or "" if row.owner else "", row.attempt or 0)) for row in rows]
        items = [one for one in made if isinstance(one, Item)]
        return replace(
            plan, items=items, refused=tuple(one for one in made if isinstance(one, Refusal)), notes=(way.words,),
            confirm=confirm_for(len(items), uncertain=any(item.row.verdict is Verdict.UNKNOWN for item in items)),
            poison=maker.poison, effect=_effect(plan.action, items, {}), made_at=NOW + 6, operation="c41d0a7e92",
        )  # fmt: skip


class _Server:
    """A server that knows a worker of spooltop."""

    def ask(self, what: str, *commands: object) -> list[object]:
        return [[b"0", [b"worker", b"vm 1"]] if "HSCAN" in cast("tuple[object, ...]", commands[0]) else 1]


def _id(at: float, number: int = 0) -> str:
    return f"{int(at * 1000)}-{number}"


def _look(at: float) -> Look:
    """The facts ``at`` a time: more arrives than is done, and the archive falls behind."""
    done = at - NOW + _WATCHED
    pending = sum(claims for _, claims, _ in _MEMBERS.values())
    added = 91_000 + round(_IN * done)
    read = 87_300 + round(_OUT * done)
    archived = 80_000 + round(_ARCHIVED * done)
    waits = 424 - (NOW - at) * 0.15
    groups = (
        GroupState("workers", pending, _id(at - waits), read, added - read),
        GroupState("archive", 1, _id(at - 4000 - 0.4 * done), archived, added - archived),
    )
    return Look(
        at, added, added, _id(_FIRST), _id(at), groups, groups[0],
        tuple(ConsumerState(name, claims, asked) for name, (asked, claims, _) in _MEMBERS.items()),
        {Box.REJECTED: SideState(3, NOW - 7200), Box.HELD: SideState(1, NOW - 5400), Box.TRASH: SideState(12, NOW - 260_000)},
        None, ServerFacts(9_400_000_000, 12_000_000_000, "noeviction", used=31_000_000),
        {name: lease for name, (_, _, lease) in _MEMBERS.items() if lease is not None},
        {name: f"vm {name.split('-')[1]}" for name in _MEMBERS if name.startswith("vm-")}, frozenset(),
    )  # fmt: skip


def _claims(look: Look) -> list[Row]:
    judged = judged_consumers(look, _JUDGE)
    found = []
    for number, (consumer, held, deliveries, source, _) in enumerate(_CLAIMS):
        put = NOW - held - (2.0 if held > 10 else 424.0)
        claim = PendingEntry(_id(put, number % 2), consumer, NOW - held, deliveries, 118 + 7 * number, source)
        found.append(claim_row(claim, judged[consumer]))
    return sorted(found, key=lambda row: row.in_box_since or 0.0)


def _observed(at: float, flow: CounterFlow) -> Observation:
    look = _look(at)
    judged = judged_consumers(look, _JUDGE)
    undelivered = Undelivered(look.group.lag or 0)
    claims = tuple(_claims(look))
    oldest = min(row.in_box_since or at for row in claims)
    return Observation(
        ADDRESS, "stream", at, True,
        box_states(look, undelivered, at - 424 + (NOW - at) * 0.15, oldest, at, 30 * 86_400),
        claims=claims, counts=verdict_counts(judged.values()), claims_all=True, flow=flow.measure(look, undelivered, at),
        absent=ABSENT, resources=capacities(look, undelivered, 0),
        cursors=(cursor_source(look, ADDRESS.rpartition("/")[0], undelivered),),
        consumers_seen=2, last_claim_at=at - 0.1, who=Viewer("ops", 1000, "read-write"),
        watch=Watch("live", since=NOW - _WATCHED),
    )  # fmt: skip


@cache
def stream() -> SeenStream:
    """The stream at the end of five minutes."""
    observer, flow = Observer(), CounterFlow()
    for before in range(_WATCHED, 0, -5):
        observer.add(_observed(NOW - before, flow))
    snapshot = observer.add(_observed(NOW, flow))
    look = _look(NOW)
    claims = _claims(look)
    waiting = [entry_row(_id(NOW - 424 + n * 0.084), 96 + n % 40, ("imessage", "email", "signal")[n % 3]) for n in range(300)]
    payloads = {row.key: _payload(row, number) for number, row in enumerate((*claims, *waiting))}
    judged = judged_consumers(look, _JUDGE)
    return SeenStream(snapshot, (*claims, *waiting), payloads, consumer_list(judged, claims, NOW))


def _payload(row: Row, number: int) -> Payload:
    data = json.dumps({"source": row.source, "rowid": 89_633 + number, "text": "see you at 7?"}, indent=1).encode()
    return Payload(data, row.size or 0, False, (("entry", row.id), ("stream", "memex")))
