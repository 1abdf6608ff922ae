"""Values of JSON fields that nobody is to be shown. Works on what cannot be parsed too: a payload that is cut off, or lines."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

__all__ = ["REDACTED", "redact"]

REDACTED = "‹redacted›"

_KEY = re.compile(rb'"((?:[^"\\]|\\.)*+)"\s*+:\s*+', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_PLAIN = re.compile(rb"[^,}\]\s]*+")
_NESTING = re.compile(rb'["\[{\]}]')


def redact(data: bytes, fields: Collection[str]) -> bytes:
    """``data`` with the value of each JSON field named in ``fields``, whatever its case, replaced. A value that does not end
    within ``data`` is taken to its end. What is no JSON stays as it is.

    >>> redact(b'{"id":1,"Token":"abc","a":{"password":[1,{"x":"]"}]}}', ["token", "password"]).decode()
    '{"id":1,"Token":"‹redacted›","a":{"password":"‹redacted›"}}'
    """
    if not fields:
        return data
    wanted = {field.casefold() for field in fields}
    out: list[bytes] = []
    done = at = 0
    while (found := data.find(b'"', at)) >= 0:
        key = None if data[found - 1 : found] == b"\\" else _KEY.match(data, found)
        if key is None:
            at = found + 1  # not past the string: in what is no clean JSON nobody knows which quote begins one
            continue
        at = key.end()
        if _word(key.group(1)).casefold() in wanted:
            out += [data[done:at], f'"{REDACTED}"'.encode()]
            done = at = _end_of_value(data, at)
    return b"".join((*out, data[done:])) if out else data


def _word(raw: bytes) -> str:
    try:
        word = json.loads(b'"' + raw + b'"', strict=False)
    except ValueError:
        return raw.decode("utf-8", "replace")
    return word if isinstance(word, str) else ""


def _end_of_value(data: bytes, at: int) -> int:
    """Where the value that begins at ``at`` ends."""
    first = data[at : at + 1]
    if first == b'"':
        string = _STRING.match(data, at)
        return string.end() if string is not None else len(data)
    if first not in (b"{", b"["):
        plain = _PLAIN.match(data, at)
        return plain.end() if plain is not None else len(data)
    depth = 0
    while (mark := _NESTING.search(data, at)) is not None:
        sign = mark.group()
        if sign == b'"':
            string = _STRING.match(data, mark.start())
            at = string.end() if string is not None else len(data)
            continue
        at = mark.end()
        depth += 1 if sign in b"{[" else -1
        if depth == 0:
            return at
    return len(data)
