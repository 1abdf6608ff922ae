"""Consumers of a queue of another program, as far as its claims name them."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.row import Row
from spooltop.model.vocabulary import Verdict

__all__ = ["consumers_of"]

_FIRST = 5


def consumers_of(claims: Sequence[Row], taken_at: float) -> ConsumerList:
    """Groups ``claims`` by the worker or the pid that they name. A worker without a claim is not known."""
    groups: dict[tuple[str, Verdict], list[Row]] = {}
    nameless = 0
    for row in claims:
        owner = row.owner
        name = None if owner is None else owner.command or (str(owner.pid) if owner.pid is not None else None)
        if name is None:
            nameless += 1
        else:
            groups.setdefault((name, row.verdict or Verdict.UNKNOWN), []).append(row)
    return ConsumerList(tuple(_consumer(*key, rows) for key, rows in groups.items()), taken_at, nameless=nameless)


def _consumer(name: str, verdict: Verdict, rows: Sequence[Row]) -> ConsumerRow:
    oldest = sorted(rows, key=lambda row: row.in_box_since or 0.0)
    times = [row.in_box_since for row in rows if row.in_box_since is not None]
    first = oldest[0]
    assert first.owner is not None
    return ConsumerRow(
        verdict, first.evidence, first.owner, name, len(rows), min(times, default=None), first.since_is_bound,
        max(times, default=None), tuple(row.id for row in oldest[:_FIRST]),
    )  # fmt: skip
