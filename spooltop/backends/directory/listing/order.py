"""The order of a box by a column, from its packed names: four bytes a message. It is kept as long as the scan, so that a filter
only has to select from it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from spooltop.engine import names as grammar
from spooltop.patterns import pattern

from ..scan.packed_names import PackedNames
from .name_filter import PerForm, attributes_of
from .sorting import ordered

__all__ = ["Order", "Values", "by_column"]

_SORTED_AT_MOST = 100_000
_PIECE = 16_384
_TEXTS_AT_ONCE = 262_144
_TIMES = pattern(rb"([0-9]{16}(?=\.))?[^/]+/?")
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
