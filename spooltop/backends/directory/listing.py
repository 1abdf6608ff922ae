"""Lists for the front ends: windows over the packed names of a scan, their order and filter, and one message in full."""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine import names as grammar
from spooltop.model.filters import query as filters
from spooltop.model.protocols import ListProgress, ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key

from ..row_listing import matcher
from .message import ListPreview
from .scan.scan import CHUNK, PackedNames, quick_enqueued_us
from .storage.rows import new_row

# Evaluates the names in ``new`` in bulk. Most names differ only in their time and their random part, so that each form of a
# name is parsed once instead of each name.

T = TypeVar("T")

_FORM = re.compile(r"(?<![^/])([0-9]{16})\.(?:(P)[0-9]{1,10}R[0-9a-f]{16}\.)?+[A-Za-z0-9._-]++(,[^/]*+)?+(?=/|\Z)")
_OWN = re.compile(r"(?<![^/])[0-9]{16}+\.P[0-9]{1,10}+R[0-9a-f]{16}+\.[A-Za-z0-9._-]++(,[^/]*+)?+(?=/|\Z)")
_FORMS_AT_MOST = 10_000

Form = tuple[str, str, str]
"""Form of a name: its put time (16 digits, µs), "P" if its id is one of our own (else ""), and its attributes with their
comma."""


def forms_of(text: str, names: Sequence[str]) -> list[Form | None]:
    """The forms of ``names``, which ``text`` holds joined by ``/``; None of a name that is of none."""
    found: list[Form | None] = _FORM.findall(text)
    if len(found) == len(names):
        return found
    return [None if (one := _FORM.fullmatch(name)) is None else (one[1], one[2] or "", one[3] or "") for name in names]


def attributes_of(text: str, names: Sequence[str]) -> list[str]:
    """The attributes of ``names`` with their comma, which ``text`` holds joined by ``/``, where all are of our own; else nothing.
    Half the work of their whole forms."""
    found: list[str] = _OWN.findall(text)
    return found if len(found) == len(names) else []


class PerForm(dict[tuple[str, str], T], Generic[T]):
    """``make`` of a name of each form, by the last two members of the form; its time and its random part mean nothing."""

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: tuple[str, str]) -> T:
        if len(self) >= _FORMS_AT_MOST:
            self.clear()  # each delayed message has a form of its own
        own, attributes = key
        value = self[key] = self._make("0" * 16 + (".P1R" + "0" * 16 if own else "") + ".x" + attributes)
        return value


class NameTest:
    """A filter and a selection of messages in ``new``, as far as names decide them. ``older_than`` is of the selection, ``takes``
    the test of all but texts and ages, for a row made by ``row`` out of a name alone; ``more``: there is more than texts."""

    def __init__(
        self,
        query: filters.ByName,
        older_than: float | None,
        takes: Callable[[Row], bool],
        row: Callable[[str], Row],
        now: float,
        *,
        more: bool,
    ) -> None:
        self.texts = query.texts
        self.more = more
        self._takes = takes
        self._row = row
        ages = query.ages if older_than is None else (*query.ages, (filters.OLDER, older_than, True))
        self._by_age = bool(ages)
        self._first, self._behind = _put_between(ages, now)
        self._forms = PerForm(self._of_form)
        self._undecided = False

    @classmethod
    def of(cls, query: ListQuery, now: float, row: Callable[[str], Row]) -> NameTest | None:
        """Makes the test of a query; None where the names are not enough."""
        wanted = filters.parse(query.filter).by_name if query.filter else filters.ByName()
        chosen = query.selection
        if query.box is not Box.NEW or wanted is None or (chosen is not None and (chosen.named or chosen.filter)):
            return None
        rest, more = wanted.rest, bool(wanted.ages) or not wanted.rest.empty or chosen is not None
        if chosen is None:
            return cls(wanted, None, lambda row: rest.match(row, now), row, now, more=more)
        selects = replace(chosen, older_than=None).matcher(now)
        return cls(wanted, chosen.older_than, lambda row: rest.match(row, now) and selects(row), row, now, more=more)

    def _of_form(self, name: str) -> bool | None:
        if not self._takes(self._row(name)):
            return False
        if self._by_age and grammar.parse(name, claimed=False).attempts:
            self._undecided = True
            return None  # what was in work before came back at a time that its name does not tell
        return True

    def split(self, places: Sequence[int], text: str, names: Sequence[str]) -> tuple[Sequence[int], Sequence[int]]:
        """Splits ``places`` in ``names``, which ``text`` holds joined by ``/``, into those accepted (their texts are not tested)
        and those whose file has to be examined."""
        known, first, behind = self._forms, self._first, self._behind
        own = attributes_of(text, names)
        decided = {one: known["P", one] for one in set(own)}
        if own and None not in decided.values():
            if self._by_age and not (first <= min(names) and max(names) < behind):
                return [at for at in places if first <= names[at] < behind and decided[own[at]]], []
            if all(decided.values()):
                return places, []
            return [at for at in places if decided[own[at]]] if any(decided.values()) else [], []
        forms = forms_of(text, names)
        taken = [at for at in places if (form := forms[at]) and known[form[1], form[2]] and first <= form[0] < behind]
        if not self._undecided and None not in forms:
            return taken, []
        return taken, [at for at in places if (form := forms[at]) is None or known[form[1], form[2]] is None]


def _put_between(ages: Iterable[tuple[Callable[[float, float], bool], float, bool]], now: float) -> tuple[str, str]:
    """The first put time (16 digits, µs) that comparisons of ages at ``now`` take, and the one behind the last. What compares an
    age changes its mind once along the times: that place is looked for by halves, and no age is computed of a million."""
    first, behind = 0, 10**16
    for compare, seconds, wanted in ages:

        def takes(us: int, compare: Callable[[float, float], bool] = compare, seconds: float = seconds) -> bool:
            return compare(max(0.0, now - us / 1e6), seconds)

        old, young = takes(0) is wanted, takes(10**16 - 1) is wanted
        change = bisect_left(range(10**16), True, key=lambda us: (takes(us) is wanted) is not old) if old is not young else 0
        if old and not young:
            behind = min(behind, change)
        elif young and not old:
            first = max(first, change)
        elif not old:
            behind = 0
    return f"{first:016d}", f"{behind:016d}" if behind < 10**16 else ":"


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
_TEXTS_AT_ONCE = 262_144
_TIMES = re.compile(rb"([0-9]{16}(?=\.))?[^/]+/?")
"""Captures the time at the front of each name of a chunk, in the form that ``scan.quick_enqueued_us`` tries first; else
nothing."""


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


class Values(NamedTuple):
    """Sources of the column values of a message. ``enqueued_us`` returns the time in a name (µs), ``times`` holds the times of
    names without one, ``size`` returns None for a message that has gone."""

    enqueued_us: Callable[[str], int | None]
    times: Mapping[str, int]
    size: Callable[[str], int | None]

    def of(self, column: str, raw: str) -> float | str | None:
        if column in ("age", "held"):
            when = self.enqueued_us(raw)
            when = self.times.get(raw) if when is None else when
            return None if when is None else float(when)  # floats hold the µs of this millennium exactly and compare fastest
        if column == "size":
            size = self.size(raw)
            return None if size is None else float(size)
        name = grammar.parse(raw, claimed=False)
        return name.source if column == "source" else name.attempts


def by_column(
    column: str,
    names: PackedNames,
    mask: bytearray | None,
    values: Values,
    cancelled: Callable[[], bool],
    *,
    texts_at_once: int = _TEXTS_AT_ONCE,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Order | None:
    """Orders the names that ``mask`` selects (None: all). Returns None if it was cancelled. Holds about ``texts_at_once`` names
    as text at a time. ``on_progress`` gets the share that is done (0 to 1)."""
    if column in ("source", "tries"):
        return _grouped(column, names, mask, values, cancelled, on_progress)
    if column not in ("age", "held", "size"):
        return _by_name(names, mask, cancelled, texts_at_once, on_progress)
    keys, places, unknown = array("d"), array("I"), array("I")
    by_time = column != "size"
    gathered = 0.6 if by_time else 0.9  # share of the work; for sizes each file is looked up
    for start, chunk, taken in _chunks(names, mask):
        if cancelled():
            return None
        on_progress(gathered * start / len(names))
        times = _TIMES.findall(chunk) if by_time and len(taken) == chunk.count(b"/") + 1 else [b""]
        if b"" not in times:
            keys.extend(map(float, times))
            places.extend(taken)
            continue
        here = os.fsdecode(chunk).split("/")
        for place in taken:
            value = values.of(column, here[place - start])
            if value is None:
                unknown.append(place)
            else:
                assert isinstance(value, float)
                keys.append(value)
                places.append(place)
    ranks = ordered(keys, cancelled, lambda share: on_progress(gathered + (1.0 - gathered) * share))
    if ranks is None:
        return None
    return Order(ranks if len(places) == len(names) else _each(places, ranks), _last(unknown, names))


def _grouped(
    column: str, names: PackedNames, mask: bytearray | None, values: Values, cancelled: Callable[[], bool],
    on_progress: Callable[[float], None],
) -> Order | None:
    """Orders by a column that has few values: each value has its places, and only the values are sorted."""
    groups: dict[Any, array[int]] = {}
    per_form = PerForm(lambda raw: values.of(column, raw))
    for start, chunk, taken in _chunks(names, mask):
        if cancelled():
            return None
        on_progress(start / len(names))
        text = os.fsdecode(chunk)
        here = text.split("/")
        own = attributes_of(text, here)
        known = {one: per_form["P", one] for one in set(own)}
        if len(known) == 1:
            groups.setdefault(known.popitem()[1], array("I")).extend(taken)
            continue
        for place in taken:
            value = known[own[place - start]] if own else values.of(column, here[place - start])
            groups.setdefault(value, array("I")).append(place)
    unknown = groups.pop(None, array("I"))
    whole = array("I")
    for value in sorted(groups):
        whole += groups.pop(value)
    return Order(whole, _last(unknown, names))


def _last(unknown: array[int], names: PackedNames) -> array[int]:
    """Sorts the places without a value by name, unless there are very many: the order of a directory means nothing."""
    return unknown if len(unknown) > _SORTED_AT_MOST else array("I", sorted(unknown, key=names.__getitem__))


def _by_name(
    names: PackedNames, mask: bytearray | None, cancelled: Callable[[], bool], at_once: int, on_progress: Callable[[float], None]
) -> Order | None:
    """Orders by name. Sorts one range of the alphabet at a time, because a million names as text take four times the memory of
    packed names."""
    count = len(names)
    parts = count // at_once + 1
    sample = sorted(names[place] for place in range(0, count, max(1, count // (32 * parts)))) if parts > 1 else []
    edges = [sample[len(sample) * part // parts] for part in range(1, parts)]
    whole = array("I")
    for part, (lower, upper) in enumerate(zip([None, *edges], [*edges, None], strict=True)):
        texts: list[str] = []
        places = array("I")
        for start, chunk, taken in _chunks(names, mask):
            if cancelled():
                return None
            on_progress((part + start / count) / parts)
            here = os.fsdecode(chunk).split("/")
            first, last = min(here), max(here)
            if (lower is not None and last < lower) or (upper is not None and first >= upper):
                continue
            if (lower is not None and first < lower) or (upper is not None and last >= upper):
                taken = [
                    place for place in taken
                    if (lower is None or here[place - start] >= lower) and (upper is None or here[place - start] < upper)
                ]  # fmt: skip
            texts += [here[place - start] for place in taken]
            places.extend(taken)
        ranks = ordered(texts, cancelled)
        if ranks is None:
            return None
        whole += _each(places, ranks)
    return Order(whole, array("I"))


def _chunks(names: PackedNames, mask: bytearray | None) -> Iterator[tuple[int, bytes, Sequence[int]]]:
    """Yields (place of the first name, names joined by ``/``, selected places) for each chunk with selected names."""
    for start, chunk in names.chunks():
        places: Sequence[int] = range(start, start + chunk.count(b"/") + 1)
        if mask is not None:
            part = mask[start : start + len(places)]
            if 0 in part:
                places = list(compress(places, part))
        if places:
            yield start, chunk, places


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

_ALL = b"\1" * CHUNK

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
