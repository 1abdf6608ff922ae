"""Hides the values of the JSON fields that the settings name: in payloads, text, cursor values, plans and logs.

Works on data that cannot be parsed too: a payload that is cut off, or JSON lines.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection

from .vocabulary import Json

REDACTED = "‹redacted›"

_MARKED = "‹redacted( [0-9a-f]{6})?›"
_WIDE = (("utf-16-le", 0), ("utf-16-be", 0), ("utf-16-le", 1), ("utf-16-be", 1), ("utf-32-le", 0), ("utf-32-be", 0))
"""Encodings whose ASCII characters contain NUL, and the byte at which the text may begin."""
_DEEPEST_VALUE = 100
"""Nesting depth up to which values are searched; deeper ones are hidden as a whole."""


class Redactor:
    """Hides the values of ``fields``, whatever their case."""

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._fields = frozenset(field.casefold() for field in fields)
        self._key = os.urandom(16)  # seeds the marks that tell hidden values apart

    def __bool__(self) -> bool:
        return bool(self._fields)

    def data(self, data: bytes) -> bytes:
        """Replaces the value of each JSON field that is hidden in a payload, also in JSON inside a JSON string. A value that does
        not end within ``data`` is hidden up to the end. Anything that is not JSON is unchanged.

        >>> Redactor(["token", "password"]).data(b'{"id":1,"Token":"abc","a":{"password":[1,{"x":"]"}]}}').decode()
        '{"id":1,"Token":"‹redacted›","a":{"password":"‹redacted›"}}'
        """
        if not self:
            return data
        if b"\0" in data:
            for codec, start in _WIDE:
                text = data[start:].decode(codec, "replace").encode()
                hidden = _redact(text, self._fields, 0)
                if hidden != text:
                    data = data[:start] + hidden.decode().encode(codec)
        return _redact(data, self._fields, 0)

    def text(self, text: str) -> str:
        """Text that may contain JSON."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass") if self else text

    def section(self, source: str, value: Json, *, marked: bool = False) -> Json:
        """The value of ``source`` in a cursor file, where the source is a field as well. ``marked``: hidden values that differ
        get different marks, so that a history of them still tells whether one changed, and whether an old one came back.

        >>> Redactor(["token"]).section("teams", {"id": 1, "Token": [2]})
        {'id': 1, 'Token': '‹redacted›'}
        >>> hide = Redactor(["token"]).section
        >>> hide("teams", {"token": "a"}, marked=True) == hide("teams", {"token": "b"}, marked=True)
        False
        """
        if not self:
            return value
        return self._hidden(value, marked) if source.casefold() in self._fields else self._value(value, marked=marked, depth=0)

    def _hidden(self, value: Json, marked: bool) -> str:
        if not marked:
            return REDACTED
        from hashlib import blake2b  # loads OpenSSL: only for those who hide values

        digest = blake2b(repr(value).encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
        return f"‹redacted {digest.hexdigest()}›"

    def _value(self, value: Json, *, marked: bool, depth: int) -> Json:
        if isinstance(value, str):
            return self.text(value) if '"' in value else value
        if not isinstance(value, (dict, list)):
            return value
        if depth >= _DEEPEST_VALUE:
            return self._hidden(value, marked)
        if isinstance(value, list):
            return [self._value(one, marked=marked, depth=depth + 1) for one in value]
        hidden = {name: self._hidden(one, marked) for name, one in value.items() if name.casefold() in self._fields}
        return {name: hidden.get(name) or self._value(one, marked=marked, depth=depth + 1) for name, one in value.items()}


def unredact(value: Json, original: Json) -> Json:
    """Returns ``value`` with each hidden value restored from ``original``, so that a redacted section, or a copied command, can
    be stored without losing the hidden values. Raises ``ValueError`` if ``original`` has no such value.

    >>> unredact({"cursor": 5, "token": "‹redacted›"}, {"cursor": 4, "token": "abc"})
    {'cursor': 5, 'token': 'abc'}
    """
    if isinstance(value, str) and "‹redacted" in value:
        if re.fullmatch(_MARKED, value) and original is not None:
            return original
        raise ValueError(f"{value} has no value to stand for")
    if isinstance(value, dict):
        before = original if isinstance(original, dict) else {}
        return {name: unredact(one, before.get(name)) for name, one in value.items()}
    if isinstance(value, list):
        olds = original if isinstance(original, list) and len(original) == len(value) else [None] * len(value)
        return [unredact(one, old) for one, old in zip(value, olds, strict=True)]
    return value


_KEY = re.compile(rb'"((?:[^"\\]|\\.)*+)"\s*+:\s*+', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_PLAIN = re.compile(rb'(?!["\[{])[^,}\]\s]*+')
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED_QUOTE = re.compile(rb'\\(?:"|u0022)|\\u005[cC]')
_MEANT = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
_DEEPEST = 8
"""Nesting depth up to which strings within strings are searched; deeper ones are hidden as a whole, since each costs a copy."""

_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)

_DEEPER = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


def _redact(data: bytes, wanted: Collection[str], depth: int) -> bytes:
    out: list[bytes] = []
    done = at = 0
    while (found := data.find(b'"', at)) >= 0:
        at = found + 1  # not past the string: in what is no clean JSON nobody knows which quote begins one
        if data[found - 1 : found] == b"\\":
            continue
        if key := _KEY.match(data, found):
            at = key.end()
            if _word(key.group(1)).casefold() in wanted:
                out += [data[done:at], f'"{REDACTED}"'.encode()]
                done = at = _end_of_value(data, at)
        elif (string := _STRING.match(data, found)) and (inner := _inside(string.group(), wanted, depth)) is not None:
            out += [data[done:found], inner]
            done = at = string.end()
    return b"".join((*out, data[done:])) if out else data


def _inside(string: bytes, wanted: Collection[str], depth: int) -> bytes | None:
    """Redacts the contents of a JSON string, possibly cut off; None if there was nothing to redact."""
    if _ESCAPED_QUOTE.search(string) is None:
        return None
    if depth >= _DEEPEST:
        return f'"{REDACTED}"'.encode()
    closed = len(string) > 1 and string.endswith(b'"')
    plain = _ESCAPE.sub(_unescaped, string[1 : -1 if closed else None])
    hidden = _redact(plain, wanted, depth + 1)
    if hidden == plain:
        return None
    for char, escaped in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r")):
        hidden = hidden.replace(char, escaped)
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
    """Returns the offset at which the value that begins at ``at`` ends."""
    if plain := _PLAIN.match(data, at):
        return plain.end()
    depth = 0
    for mark in _NESTING.finditer(data, at):
        depth += _DEEPER.get(mark.group(), 0)
        if depth == 0:
            return mark.end()
    return len(data)
