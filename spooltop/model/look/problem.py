"""Problems, worst first."""

from __future__ import annotations

from enum import StrEnum

from spooltop.records import dataclass

from ..filters.selection import Selection
from ..vocabulary import Box

__all__ = ["CODES", "Problem", "Severity"]

CODES = (
    "blind", "disk-full", "fs-readonly", "no-consumer", "poison", "failing", "claims-dead", "paused",
    "handed-back", "new-growing", "new-old",
    "cursor-unreadable", "cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing",
    "lock-blocked", "lock-failures", "claim-long", "tmp-abandoned", "tmp-old", "lock-stale", "ticket-orphan",
    "unsafe-writer", "lost", "conflict", "clock-skew", "untrimmed", "claims-unknown", "muted", "settings",
)  # fmt: skip
"""All codes, worst first: the order of the list of problems."""


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """A line of the list of problems.

    ``code`` is one of ``CODES``. ``selection`` is what ``r``, ``d`` and ``h`` on the line plan for and what Enter shows. ``view``
    is the view that Enter opens if there is no selection ("cursors", "locks"), ``subject`` the row in it (a source, a path).
    ``count`` is how many items the line is about, ``at_least`` if more were not looked at. ``text`` contains escaped names only.
    """

    code: str
    severity: Severity
    text: str
    count: int = 0
    selection: Selection | None = None
    view: str | None = None
    subject: str | None = None
    at_least: bool = False

    @property
    def rank(self) -> int:
        """Position in the order of problems, 0 is the worst."""
        return CODES.index(self.code)

    @property
    def box(self) -> Box | None:
        return self.selection.box if self.selection else None
