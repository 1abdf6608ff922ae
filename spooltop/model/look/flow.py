"""Messages that came and went between two looks, and how attempts on them ended.

All times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spooltop.records import dataclass, field

from ..vocabulary import DIED, Box

__all__ = ["Completion", "Flow", "HolderFlow", "Return", "Tried"]


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished message: put, claimed and gone at these times, None if not known."""

    put_at: float | None
    claimed_at: float | None
    gone_at: float


@dataclass(frozen=True, slots=True)
class Return:
    """An attempt whose message was given back by its consumer. ``ended`` is how the attempt ended, None if the name does not
    say; ``delayed``: the message waits before the next attempt."""

    id: str
    at: float
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True if the attempt failed: neither did its consumer die, nor was the message given back for immediate delivery."""
        return _failed(self.ended, self.delayed)


@dataclass(frozen=True, slots=True)
class Tried:
    """A message in ``new`` or ``cur`` with ``attempts`` attempts without success; ``ended`` and ``delayed`` as in
    ``Return``."""

    id: str
    box: Box
    attempts: int
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True if the last attempt failed: neither did its consumer die, nor was the message given back for immediate
        delivery."""
        return _failed(self.ended, self.delayed)


def _failed(ended: str | None, delayed: bool) -> bool:
    return ended != DIED and (ended is not None or delayed)


class HolderFlow(NamedTuple):
    """Messages that one consumer finished and failed at, and the time of its last claim, if it made one."""

    done: int = 0
    failed: int = 0
    last_claim_at: float | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """Arrivals and departures since the last look.

    ``exact`` is False if events may be missing: counts are lower bounds then. ``measured`` is False if nothing was watched since
    (the first look). Canaries are not counted. ``done`` counts those that left during the previous flow: only one look later it
    is known that they did not come back.

    ``retried`` counts attempts whose message was returned to ``new`` by its consumer or by ``recover``, ``requeued`` those that
    an operator moved back. ``returns`` are the newest of the former; ``recovered`` are ids with such a return that are done after
    all. ``shifted`` is the change in the depth of ``new`` by operators, and by removed files: it does not count as flow.

    ``by_holder`` counts for each consumer (its token, else ``P`` and its pid) what it finished and failed at during the previous
    flow; of very many only the busiest.
    """

    since: float = 0.0
    until: float = 0.0
    arrived: int = 0
    claimed: int = 0
    requeued: int = 0
    done: int = 0
    arrived_by_source: Mapping[str, int] = field(default_factory=dict)
    completions: tuple[Completion, ...] = ()
    exact: bool = True
    measured: bool = False
    retried: int = 0
    returns: tuple[Return, ...] = ()
    recovered: tuple[str, ...] = ()
    shifted: int = 0
    by_holder: Mapping[str, HolderFlow] = field(default_factory=dict)
    holders_counted: bool = True
    """False where the queue does not tell who finished what: ``by_holder`` is empty then."""
