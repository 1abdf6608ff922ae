"""Input of the rules for problems: one look with the conclusions from it and from earlier ones."""

from __future__ import annotations

from spooltop.model.cursors.state import Cursor
from spooltop.model.look.observation import Observation
from spooltop.model.look.snapshot import Rates
from spooltop.model.vocabulary import Box
from spooltop.records import dataclass

from ..cursors.watch import CursorWatch
from ..failing import Failing
from ..flow.depth import Trend
from ..thresholds import Thresholds

__all__ = ["RuleInput"]


@dataclass(frozen=True, slots=True)
class RuleInput:
    """``watched`` is seconds without a break; ``untouched`` seconds for which ``new`` waited and nobody claimed from it."""

    observation: Observation
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
        """Seconds for which messages have been waiting without any consumer, as far as one look shows: nobody holds a presence
        lock, and no claim belongs to a process that may be running. None if there may be one, and while the
        spool is paused."""
        observation = self.observation
        box = observation.boxes.get(Box.NEW)
        if observation.consumers != 0 or box is None or not box.count or box.oldest_at is None or observation.counts.alive:
            return None
        if observation.counts.unknown or not observation.judged_all or observation.paused is not None:
            return None
        return self.now - max(box.oldest_at, min(observation.last_claim_at or 0.0, self.now))

    @property
    def now(self) -> float:
        return self.observation.taken_at

    @property
    def mail(self) -> bool:
        """True for a mail folder: its ``cur`` is read mail and nothing in it is stuck (maildir(5))."""
        return self.observation.is_mail

    @property
    def has_boxes(self) -> bool:
        """False for cursors, tickets or lock files alone, which have no boxes."""
        return self.observation.has_boxes
