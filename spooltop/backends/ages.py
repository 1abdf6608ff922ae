"""Counts of messages by age, for every kind of queue that knows when a message was put."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

from spooltop.model.look.observation import AGE_BOUNDS, AHEAD, Ages, SourceAges

__all__ = ["age_counts", "ages_of", "largest"]

_SOURCES = 12


def ages_of(found: Iterable[tuple[str | None, float | None]], of: int, now: float) -> Ages:
    """Counts messages, each a source and the time of its put (epoch seconds, None where not known); ``of``: as many there are."""
    put_at: dict[str | None, list[float | None]] = {}
    for source, at in found:
        put_at.setdefault(source, []).append(at)
    dated = {source: array("d", sorted(at for at in times if at is not None)) for source, times in put_at.items()}
    every = array("d", sorted(chain.from_iterable(dated.values())))
    looked_at = sum(map(len, put_at.values()))
    ahead = len(every) - bisect_right(every, now + AHEAD)
    counted = tuple(SourceAges(source, len(put_at[source]), age_counts(dated[source], now)) for source in largest(put_at))
    return Ages(
        AGE_BOUNDS, age_counts(every, now), counted, len(put_at), looked_at, of, looked_at - len(every), ahead,
        every[-1] if ahead else None,
    )  # fmt: skip


def largest(put_at: Mapping[str | None, Sequence[object]]) -> list[str | None]:
    """The sources with most messages, largest first."""
    return sorted(put_at, key=lambda source: (-len(put_at[source]), source or ""))[:_SOURCES]


def age_counts(put_at: array[float], now: float) -> tuple[int, ...]:
    """Counts times by age class, youngest first. ``put_at`` is in ascending order."""
    # A message is as old as a bound or older if it was put that long ago or earlier. The future counts as youngest.
    older = [bisect_right(put_at, now - bound) for bound in AGE_BOUNDS]
    edges = [len(put_at), *older, 0]
    return tuple(a - b for a, b in pairwise(edges))
