"""Consumers: the processes that claim messages. All times are epoch seconds."""

from __future__ import annotations

from msgspec import Struct

from .plan import Selection
from .query import held_by
from .units import since
from .vocabulary import Box, Owner, Verdict, escape

_RANKS = {"DEAD": 5, "stopped": 4, "unknown": 3, "running": 2, "exited": 0}


class Usage(Struct, frozen=True):
    """Use of a processor and of memory by one process. ``cpu`` is the share of one processor since the sample before (1.0: all of
    it), None for the first sample. ``memory`` is its resident set in bytes. ``stopped``: a signal or a debugger has stopped it.
    ``command`` is its whole command line, "" where it is not visible."""

    cpu: float | None
    memory: int | None
    stopped: bool = False
    command: str = ""


class ConsumerRate(Struct, frozen=True):
    """Messages a second that a consumer finished and that it failed at. None: not watched yet; ``failed`` alone None: it does not
    say."""

    done: float | None = None
    failed: float | None = None

    def words(self, kind: str) -> str:
        """Formats ``done`` or ``failed`` in at most 6 cells: ``·`` where it was not watched yet, ``?`` where it is not visible.

        >>> [ConsumerRate(rate, None).words("done") for rate in (None, 0.0, 0.001, 0.017, 9.96, 1234.5)]
        ['·', '0.0', '<0.01', '0.02', '10.0', '1,234']
        """
        value = self.failed if kind == "failed" else self.done
        if value is None:
            return "·" if self.done is None else "?"
        if 0 < value < 0.095:
            return "<0.01" if value < 0.005 else f"{value:.2f}"
        return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


class ConsumerRow(Struct, frozen=True):
    """A consumer, and the claims that it holds.

    ``token`` names its presence file, None for a consumer of another program, which is known by the pid in its claims alone, or
    by its name.
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
    asked_at: float | None = None
    """When it last asked for a message, where a server knows that."""

    @property
    def key(self) -> str:
        """Identity from look to look. Claims of one pid that different processes made have different verdicts."""
        return self.holder if self.token or self.owner.pid is None else f"{self.holder} {self.verdict}"

    @property
    def holder(self) -> str:
        """The name under which the flow of messages counts it: its token, its own name, or its pid."""
        return self.token or self.owner.name or f"P{self.owner.pid}"

    @property
    def stopped(self) -> bool:
        return self.usage is not None and self.usage.stopped

    @property
    def gone(self) -> bool:
        """True where it is dead: it works no more, and uses nothing."""
        return self.verdict is Verdict.DEAD

    @property
    def exited(self) -> bool:
        """True where it is dead and holds nothing: its end troubles nobody."""
        return self.gone and not self.claims

    @property
    def word(self) -> str:
        """The verdict as lists show it."""
        if self.verdict is Verdict.DEAD:
            return "DEAD" if self.claims else "exited"
        if self.verdict is Verdict.ALIVE:
            return "stopped" if self.stopped else "running"
        return "unknown"

    @property
    def rank(self) -> int:
        """Its place in a list: the higher it is, the more it needs attention."""
        return _RANKS[self.word] - (0 if self.claims or self.exited else 1)

    @property
    def selection(self) -> Selection:
        """All of its claims, those to come included."""
        if self.token is not None:
            return Selection(box=Box.CUR, filter=self.token)
        if self.owner.name is not None:
            return Selection(box=Box.CUR, filter=str(held_by(escape(self.owner.name))))
        return Selection(box=Box.CUR, filter=f"pid:{self.owner.pid} !,c= verdict:{self.verdict}")

    def held(self, now: float) -> float | None:
        """Seconds for which it has held the oldest of its claims; None where it holds none, or that is not known."""
        return since(self.claimed_at, now)


class ConsumerList(Struct, frozen=True):
    """The consumers of a target as of a look at ``taken_at``. ``more`` consumers are left out because there are too many;
    ``nameless`` claims name no consumer; ``error`` says why some are not visible. ``window`` is the number of seconds that the
    rates are about, which are lower bounds if ``lower_bound``."""

    consumers: tuple[ConsumerRow, ...] = ()
    taken_at: float = 0.0
    more: int = 0
    nameless: int = 0
    error: str = ""
    window: float = 0.0
    lower_bound: bool = False
    measured: bool = True
    """False for a server that knows consumers by their names: their processes and rates are not measured."""

    def count(self, word: str) -> int:
        """The number of consumers with this ``word``."""
        return sum(one.word == word for one in self.consumers)


def nameless_words(found: ConsumerList) -> str:
    """``3 claims name no consumer``."""
    return f"{found.nameless:,} {'claim names' if found.nameless == 1 else 'claims name'} no consumer"
