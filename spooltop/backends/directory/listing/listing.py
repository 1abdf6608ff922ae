"""List with a length and windows over the packed names of a scan, in which nothing was judged."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

from spooltop.model.filters import query as filters
from spooltop.model.protocols import ListProgress, ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key
from spooltop.records import dataclass, field, replace

from ...row_listing import matcher
from ..scan.packed_names import CHUNK, PackedNames
from ..scan.scan import quick_enqueued_us
from ..storage.rows import new_row
from .name_filter import NameTest
from .order import Order, Values, by_column
from .preview import ListPreview

__all__ = ["NameListing", "NamedBox"]

_ALL = b"\1" * CHUNK

Stat = Callable[[str], os.stat_result | None]
"""Returns the lstat(2) of a name in the box, None if it has gone."""


@dataclass(frozen=True, slots=True)
class NamedBox:
    """A box as the last scan saw it, in which nothing is judged. ``status`` looks a name up, ``row`` makes its row. ``times`` are
    put times (µs) of names that contain none."""

    names: PackedNames
    status: Stat
    times: Mapping[str, int] = field(default_factory=dict)
    box: Box = Box.NEW
    row: Callable[[str, os.stat_result | None], Row] = new_row
    complete: bool = True
    generation: int = 0


class NameListing:
    """List over the packed names of a box: four bytes a message for the order, and rows only for the window.

    ``known`` is the order of all names by the column of the query, if it is known already. ``order`` is that order afterwards, if
    all names were ordered. A cancelled list is empty and not ``complete``.
    """

    def __init__(
        self,
        query: ListQuery,
        named: NamedBox,
        *,
        now: float,
        cancelled: Callable[[], bool] = lambda: False,
        known: Order | None = None,
        progress: ListProgress | None = None,
    ) -> None:
        self.query = query
        self.generation = named.generation
        self._names = named.names
        self._look = named.status
        self._box = named.box
        self._row = named.row
        self.timed = False
        self.ordered_over: int | None = None
        values = Values(quick_enqueued_us, named.times, self._size)
        self.order = known
        # Ages count backwards: the oldest has the least time and the greatest age.
        by_age = query.sort.column in ("age", "held")
        reverse = query.sort.descending != by_age
        preview = ListPreview(progress, lambda raw: named.row(raw, named.status(raw)), backwards=reverse)
        order = self._ordered(query, now, values, cancelled, preview)
        self._order = array("I") if order is None else order.places(reverse=reverse)
        self.complete = named.complete and order is not None

    def _ordered(
        self, query: ListQuery, now: float, values: Values, cancelled: Callable[[], bool], preview: ListPreview
    ) -> Order | None:
        mask = self._taken(query, now, cancelled, preview)
        if cancelled():
            return None
        preview.stage(1.0)
        if mask is None:
            self.order = self.order or by_column(query.sort.column, self._names, None, values, cancelled, on_progress=preview.at)
            return self.order
        if self.order is not None:
            return self.order.only(mask)
        return by_column(query.sort.column, self._names, mask, values, cancelled, on_progress=preview.at)

    def _taken(self, query: ListQuery, now: float, cancelled: Callable[[], bool], preview: ListPreview) -> bytearray | None:
        """Returns one byte for each name, 1 if filter and selection take it; None if they take all. If cancelled, the rest is
        0."""
        match = matcher(query, now)
        if match is None:
            return None
        wanted = filters.parse(query.filter) if query.filter else filters.Query()
        chosen = query.selection
        with_stat = wanted.needs_stat or (chosen is not None and (chosen.older_than is not None or bool(chosen.filter)))
        self.timed = with_stat
        test = NameTest.of(query, now, self._of_name) if self._box is Box.NEW else None
        needles = wanted.plain_terms
        by_text = bool(needles) or (test is not None and bool(test.texts))
        mask = bytearray(len(self._names))
        preview.stage(0.5 if self.order is None else 1.0)
        for start, chunk in self._names.chunks():
            if cancelled():
                break
            preview.at(start / len(mask))
            plain = by_text and filters.is_plain(chunk)
            if plain and not all(needle in chunk for needle in needles):
                continue
            joined = os.fsdecode(chunk)
            names = joined.split("/")
            places: Sequence[int] = range(len(names))
            taken: Sequence[int] = ()
            if test is not None and (plain or not test.texts):
                for text, there in test.texts:
                    if there or text in joined:
                        places = [place for place in places if (text in names[place]) is there]
                taken, places = test.split(places, joined, names) if test.more else (places, ())
            if len(taken) == len(names):
                mask[start : start + len(names)] = _ALL[: len(names)]
                if preview.wanted:
                    preview.take(names)
                continue
            for place in taken:
                mask[start + place] = 1
            found = [] if not preview.wanted else [names[place] for place in taken]
            for place in places:
                raw = names[place]
                if needles and not wanted.could_match(os.fsencode(raw)):
                    continue
                if match(self._row(raw, self._look(raw)) if with_stat else self._of_name(raw)):
                    mask[start + place] = 1
                    found.append(raw)
            if found and preview.wanted:
                preview.take(found)
        return mask

    def _of_name(self, raw: str) -> Row:
        """Returns the row as far as the name alone tells it."""
        return replace(self._row(raw, None), note="")

    def _size(self, raw: str) -> int | None:
        found = self._look(raw)
        return None if found is None else found.st_size

    def __len__(self) -> int:
        return len(self._order)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        return [self._row(raw, self._look(raw)) for raw in self._names.pick(self._order[max(0, start) : max(0, stop)])]

    def find(self, key: Key) -> int | None:
        if not isinstance(key, tuple) or len(key) != 2 or key[0] != self._box.value or not isinstance(key[1], str):
            return None
        place = self._names.find(key[1])
        if place is None:
            return None
        try:
            return self._order.index(place)
        except ValueError:
            return None  # the filter does not take it

    def keys(self) -> Iterator[Key]:
        names = list(self._names) if len(self._order) > CHUNK else self._names
        return ((self._box.value, names[place]) for place in self._order)
