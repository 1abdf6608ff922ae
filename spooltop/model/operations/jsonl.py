"""Encodes log lines, one JSON object each, whose lists are written by columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ..text import bare_all
from ..vocabulary import Json
from .chunked import column_of

__all__ = ["encode_column", "encode_line", "encode_names", "encode_object"]

_dumps = json.JSONEncoder(separators=(",", ":")).encode


def encode_object(head: Mapping[str, Json], **members: str) -> str:
    """Encodes ``head``, which is not empty, with ``members`` that are JSON already.

    >>> encode_object({"schema": 1}, ids=encode_names(["a", "b"]), others="[]")
    '{"schema":1,"ids":["a","b"],"others":[]}'
    """
    parts = [_dumps(head)[:-1]]
    for name, value in members.items():
        parts += f',"{name}":', value
    return "".join((*parts, "}"))  # at once: a batch takes some hundred KB


def encode_line(head: Mapping[str, Json], **members: str) -> bytes:
    """Encodes an object as a line."""
    return f"{encode_object(head, **members)}\n".encode()


def encode_names(names: Sequence[str]) -> str:
    r"""Encodes a list of names, escaped: a thousand are checked and joined at once.

    >>> encode_names(["a", "\x1b"]), encode_names([])
    ('["a","\\\\x1b"]', '[]')
    """
    return '["' + '","'.join(bare_all(names)) + '"]' if names else "[]"


def encode_column(column: Sequence[Json]) -> str:
    """Encodes the value that all of ``column`` have, or else the list of them.

    >>> encode_column(["done", "done"]), encode_column([1, 2]), encode_column([])
    ('"done"', '[1,2]', '[]')
    """
    packed = column_of(column) if column else []
    return _dumps(packed[0] if isinstance(packed, tuple) else packed)
