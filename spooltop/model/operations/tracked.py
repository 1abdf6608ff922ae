"""Locations of messages that are tracked by id."""

from __future__ import annotations

from spooltop.records import dataclass

from ..vocabulary import Box, Verdict

__all__ = ["TrackedMessage"]


@dataclass(frozen=True, slots=True)
class TrackedMessage:
    """Location of the message with one id, as far as it was seen. Times are epoch seconds.

    ``box`` is its current box; None if it is in no box (``gone_at`` says since when at the latest) or not found yet. ``place`` in
    ``new``: 1 is the oldest of the ``of`` messages that wait there. ``claimed_at`` and ``pid`` belong to its last claim since
    tracking began (for a canary: since it was put), None if none was seen; ``verdict`` is that of the claim while it lasts.
    ``put_at`` is when it was put, according to its id.
    """

    id: str
    box: Box | None = None
    place: int | None = None
    of: int | None = None
    claimed_at: float | None = None
    pid: int | None = None
    gone_at: float | None = None
    verdict: Verdict | None = None
    put_at: float | None = None
