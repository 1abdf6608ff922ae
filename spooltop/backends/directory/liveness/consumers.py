"""Gathers the consumers of a spool from the claims that a look has judged."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model.consumers import ConsumerList, ConsumerRow
from spooltop.model.row import Row
from spooltop.model.vocabulary import Owner, Verdict

from ..storage.name_forms import NameForms, tokens_of

__all__ = ["ConsumerGatherer", "claiming"]

_IDS = 8
"""Claims of a consumer that are named."""


def claiming(rows: Sequence[Row]) -> tuple[list[ConsumerRow], int]:
    """The consumers that hold the claims ``rows``, and how many of these name no consumer. ``rows`` are the oldest first."""
    held: dict[tuple[str, int | None, Verdict | None], list[Row]] = {}
    nameless = 0
    names = [row.name for row in rows]
    for row, token in zip(rows, tokens_of(NameForms.of(names, claimed=True).tails), strict=True):
        pid = None if token or row.owner is None else row.owner.pid
        if not token and pid is None:
            nameless += 1
        else:
            held.setdefault((token, pid, None if token else row.verdict), []).append(row)
    return [_consumer(token, some) for (token, _, _), some in held.items()], nameless


def _consumer(token: str, rows: Sequence[Row]) -> ConsumerRow:
    first = rows[0]
    times = [row.in_box_since for row in rows if row.in_box_since is not None]
    exact = [row.in_box_since for row in rows if row.in_box_since is not None and not row.since_is_bound]
    return ConsumerRow(
        verdict=first.verdict or Verdict.UNKNOWN,
        evidence=first.evidence,
        owner=first.owner or Owner(),
        token=token or None,
        claims=len(rows),
        claimed_at=min(times, default=None),
        claimed_is_bound=first.since_is_bound,
        last_claim_at=max(exact, default=None),
        ids=tuple(row.id for row in rows[:_IDS]),
    )


class ConsumerGatherer:
    """Gathers the consumers of one spool, look after look."""

    def gather(self, rows: Sequence[Row], taken_at: float) -> ConsumerList:
        found, nameless = claiming(rows)
        return ConsumerList(tuple(found), taken_at, nameless=nameless)
