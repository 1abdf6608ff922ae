"""List over rows that exist already, for every kind of queue."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

from msgspec import Struct

from spooltop.model import AGE_BOUNDS, AHEAD, Ages, Key, ListQuery, Row, Selection, SourceAges
from spooltop.model import query as filters

# Counts of messages by age, for every kind of queue that knows when a message was put.

_SOURCES = 12


class AgeCounter:
    """Counts messages by age and source. ``put``: the source of each message that was looked at, and the time of its put (epoch
    seconds, None where not known); ``of``: as many messages there are."""

    def __init__(self, put: Iterable[tuple[str | None, float | None]], of: int) -> None:
        totals = Counter[str | None]()
        dated = defaultdict[str | None, list[float]](list)
        for source, at in put:
            totals[source] += 1
            if at is not None:
                dated[source].append(at)
        largest = sorted(totals, key=lambda source: (-totals[source], source or ""))[:_SOURCES]
        self._of = of
        self._all = array("d", sorted(chain.from_iterable(dated.values())))
        self._looked_at, self._sources = totals.total(), len(totals)
        self._by_source = [(source, totals[source], array("d", sorted(dated[source]))) for source in largest]

    def ages(self, now: float) -> Ages:
        counted = tuple(SourceAges(source, total, age_counts(put_at, now)) for source, total, put_at in self._by_source)
        ahead = len(self._all) - bisect_right(self._all, now + AHEAD)
        return Ages(
            AGE_BOUNDS, age_counts(self._all, now), counted, self._sources, self._looked_at, self._of,
            self._looked_at - len(self._all), ahead, self._all[-1] if ahead else None,
        )  # fmt: skip


def age_counts(put_at: array[float], now: float) -> tuple[int, ...]:
    """Counts times by age class, youngest first. ``put_at`` is in ascending order."""
    # A message is as old as a bound or older if it was put that long ago or earlier. The future counts as youngest.
    older = [bisect_right(put_at, now - bound) for bound in AGE_BOUNDS]
    edges = [len(put_at), *older, 0]
    return tuple(a - b for a, b in pairwise(edges))


_VERDICTS = {"dead": 0, "abandoned": 1, "unknown": 2, "writing": 3, "alive": 4}


_ATTRIBUTES = {
    "age": "enqueued_at", "held": "in_box_since", "size": "size", "source": "source", "tries": "attempt", "verdict": "verdict",
}  # fmt: skip
"""Attributes of a row by the column that sorts by them; any other sorts by the name."""


def _sort_key(column: str) -> Callable[[Row], tuple[Any, ...]]:
    """The sort key of a column, ascending, of rows that have a value."""
    if column == "verdict":
        # who has it for the longest time comes first, and last of all one of whom that is not known
        return lambda row: (
            -_VERDICTS.get(str(row.verdict), 9), row.in_box_since is not None, -(row.in_box_since or 0.0), row.name
        )  # fmt: skip
    value = attrgetter(_ATTRIBUTES.get(column, "name"))
    if column in ("age", "held"):
        return lambda row: (-value(row), row.name)
    return lambda row: (value(row), row.name)


class RowListing(Struct, eq=False):
    """List over rows: judged claims, files in ``tmp``, set-aside messages, messages of other programs. ``ordered_over`` is the
    number of rows where there are more messages than that."""

    query: ListQuery
    _found: Iterable[Row]
    now: float
    complete: bool
    generation: int
    ordered_over: int | None = None
    timed: bool = True
    _rows: Sequence[Row] = ()
    _places: dict[Key, int] | None = None

    def __post_init__(self) -> None:
        match, sort = matcher(self.query, self.now), self.query.sort
        value = attrgetter(_ATTRIBUTES.get(sort.column, "name"))
        known: list[Row] = []
        missing: list[Row] = []
        for row in self._found:
            if match is None or match(row):
                (missing if value(row) is None else known).append(row)
        # Rows without a value come last in both directions.
        known.sort(key=_sort_key(sort.column), reverse=sort.descending)
        self._found, self._rows = (), known + sorted(missing, key=lambda row: row.name)

    def __len__(self) -> int:
        return len(self._rows)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        return self._rows[max(0, start) : max(0, stop)]

    def find(self, key: Key) -> int | None:
        if self._places is None:
            self._places = {row.key: place for place, row in enumerate(self._rows)}
        return self._places.get(key)

    def keys(self) -> Iterator[Key]:
        return (row.key for row in self._rows)


def matcher(query: ListQuery, now: float) -> Callable[[Row], bool] | None:
    """Returns the test of filter and selection together; None if everything is selected."""
    wanted = filters.parse(query.filter)
    chosen = query.selection
    if chosen is not None and chosen.replace(box=None) == Selection(everything=True) and chosen.box in (None, query.box):
        chosen = None
    if chosen is None:
        return None if wanted.empty else lambda row: wanted.match(row, now)
    selects = chosen.matcher(now)
    return lambda row: wanted.match(row, now) and selects(row)
