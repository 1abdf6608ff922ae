"""Looks at a stream and one of its consumer groups: its counts, problems, flow, lists and consumers. Changes nothing in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby, islice
from time import monotonic
from typing import NamedTuple

from msgspec import Struct

from spooltop.backends.access import user_name
from spooltop.cursors.model import CursorSource
from spooltop.engine.pausing import pause_from
from spooltop.model import (
    Capabilities,
    Listing,
    ListProgress,
    ListQuery,
    OpenSettings,
    SpooltopError,
    TrackedMessage,
    Unavailable,
    Unreadable,
)
from spooltop.model.query import MessageFacts, parse
from spooltop.model.snapshot import (
    BoxState,
    Capacity,
    ConsumerList,
    ConsumerRow,
    Flow,
    Observation,
    QueueFinding,
    VerdictCounts,
    Viewer,
    Watch,
)
from spooltop.model.vocabulary import (
    ASIDE,
    Action,
    Box,
    Holders,
    Holding,
    Key,
    Payload,
    Row,
    Stop,
    Verdict,
    age,
    began,
    count,
    escape,
    json_object,
)
from spooltop.model.vocabulary import size as size_words

from ...row_listing import RowListing
from ..client import Endpoint, text_of
from ..stream_names import HANDED_BACK, HANDED_IDLE, LATER, StreamNames
from .server import (
    ID,
    GroupState,
    JudgedMember,
    Look,
    Looker,
    OperatorConnection,
    PagedListing,
    Part,
    PendingEntry,
    PidJudge,
    StreamChanges,
    StreamFetcher,
    StreamServer,
    can_change,
    claim_row,
    entry_time,
    id_after,
    id_order,
    in_order_of_ids,
)

# Number of the entries that a group has not been given yet, also where the server has lost count of them.

_STEP = 10_000
"""Entries that one look counts, unless they are large: the server reads them for that."""
_STEP_BYTES = 8 << 20


class Undelivered(NamedTuple):
    """The number of entries; ``complete`` False: there are more."""

    number: int
    complete: bool = True


def behind(look: Look, group: GroupState) -> Undelivered | None:
    """Returns how many entries a group was not given yet; None where the server has lost count."""
    if look.first is None or look.length == 0 or id_order(look.last) <= id_order(group.last_delivered):
        return Undelivered(0)
    if id_order(look.first) > id_order(group.last_delivered):
        return Undelivered(look.length)
    return None if group.lag is None else Undelivered(min(group.lag, look.length))


class UndeliveredCounter(Struct):
    """Counts at most ``_STEP`` entries a look, and goes on there at the next look."""

    _fetcher: StreamFetcher
    _begin: str = ""
    _end: str = ""
    _counted: int = 0
    _deleted: tuple[str | None, int] = (None, 0)

    def count(self, look: Look) -> Undelivered:
        """Returns how many entries of this look were never delivered. Raises ``Unavailable``.

        The server's own figure is taken where it has one. It has none for a group that was made at some id and has not read to
        the end, nor after an entry before the end was deleted.
        """
        group = look.group
        if (known := behind(look, group)) is not None:
            return known
        if self._deleted_inside(look):
            self._begin = ""
        self._begin_at(group.last_delivered)
        step = self._fetcher.fitting(_STEP, _STEP_BYTES)
        counted, last = self._fetcher.skip(id_after(self._end), "+", step)
        self._counted, self._end = self._counted + counted, last or self._end
        return Undelivered(min(self._counted, look.length), counted < step)

    def _begin_at(self, last: str) -> None:
        """Lets the count begin behind the id ``last``: what was delivered since is taken off, so that a count of millions goes on
        while consumers read."""
        if last == self._begin:
            return
        if self._begin and id_order(self._begin) < id_order(last) <= id_order(self._end):
            step = self._fetcher.fitting(_STEP, _STEP_BYTES)
            delivered, _ = self._fetcher.skip(id_after(self._begin), last, step)
            if delivered < step:
                self._begin, self._counted = last, max(0, self._counted - delivered)
                return
        self._begin = self._end = last
        self._counted = 0

    def _deleted_inside(self, look: Look) -> bool:
        """True if entries were deleted since the last look, and not at the beginning as a trimmed stream loses them: they may
        have been counted."""
        (first, before), after = self._deleted, look.added - look.length
        self._deleted = look.first, after
        return first == look.first and after != before


# Boxes, verdict counts, flow, capacities and cursors of a stream, from the facts of a look.

_UNTRIMMED = 10_000
"""Entries that are done, of a stream of which nothing was ever deleted."""


def pending_of(look: Look, consumer: str) -> int:
    """Returns the number of pending messages of one consumer."""
    return next((one.pending for one in look.consumers if one.name == consumer), 0)


def box_states(
    look: Look, undelivered: Undelivered, waits_since: float | None, held_since: float | None, now: float, retention: float
) -> dict[Box, BoxState]:
    """Returns the boxes. ``waits_since`` and ``held_since`` are the times of the oldest in ``new`` and in ``cur``."""
    back = pending_of(look, HANDED_BACK) + pending_of(look, LATER)
    new = undelivered.number + back
    used = look.server.used
    size = None if used is None or not look.length else round(used * min(1.0, new / look.length))
    states = {
        Box.NEW: BoxState(
            Box.NEW, new, undelivered.complete, size, size is not None, waits_since if new else None, as_of=now
        ),
        Box.CUR: BoxState(Box.CUR, max(0, look.group.pending - back), oldest_at=held_since, as_of=now),
    }  # fmt: skip
    for box, side in look.aside.items():
        kept = retention if box is Box.TRASH and retention > 0 else None
        expired = int(kept is not None and side.oldest_at is not None and side.oldest_at + kept <= now)
        states[box] = BoxState(
            box, side.length, oldest_at=side.oldest_at, as_of=now, retention=kept, expired=expired, note=side.note,
            expired_is_bound=expired > 0 and (side.length or 0) > 1,
        )  # fmt: skip
    return states


def verdict_counts(judged: Iterable[JudgedMember]) -> VerdictCounts:
    """Counts claims by the verdict on who holds them: exact, however many there are."""
    counts = dict.fromkeys(Verdict, 0)
    for one in judged:
        counts[one.verdict] += one.pending
    return VerdictCounts(counts[Verdict.ALIVE], counts[Verdict.DEAD], counts[Verdict.UNKNOWN])


def capacities(look: Look, undelivered: Undelivered, maxlen: int) -> tuple[Capacity, ...]:
    """Returns the memory that the server may still use, where it has a limit; and how many more messages may wait or be worked on
    until producers that trim the stream to ``maxlen`` entries drop some that nobody has done. 0 is not known: a stream does not
    say it (https://redis.io/docs/latest/commands/xtrim/)."""
    server, found = look.server, []
    if server.memory is not None and server.most_memory:
        found.append(Capacity("memory", max(0, server.most_memory - server.memory), server.most_memory))
    if maxlen:
        left = max(0, maxlen - undelivered.number - look.group.pending)
        known = undelivered.complete or left == 0
        found.append(Capacity("maxlen", left if known else None, maxlen, "things", full="the oldest that wait are dropped"))
    return tuple(found)


def warnings(look: Look, oldest_claim: str | None, maxlen: int = 0) -> tuple[QueueFinding, ...]:
    """Returns problems that only a stream has. ``oldest_claim`` is the id of the oldest pending message; producers trim the
    stream to ``maxlen`` entries, 0: not known."""
    found = []
    done = look.length - max((one.lag + one.pending if one.lag is not None else look.length) for one in look.groups)
    if done >= _UNTRIMMED and look.added == look.length > maxlen:
        size = "" if look.server.used is None else f", about {size_words(look.server.used * done // look.length)}"
        text = f"nobody trims the stream: {done:,} done entries are kept{size}; XADD with MAXLEN, or XTRIM, ends that"
        found.append(QueueFinding("untrimmed", text, done, is_note=True))
    if look.server.most_memory and look.server.policy.startswith("allkeys-"):
        text = f"the server may drop the whole stream when its memory is full (maxmemory-policy {look.server.policy})"
        found.append(QueueFinding("lost", text, 1))
    if oldest_claim is not None and (look.first is None or id_order(look.first) > id_order(oldest_claim)):
        text = "the oldest claim has no entry any more: it was trimmed or deleted while it was being processed"
        found.append(QueueFinding("lost", text, 1, (oldest_claim,)))
    return tuple(found)


def hidden_facts(look: Look) -> tuple[str, ...]:
    """Returns the facts that cannot be asked for, those with one reason together."""
    reasons = dict.fromkeys(look.hidden.values())
    return tuple(f"{', '.join(fact for fact, one in look.hidden.items() if one == why)}: {why}" for why in reasons)


def cursor_source(look: Look, shown: str, undelivered: Undelivered) -> CursorSource:
    """Returns the groups as cursors: each with the id of the last entry that it was given, and how many come after it.
    ``undelivered`` are those of the group that is looked at."""
    sections = {group.name: group.last_delivered for group in look.groups}
    counts = {group.name: behind(look, group) or Undelivered(1, complete=False) for group in look.groups}
    counts[look.group.name] = undelivered
    return CursorSource(shown, True, sections, mtime=look.now, stamp=tuple(sections.items()), in_file=False, behind=counts)


class _Counters(NamedTuple):
    at: float
    added: int
    read: int | None
    exact: bool
    pending: int
    aside: int


class CounterFlow(Struct):
    """Derives the flow from the counters of the server: exact, however fast it is, while the server counts what a group reads."""

    _before: _Counters | None = None

    def forget(self) -> None:
        """Begins anew: what happened meanwhile is not known."""
        self._before = None

    def measure(self, look: Look, undelivered: Undelivered, now: float) -> Flow:
        """Returns what came and went since the last look."""
        read, exact = look.group.entries_read, True
        if read is None and undelivered.complete:  # it follows from what was not read: exactly, if no entry was ever deleted
            read, exact = look.added - undelivered.number, look.length == look.added
        aside = sum(side.length or 0 for side in look.aside.values())
        after = _Counters(now, look.added, read, exact, look.group.pending, aside)
        before, self._before = self._before, after
        if before is None or after.added < before.added:
            return Flow(now, now)
        arrived = after.added - before.added
        flow = Flow(before.at, now, arrived=arrived, exact=False, measured=True, holders_counted=False)
        if read is None or before.read is None or read < before.read:
            return flow
        claimed = read - before.read
        acked = claimed - (after.pending - before.pending) - max(0, after.aside - before.aside)
        return flow.replace(claimed=claimed, done=max(0, acked), exact=before.exact and exact)


# The consumers of a group, as the Consumers view lists them.

_FIRST = 5
_CONSUMERS_AT_MOST = 1_000


def consumer_list(judged: Mapping[str, JudgedMember], claims: Iterable[Row], now: float) -> ConsumerList:
    """Returns the consumers, dead ones with claims first. ``claims`` are those that a look showed, the oldest of each."""
    rows: dict[str, list[Row]] = {}
    for row in claims:
        if row.owner is not None and row.owner.name is not None:
            rows.setdefault(row.owner.name, []).append(row)
    known = sorted(judged.values(), key=lambda one: (-one.pending, one.name))
    found = []
    for one in known[:_CONSUMERS_AT_MOST]:
        seen = rows.get(one.name, [])
        times = began(seen)
        found.append(ConsumerRow(
            one.verdict, one.evidence, one.owner, None, one.pending, min(times, default=None),
            one.pending > len(seen), max(times, default=None), tuple(row.id for row in seen[:_FIRST]),
            asked_at=None if one.idle is None else now - one.idle,
        ))  # fmt: skip
    found.sort(key=lambda one: (-one.rank, one.claimed_at or now))
    return ConsumerList(tuple(found), now, more=max(0, len(known) - _CONSUMERS_AT_MOST), measured=False)


_MOST = 24
"""Claims that a look reads, about 65 bytes each: all where there are no more."""
_UNDELIVERED = "undelivered"
"""Key of the answer that tells the first entry that was not delivered yet."""
_CONSUMERS = 8
"""Consumers of one verdict whose claims are read then."""


class SeenClaims(NamedTuple):
    """``rows`` are judged, oldest first. ``waiting`` is the id of the first message that was handed back, ``undelivered`` that of
    the first entry behind the last delivered one, ``oldest`` that of the oldest pending message of all. ``handed_at`` is when
    the first of those that were handed back was, by the clock of the server, in epoch seconds."""

    rows: tuple[Row, ...] = ()
    waiting: str | None = None
    undelivered: str | None = None
    oldest: str | None = None
    handed_at: float | None = None


def _holding(judged: Mapping[str, JudgedMember]) -> list[JudgedMember]:
    """Returns the consumers with claims, dead ones first, then those that did not ask for the longest time."""
    holding = (one for one in judged.values() if one.pending)
    return sorted(holding, key=lambda one: (_RANKS.index(one.verdict), -(one.idle or 0.0), one.name))


def _wanted(holding: Sequence[JudgedMember]) -> list[tuple[str, int]]:
    """Returns the consumers whose claims are read, and how many of each: of the first ones most."""
    if sum(one.pending for one in holding) <= _MOST:
        return [(one.name, one.pending) for one in holding]
    found, left = [], _MOST
    for _, some in groupby(holding, lambda one: one.verdict):
        for one in islice(some, _CONSUMERS):
            most = min(one.pending, max(1, left * 2 // 3))
            found.append((one.name, most))
            left -= most
    return found


# The reader.

LISTED_AT_MOST = 20_000
"""Messages among which a filter or an order looks that the server has no list for."""
_BOXES = (Box.NEW, Box.CUR)
_PERIOD = 1.0
_FOLLOWED = 100
_KEPT = 6
_RANKS = (Verdict.DEAD, Verdict.UNKNOWN, Verdict.ALIVE)
_SKEW = 2.0
_PASSED_AFTER = 60.0
"""Seconds after which consumers that take over what others left have usually taken what was handed back."""
_PASSED_COUNTED = 1_000
_RIGHTS_KEPT = 30.0
"""Seconds for which the rights of a user are not asked again."""
ABSENT = {
    "tmp": "a stream has no tmp: an entry is complete at once",
    "locks": "a stream has no locks: each step is a command of the server",
    "files": "a stream has no files: for a claim, x says which consumer holds it",
}


class StreamReader:
    """Implements ``model.backend.Reader`` for one group. ``shown`` is its address without secrets, ``judge`` knows which
    consumers are processes of this host. Producers trim the stream to ``maxlen`` entries, 0: not known."""

    def __init__(
        self, endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge, settings: OpenSettings, *, maxlen: int = 0
    ) -> None:
        self._names, self._shown, self._judge, self._settings = names, shown, judge, settings
        self._clock = settings.clock
        self._maxlen = maxlen
        self._operator = OperatorConnection(endpoint, shown, names)
        self._capabilities = Capabilities()
        """Rights of this user of the server, as of some seconds ago."""
        self._capable_until = 0.0
        self._since = settings.clock()
        self._server = StreamServer(endpoint, shown)
        self._fetcher = StreamFetcher(self._server.ask, names)
        self._looker = Looker(self._server, names)
        self._counter = UndeliveredCounter(self._fetcher)
        self._changes = StreamChanges(endpoint, names.stream)
        self._flow = CounterFlow()
        self._look: Look | None = None
        self._undelivered = Undelivered(0)
        self._judged: dict[str, JudgedMember] = {}
        self._claims = SeenClaims()
        self._last: Observation | None = None
        self._last_claim_at: float | None = None
        self._read_at_handing: int | None = None
        self._state: object = None
        self._generation = 0
        self._away = False
        self._kept: dict[ListQuery, Listing] = {}
        """The last few lists, to be shown while the server is away."""
        self._step = ""

    def see(self, *, rescan: bool = False) -> Observation:
        now = self._clock()
        self._changes.looked()
        self._step = f"asking {self._shown.partition('#')[0]}"
        try:
            self._last = self._seen(now)
            self._away = False
        except Unavailable as trouble:
            self._away = True
            self._flow.forget()
            return self._unseen(trouble, now)
        finally:
            self._step = ""
        return self._last

    def _seen(self, now: float) -> Observation:
        look = self._looker.look()
        judged = self._judge.consumers(look)
        self._fetcher.entry_size = (look.server.used or 0) // max(1, look.length)
        claims = self._see_claims(look, judged)
        undelivered = self._counter.count(look)
        self._look, self._judged, self._claims, self._undelivered = look, judged, claims, undelivered
        self._note_state(look)
        flow = self._flow.measure(look, undelivered, now)
        if flow.claimed:
            self._last_claim_at = now
        running = sum(one.verdict is Verdict.ALIVE for one in judged.values())
        times = began(claims.rows)
        last_claims = [at for at in (self._last_claim_at, *times) if at is not None]
        capabilities = self._allowed(look)
        lag = float(max(0, look.server.behind or 0)) if look.server.replica else None
        return Observation(
            target=self._shown,
            layout="stream",
            taken_at=now,
            complete=undelivered.complete,
            boxes=box_states(look, undelivered, self._waits_since(), min(times, default=None), now, self._settings.retention),
            claims=claims.rows,
            counts=verdict_counts(judged.values()),
            claims_all=len(claims.rows) >= sum(one.pending for one in judged.values()),
            flow=flow,
            resources=capacities(look, undelivered, self._maxlen),
            absent=ABSENT,
            cursors=(cursor_source(look, self._shown.rpartition("/")[0], undelivered),),
            findings=(*self._passed_over(look, claims), *warnings(look, claims.oldest, self._maxlen), *_skew(look.now - now)),
            paused=None if look.paused is None else pause_from(json_object(look.paused), look.now),
            consumers=None if any(one.verdict is Verdict.UNKNOWN for one in judged.values()) else running,
            consumers_seen=running,
            last_claim_at=max(last_claims, default=None),
            who=self._viewer(capabilities),
            capabilities=capabilities,
            watch=Watch("live" if self._settings.watch else "once", since=self._since, lag=lag),
            generation=self._generation,
            hidden=hidden_facts(look),
        )

    def _see_claims(self, look: Look, judged: Mapping[str, JudgedMember]) -> SeenClaims:
        """Reads the first claims of each verdict, and the oldest messages that wait. Raises ``Unavailable``."""
        kept, last, undelivered = self._looker.kept, look.group.last_delivered, look.first
        if undelivered is not None and id_order(undelivered) <= id_order(last):
            undelivered = None
            if id_order(look.last) > id_order(last):
                if kept.due(_UNDELIVERED):
                    kept.note(_UNDELIVERED, *self._fetcher.first(id_after(last)))
                known = kept.answer(_UNDELIVERED)
                undelivered = known if known and id_order(known) > id_order(last) else None
        wanted = [(name, 1) for name in (HANDED_BACK, LATER) if pending_of(look, name)] + _wanted(_holding(judged))
        spans = [self._fetcher.span(Box.CUR, "-", "+", most, name) for name, most in wanted]
        if look.group.pending:
            spans.append(self._fetcher.span(Box.CUR, "-", "+", 1))
        claims = self._fetcher.read(*spans, heads=False)
        oldest = claims.pop() if look.group.pending else []
        found = [*chain.from_iterable(claims)]
        rows = [claim_row(claim, judged[claim.consumer]) for claim in found if claim.consumer in judged]
        rows.sort(key=lambda row: row.in_box_since or 0.0)
        back = min((claim.id for claim in found if claim.consumer not in judged), default=None, key=id_order)
        handed = next((claim.delivered / 1000 + HANDED_IDLE for claim in found if claim.consumer == HANDED_BACK), None)
        return SeenClaims(tuple(rows), back, undelivered, oldest[0].id if oldest else None, handed)

    def _unseen(self, trouble: Unavailable, now: float) -> Observation:
        """Returns the last picture, marked as such, where the server says nothing; none where it never did."""
        last, why = self._last, trouble.what
        seen_at = None if last is None else last.taken_at
        watch = Watch("away", why, _PERIOD, self._since, trouble.advice, seen_at)
        if last is None:
            boxes = {box: BoxState(box, None, complete=False, error=why, as_of=now) for box in _BOXES}
            nothing = Capabilities.nothing(self._settings.read_only or why)
            return Observation(
                self._shown, "stream", now, False, boxes, absent=ABSENT, who=self._viewer(nothing), capabilities=nothing,
                watch=watch,
            )  # fmt: skip
        old = {box: state.replace(error=why if box in _BOXES else "") for box, state in last.boxes.items()}
        # What was seen last stays on the screen; nothing was measured since.
        return last.replace(
            taken_at=now, complete=False, boxes=old, flow=Flow(now, now, exact=False), consumers=None, watch=watch,
            findings=(),
        )

    def _passed_over(self, look: Look, claims: SeenClaims) -> tuple[QueueFinding, ...]:
        """Returns the problem that what was handed back waits while newer messages are delivered: nobody takes it."""
        back, at, read = pending_of(look, HANDED_BACK), claims.handed_at, look.group.entries_read
        if at is None or not back:
            self._read_at_handing = None
            return ()
        if self._read_at_handing is None:
            self._read_at_handing = read
        passed = (read or 0) - (self._read_at_handing or read or 0)
        last = look.group.last_delivered
        if look.now - at < _PASSED_AFTER or (not passed and entry_time(last) <= at):
            return ()
        if entry_time(last) > at:
            passed = max(passed, 1, self._fetcher.skip(f"{int(at * 1000)}-0", last, _PASSED_COUNTED)[0])
        one = back == 1
        text = f"{back:,} {'was' if one else 'were'} handed back {age(look.now - at)} ago, "
        exact = look.length == look.added and passed < _PASSED_COUNTED
        text += f"{count(passed, complete=exact)} newer {'one' if passed == 1 else 'ones'} passed {'it' if one else 'them'}"
        text += ": its consumers only read new entries"
        return (QueueFinding("handed-back", text, back, box=Box.NEW, filter="tries:>0"),)

    def _note_state(self, look: Look) -> None:
        state = (
            look.length, look.added, look.groups, look.aside, look.paused,
            tuple((name, one.pending, one.verdict) for name, one in self._judged.items()),
        )  # fmt: skip
        self._generation += state != self._state
        self._state = state

    def _waits_since(self) -> float | None:
        """Returns when the oldest message that waits was put."""
        ids = (self._claims.waiting, self._claims.undelivered if self._undelivered.number else None)
        return min((entry_time(id) for id in ids if id is not None), default=None)

    def _allowed(self, look: Look) -> Capabilities:
        if self._settings.read_only is not None:
            return Capabilities.nothing(self._settings.read_only)
        if look.server.replica:
            return Capabilities.nothing("a replica: changes are made on its master")
        if monotonic() >= self._capable_until:
            try:
                self._capabilities, self._capable_until = can_change(self._operator), monotonic() + _RIGHTS_KEPT
            except SpooltopError as error:  # that passes: it is asked again at the next look
                return Capabilities.nothing(f"{error.what}; {error.advice}")
            finally:
                self._operator.close()
        return self._capabilities

    def _viewer(self, capabilities: Capabilities) -> Viewer:
        words = "READ-ONLY" if self._settings.read_only is not None else "read-write" if capabilities.change else "read-only"
        if words == "read-only" and (why := capabilities.why_not(Action.REQUEUE)):
            words = f"read-only: {why}"
        return Viewer(user_name(os.geteuid()), os.geteuid(), words)

    def listing(
        self, query: ListQuery, cancelled: Stop = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        self._step = f"listing {query.box}"
        kept = self._kept.pop(query, None)  # while the server is away, what was fetched of it is all there is
        try:
            made = kept if self._away and kept is not None else self._listed(query, kept, cancelled, progress)
        except Unavailable:
            nothing = RowListing(query, [], now=self._clock(), complete=False, generation=self._generation)
            made = nothing if kept is None else kept
        finally:
            self._step = ""
        self._kept = {query: made, **dict(islice(self._kept.items(), _KEPT - 1))}
        return made

    def _listed(
        self, query: ListQuery, before: Listing | None, cancelled: Stop, progress: ListProgress | None
    ) -> Listing:  # fmt: skip
        parts = self._parts(query.box)
        if (backwards := in_order_of_ids(query)) is not None:
            complete = self._look is not None and (self._undelivered.complete or query.box is not Box.NEW)
            stale = before.shown if isinstance(before, PagedListing) else (0, 0, ())
            return PagedListing(query, parts, backwards, complete, self._generation, stale)
        parts, rows = _of_consumers(parts, query, self._clock()), list[Row]()
        total = max(1, sum(one.count for one in parts))
        for page in chain.from_iterable(part.rows() for part in parts):
            rows += page
            if cancelled() or len(rows) >= LISTED_AT_MOST:
                break
            if progress is not None and progress.due():
                progress.advanced(len(rows) / total, (), 0)
        state = None if self._last is None else self._last.boxes.get(query.box)
        most = LISTED_AT_MOST if len(rows) >= LISTED_AT_MOST else None
        complete = self._look is not None and most is None and not cancelled() and (state is None or state.complete)
        return RowListing(
            query, rows[:most], now=self._clock(), complete=complete, generation=self._generation, ordered_over=most
        )

    def _parts(self, box: Box) -> list[Part]:
        look = self._look
        if look is None:
            return []
        if box is Box.NEW:
            last = look.group.last_delivered
            first = last if look.first is None or id_order(look.first) < id_order(last) else look.first
            found = [
                Part(self._fetcher, pending_of(look, HANDED_BACK), Box.CUR, HANDED_BACK),
                Part(self._fetcher, self._undelivered.number, box, span=(first, look.last), marks={0: last}),
                Part(self._fetcher, pending_of(look, LATER), Box.CUR, LATER),
            ]
            return [part for part in found if part.count]
        if box in ASIDE:
            return [Part(self._fetcher, look.aside[box].length or 0, box, retention=self._settings.retention)]
        if box is not Box.CUR:
            return []
        span = None if self._claims.oldest is None else (self._claims.oldest, look.group.last_delivered)
        return [Part(self._fetcher, one.pending, box, one.name, one, span) for one in _holding(self._judged)]

    def read(self, key: Key, limit: int) -> Payload:
        box, id = _key(key)
        fields = self._fetcher.entry(box, id)
        if fields is None:
            raise Unreadable("its entry was deleted or trimmed", "look again", path=escape(id))
        own = {name: value for name, value in fields.items() if not (box in ASIDE and name.startswith(b"~"))}
        data = own.pop(b"data", None)
        if data is None:
            named = {text_of(name): text_of(value) for name, value in own.items()}
            data, own = json.dumps(named, indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape"), {}
        facts = [("entry", escape(id)), ("stream", escape(self._names.of_box(box)))]
        more = {b"operation": fields.get(b"~op"), **own}.items()
        facts += [(escape(text_of(name)), escape(text_of(value))[:200]) for name, value in more if value is not None][:20]
        return Payload(data[:limit], len(data), len(data) > limit, tuple(facts))

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        found: dict[str, TrackedMessage] = {}
        for id in islice(dict.fromkeys(ids), _FOLLOWED):
            try:
                found[id] = self._located(id)
            except Unavailable:
                found[id] = TrackedMessage(id)
        return found

    def _located(self, id: str) -> TrackedMessage:
        look = self._look
        if look is None or ID.match(id) is None:
            return TrackedMessage(id)
        put_at = entry_time(id)
        claim = self._fetcher.claim(id)
        if claim is None:
            span = self._fetcher.span(Box.NEW, id, id, 1)
            waits = id_order(id) > id_order(look.group.last_delivered) and any(self._fetcher.read(span))
        else:
            waits = claim.consumer in (HANDED_BACK, LATER)
        if waits:
            return TrackedMessage(id, Box.NEW, put_at=put_at)
        if claim is None:
            return TrackedMessage(id, gone_at=look.now, put_at=put_at)
        judged = self._judged.get(claim.consumer)
        pid, verdict = (None, None) if judged is None else (judged.owner.pid, judged.verdict)
        return TrackedMessage(id, Box.CUR, claimed_at=claim.delivered / 1000, pid=pid, verdict=verdict, put_at=put_at)

    def consumers(self) -> ConsumerList:
        found = consumer_list(self._judged, self._claims.rows, self._clock())
        return found if self._last is not None else found.replace(error="the server was not heard yet")

    def holders(self, key: Key) -> Holders:
        box, id = _key(key)
        claim = self._fetcher.claim(id)
        if box is not Box.CUR or claim is None or claim.consumer not in self._judged:
            return Holders(escape(id), (), True, ("nobody holds it",))
        judged = self._judged[claim.consumer]
        how = f"holds the claim: {judged.evidence}"
        holding = Holding(judged.owner.pid, claim.consumer, None, how, claim.delivered / 1000)
        return Holders(escape(id), (holding,), True, ("a server knows consumers by their names, not by processes",))

    def current_step(self) -> str:
        return self._step

    def changes(self, timeout: float) -> bool:
        return self._changes.wait(timeout)

    def wake(self) -> None:
        self._changes.wake()

    def close(self) -> None:
        self._changes.wake()
        self._server.close()


def _key(key: Key) -> tuple[Box, str]:
    if not isinstance(key, tuple) or len(key) < 2:
        raise Unreadable("no message of this stream", "look again", path=escape(str(key)))
    return Box(key[0]), str(key[1])


def _of_consumers(parts: Sequence[Part], query: ListQuery, now: float) -> list[Part]:
    """Returns the parts that a filter can match, the parts of consumers that it names first. Only so many rows are looked
    through, and the server has an index of each consumer: with ``holder:worker-1`` the claims of ``worker-1`` come first."""
    chosen = query.selection
    words = parse(" ".join(filter(None, (query.filter, chosen.filter if chosen is not None else ""))), lenient=True)
    terms = [(term, wanted) for term, wanted in words.terms if term.key in ("holder", "pid", "verdict")]

    def fits(part: Part) -> bool:
        if part.judged is None:
            return True
        facts = MessageFacts(claim_row(PendingEntry("0-0", part.judged.name, round(now * 1000), 1), part.judged), now)
        return all(term.holds(facts) is wanted for term, wanted in terms)

    def is_unnamed(part: Part) -> bool:
        return part.judged is not None and not any(text in escape(part.judged.name) for text in words.texts)

    return sorted(filter(fits, parts), key=is_unnamed)


def _skew(seconds: float) -> tuple[QueueFinding, ...]:
    if abs(seconds) < _SKEW:
        return ()
    way = "ahead of" if seconds > 0 else "behind"
    text = f"the clock of the server is {age(abs(seconds))} {way} this one: ages are wrong by that"
    return (QueueFinding("clock-skew", text, 1),)
