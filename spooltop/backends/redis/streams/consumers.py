"""The consumers of a group, as the Consumers view lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.row import Row

from .verdicts import JudgedMember

__all__ = ["consumer_list"]

_FIRST = 5
_MOST = 1_000


def consumer_list(judged: Mapping[str, JudgedMember], claims: Iterable[Row], now: float) -> ConsumerList:
    """Returns the consumers, dead ones with claims first. ``claims`` are those that a look showed, the oldest of each."""
    rows: dict[str, list[Row]] = {}
    for row in claims:
        if row.owner is not None and row.owner.name is not None:
            rows.setdefault(row.owner.name, []).append(row)
    known = sorted(judged.values(), key=lambda one: (-one.state.pending, one.state.name))
    found = [_row(one, rows.get(one.state.name, ()), now) for one in known[:_MOST]]
    found.sort(key=lambda one: (-one.rank, one.claimed_at or now))
    return ConsumerList(tuple(found), now, more=max(0, len(known) - _MOST), measured=False)


def _row(one: JudgedMember, claims: Sequence[Row], now: float) -> ConsumerRow:
    times = [row.in_box_since for row in claims if row.in_box_since is not None]
    return ConsumerRow(
        one.verdict, one.evidence, one.owner, None, one.state.pending, min(times, default=None),
        one.state.pending > len(claims), max(times, default=None), tuple(row.id for row in claims[:_FIRST]),
        asked_at=None if one.state.idle is None else now - one.state.idle,
    )  # fmt: skip
