"""The pause of a spool: while it lasts, no consumer of spooltop claims a message."""

from __future__ import annotations

from spooltop.records import dataclass

from ..text import escape
from ..units import age

__all__ = ["REASON_AT_MOST", "Pause", "pause_words"]

REASON_AT_MOST = 200
"""Characters of a reason."""


@dataclass(frozen=True, slots=True)
class Pause:
    """``by``: who paused, None if the file does not say; ``at``: when, epoch seconds; ``reason``: why, as it was given."""

    by: str | None
    at: float
    reason: str = ""


def pause_words(pause: Pause, now: float, *, short: bool = False) -> str:
    """``by root for 2h: a schema change``, escaped. ``short``: without the reason.

    >>> pause_words(Pause("root", 100.0, "a schema change"), 7300.0), pause_words(Pause(None, 100.0), 104.0)
    ('by root for 2h: a schema change', 'for 4s')
    """
    who = "" if pause.by is None else f"by {escape(pause.by)} "
    why = f": {escape(pause.reason)}" if pause.reason and not short else ""
    return f"{who}for {age(max(0.0, now - pause.at))}{why}"
