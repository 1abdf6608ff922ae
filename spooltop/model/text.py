"""Text that somebody else chose: parses values, TOML and templates."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from .vocabulary import Json, escape

# Reads values from data that anybody may have written. Pure.

_MOST = 1e18
"""Larger than any time in seconds, and than any that a float holds to the second."""
_BLANKS = " \t\n\r"
_parse = json.JSONDecoder().raw_decode
"""Parses without guessing the encoding, which takes as long as a small object."""


def finite(value: object) -> float | None:
    """Returns a number as a float, else None: for other types, NaN, infinity, and numbers larger than any time (JSON sets no
    bound to the digits of an int, and ``float`` raises from the 309th on).

    >>> finite(7), finite(10**400), finite(float("nan")), finite(True), finite("7")
    (7.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MOST else None


def json_object(data: bytes) -> dict[str, Any]:
    """Parses a JSON object; empty if ``data`` is anything else, torn, or nested deeper than the parser goes.

    >>> json_object(b'{"pid": 7}\\n'), json_object(b'{"pid": '), json_object(b'{"pid": 7} 8'), json_object(b"[" * 100_000)
    ({'pid': 7}, {}, {}, {})
    """
    try:
        text = data.decode("utf-8", "surrogatepass").strip(_BLANKS)
        found, end = _parse(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and end == len(text) else {}


_DEEPEST = 32
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,200}"|'[^'\n]{0,200}')"""
"""Part of a key. What is quoted has an end, as the search begins at each quotation mark; of longer parts a file has few."""
_TOO_DEEP = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_DEEPEST}}}")
"""Key of more parts than any file of ours has. ``tomllib`` keeps each beginning of a key: 15,000 parts take 9 s and 900 MB."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parses ``text``. Raises ``ValueError`` and ``RecursionError`` for what is not valid TOML, or too deep.

    >>> parse_toml("claims.hosts = 'any'")
    {'claims': {'hosts': 'any'}}
    """
    import tomllib  # takes 15 ms, and most have no such file

    if found := _TOO_DEEP.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"A key of more than {_DEEPEST} parts (at line {line}, column 1)")
    return tomllib.loads(text)


_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values of LC_CTYPE that the interpreter itself may have set, PEP 538."""


def plain_locale(environ: Mapping[str, str], utf8_mode: bool = sys.flags.utf8_mode == 1) -> bool:
    """True if the environment asks for ASCII, locale(7).

    In a C locale the interpreter turns on its ``utf8_mode`` and writes another LC_CTYPE into the environment, which is not the
    user's choice.

    >>> plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True), plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False)
    (True, False)
    """
    ctype = environ.get("LC_CTYPE", "")
    asked = "" if utf8_mode and ctype in _COERCED else ctype
    return (environ.get("LC_ALL") or asked or environ.get("LANG")) in ("C", "POSIX")


def suppressed_words(by_source: Mapping[str, int]) -> str:
    """Says how many puts were duplicates, in total and by source; "" for none.

    >>> suppressed_words({"mail": 2, "": 1}), suppressed_words({})
    ('duplicates suppressed: 3 (without a source 1, mail 2)', '')
    """
    each = ", ".join(f"{escape(source) or 'without a source'} {many:,}" for source, many in sorted(by_source.items()))
    return f"duplicates suppressed: {sum(by_source.values()):,} ({each})" if by_source else ""


# Fills in the placeholders, in braces, in the text of test messages.

PLACEHOLDERS = ("n", "count", "id", "source", "time")
"""The message's number from 1, their total, its id, its source ("" without one), the time (epoch seconds, whole)."""

_HOLE = re.compile(r"\{\{(%s)\}\}|\{(%s)\}" % (("|".join(PLACEHOLDERS),) * 2))


def fill(text: str, words: Mapping[str, str]) -> str:
    """Replaces each placeholder in ``text``. All other braces are unchanged, so that JSON need not be escaped; doubled braces
    keep a placeholder as it is.

    >>> fill('{"rowid": {n}, "of": {"id": "{id}"}, "as is": "{{n}}"}', {"n": "3", "id": "a"})
    '{"rowid": 3, "of": {"id": "a"}, "as is": "{n}"}'
    """
    return _HOLE.sub(lambda hole: f"{{{hole[1]}}}" if hole[1] else words.get(hole[2], hole[0]), text)


def same_json(one: Json, other: Json) -> bool:
    """True if both are equal as JSON: True is not 1, and the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
