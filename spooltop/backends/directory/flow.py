"""What came and what went: out of change events where they can be had, else out of the difference of two scans.

Every count is tied to an id: a message that goes back to ``new`` has not arrived, one that is put aside is not done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field

from spooltop.engine import names as grammar
from spooltop.engine.names import Name
from spooltop.model.sight import Flow, Passage
from spooltop.model.words import Box

from .through import Through, came_and_went
from .watch import Batch

__all__ = ["FlowCounter", "difference"]

_REMEMBERED = 50_000
_PASSAGES = 100
"""Samples that one look tells at least, where it has so many."""


def difference(at: float, before: tuple[Set[str], Set[str]], after: tuple[Set[str], Set[str]]) -> Batch:
    """The batch of events that two scans of (``new``, ``cur``) amount to. What came and went in between is not in it."""
    return Batch(
        at,
        {Box.NEW: set(after[0] - before[0]), Box.CUR: set(after[1] - before[1])},
        {Box.NEW: set(before[0] - after[0]), Box.CUR: set(before[1] - after[1])},
    )


@dataclass(slots=True)
class _Gone:
    """A message that left ``cur`` and has not been seen elsewhere yet. ``turn`` is the number of the ``take`` that comes next."""

    turn: int
    at: float
    put_at: float | None
    claimed_at: float | None
    source: str | None


@dataclass(slots=True)
class _Moves:
    """The names of one id in one batch."""

    new_added: list[Name] = field(default_factory=list)
    new_gone: list[Name] = field(default_factory=list)
    cur_added: list[Name] = field(default_factory=list)
    cur_gone: list[Name] = field(default_factory=list)


class FlowCounter:
    """Counts from ``take`` to ``take``. ``in_new`` tells whether a name stands in ``new``; asked where a batch is ambiguous and
    does not say itself."""

    def __init__(self, in_new: Callable[[str], bool]) -> None:
        self._in_new = in_new
        self._claimed_at: dict[str, float] = {}
        self._gone: dict[str, _Gone] = {}
        self._through: list[Through] = []
        self._since: float | None = None
        self._turn = 0
        self.last_claim_at: float | None = None
        self._reset()

    def _reset(self) -> None:
        self._arrived = self._claimed = self._requeued = self._done = 0
        self._sources: Counter[str] = Counter()

    def add(self, batch: Batch, aside: Set[str] = frozenset()) -> None:
        """Counts one batch. ``aside`` are the ids that were set aside: coming back from there is no arrival."""
        through, names = came_and_went(batch, self._turn)
        in_new = self._in_new if batch.back is None else batch.back.__contains__
        moves: dict[str, _Moves] = {}
        known: dict[tuple[bool, str], Name] = {}
        for claimed, changes, attribute in names:
            for raw in changes:
                name = known.get((claimed, raw)) or known.setdefault((claimed, raw), grammar.parse(raw, claimed=claimed))
                if not name.canary:
                    getattr(moves.setdefault(name.id, _Moves()), attribute).append(name)
        # More is to be known of it than that it came and went, or its claim gives back the very name that it took.
        odd = through.among(moves) | through.among(self._gone) | {id for id, name in through.foreign() if in_new(name)}
        for before in self._through:
            odd |= through.among(before.found)
        for id in odd:
            new, cur = through.take_out(id)
            moved = moves.setdefault(id, _Moves())
            for seen, name in ((moved.new_added, new), (moved.new_gone, new), (moved.cur_added, cur), (moved.cur_gone, cur)):
                seen.append(name)
        if through.found:
            self._pass(through, aside)
        for id, moved in moves.items():
            self._count(id, moved, batch, aside, in_new)

    def _pass(self, through: Through, aside: Set[str]) -> None:
        """Messages that were put, taken and ended within one batch: what nearly all are where consumers keep up."""
        self._through.append(through)
        self._arrived += through.count(but=aside)
        self._sources.update(through.sources(but=aside))
        self._claimed += len(through.found)
        last = through.last_claim_at()
        if self.last_claim_at is None or last > self.last_claim_at:
            self.last_claim_at = last

    def _leaves(self, id: str, batch: Batch, put_at: float | None, claimed_at: float | None, source: str | None) -> None:
        if batch.late:
            put_at = claimed_at = None  # nobody knows when it left, so it is no sample of how long anything takes
        self._back(id)  # it had not gone yet, as it seemed before: a claim of another kind of consumer says nothing of its time
        self._gone[id] = _Gone(self._turn, batch.at, put_at, claimed_at, source)

    def _count(self, id: str, moved: _Moves, batch: Batch, aside: Set[str], in_new: Callable[[str], bool]) -> None:
        came, left = bool(moved.new_added), bool(moved.new_gone)
        taken, ended = moved.cur_added, moved.cur_gone
        same_claim = {name.raw for name in taken} & {name.raw for name in ended}
        passed = bool(same_claim) and len(taken) == len(ended)  # one claim that began and ended within the batch
        was_claimed = bool(ended) and not passed
        here = came and (not left or any(in_new(name.raw) for name in moved.new_added))
        limbo = self._back(id) if came or taken else None
        if came:
            if was_claimed or limbo is not None:
                self._requeued += 1
            elif passed and left and here:
                self._requeued += 1  # it waited before, was taken and given back
            elif id not in aside:
                self._arrived += 1
                source = next((name.source for name in moved.new_added if name.source), None)
                if source is not None:
                    self._sources[source] += 1
        elif limbo is not None and taken:
            self._requeued += 1
        if taken:
            self._claimed += 1
            self._remember(id, _last(taken), batch.at)
        if ended and not here and (passed or not taken):
            name = _last(ended)
            claimed_at = self._claim_time(id, name)
            if passed and name.claimed_us is None:
                claimed_at = None  # when within the batch nobody knows
            self._leaves(id, batch, _seconds(name.put_us), claimed_at, name.source)

    def _back(self, id: str) -> object | None:
        """What is known of a message that had left ``cur`` and is not done after all; None where it had not."""
        for through in self._through:
            if (found := through.found.pop(id, None)) is not None:
                return found
        return self._gone.pop(id, None)

    def _remember(self, id: str, name: Name, at: float) -> None:
        when = at if name.claimed_us is None else name.claimed_us / 1e6
        self.last_claim_at = when if self.last_claim_at is None else max(self.last_claim_at, when)
        if len(self._claimed_at) < _REMEMBERED:
            self._claimed_at[id] = when

    def _claim_time(self, id: str, name: Name) -> float | None:
        remembered = self._claimed_at.pop(id, None)
        return remembered if name.claimed_us is None else name.claimed_us / 1e6

    def begin(self, now: float) -> Flow:
        """Nothing is measured yet; the next ``take`` counts from the first ``begin``."""
        self._since = now if self._since is None else self._since
        return Flow(self._since, now, exact=False)

    def take(self, now: float, *, exact: bool, measured: bool, aside: Set[str] = frozenset()) -> Flow:
        """The flow since the last ``take``. What left ``cur`` before that and has come back nowhere since is done: the two halves
        of a move may be heard of one after the other. ``aside`` are ids that were set aside, which are not done."""
        ended: list[_Gone] = []
        waiting: dict[str, _Gone] = {}
        for id, gone in self._gone.items():
            if gone.turn == self._turn:
                waiting[id] = gone
                continue
            if id in aside:
                continue
            ended.append(gone)
        over = [through for through in self._through if through.turn != self._turn]
        self._through = [through for through in self._through if through.turn == self._turn]
        done = len(ended) + sum(through.count(but=aside) for through in over)
        self._done += done
        # Of very many an even sample: what is told of a minute would else be told of its last second.
        step = max(1, done // _PASSAGES)
        passages = [Passage(gone.put_at, gone.claimed_at, gone.at) for gone in ended[::step]]
        for through in over:
            passages += through.passages(step, but=aside)
        self._gone = waiting
        since = now if self._since is None else self._since
        flow = Flow(
            since, now, self._arrived, self._claimed, self._requeued, self._done, dict(self._sources), tuple(passages),
            exact, measured and self._since is not None,
        )  # fmt: skip
        self._since = now
        self._turn += 1
        self._reset()
        return flow

    @property
    def unsettled(self) -> bool:
        """True where something left ``cur`` and it is not yet known whether it is done."""
        return bool(self._gone or self._through)

    def adopt(self, claims: Iterable[tuple[str, float | None]]) -> None:
        """Claims (id, claimed at) that stood when watching began."""
        for id, when in claims:
            if when is not None:
                self.last_claim_at = when if self.last_claim_at is None else max(self.last_claim_at, when)
                if len(self._claimed_at) < _REMEMBERED:
                    self._claimed_at.setdefault(id, when)


def _last(claims: list[Name]) -> Name:
    """Of the claims on one message in a batch, which come in no order, the one that was made last."""
    return max(claims, key=lambda name: name.claimed_us or 0)


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6
