"""Answers of a server, checked and turned into plain values; and the ids of entries."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...client import ErrorReply, Nonsense, Reply

__all__ = ["ZERO", "bytes_of", "entry_time", "fields_of", "id_order", "list_of", "number_of", "section", "text_of"]

ZERO = "0-0"
"""The id before all others."""
_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})\Z")


def list_of(reply: Reply) -> list[Reply]:
    """Returns an array. Raises the error that the server answered, or ``Nonsense``."""
    if not isinstance(reply, list):
        raise _unexpected(reply)
    return reply


def bytes_of(reply: Reply) -> bytes:
    if not isinstance(reply, bytes):
        raise _unexpected(reply)
    return reply


def text_of(reply: Reply) -> str:
    """Returns a name as ``os.fsdecode`` gives it: it is escaped before anyone reads it."""
    return bytes_of(reply).decode("utf-8", "surrogateescape")


def number_of(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise _unexpected(reply)
    return reply


def fields_of(reply: Reply) -> dict[str, Reply]:
    """Returns the pairs of a flat array, as the XINFO commands answer them."""
    flat = list_of(reply)
    if len(flat) % 2:
        raise Nonsense("a field without a value")
    return {text_of(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def section(reply: Reply) -> Mapping[str, str]:
    """Returns the lines ``name:value`` of an answer to INFO; empty where this user may not ask."""
    if isinstance(reply, ErrorReply):
        return {}
    lines = text_of(reply).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def id_order(id: str) -> tuple[int, int]:
    """Returns the place of an id among others. Raises ``Nonsense`` for what is no id.

    >>> id_order("9-1") < id_order("10-0") < id_order("10-2")
    True
    """
    found = _ID.match(id)
    if found is None:
        raise Nonsense("an id that is none")
    return int(found[1]), int(found[2])


def entry_time(id: str) -> float:
    """Returns when an entry was put, in epoch seconds, as its id says.

    >>> entry_time("1763900000123-0")
    1763900000.123
    """
    return id_order(id)[0] / 1000


def _unexpected(reply: Reply) -> Exception:
    return reply if isinstance(reply, ErrorReply) else Nonsense("another answer than what was asked for")
