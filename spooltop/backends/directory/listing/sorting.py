"""Sorts very many keys, a piece at a time: sorting a million at once would hold the interpreter, and with it the user's keys, for
a second."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

__all__ = ["ordered"]

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
