"""Encodes log lines, one JSON object each. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import TypeVar

from .vocabulary import Json

__all__ = ["encode_line", "encode_outcome", "encode_outcomes", "memoised"]

_One = TypeVar("_One")
_Other = TypeVar("_Other")


def encode_line(head: Mapping[str, Json], **lists: Iterable[str]) -> bytes:
    r"""Encodes ``head``, which is not empty, with ``lists`` whose items are JSON already.

    A batch has a thousand items of one shape: joining them takes a third of the time of ``json.dumps``.

    >>> encode_line({"schema": 1}, ids=['"a"', '"b"'], results=[])
    b'{"schema":1,"ids":["a","b"],"results":[]}\n'
    """
    spelled = "".join(f',"{name}":[{",".join(items)}]' for name, items in lists.items())
    return f"{json.dumps(head, separators=(',', ':'))[:-1]}{spelled}}}\n".encode()


def memoised(spell: Callable[[_One, _Other], str], ones: Iterable[_One], others: Iterable[_Other]) -> Iterator[str]:
    """Yields ``spell(one, other)`` for each pair. A run of the same two objects, as in most batches, is spelled once.

    >>> list(memoised(lambda one, other: one + other, "aab", "xxx"))
    ['ax', 'ax', 'bx']
    """
    last: tuple[_One, _Other] | None = None
    spelled = ""
    for one, other in zip(ones, others, strict=True):
        if last is None or one is not last[0] or other is not last[1]:
            last, spelled = (one, other), spell(one, other)
        yield spelled


def encode_outcome(outcome: str, reason: str) -> str:
    """Encodes the members ``outcome`` and ``reason`` of a result."""
    return f'"outcome":"{outcome}","reason":{quoted(reason)}'


def encode_outcomes(outcomes: Iterable[str], reasons: Iterable[str]) -> Iterator[str]:
    """Yields ``encode_outcome`` for each pair."""
    return memoised(encode_outcome, outcomes, reasons)
