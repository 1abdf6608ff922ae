"""Test messages that differ: what stands in braces in their text is filled in for each of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["PLACEHOLDERS", "fill"]

PLACEHOLDERS = ("n", "count", "id", "source", "time")
"""Its number from 1, how many there are, its id, its source ("" without one), when it was made (epoch seconds, whole)."""

_HOLE = re.compile(r"\{\{(%s)\}\}|\{(%s)\}" % (("|".join(PLACEHOLDERS),) * 2))


def fill(text: str, words: Mapping[str, str]) -> str:
    """``text`` with each placeholder replaced. All other braces stand as they are, so that JSON need not be escaped; doubled
    ones keep a placeholder as it is.

    >>> fill('{"rowid": {n}, "of": {"id": "{id}"}, "as is": "{{n}}"}', {"n": "3", "id": "a"})
    '{"rowid": 3, "of": {"id": "a"}, "as is": "{n}"}'
    """
    return _HOLE.sub(lambda hole: f"{{{hole[1]}}}" if hole[1] else words.get(hole[2], hole[0]), text)
