"""Counts arrivals and departures: from change events where they are available, else from the difference of two scans.

Every count is tied to an id: a message that goes back to ``new`` has not arrived, and one that is set aside is not done.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Set

from spooltop.engine import names as grammar
from spooltop.engine.names import Name
from spooltop.model.look.observation import Completion, Flow, Return
from spooltop.model.vocabulary import Box
from spooltop.records import dataclass, field

from .holder_counts import HolderCounts, holder_of
from .operator_moves import OperatorMoves
from .report import EventBatch
from .short_lived import ShortLived, split_short_lived

__all__ = ["FlowCounter", "difference"]

_REMEMBERED = 50_000
_RETURNS = 1_000
"""Most returns that one look reports."""
_AT_ONCE = 1.0
"""Seconds by which the time in the name of a claim may be before that of the rename which made it."""
_SAMPLES = 100
"""Completions that one look reports at least, if there are so many."""


def difference(at: float, before: tuple[Set[str], Set[str]], after: tuple[Set[str], Set[str]]) -> EventBatch:
    """Returns the difference of two scans of (``new``, ``cur``) as a batch of events. Messages that came and went in between are
    missing."""
    return EventBatch(
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
    attempts: int | None
    """Number of earlier attempts, for a claim of our own; None where nobody counts attempts."""
    holder: str = ""


@dataclass(slots=True)
class _Moves:
    """The names of one id in one batch."""

    new_added: list[Name] = field(default_factory=list)
    new_gone: list[Name] = field(default_factory=list)
    cur_added: list[Name] = field(default_factory=list)
    cur_gone: list[Name] = field(default_factory=list)


class FlowCounter:
    """Counts from ``take`` to ``take``. ``in_new`` returns whether a name is in ``new`` now: it is called where a batch alone is
    ambiguous."""

    def __init__(self, in_new: Callable[[str], bool], operators: OperatorMoves | None = None) -> None:
        self._in_new = in_new
        self._operators = operators or OperatorMoves()
        self._tried: set[str] = set()
        self._claimed_at: dict[str, float] = {}
        self._gone: dict[str, _Gone] = {}
        self._short_lived: list[ShortLived] = []
        self._passed: dict[str, ShortLived] = {}
        """The group of short-lived messages that each id is in."""
        self._holders = HolderCounts()
        self._since: float | None = None
        self._turn = 0
        self.last_claim_at: float | None = None
        self._reset()

    def _reset(self) -> None:
        self._arrived = self._claimed = self._requeued = self._retried = self._done = self._shifted = 0
        self._returns: deque[Return] = deque(maxlen=_RETURNS)
        self._sources: Counter[str] = Counter()

    def add(self, *batches: EventBatch, aside: Set[str] = frozenset()) -> None:
        """Counts the batches of one look. ``aside`` are the ids that were set aside: coming back from there is no arrival."""
        for batch, (short_lived, names) in zip(batches, split_short_lived(batches, self._turn), strict=True):
            self._add(batch, short_lived, names, aside)

    def _add(
        self, batch: EventBatch, short_lived: ShortLived, names: list[tuple[bool, set[str], str]], aside: Set[str]
    ) -> None:
        in_new = self._in_new if batch.back is None else batch.back.__contains__
        moves: dict[str, _Moves] = {}
        known: dict[tuple[bool, str], Name] = {}
        for claimed, changes, attribute in names:
            for raw in changes:
                name = known.get((claimed, raw)) or known.setdefault((claimed, raw), grammar.parse(raw, claimed=claimed))
                if not name.canary:
                    getattr(moves.setdefault(name.id, _Moves()), attribute).append(name)
        # More is known about these than that they came and went, or the claim gave back the same name that it took.
        odd = {id for id, one in short_lived.found.items() if not one[4] and in_new(one[1])} if batch.back is None else set[str]()
        odd |= short_lived.among(moves) | short_lived.among(self._gone) | short_lived.among(self._claimed_at)
        odd |= short_lived.among(self._passed)
        for id in odd:
            new, cur = short_lived.take_out(id)
            moved = moves.setdefault(id, _Moves())
            for seen, name in ((moved.new_added, new), (moved.new_gone, new), (moved.cur_added, cur), (moved.cur_gone, cur)):
                seen.append(name)
        if short_lived.found:
            self._count_short_lived(short_lived, aside)
        for id, moved in moves.items():
            self._count(id, moved, batch, aside, in_new)

    def _count_short_lived(self, short_lived: ShortLived, aside: Set[str]) -> None:
        """Counts the messages that were put, claimed and finished within one batch: nearly all where consumers keep up."""
        self._short_lived.append(short_lived)
        self._passed.update(dict.fromkeys(short_lived.found, short_lived))
        self._arrived += short_lived.count(but=aside)
        self._sources.update(short_lived.sources(but=aside))
        self._claimed += len(short_lived.found)
        for holder, at in short_lived.last_claims().items():
            self._holders.claimed(holder, at)
            if self.last_claim_at is None or at > self.last_claim_at:
                self.last_claim_at = at

    def _leaves(self, id: str, batch: EventBatch, name: Name, claimed_at: float | None) -> None:
        put_at = _seconds(name.enqueued_us)
        if batch.late:
            put_at = claimed_at = None  # nobody knows when it left, so it is no sample of how long anything takes
        self._back(id)  # it had not gone yet, as it seemed before: a claim of another kind of consumer says nothing of its time
        attempts = name.attempts if name.token else None
        self._gone[id] = _Gone(self._turn, batch.at, put_at, claimed_at, name.source, attempts, holder_of(name))

    def _count(self, id: str, moved: _Moves, batch: EventBatch, aside: Set[str], in_new: Callable[[str], bool]) -> None:
        operators = self._operators
        put_back: list[Name] = []
        arrived: list[Name] = []
        requeued = 0
        for name in moved.new_added:
            many = batch.times_added(Box.NEW, name.raw)
            back_again = operators.take(operators.put_back, name.raw, many)
            again = operators.take(operators.requeued, name.raw, many - back_again)
            requeued += again
            self._shifted += back_again + again
            if back_again:
                put_back.append(name)
            if back_again + again < many:
                arrived.append(name)
        for name in moved.new_gone:
            self._shifted -= operators.take(operators.out_of_new, name.raw, batch.times_deleted(Box.NEW, name.raw))
        self._requeued += requeued
        if id in aside and not (moved.cur_added or moved.cur_gone or id in self._gone):
            put_back, arrived = put_back + arrived, []  # by an operator whose journal cannot be read here
        taken = [name for name in moved.cur_added if not operators.take(operators.claims, name.raw)]
        undone = len(taken) < len(moved.cur_added)
        ended = [name for name in moved.cur_gone if not operators.take(operators.out_of_cur, name.raw)]
        moved = _Moves(arrived, moved.new_gone, taken, ended)
        back = bool(requeued or put_back or undone)
        gone = self._back(id) if arrived or taken or back else None
        claims = (*taken, *moved.cur_gone)
        exact = all(name.token for name in claims) and all(name.attempts is not None for name in arrived)
        if exact and (gone is None or gone.attempts is not None):
            self._count_exact(id, moved, batch, gone, back=back)
        else:
            self._count_foreign(id, moved, batch, gone, in_new, back=back)

    def _count_exact(self, id: str, moved: _Moves, batch: EventBatch, gone: _Gone | None, *, back: bool) -> None:
        """Counts the moves of a message with names of our own. They hold the number of attempts, so each return is counted, in
        any order and at any speed."""
        arrived, taken, ended = moved.new_added, moved.cur_added, moved.cur_gone
        returns = sorted((name for name in arrived if name.attempts), key=lambda name: name.attempts or 0)
        before = [name.attempts or 0 for name in (*moved.new_gone, *ended)]
        if gone is not None:
            before.append(gone.attempts or 0)
        after = [name.attempts or 0 for name in (*arrived, *taken)]
        many = len(returns)
        if before and after:
            many = max(many, max(after) - min(before))
        elif after and not before and batch.back is None:
            many = max(after)  # two scans: it came and was tried in between
        if any(not name.attempts for name in arrived) or (arrived and not before and batch.back is None):
            self._arrives(arrived)
            if gone is not None and not returns:  # the id was put once more: the one before is done
                self._gone[id] = gone
        self._retries(id, many, returns, batch.at)
        holders = {name.attempts or 0: holder_of(name) for name in ended}
        if gone is not None:
            holders[gone.attempts or 0] = gone.holder
        for name in returns:
            if Return(id, batch.at, name.ended, name.not_before is not None).failed:
                self._holders.failed(holders.get((name.attempts or 0) - 1, ""), now=True)
        if many:
            self._claimed_at.pop(id, None)
        if taken:
            self._claimed += len(taken)
            self._remember(id, _last(taken), batch.at)
        if ended:
            last = max(ended, key=lambda name: (name.attempts or 0, name.claimed_us or 0))
            still = {name.raw for name in taken} - {name.raw for name in ended}
            if not back and not still and max(after, default=0) <= (last.attempts or 0):
                self._leaves(id, batch, last, self._claim_time(id, last))

    def _count_foreign(
        self,
        id: str,
        moved: _Moves,
        batch: EventBatch,
        gone: _Gone | None,
        in_new: Callable[[str], bool],
        *,
        back: bool,
    ) -> None:
        """Counts the moves of a message that foreign consumers take. All its returns share one name, and so do all its claims:
        they are counted from how often each name appeared and where the message is now."""
        arrived, left, taken, ended = moved.new_added, moved.new_gone, moved.cur_added, moved.cur_gone
        passed = bool({name.raw for name in taken} & {name.raw for name in ended}) and len(taken) == len(ended)
        here = back or (bool(arrived) and (not left or any(in_new(name.raw) for name in arrived)))
        puts = sum(batch.times_added(Box.NEW, name.raw) for name in arrived)
        claims = sum(batch.times_added(Box.CUR, name.raw) for name in taken)
        began_claimed = gone is not None or (bool(ended) and not passed) or id in self._claimed_at
        # Each return ends a claim; of the claims one may stand there still, or have ended for good.
        returns = max(0, claims + began_claimed - (0 if here or not claims else 1))
        if arrived:
            returns = min(returns, puts)
            if puts > returns:
                self._arrives(arrived)
        else:
            returns = int(gone is not None and bool(taken))
        self._retries(id, returns, [], batch.at)
        if returns:
            self._claimed_at.pop(id, None)
        if taken:
            self._claimed += claims
            self._remember(id, _last(taken), batch.at)
        if ended and not here and (passed or not taken):
            name = _last(ended)
            claimed_at = self._claim_time(id, name)
            if passed and name.claimed_us is None:
                claimed_at = None  # when within the batch nobody knows
            self._leaves(id, batch, name, claimed_at)

    def _arrives(self, arrived: list[Name]) -> None:
        self._arrived += 1
        source = next((name.source for name in arrived if name.source), None)
        if source is not None:
            self._sources[source] += 1

    def _retries(self, id: str, many: int, returns: list[Name], at: float) -> None:
        """Counts ``many`` returns. ``returns`` are their names, as far as they were seen."""
        self._retried += many
        for name in returns:
            self._returns.append(Return(id, at, name.ended, name.not_before is not None))
        if returns and len(self._tried) < _REMEMBERED:
            self._tried.add(id)

    def _back(self, id: str) -> _Gone | None:
        """Removes and returns the record of a message that had left ``cur`` and is not done after all; None where there is
        none."""
        if (short_lived := self._passed.pop(id, None)) is not None:
            found = short_lived.found.pop(id)
            holder = found[4] or found[6]
            return _Gone(short_lived.turn, short_lived.at, None, None, found[3] or None, 0 if found[4] else None, holder)
        return self._gone.pop(id, None)

    def _remember(self, id: str, name: Name, at: float) -> None:
        when = at if name.claimed_us is None else name.claimed_us / 1e6
        self._holders.claimed(holder_of(name), when)
        self.last_claim_at = when if self.last_claim_at is None else max(self.last_claim_at, when)
        if len(self._claimed_at) < _REMEMBERED:
            self._claimed_at[id] = when

    def _claim_time(self, id: str, name: Name) -> float | None:
        remembered = self._claimed_at.pop(id, None)
        return remembered if name.claimed_us is None else name.claimed_us / 1e6

    def begin(self, now: float) -> Flow:
        """Returns an unmeasured flow; the next ``take`` counts from the first ``begin``."""
        self._since = now if self._since is None else self._since
        return Flow(self._since, now, exact=False)

    def take(self, now: float, *, exact: bool, measured: bool, aside: Set[str] = frozenset()) -> Flow:
        """Returns the flow since the last ``take``. A message that left ``cur`` before that and has appeared nowhere since is
        done: the two halves of a move may be reported one after the other. ``aside`` are ids that were set aside, which are not
        done."""
        ended: list[_Gone] = []
        recovered: list[str] = []
        waiting: dict[str, _Gone] = {}
        for id, gone in self._gone.items():
            if gone.turn == self._turn:
                waiting[id] = gone
                continue
            if id in aside:
                self._holders.failed(gone.holder, now=False)  # rejected
                continue
            ended.append(gone)
            if id in self._tried:
                self._tried.discard(id)
                recovered.append(id)
        over = [short_lived for short_lived in self._short_lived if short_lived.turn != self._turn]
        self._short_lived = [short_lived for short_lived in self._short_lived if short_lived.turn == self._turn]
        self._passed = {id: short_lived for short_lived in self._short_lived for id in short_lived.found}
        self._holders.done(Counter(gone.holder for gone in ended))
        for short_lived in over:
            self._holders.done(short_lived.holders(but=aside))
            for holder in short_lived.holders(but=short_lived.found.keys() - aside) if aside else ():
                self._holders.failed(holder, now=False)
        done = len(ended) + sum(short_lived.count(but=aside) for short_lived in over)
        self._done += done
        # An even sample of very many, else the figures of a minute would describe its last second.
        step = max(1, done // _SAMPLES)
        completions = [Completion(gone.put_at, gone.claimed_at, gone.at) for gone in ended[::step]]
        for short_lived in over:
            completions += short_lived.completions(step, but=aside)
        self._gone = waiting
        since = now if self._since is None else self._since
        flow = Flow(
            since, now, self._arrived, self._claimed, self._requeued, self._done, dict(self._sources), tuple(completions),
            exact, measured and self._since is not None, self._retried, tuple(self._returns), tuple(recovered), self._shifted,
            self._holders.take(),
        )  # fmt: skip
        self._since = now
        self._turn += 1
        self._reset()
        return flow

    @property
    def unsettled(self) -> bool:
        """True where something left ``cur`` and it is not yet known whether it is done."""
        return bool(self._gone or self._short_lived)

    def adopt(self, claims: Iterable[tuple[str, float | None]], changed_at: float | None) -> None:
        """Takes in the claims (id, claimed at) that existed when watching began. The newest of them is the last claim only if
        nothing changed in ``cur`` after it: others may have been claimed and finished since."""
        newest: float | None = None
        for id, when in claims:
            if when is not None:
                newest = when if newest is None else max(newest, when)
                if len(self._claimed_at) < _REMEMBERED:
                    self._claimed_at.setdefault(id, when)
        if newest is not None and (changed_at is None or changed_at <= newest + _AT_ONCE):
            self.last_claim_at = newest


def _last(claims: list[Name]) -> Name:
    """Returns the most recent claim on a message in a batch. The claims of a batch are unordered."""
    return max(claims, key=lambda name: name.claimed_us or 0)


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6
