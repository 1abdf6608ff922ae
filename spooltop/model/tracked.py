"""Where messages went that somebody keeps an eye on, by their ids."""

from __future__ import annotations

from dataclasses import dataclass

from .vocabulary import Box, Verdict

__all__ = ["TrackedMessage"]


@dataclass(frozen=True, slots=True)
class TrackedMessage:
    """Where the message with one id is, as far as it was seen. Times are epoch seconds.

    ``box`` is where it stands now; None where it is in no box (``gone_at`` says since when at the latest) or not found yet.
    ``place`` in ``new``: 1 is the oldest of the ``of`` that wait there. ``claimed_at`` and ``pid`` are of its last claim since
    following began (of a canary: since it was put), None where none was seen; ``verdict`` is of that claim while it stands.
    ``put_at`` is when it was put, as its id tells.
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
