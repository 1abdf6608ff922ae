"""What a person types for a cursor, as the value that is meant."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from .cursor_values import field_of, kind_of
from .vocabulary import Json

__all__ = ["Meant", "meant"]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,3999})")


@dataclass(frozen=True, slots=True)
class Meant:
    """``value`` is the whole section as it will stand in the file; ``words`` say how the text was read."""

    value: Json
    words: str


def meant(text: str, present: Json, kind: str = "", field: str | None = None) -> Meant:
    """``text`` as JSON where it is JSON, else as text, and of the type of ``present`` where that leaves no doubt: digits stay a
    text where the present value is one. In a section that is an object, what is no object goes into ``field``, or into the field
    that holds its cursor. ``kind`` "json" or "text" says which without guessing, and takes the section as a whole. Raises
    ``ValueError`` for "json" that is none.

    >>> meant("89640", 89632).value, meant("89640", "89632").value, meant("7", {"last_id": 6, "n": "x"}).value
    (89640, '89640', {'last_id': 7, 'n': 'x'})
    """
    if kind == "text":
        return Meant(text, "a text, as asked")
    if kind == "json":
        return Meant(_json(text), "JSON, as asked")
    if isinstance(present, dict) and (name := field_of(present, field)) is not None:
        try:
            whole = _json(text)
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            inner = meant(text, present[name])
            return Meant({**present, name: inner.value}, f"{inner.words}, in its field {name}")
    try:
        value = _json(text)
    except ValueError:
        return Meant(text, "a text")
    if isinstance(present, str) and _NUMBER.fullmatch(text.strip()):
        return Meant(text, "a text, as it is now")
    return Meant(value, kind_of(value))


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
