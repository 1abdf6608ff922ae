"""Reads the metadata beside a message that was set aside. It is untrusted, because anybody may have written it."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.model.text import finite
from spooltop.model.vocabulary import Json

__all__ = ["plain_meta", "time_of"]

_LATEST = float(1 << 36)
"""Latest valid time: no clock shows more."""
_TEXT_AT_MOST = 500
"""Characters of a text that are kept."""


def plain_meta(found: Mapping[str, object]) -> dict[str, Json]:
    """Extracts the fields that ``Folders.metadata_of`` returns from ``found``, which anybody may have written."""
    was = found.get("was")
    return {**_plain(found), "was": _plain(was)} if isinstance(was, dict) else _plain(found)


def time_of(metadata: Mapping[str, object]) -> float | None:
    """Returns when a message was set aside (epoch seconds), according to its metadata; None where that is not a time."""
    at = finite(metadata.get("at"))
    return at if at is not None and abs(at) < _LATEST else None


def _plain(found: Mapping[str, object]) -> dict[str, Json]:
    return {
        name: value[:_TEXT_AT_MOST] if isinstance(value, str) else value
        for name in ("origin", "reason", "at", "who", "operation", "ended")
        if isinstance(value := found.get(name), str) or (isinstance(value, (int, float)) and abs(value) < 1 << 64)
    }
