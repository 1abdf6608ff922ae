"""What the rules for problems look at: one look with what was concluded from it and from those before."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.sight import Sight
from ..model.snapshot import Cursor, Rates
from .cursors import CursorWatch
from .depth import Trend
from .thresholds import Thresholds

__all__ = ["Seen"]


@dataclass(frozen=True, slots=True)
class Seen:
    """``watched`` is seconds without a break; ``untouched`` seconds for which ``new`` waited and nobody took from it."""

    sight: Sight
    rates: Rates
    trend: Trend
    cursors: tuple[Cursor, ...]
    cursor_watch: CursorWatch
    thresholds: Thresholds
    watched: float
    untouched: float | None

    @property
    def now(self) -> float:
        return self.sight.taken_at

    @property
    def mail(self) -> bool:
        """A mail folder: its ``cur`` is read mail and nothing in it is stuck (maildir(5))."""
        return self.sight.layout == "mail"

    @property
    def has_boxes(self) -> bool:
        """False for cursors or tickets alone: that they have no boxes is no trouble."""
        return self.sight.layout not in ("cursors", "tickets")
