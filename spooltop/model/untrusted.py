"""Reads values from data that anybody may have written. Pure."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["finite", "json_object"]

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
