"""Counts the messages in ``new`` by age and source. It uses the names of the last scan and never reads the directory again."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from spooltop.engine import names as grammar
from spooltop.model.observation import AGE_BOUNDS, AHEAD, Ages, SourceAges

from .scan import BoxScan, quick_enqueued_us

__all__ = ["AgeCounter"]

_LOOKED_AT = 5_000
"""Names that are read: all of a smaller box, an even sample of a larger one."""
_SOURCES = 12


class AgeCounter:
    """Reads the names once for each scan. A look in between only updates the ages."""

    def __init__(self) -> None:
        self._scan = -1
        self._of = 0
        self._undated = 0
        self._all: array[float] = array("d")
        self._by_source: list[tuple[str | None, int, array[float]]] = []
        self._sources = 0

    def look(self, scan: BoxScan, times: Mapping[str, int], now: float) -> Ages | None:
        """Counts by age. ``times`` are the mtimes in µs of names that hold no time. Returns None if the box cannot be seen."""
        if scan.error:
            return None
        if scan.number != self._scan:
            self._read(scan, times)
        counted = tuple(SourceAges(source, total, _counts(put, now)) for source, total, put in self._by_source)
        looked_at = len(self._all) + self._undated
        ahead = len(self._all) - bisect_right(self._all, now + AHEAD)
        return Ages(
            AGE_BOUNDS, _counts(self._all, now), counted, self._sources, looked_at, self._of, self._undated, ahead,
            self._all[-1] if ahead else None,
        )  # fmt: skip

    def _read(self, scan: BoxScan, times: Mapping[str, int]) -> None:
        self._scan, self._of, self._undated = scan.number, len(scan.names), 0
        looked_at: Iterable[str] = scan.names if self._of <= _LOOKED_AT else scan.names.sample(_even_sample(self._of))
        totals: Counter[str | None] = Counter()
        put_at: dict[str | None, list[float]] = {}
        sources: dict[tuple[bool, str], str | None] = {}  # names of one source mostly differ only in their ids
        for raw in looked_at:
            enqueued_us = quick_enqueued_us(raw)
            source = None
            if ",s=" in raw:
                form = raw[16:17] == ".", raw.partition(",")[2]
                if form not in sources:
                    sources[form] = grammar.parse(raw, claimed=False).source
                source = sources[form]
            totals[source] += 1
            if enqueued_us is None:
                enqueued_us = times.get(raw)
            if enqueued_us is None:
                self._undated += 1
            else:
                put_at.setdefault(source, []).append(enqueued_us / 1e6)
        self._sources = len(totals)
        self._all = array("d", sorted(at for each in put_at.values() for at in each))
        ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0] or ""))[:_SOURCES]
        self._by_source = [(source, total, array("d", sorted(put_at.get(source, ())))) for source, total in ranked]


def _counts(put_at: array[float], now: float) -> tuple[int, ...]:
    """Counts times by age class, youngest first. ``put_at`` is in ascending order."""
    # A message is as old as a bound or older if it was put that long ago or earlier. The future counts as youngest.
    older = [bisect_right(put_at, now - bound) for bound in AGE_BOUNDS]
    edges = [len(put_at), *older, 0]
    return tuple(a - b for a, b in pairwise(edges))


def _even_sample(count: int) -> Iterator[int]:
    """Yields a random place in each step of ``count`` places, because a fixed one would favour a source that puts in turn."""
    from random import Random  # only for large boxes

    within = Random(0)
    step = count / _LOOKED_AT
    return (int((turn + within.random()) * step) for turn in range(_LOOKED_AT))
