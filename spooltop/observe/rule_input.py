"""What the rules for problems look at: one look with what was concluded from it and from those before."""

from __future__ import annotations

from dataclasses import dataclass

from spooltop.model.observation import Sight
from spooltop.model.snapshot import Cursor, Rates
from spooltop.model.vocabulary import Box

from .cursors import CursorWatch
from .depth import Trend
from .failing import Failing
from .thresholds import Thresholds

__all__ = ["RuleInput"]


@dataclass(frozen=True, slots=True)
class RuleInput:
    """``watched`` is seconds without a break; ``untouched`` seconds for which ``new`` waited and nobody took from it."""

    sight: Sight
    rates: Rates
    trend: Trend
    cursors: tuple[Cursor, ...]
    cursor_watch: CursorWatch
    thresholds: Thresholds
    watched: float
    untouched: float | None
    failing: Failing | None = None

    @property
    def unattended(self) -> float | None:
        """Seconds for which messages wait that no consumer can be about to take, as one look tells: nobody holds a presence lock,
        and no claim is held by anybody who may be at work. None where somebody may."""
        sight = self.sight
        box = sight.boxes.get(Box.NEW)
        if sight.consumers != 0 or box is None or not box.count or box.oldest_at is None or sight.counts.alive:
            return None
        if sight.counts.unknown or not sight.judged_all:
            return None
        return self.now - max(box.oldest_at, min(sight.last_claim_at or 0.0, self.now))

    @property
    def now(self) -> float:
        return self.sight.taken_at

    @property
    def mail(self) -> bool:
        """A mail folder: its ``cur`` is read mail and nothing in it is stuck (maildir(5))."""
        return self.sight.layout == "mail"

    @property
    def has_boxes(self) -> bool:
        """False for cursors, tickets or lock files alone: that they have no boxes is no trouble."""
        return self.sight.layout not in ("cursors", "tickets", "locks")
