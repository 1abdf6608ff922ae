"""The order of very many keys, a piece at a time: to sort a million at once would hold the interpreter, and with it the keys that
somebody presses, for a second."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["ordered"]

_PIECE = 16_384
_SAMPLES = 8


def ordered(keys: Sequence[Any], *, reverse: bool, cancelled: Callable[[], bool]) -> array[int] | None:
    """The places of ``keys`` in their order, as ``sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)`` gives
    them; None where it was cancelled."""
    value = keys.__getitem__
    count = len(keys)
    if count <= _PIECE:
        return array("L", sorted(range(count), key=value, reverse=reverse))
    pieces = count // _PIECE + 1
    anywhere = random.Random(0)
    sample = sorted(keys[int(anywhere.random() * count)] for _ in range(_SAMPLES * pieces))
    edges = sorted(set(sample[_SAMPLES // 2 :: _SAMPLES]))
    # Between two edges, and on one: what is equal to an edge, as the tries of nearly all are, stands in its order already.
    buckets = [array("L") for _ in range(2 * len(edges) + 1)]  # eight bytes a place, where an int takes forty
    for start in range(0, count, _PIECE):
        if cancelled():
            return None
        for place in range(start, min(start + _PIECE, count)):
            key = keys[place]
            buckets[bisect_left(edges, key) + bisect_right(edges, key)].append(place)
    found = array("L")
    for number in range(len(buckets))[:: -1 if reverse else 1]:
        if cancelled():
            return None
        bucket = buckets[number]
        found.extend(bucket if number % 2 else sorted(bucket, key=value, reverse=reverse))
        buckets[number] = array("L")
    return found
