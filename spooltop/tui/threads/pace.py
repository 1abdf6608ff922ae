"""Decides when the next look is due."""

from __future__ import annotations

from spooltop.model.look.observation import Observation

QUIET = 1.0
"""Seconds to wait for an event before the next look: a consumer that dies causes none."""
CALM = 5
"""Waits without any event after which looks become rarer."""
CALM_QUIET = 1.75
"""Multiples of ``QUIET`` to wait from then on: with ``BUSY``, a consumer that dies is seen within two seconds."""
ONLY_MESSAGES = 4.75
"""The same where only messages wait: with ``BUSY``, each look moves the clock."""
BUSY = 0.25
"""Seconds between two looks where much happens."""
STORM = 1_000
"""Messages a second that come, from which on nobody follows single ones. Then looks are as rare as ``FRESH`` allows: half of
what a storm costs is listing and drawing what nobody can read."""

SHARE = 3
"""Rest after a look as a multiple of its duration: a large spool that never rests takes a quarter of a core."""
LONGEST_REST = 10.0
"""Maximum rest in seconds: a look that hung for a minute does not mean a large spool."""
ORDINARY = 0.4
"""Maximum duration in seconds of a look at a spool that is not large."""
FRESH = 1.0
"""Seconds from one look to the next then: the work of a look grows with the rest before it, and so would the rest."""


def rest_after(took: float, busy: float) -> float:
    """Seconds to rest after a look that took ``took`` seconds; at least ``busy``.

    >>> rest_after(0.125, 0.25), rest_after(0.375, 0.25), rest_after(2.0, 0.25), rest_after(60.0, 0.25)
    (0.375, 0.625, 6.0, 10.0)
    """
    most = FRESH - took if took <= ORDINARY else LONGEST_REST
    return max(busy, min(most, SHARE * took))


class Pace:
    """The time of the last look and the rest that it earned. ``quiet`` and ``busy`` are seconds between two looks; times are
    those of a monotonic clock."""

    def __init__(self, quiet: float = QUIET, busy: float = BUSY) -> None:
        self._quiet = quiet
        self._busy = busy
        self._silent = 0
        self._storm = self._only_messages = False
        self._looked_at = self._rest = 0.0

    def looked(self, began: float, ended: float) -> None:
        """Notes the last look."""
        self._looked_at = ended
        took = ended - began
        self._rest = rest_after(took, max(self._busy, FRESH - took) if self._storm else self._busy)

    def found(self, observation: Observation) -> None:
        """Notes what the last look found."""
        flow = observation.flow
        self._storm = flow.arrived > STORM * (flow.until - flow.since) > 0
        self._only_messages = observation.only_messages_wait

    @property
    def quiet(self) -> float:
        """Seconds to wait for an event before the next look."""
        if self._silent < CALM:
            return self._quiet
        return self._quiet * (ONLY_MESSAGES if self._only_messages else CALM_QUIET)

    def waited(self, changed: bool) -> None:
        """Notes whether an event ended the last wait."""
        self._silent = 0 if changed else self._silent + 1

    def rest(self, now: float) -> float:
        """Seconds left until the next look may begin; negative where it may."""
        return self._looked_at + self._rest - now

    def overdue(self, now: float) -> bool:
        """True where a look is due even if nothing changed."""
        return now - self._looked_at >= self.quiet
