"""Parses what a person types as the value of a cursor."""

from __future__ import annotations

import json
import math
import re

from spooltop.records import dataclass

from ..vocabulary import Json
from .values import field_of, kind_of

__all__ = ["ParsedValue", "parse_value"]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,3999})")


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """``value`` is the whole section as it will be stored in the file; ``words`` say how the text was read."""

    value: Json
    words: str


def parse_value(text: str, present: Json, kind: str = "", field: str | None = None) -> ParsedValue:
    """Reads ``text`` as JSON, else as text.

    It takes the type of ``present`` if that leaves no doubt: digits stay text if the present value is text. In a section that is
    an object, a value that is not an object goes into ``field``, or into the field that holds the cursor. ``kind`` "json" or
    "text" decides without guessing, and replaces the section as a whole. Raises ``ValueError`` for "json" that does not parse.

    >>> parse_value("89640", 89632).value, parse_value("89640", "89632").value, parse_value("7", {"last_id": 6, "n": "x"}).value
    (89640, '89640', {'last_id': 7, 'n': 'x'})
    """
    if kind == "text":
        return ParsedValue(text, "a string, as asked")
    if kind == "json":
        return ParsedValue(_json(text), "JSON, as asked")
    if isinstance(present, dict) and (name := field_of(present, field)) is not None:
        try:
            whole = _json(text)
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            inner = parse_value(text, present[name])
            return ParsedValue({**present, name: inner.value}, f"{inner.words}, in its field {name}")
    try:
        value = _json(text)
    except ValueError:
        return ParsedValue(text, "a string")
    if isinstance(present, str) and _NUMBER.fullmatch(text.strip()):
        return ParsedValue(text, "a string, as it is now")
    return ParsedValue(value, kind_of(value))


def _json(text: str) -> Json:
    """Parses JSON. Raises ``ValueError`` also for values that JSON cannot express (NaN, a number that is too large)."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a number")
    return value
