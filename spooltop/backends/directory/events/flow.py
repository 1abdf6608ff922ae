"""Counts arrivals and departures: from change events where they are available, else from the difference of two scans.

Every count is tied to an id: a message that goes back to ``new`` has not arrived, and one that is set aside is not done.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter

from msgspec import Struct, field

from spooltop.engine import names as grammar
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.names import Name
from spooltop.model.look.observation import Completion, Flow, HolderFlow, Return
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

from ..scan.scan import BoxScan
from ..scan.set_aside import SetAsideBoxes
from .tracker import OperatorMoves
from .watcher import EventBatch, EventReport

# Messages that were put, claimed and finished within one batch of events: thousands a second where consumers keep up. They are
# counted together, from their names, without an object for each.

Found = tuple[str, str, str, str, str, str, str]
"""The claim, the name in ``new``, the id, the source or "", the token and the time (µs) of the claim, both "" where another kind
of consumer took it, and for such a one the holder, as ``holder_of`` names it, else ""."""

_FIRST_CLAIM = re.compile(
    r"((([0-9]{16}\.P[0-9]{1,10}R[0-9a-f]{16}\.[A-Za-z0-9._-]++)(?:,s=([A-Za-z0-9._-]++))?)"
    r"(?:,c=([0-9a-f]{32})\.([0-9]{16}):2,P[0-9]{1,10}|:(?:2,)?(P[0-9]{1,10})))/|[^/]*+/"
)
"""Captures, of each name before a ``/``, the parts of a first claim on one of our own messages in its plain form; nothing of any
other name. Later attempts are counted one by one, because their names tell how often the message came back."""
_claim, _name, _source, _token, _claimed_us, _foreign = map(itemgetter, (0, 1, 3, 4, 5, 6))


class ShortLived(Struct):
    """Short-lived messages of one batch, by id. ``turn`` is the number of the next look, ``at`` the time of the batch; ``late``:
    the times at which its events happened are unknown."""

    turn: int
    at: float
    late: bool
    found: dict[str, Found]

    def among(self, ids: Mapping[str, object]) -> set[str]:
        return self.found.keys() & ids.keys() if ids else set()

    def take_out(self, id: str) -> tuple[Name, Name]:
        """Removes a message from these and returns its names in ``new`` and in ``cur``."""
        claim, name, *_ = self.found.pop(id)
        return grammar.parse(name, claimed=False), grammar.parse(claim, claimed=True)

    def count(self, *, but: Set[str]) -> int:
        return len(self.found) - (len(self.found.keys() & but) if but else 0)

    def sources(self, *, but: Set[str]) -> Counter[str]:
        """Counts the messages of each source. Ids in ``but`` are left out."""
        counted = Counter(map(_source, self.found.values()))
        counted -= Counter(self.found[id][3] for id in self.found.keys() & but)
        del counted[""]
        return counted

    def holders(self, *, but: Set[str]) -> Counter[str]:
        """Counts the messages of each holder, as ``holder_of`` names it. Ids in ``but`` are left out."""
        found: Collection[Found] = self.found.values()
        if but:
            found = [one for id, one in self.found.items() if id not in but]
        counted = Counter(map(_token, found))
        if counted.pop("", 0):
            counted.update(map(_foreign, found))
            del counted[""]
        return counted

    def last_claims(self) -> dict[str, float]:
        """The time of the last claim of each holder, as ``holder_of`` names it."""
        found = self.found.values()
        foreign = dict.fromkeys(map(_foreign, found), self.at)
        foreign.pop("", None)
        last: dict[str, str] = {}
        for token, claimed_us in zip(map(_token, found), map(_claimed_us, found), strict=True):
            if claimed_us > last.get(token, ""):  # as text like the numbers, which all have 16 digits
                last[token] = claimed_us
        return {token: int(claimed_us) / 1e6 for token, claimed_us in last.items()} | foreign

    def completions(self, step: int, *, but: Set[str]) -> Iterator[Completion]:
        """Yields a completion for every ``step``-th message. Ids in ``but`` are left out."""
        for _, _, id, _, _, claimed_us, _ in list(self.found.values())[::step]:
            if id not in but:
                # A late batch says nothing about durations, and only a claim tells when within the batch it was made.
                put_at = None if self.late else int(id[:16]) / 1e6
                yield Completion(put_at, int(claimed_us) / 1e6 if claimed_us and not self.late else None, self.at)


def split_short_lived(batches: Sequence[EventBatch], turn: int) -> list[tuple[ShortLived, list[tuple[bool, set[str], str]]]]:
    """Separates the messages that arrived and were finished within the batches of one look, each with the batch in which it was
    finished. Only plain names of the engine are recognised, and only if they came and went once.

    Also returns all other names of each batch, as tuples (claimed, names, name of the attribute of ``_Moves`` that takes them).
    """
    if len(batches) > 1 and any(batch.back is None for batch in batches):  # without an order each batch stands alone
        return [one for batch in batches for one in split_short_lived([batch], turn)]
    passed, claimed = _came_and_went(batches), set[str]()
    split: list[ShortLived] = []
    for batch in batches:
        taken, ended = batch.added.get(Box.CUR, set()), batch.deleted.get(Box.CUR, set())
        # Only a claim of our own tells when it was made, once its batch is over.
        within = (taken & ended) | {name for name in (ended - taken) & claimed if ",c=" in name}
        within -= batch.back_in_cur
        claimed |= taken
        found = [one for one in _FIRST_CLAIM.findall("/".join([*within, ""])) if one[1] in passed]
        short_lived = ShortLived(turn, batch.at, batch.late, {one[2]: one for one in found})
        if len(short_lived.found) < len(found):
            for id, times in Counter(one[2] for one in found).items():
                if times > 1:
                    del short_lived.found[id]
        split.append(short_lived)
    new = {name for short_lived in split for name in map(_name, short_lived.found.values())}
    cur = {claim for short_lived in split for claim in map(_claim, short_lived.found.values())}
    return [
        (short_lived, [
            (False, batch.added.get(Box.NEW, set()) - new, "new_added"),
            (False, batch.deleted.get(Box.NEW, set()) - new, "new_gone"),
            (True, batch.added.get(Box.CUR, set()) - cur, "cur_added"),
            (True, batch.deleted.get(Box.CUR, set()) - batch.back_in_cur - cur, "cur_gone"),
        ])
        for batch, short_lived in zip(batches, split, strict=True)
    ]  # fmt: skip


def _came_and_went(batches: Iterable[EventBatch]) -> set[str]:
    """Returns the names that were added to ``new`` once, and after that deleted once."""
    came, went, again = set[str](), set[str](), set[str]()
    for batch in batches:
        added, deleted = batch.added.get(Box.NEW, set()), batch.deleted.get(Box.NEW, set())
        again.update(came & added, went & added, went & deleted, batch.back or ())
        again.update(batch.repeats.get(Box.NEW, ()), batch.gone_again.get(Box.NEW, ()))
        came |= added
        went |= deleted
    return (came & went) - again


# Counts what each consumer finished and failed at.

_MOST = 4_000
"""Consumers that are counted between two looks, the busiest."""
_times = itemgetter(1)


def holder_of(name: Name) -> str:
    """The holder of a claim: its token, else ``P`` and its pid; "" where the name has neither."""
    return name.token or ("" if name.pid is None else f"P{name.pid}")


class HolderCounts:
    """Counts from ``take`` to ``take``. A failure counts one look later, as it is known only then what was done."""

    def __init__(self) -> None:
        self._done: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._failed_now: Counter[str] = Counter()
        self._claimed_at: dict[str, float] = {}

    def claimed(self, holder: str, at: float) -> None:
        """Notes a claim."""
        if at > self._claimed_at.get(holder, 0.0) and (holder in self._claimed_at or len(self._claimed_at) < _MOST):
            self._claimed_at[holder] = at

    def failed(self, holder: str, *, now: bool) -> None:
        """Counts an attempt that failed: ``now``, or during the flow before."""
        (self._failed_now if now else self._failed)[holder] += 1

    def done(self, holders: Mapping[str, int]) -> None:
        """Counts finished messages by holder."""
        self._done.update(holders)

    def take(self) -> dict[str, HolderFlow]:
        """Returns the counts since the last ``take``."""
        done, failed, claimed = self._done, self._failed, self._claimed_at
        for counts in (done, failed, self._failed_now):
            counts.pop("", None)
        claimed.pop("", None)
        holders = done.keys() | failed.keys() | claimed.keys()
        if len(holders) > _MOST:
            busy = sorted(((holder, done[holder] + failed[holder]) for holder in holders), key=_times, reverse=True)
            holders = {holder for holder, _ in busy[:_MOST]}
        found = {holder: HolderFlow(done[holder], failed[holder], claimed.get(holder)) for holder in holders}
        self._done, self._failed, self._failed_now, self._claimed_at = Counter(), self._failed_now, Counter(), {}
        return found


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


class _Gone(Struct):
    """A message that left ``cur`` and has not been seen elsewhere yet. ``turn`` is the number of the ``take`` that comes next."""

    turn: int
    at: float
    put_at: float | None
    claimed_at: float | None
    source: str | None
    attempts: int | None
    """Number of earlier attempts, for a claim of our own; None where nobody counts attempts."""
    holder: str = ""


class _Moves(Struct):
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


# Measures the flow between two looks: from change events if there are any, else from the difference of two scans.

_COMPARED_AT_MOST = 100_000


def changed_at(scan: BoxScan) -> float | None:
    """Returns when a name was last added to or removed from the box."""
    return None if scan.generation is None else scan.generation[2] / 1e9


class FlowMeter:
    """Counts the messages that came and went since the last look. ``in_new`` asks the directory if a name is in ``new`` now."""

    def __init__(self, set_aside: SetAsideBoxes, in_new: Callable[[str], bool]) -> None:
        self._set_aside = set_aside
        self._aside_ids: set[str] = set()
        self._aside_generation = 0
        self._operators = OperatorMoves()
        self._counter = FlowCounter(in_new, self._operators)
        self._compared: tuple[set[str], set[str]] | None = None
        self._listened = False
        self._compared_scans = (-1, -1)

    @property
    def last_claim_at(self) -> float | None:
        return self._counter.last_claim_at

    @property
    def unsettled(self) -> bool:
        """True if a look that comes soon will know more."""
        return self._counter.unsettled

    def read_operator_moves(self, dirs: SpoolDirs) -> None:
        """Reads the moves that operators announced in the journal. Call it after the change events were taken and before ``look``
        counts them."""
        self._operators.look(dirs)

    def look(
        self, now: float, report: EventReport, new: BoxScan, cur: BoxScan, claims: Sequence[Row], *, starting: bool, exact: bool
    ) -> Flow:
        """Returns the flow since the last look. ``starting``: the listener has started and has received nothing yet. ``exact``:
        the directories are those of the last look."""
        before = self._aside_ids
        if self._set_aside.generation != self._aside_generation:
            self._aside_ids, self._aside_generation = self._set_aside.ids(), self._set_aside.generation
        self._counter.add(*report.batches, aside=before)
        if self._counter.last_claim_at is None and claims and not (self._listened and report.listening):
            self._counter.adopt(((row.id, row.in_box_since) for row in claims), changed_at(cur))
        if starting:
            return self._counter.begin(now)  # the first batch tells what came since
        self._listened = report.listening  # from now on the events tell of each claim, some after a look has listed it
        if report.listening and report.until is not None:
            now = report.until  # what came later has not been received: a rate covers the time for which events were received
        if report.listening:
            self._compared, self._compared_scans = None, (-1, -1)
        elif (new.number, cur.number) != self._compared_scans:
            self._compare(now, new, cur, before)
        measured = report.listening or self._compared is not None
        return self._counter.take(now, exact=exact and report.exact, measured=measured, aside=self._aside_ids)

    def _compare(self, now: float, new: BoxScan, cur: BoxScan, aside: set[str]) -> None:
        """Adds the difference of two scans. Bounded, because sets of a million names would stall everything."""
        self._compared_scans = (new.number, cur.number)
        if len(new.names) + len(cur.names) > _COMPARED_AT_MOST:
            self._compared = None
            return
        current = (set(new.names), set(cur.names))
        if self._compared is not None:
            self._counter.add(difference(now, self._compared, current), aside=aside)
        self._compared = current
