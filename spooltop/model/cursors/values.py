"""Finds the cursor in its section, orders two cursors, and writes them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from spooltop.patterns import pattern

from ..text import escape
from ..vocabulary import Json

__all__ = ["cursor_fields", "direction", "field_of", "kind_of", "order", "pick", "same_json", "shown", "type_change"]

_NAMED = ("cursor", "value", "offset", "id")
_POSITION = pattern(r"id|seq|cursor|offset|row|pos", re.IGNORECASE)
_DIGITS = pattern(r"-?[0-9]{1,4000}")
_DATE = pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?", re.DOTALL)
_DEEPEST = 4
_KINDS = {
    type(None): "null", bool: "a boolean", int: "an integer", float: "a decimal number", str: "a string", list: "a list",
    dict: "an object",
}  # fmt: skip


def pick(value: Json, field: str | None = None, *, depth: int = 0) -> Json:
    """Returns the cursor in a section.

    A number or text is the cursor itself. In an object it is ``field``; without that its ``cursor``, ``value``, ``offset``,
    ``id`` or ``last…`` field, else its only numeric field, else its only field that is a time, else the whole object.

    >>> pick({"last_rowid": 7, "updated_at": 99.5}), pick({"n": 3, "name": "x"}), pick("abc"), pick({"id": 1, "at": 2}, "at")
    (7, 3, 'abc', 2)
    """
    if not isinstance(value, dict) or depth >= _DEEPEST:
        return value
    name = field_of(value, field)
    return value if name is None else pick(value[name], depth=depth + 1)


def field_of(section: Mapping[str, Json], named: str | None = None) -> str | None:
    """Returns the name of the field that holds the cursor of an object, None if it is ambiguous; ``named`` if the object has
    that."""
    if named is not None and named in section:
        return named
    for name in _NAMED:
        if section.get(name) is not None:
            return name
    last = [name for name in section if name.lower().startswith("last") and order(section[name]) is not None]
    if last:  # "last_rowid" is the cursor and "last_run" is not
        return next((name for name in last if _POSITION.search(name[4:])), last[0])
    numeric = [name for name, item in section.items() if isinstance(item, int | float) and not isinstance(item, bool)]
    if numeric:
        return numeric[0] if len(numeric) == 1 else None
    ordered = [name for name, item in section.items() if order(item) is not None]
    return ordered[0] if len(ordered) == 1 else None


def cursor_fields(text: str) -> dict[str, str]:
    """Parses a setting into source → the field of its section that holds the cursor; "*" for all other sources.

    >>> cursor_fields("seen, imessage=last_row")
    {'*': 'seen', 'imessage': 'last_row'}
    """
    found = {}
    for part in text.split(","):
        source, equals, field = part.strip().rpartition("=")
        if field:
            found[source if equals else "*"] = field
    return found


def order(value: Json) -> tuple[str, float | int] | None:
    """Returns the sort key of a value with its kind, since values of two kinds do not compare; None for an opaque token."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return "number", value
    if isinstance(value, float):
        return ("number", value) if math.isfinite(value) else None
    if isinstance(value, str):
        if _DIGITS.fullmatch(value):
            return "number", int(value)
        if _DATE.fullmatch(value):
            from datetime import UTC, datetime  # takes 2 ms to load: only for cursors that are times

            try:
                when = datetime.fromisoformat(value)
            except ValueError:
                return None
            aware = when.tzinfo is not None
            return ("time" if aware else "local time"), (when if aware else when.replace(tzinfo=UTC)).timestamp()
    return None


def direction(old: Json, new: Json) -> int | None:
    """Compares two values: 1 forward, -1 back, 0 equal in order; None if there is no order between them."""
    before, after = order(old), order(new)
    if before is None or after is None or before[0] != after[0]:
        return None
    return (after[1] > before[1]) - (after[1] < before[1])


def shown(value: Json, field: str | None = None) -> str:
    """Writes the value as it is in the file: never grouped, never rounded, escaped. ``field`` as for ``pick``.

    >>> shown(12345678901234567890), shown({"a": 1, "b": 2}), shown("tok")
    ('12345678901234567890', '{"a":1,"b":2}', 'tok')
    """
    picked = pick(value, field)
    if isinstance(picked, str):
        return escape(picked)
    return escape(json.dumps(picked, ensure_ascii=False, separators=(",", ":")))


def kind_of(value: Json) -> str:
    """Names the type of a value: "an integer", "a string", "an object"."""
    return _KINDS[type(value)]


def type_change(before: Json, after: Json) -> str:
    """Describes a change of type, "" if there is none. Members that both objects have are compared one by one; null has no type
    to keep, and an integer may take the place of a decimal number.

    >>> type_change(146, "hello"), type_change({"id": 146, "at": 1.5}, {"id": 1000.0, "at": 2}), type_change(146, 147)
    ('from an integer to a string', 'from an integer to a decimal number in its field id', '')
    """
    pairs: list[tuple[str, Json, Json]] = [("", before, after)]
    while pairs:
        field, one, two = pairs.pop()
        if isinstance(one, dict) and isinstance(two, dict):
            pairs += [(name, one[name], two[name]) for name in reversed(one) if name in two]
        elif one is not None and type(one) is not type(two) and (type(one), type(two)) != (float, int):
            return f"from {kind_of(one)} to {kind_of(two)}" + (f" in its field {escape(field)}" if field else "")
    return ""


def same_json(one: Json, other: Json) -> bool:
    """True if both are equal as JSON: True is not 1, and the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
