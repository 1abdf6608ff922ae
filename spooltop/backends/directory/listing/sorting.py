"""The order of very many keys, a piece at a time: to sort a million at once would hold the interpreter, and with it the keys that
somebody presses, for a second."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

__all__ = ["ordered"]

_PIECE = 16_384
_SAMPLES = 8


def ordered(
    keys: Sequence[Any], cancelled: Callable[[], bool], told: Callable[[float], None] = lambda share: None
) -> array[int] | None:
    """The places of ``keys`` in ascending order, as ``sorted(range(len(keys)), key=keys.__getitem__)`` gives them, four bytes
    each; None where it was cancelled. ``told`` gets the share that is done (0 to 1)."""
    value = keys.__getitem__
    count = len(keys)
    if count <= _PIECE:
        return array("I", sorted(range(count), key=value))
    pieces = count // _PIECE + 1
    anywhere = random.Random(0)
    sample = sorted(keys[int(anywhere.random() * count)] for _ in range(_SAMPLES * pieces))
    edges = sorted(set(sample[_SAMPLES // 2 :: _SAMPLES]))
    # Every piece in its own order, and where in it the edges are. Then what lies between two edges, of all pieces: to sort what
    # is in order piece by piece is to merge. What is equal to an edge, as the tries of nearly all are, stands in its order.
    runs: list[tuple[array[int], list[int]]] = []
    for start in range(0, count, _PIECE):
        if cancelled():
            return None
        told(0.6 * start / count)
        run = array("I", sorted(range(start, min(start + _PIECE, count)), key=value))
        cuts = [at for edge in edges for at in (bisect_left(run, edge, key=value), bisect_right(run, edge, key=value))]
        runs.append((run, [0, *cuts, len(run)]))
    found = array("I")
    for number in range(2 * len(edges) + 1):
        if cancelled():
            return None
        told(0.6 + 0.4 * len(found) / count)
        between = chain.from_iterable(run[cuts[number] : cuts[number + 1]] for run, cuts in runs)
        found.extend(between if number % 2 else sorted(between, key=value))
    return found
