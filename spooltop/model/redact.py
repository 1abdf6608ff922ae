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
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED_QUOTE = re.compile(rb'\\(?:"|u0022)|\\u005[cC]')
_MEANT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_DEEPEST = 8
"""Strings within strings that are looked into; deeper ones are hidden as a whole: each costs a copy of all that is within."""

_NESTING = re.compile(rb'["\[{\]}]')


def redact(data: bytes, fields: Collection[str]) -> bytes:
    """``data`` with the value of each JSON field named in ``fields``, whatever its case, replaced, also in JSON that stands in a
    JSON string. A value that does not end within ``data`` is taken to its end. What is no JSON stays as it is.

    >>> redact(b'{"id":1,"Token":"abc","a":{"password":[1,{"x":"]"}]}}', ["token", "password"]).decode()
    '{"id":1,"Token":"‹redacted›","a":{"password":"‹redacted›"}}'
    """
    return _redact(data, {field.casefold() for field in fields}, 0) if fields else data


def _redact(data: bytes, wanted: Collection[str], depth: int) -> bytes:
    out: list[bytes] = []
    done = at = 0
    while (found := data.find(b'"', at)) >= 0:
        key = None if data[found - 1 : found] == b"\\" else _KEY.match(data, found)
        if key is None:
            string = None if data[found - 1 : found] == b"\\" else _STRING.match(data, found)
            if string is not None and (inner := _inside(string.group(), wanted, depth)) is not None:
                out += [data[done:found], inner]
                done = at = string.end()
                continue
            at = found + 1  # not past the string: in what is no clean JSON nobody knows which quote begins one
            continue
        at = key.end()
        if _word(key.group(1)).casefold() in wanted:
            out += [data[done:at], f'"{REDACTED}"'.encode()]
            done = at = _end_of_value(data, at)
    return b"".join((*out, data[done:])) if out else data


def _inside(string: bytes, wanted: Collection[str], depth: int) -> bytes | None:
    """A JSON string, maybe cut off, with what it holds redacted; None where there was nothing to redact in it."""
    if _ESCAPED_QUOTE.search(string) is None:
        return None
    if depth >= _DEEPEST:
        return f'"{REDACTED}"'.encode()
    closed = len(string) > 1 and string.endswith(b'"')
    told = _ESCAPE.sub(_unescaped, string[1 : -1 if closed else None])
    hidden = _redact(told, wanted, depth + 1)
    if hidden == told:
        return None
    for meant, written in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r")):
        hidden = hidden.replace(meant, written)
    return b'"' + hidden + (b'"' if closed else b"")


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return chr(int(found[1], 16)).encode("utf-8", "surrogatepass")
    return _MEANT.get(found[2], found[2])


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
