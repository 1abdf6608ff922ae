"""Consumers: the processes that claim messages. All times are epoch seconds."""

from __future__ import annotations

from spooltop.records import dataclass, replace

from .selection import Selection
from .vocabulary import Box, Owner, Verdict

__all__ = ["ConsumerList", "ConsumerRate", "ConsumerRow", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of a processor and of memory by one process. ``cpu`` is the share of one processor since the sample before (1.0: all of
    it), None for the first sample. ``memory`` is its resident set in bytes. ``stopped``: a signal or a debugger has stopped it.
    ``command`` is its whole command line, "" where it is not visible."""

    cpu: float | None
    memory: int | None
    stopped: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerRate:
    """Messages a second that a consumer finished and that it failed at. None: not watched yet."""

    done: float | None = None
    failed: float | None = None


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer, and the claims that it holds.

    ``token`` names its presence file, None for a consumer of another program, which is known by the pid in its claims alone.
    ``verdict`` is ALIVE, DEAD or UNKNOWN, with ``evidence``. ``claimed_at`` is when it made the oldest of its ``claims`` that are
    left, an upper bound if ``claimed_is_bound``; ``ids`` are the first of them, oldest first. ``last_claim_at`` is the time of
    its last claim, as far as it is known. ``usage`` is None where its process is not visible from here.
    """

    verdict: Verdict
    evidence: str
    owner: Owner
    token: str | None = None
    claims: int = 0
    claimed_at: float | None = None
    claimed_is_bound: bool = False
    last_claim_at: float | None = None
    ids: tuple[str, ...] = ()
    rate: ConsumerRate = ConsumerRate()
    usage: Usage | None = None

    @property
    def key(self) -> str:
        """Identity from look to look. Claims of one pid that different processes made have different verdicts."""
        return self.token or f"P{self.owner.pid} {self.verdict}"

    @property
    def holder(self) -> str:
        """The name under which the flow of messages counts it: its token, or its pid."""
        return self.token or f"P{self.owner.pid}"

    @property
    def stopped(self) -> bool:
        return self.usage is not None and self.usage.stopped

    @property
    def exited(self) -> bool:
        """True where it is dead and holds nothing: its end troubles nobody."""
        return self.verdict is Verdict.DEAD and not self.claims

    @property
    def word(self) -> str:
        """The verdict as lists show it."""
        if self.verdict is Verdict.DEAD:
            return "DEAD" if self.claims else "exited"
        if self.verdict is Verdict.ALIVE:
            return "stopped" if self.stopped else "running"
        return "unknown"

    @property
    def selection(self) -> Selection:
        """All of its claims, those to come included."""
        if self.token is not None:
            return Selection(box=Box.CUR, filter=self.token)
        return Selection(box=Box.CUR, filter=f"pid:{self.owner.pid} !,c= verdict:{self.verdict}")

    def held(self, now: float) -> float | None:
        """Seconds for which it has held the oldest of its claims; None where it holds none, or that is not known."""
        return None if self.claimed_at is None else max(0.0, now - self.claimed_at)

    def measured(self, rate: ConsumerRate, last_claim_at: float | None) -> ConsumerRow:
        """Returns a copy with the rates and the last claim that were seen."""
        times = [at for at in (self.last_claim_at, last_claim_at) if at is not None]
        return replace(self, rate=rate, last_claim_at=max(times, default=None))


@dataclass(frozen=True, slots=True)
class ConsumerList:
    """The consumers of a target as of a look at ``taken_at``. ``more`` consumers are left out because there are too many;
    ``nameless`` claims name no consumer; ``error`` says why some are not visible. ``window`` is the number of seconds that the
    rates are about."""

    consumers: tuple[ConsumerRow, ...] = ()
    taken_at: float = 0.0
    more: int = 0
    nameless: int = 0
    error: str = ""
    window: float = 0.0

    def count(self, word: str) -> int:
        """The number of consumers with this ``word``."""
        return sum(one.word == word for one in self.consumers)
