"""Lists for the front ends: windows over the packed names of a scan, their order and filter, and one message in full."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine.names import Name, is_own_id, parse
from spooltop.model.filters import query as filters
from spooltop.model.protocols import ListProgress, ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key

from ..row_listing import matcher
from .message import ListPreview
from .scan.scan import CHUNK, PackedNames, quick_enqueued_us
from .storage.rows import FORMS_AT_MOST, named_like, new_row

# Decides about messages in ``new`` by their names.

def _attributes(raw: str) -> str | None:
    """The attributes in a name with an id of our own, with their comma; None of any other name."""
    id, _, _ = raw.partition(",")
    return raw[len(id) :] if is_own_id(id) else None


class NameTest:
    """A filter and a selection of messages in ``new``, as far as names decide them. Names of our own differ in their times and
    ids: what is asked of the rest of a name, its attributes, is decided once for all that have the same.

    ``older_than`` is of the selection, ``takes`` the test of all but texts and ages, for a row that ``row`` makes of a name."""

    def __init__(
        self, query: filters.ByName, older_than: float | None, takes: Callable[[Row], bool], row: Callable[[str], Row], now: float
    ) -> None:  # fmt: skip
        self._texts = query.texts
        self._ages = query.ages if older_than is None else (*query.ages, (filters.OLDER, older_than, True))
        self._takes = takes
        self._row = row
        self._now = now
        self._decided: dict[str, bool | None] = {}

    @classmethod
    def of(cls, query: ListQuery, now: float, row: Callable[[str], Row]) -> NameTest | None:
        """Makes the test of a query; None where the names are not enough."""
        wanted = filters.parse(query.filter).by_name if query.filter else filters.ByName()
        chosen = query.selection
        if query.box is not Box.NEW or wanted is None or (chosen is not None and (chosen.named or chosen.filter)):
            return None
        rest = wanted.rest
        if chosen is None:
            return cls(wanted, None, lambda row: rest.match(row, now), row, now)
        selects = replace(chosen, older_than=None).matcher(now)
        return cls(wanted, chosen.older_than, lambda row: rest.match(row, now) and selects(row), row, now)

    def __call__(self, raw: str) -> bool | None:
        """True if the message is selected; None if its file has to be looked at."""
        attributes = _attributes(raw)
        if attributes is None:
            return None
        taken = self._decided.get(attributes, ...)
        if taken is ...:
            if len(self._decided) >= FORMS_AT_MOST:
                self._decided.clear()  # each delayed message has attributes of its own
            taken = self._decided[attributes] = self._of_attributes(attributes)
        if not taken:
            return taken
        for text, wanted in self._texts:
            if (text in raw) is not wanted:
                return False
        if self._ages:
            age = max(0.0, self._now - int(raw[:16]) / 1e6)
            for compare, seconds, wanted in self._ages:
                if compare(age, seconds) is not wanted:
                    return False
        return True

    def _of_attributes(self, attributes: str) -> bool | None:
        name = named_like(attributes)
        if name is None or (self._texts and "%" in attributes):  # encoded: what is shown differs
            return None
        if not self._takes(self._row(name.raw)):
            return False
        return None if self._ages and name.attempts else True  # it came back at a time that its name does not tell


# Sorts very many keys, a piece at a time: sorting a million at once would hold the interpreter, and with it the user's keys,
# for a second.

_PIECE = 16_384
_SAMPLES = 8


def ordered(
    keys: Sequence[Any], cancelled: Callable[[], bool], on_progress: Callable[[float], None] = lambda share: None
) -> array[int] | None:
    """Returns the places of ``keys`` in ascending order, as ``sorted(range(len(keys)), key=keys.__getitem__)`` does, four bytes
    each; None if it was cancelled. ``on_progress`` gets the share that is done (0 to 1)."""
    value = keys.__getitem__
    count = len(keys)
    if count <= _PIECE:
        return array("I", sorted(range(count), key=value))
    from random import Random  # only for long lists

    pieces = count // _PIECE + 1
    anywhere = Random(0)
    sample = sorted(keys[int(anywhere.random() * count)] for _ in range(_SAMPLES * pieces))
    edges = sorted(set(sample[_SAMPLES // 2 :: _SAMPLES]))
    # Each piece is sorted, and the edges are located in it. Then the parts of all pieces between two edges are sorted together,
    # which merges them because each part is sorted already. Keys equal to an edge, such as nearly all tries, keep their order.
    runs: list[tuple[array[int], list[int]]] = []
    for start in range(0, count, _PIECE):
        if cancelled():
            return None
        on_progress(0.6 * start / count)
        run = array("I", sorted(range(start, min(start + _PIECE, count)), key=value))
        cuts = [at for edge in edges for at in (bisect_left(run, edge, key=value), bisect_right(run, edge, key=value))]
        runs.append((run, [0, *cuts, len(run)]))
    found = array("I")
    for number in range(2 * len(edges) + 1):
        if cancelled():
            return None
        on_progress(0.6 + 0.4 * len(found) / count)
        between = chain.from_iterable(run[cuts[number] : cuts[number + 1]] for run, cuts in runs)
        found.extend(between if number % 2 else sorted(between, key=value))
    return found


# The order of a box by a column, from its packed names: four bytes a message. It is kept as long as the scan, so that a filter
# only has to select from it.

_SORTED_AT_MOST = 100_000

ValueOf = Callable[[str], float | str | None]
"""Returns the value that the message of this name has in a column, None if it has none."""


class Order(NamedTuple):
    """Places of names, ascending by a column. ``unknown`` are those without a value, which come last in both directions."""

    known: array[int]
    unknown: array[int]

    def only(self, mask: bytearray) -> Order:
        """Keeps the places that ``mask`` selects (one byte per place, 1: selected), in this order."""
        return Order(_only(self.known, mask), _only(self.unknown, mask)) if 0 in mask else self

    def places(self, *, reverse: bool) -> array[int]:
        known = self.known
        if reverse:
            known = known[:]
            known.reverse()
        return known + self.unknown if self.unknown else known


def time_of(times: Mapping[str, int]) -> ValueOf:
    """The time of the put, in µs; ``times`` holds those of names without one."""
    def value(raw: str) -> float | None:
        when = quick_enqueued_us(raw)
        when = times.get(raw) if when is None else when
        return None if when is None else float(when)  # floats hold the µs of this millennium exactly and compare fastest
    return value


def by_column(
    names: PackedNames, value: ValueOf, mask: bytearray | None, cancelled: Callable[[], bool],
    on_progress: Callable[[float], None] = lambda share: None, gathered: float = 0.6,
) -> Order | None:  # fmt: skip
    """Orders the names that ``mask`` selects (None: all). Returns None if it was cancelled. ``on_progress`` gets the share that
    is done (0 to 1), of which the values take ``gathered``."""
    keys: list[float | str] = []
    places, unknown = array("I"), array("I")
    for start, chunk in names.chunks():
        if cancelled():
            return None
        on_progress(gathered * start / len(names))
        for place, raw in enumerate(os.fsdecode(chunk).split("/"), start):
            if mask is not None and not mask[place]:
                continue
            key = value(raw)
            if key is None:
                unknown.append(place)
            else:
                keys.append(key)
                places.append(place)
    ranks = ordered(keys, cancelled, lambda share: on_progress(gathered + (1.0 - gathered) * share))
    if ranks is None:
        return None
    return Order(ranks if len(places) == len(names) else _each(places, ranks), _last(unknown, names))


def _name_like(raw: str) -> Name:
    """Parses a name; one of our own once for all with its attributes, whose id and times are then not those of ``raw``."""
    attributes = _attributes(raw)
    return (None if attributes is None else named_like(attributes)) or parse(raw, claimed=False)


def _last(unknown: array[int], names: PackedNames) -> array[int]:
    """Sorts the places without a value by name, unless there are very many: the order of a directory means nothing."""
    return unknown if len(unknown) > _SORTED_AT_MOST else array("I", sorted(unknown, key=names.__getitem__))


def _only(places: array[int], mask: bytearray) -> array[int]:
    found = array("I")
    for start in range(0, len(places), _PIECE):  # between two pieces another thread can run
        piece = places[start : start + _PIECE]
        found.extend(compress(piece, map(mask.__getitem__, piece)))
    return found


def _each(places: array[int], ranks: array[int]) -> array[int]:
    found = array("I")
    for start in range(0, len(ranks), _PIECE):
        found.extend(map(places.__getitem__, ranks[start : start + _PIECE]))
    return found


# List with a length and windows over the packed names of a scan, in which nothing was judged.

Stat = Callable[[str], os.stat_result | None]
"""Returns the lstat(2) of a name in the box, None if it has gone."""


class NamedBox(Struct, frozen=True):
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
        self.order = known
        # Ages count backwards: the oldest has the least time and the greatest age.
        by_age = query.sort.column in ("age", "held")
        reverse = query.sort.descending != by_age
        preview = ListPreview(progress, lambda raw: named.row(raw, named.status(raw)), backwards=reverse)
        order = self._ordered(query, now, cancelled, preview, named.times)
        self._order = array("I") if order is None else order.places(reverse=reverse)
        self.complete = named.complete and order is not None

    def _ordered(
        self, query: ListQuery, now: float, cancelled: Callable[[], bool], preview: ListPreview, times: Mapping[str, int]
    ) -> Order | None:  # fmt: skip
        mask = self._taken(query, now, cancelled, preview)
        if cancelled():
            return None
        preview.stage(1.0)
        if mask is not None and self.order is not None:
            return self.order.only(mask)
        column = query.sort.column
        value: ValueOf = {
            "age": time_of(times), "held": time_of(times), "size": self._size, "source": lambda raw: _name_like(raw).source,
            "tries": lambda raw: _name_like(raw).attempts,
        }.get(column, str)  # fmt: skip
        gathered = 0.9 if column == "size" else 0.6  # for sizes each file is looked up
        order = self.order or by_column(self._names, value, mask, cancelled, preview.at, gathered)
        if mask is None:
            self.order = order
        return order

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
        mask = bytearray(len(self._names))
        preview.stage(0.5 if self.order is None else 1.0)
        for start, chunk in self._names.chunks():
            if cancelled():
                break
            preview.at(start / len(mask))
            if not wanted.could_match(chunk):
                continue
            found = []
            for place, raw in enumerate(os.fsdecode(chunk).split("/"), start):
                taken = None if test is None else test(raw)
                if taken is None and wanted.could_match(os.fsencode(raw)):
                    taken = match(self._row(raw, self._look(raw)) if with_stat else self._of_name(raw))
                if taken:
                    mask[place] = 1
                    found.append(raw)
            if found and preview.wanted:
                preview.take(found)
        return mask

    def _of_name(self, raw: str) -> Row:
        """Returns the row as far as the name alone tells it."""
        return replace(self._row(raw, None), note="")

    def _size(self, raw: str) -> float | None:
        found = self._look(raw)
        return None if found is None else float(found.st_size)

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
