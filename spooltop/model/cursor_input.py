"""What a person types for a cursor, as the value that is meant."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from .cursor_values import field_of, kind_of
from .vocabulary import Json

__all__ = ["ParsedValue", "parse_value"]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,3999})")


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """``value`` is the whole section as it will stand in the file; ``words`` say how the text was read."""

    value: Json
    words: str


def parse_value(text: str, present: Json, kind: str = "", field: str | None = None) -> ParsedValue:
    """``text`` as JSON where it is JSON, else as text, and of the type of ``present`` where that leaves no doubt: digits stay a
    text where the present value is one. In a section that is an object, what is no object goes into ``field``, or into the field
    that holds its cursor. ``kind`` "json" or "text" says which without guessing, and takes the section as a whole. Raises
    ``ValueError`` for "json" that is none.

    >>> parse_value("89640", 89632).value, parse_value("89640", "89632").value, parse_value("7", {"last_id": 6, "n": "x"}).value
    (89640, '89640', {'last_id': 7, 'n': 'x'})
    """
    if kind == "text":
        return ParsedValue(text, "a text, as asked")
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
        return ParsedValue(text, "a text")
    if isinstance(present, str) and _NUMBER.fullmatch(text.strip()):
        return ParsedValue(text, "a text, as it is now")
    return ParsedValue(value, kind_of(value))


def _json(text: str) -> Json:
    """Raises ``ValueError`` also for what JSON has no word for (NaN, a number beyond the largest)."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a number")
    return value
