"""Counts the messages in ``new`` by age and source. It uses the names of the last scan and never reads the directory again."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from spooltop.engine import names as grammar
from spooltop.model.look.observation import AGE_BOUNDS, AHEAD, Ages, SourceAges

from ...ages import age_counts, largest
from .scan import BoxScan, quick_enqueued_us

__all__ = ["AgeCounter"]

_LOOKED_AT = 5_000
"""Names that are read: all of a smaller box, an even sample of a larger one."""


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
        counted = tuple(SourceAges(source, total, age_counts(put, now)) for source, total, put in self._by_source)
        looked_at = len(self._all) + self._undated
        ahead = len(self._all) - bisect_right(self._all, now + AHEAD)
        return Ages(
            AGE_BOUNDS, age_counts(self._all, now), counted, self._sources, looked_at, self._of, self._undated, ahead,
            self._all[-1] if ahead else None,
        )  # fmt: skip

    def _read(self, scan: BoxScan, times: Mapping[str, int]) -> None:
        self._scan, self._of = scan.number, len(scan.names)
        looked_at: Iterable[str] = scan.names if self._of <= _LOOKED_AT else scan.names.sample(_even_sample(self._of))
        put_at: dict[str | None, list[int | None]] = {}
        alike: dict[str, list[int | None]] = {}  # names of one source mostly differ only in their ids
        for raw in looked_at:
            enqueued_us = quick_enqueued_us(raw)
            form = raw[16:17] + raw.partition(",")[2]
            if form not in alike:
                alike[form] = put_at.setdefault(grammar.parse(raw, claimed=False).source if ",s=" in raw else None, [])
            alike[form].append(times.get(raw) if enqueued_us is None else enqueued_us)
        dated = {source: array("d", sorted(at / 1e6 for at in found if at is not None)) for source, found in put_at.items()}
        self._sources = len(put_at)
        self._all = array("d", sorted(chain.from_iterable(dated.values())))
        self._undated = sum(map(len, put_at.values())) - len(self._all)
        self._by_source = [(source, len(put_at[source]), dated[source]) for source in largest(put_at)]


def _even_sample(count: int) -> Iterator[int]:
    """Yields a random place in each step of ``count`` places, because a fixed one would favour a source that puts in turn."""
    from random import Random  # only for large boxes

    within = Random(0)
    step = count / _LOOKED_AT
    return (int((turn + within.random()) * step) for turn in range(_LOOKED_AT))
