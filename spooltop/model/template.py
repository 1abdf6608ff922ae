"""Fills in the placeholders, in braces, in the text of test messages. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
