"""The times on the main screen: their format, and how fresh they are."""

from __future__ import annotations

import datetime
from datetime import UTC

from msgspec import Struct

from ...draw.every_screen.freshness import Freshness, Times

FORMATS = ((Times.AGE, "ages", None), (Times.LOCAL, "local time", None), (Times.UTC, "UTC", UTC))
"""The formats of times, in the order of ``t``: the format, its name, and the time zone (None: local)."""
_SOON = 5.0
"""Seconds that are shown for a look that has lasted less than ten."""


class TimeDisplay(Struct):
    """``frozen_at`` is the time of the display since it was frozen (epoch seconds). A look has not finished for ``stale_for``
    seconds, for the reason ``stale_why``."""

    frozen_at: float | None = None
    moved_to: float = 0.0
    """The time of the last look that found nothing new, epoch seconds."""
    stale_for: float | None = None
    stale_why: str = ""
    _format: int = 0

    @property
    def format(self) -> Times:
        return FORMATS[self._format][0]

    @property
    def name(self) -> str:
        return FORMATS[self._format][1]

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The zone that times are shown in; None: the local one."""
        return FORMATS[self._format][2]

    @property
    def freshness(self) -> Freshness:
        return Freshness(self.frozen_at, self.stale_for, self.stale_why if self.stale_for else "")

    def next_format(self) -> None:
        self._format = (self._format + 1) % len(FORMATS)

    def set_stale(self, waited: float | None, why: str) -> bool:
        """Notes that a look has not finished for this many seconds (None: it has); True where the screen shows another number."""
        stale_for = None if waited is None else float(int(waited) // 10 * 10) or _SOON
        if stale_for == self.stale_for:
            return False
        self.stale_for, self.stale_why = stale_for, why
        return True
