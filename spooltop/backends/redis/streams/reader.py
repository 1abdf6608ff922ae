"""Looks at a stream and one of its consumer groups. Changes nothing in it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec.structs import replace

from spooltop.backends.access import user_name
from spooltop.engine.pausing import pause_from
from spooltop.errors import Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.filters.query import MessageFacts, parse
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.locks import Holders, Holding
from spooltop.model.look.observation import BoxState, Flow, Observation, QueueFinding, Viewer, Watch
from spooltop.model.operations.results import TrackedMessage
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.text import escape, json_object
from spooltop.model.units import age, count
from spooltop.model.vocabulary import ASIDE, Action, Box, Key, Verdict

from ...row_listing import RowListing
from ..client import Endpoint
from ..stream_names import HANDED_BACK, LATER, StreamNames
from .claims import (  # fmt: skip
    CounterFlow,
    SeenClaims,
    Undelivered,
    UndeliveredCounter,
    box_states,
    capacities,
    consumer_list,
    cursor_source,
    hidden_facts,
    lag_of,
    pending_of,
    see_claims,
    verdict_counts,
    warnings,
)
from .listing import (
    PAGE,
    EntryPart,
    PagedListing,
    Part,
    PendingEntry,
    PendingPart,
    StreamFetcher,
    claim_row,
    in_order_of_ids,
)
from .look import JudgedMember, Look, Looker, PidJudge, judged_consumers
from .server import ServerTrouble, StreamChanges, StreamServer, entry_time, id_order

LISTED_AT_MOST = 20_000
"""Messages among which a filter or an order looks that the server has no list for."""
_BOXES = (Box.NEW, Box.CUR)
_PERIOD = 1.0
_FOLLOWED = 100
_KEPT = 6
_RANKS = {Verdict.DEAD: 0, Verdict.UNKNOWN: 1, Verdict.ALIVE: 2}
_SKEW = 2.0
_PASSED_AFTER = 60.0
"""Seconds after which consumers that take over what others left have usually taken what was handed back."""
_PASSED_COUNTED = 1_000
ABSENT = {
    "tmp": "a stream has no tmp: an entry is complete at once",
    "locks": "a stream has no locks: each step is a command of the server",
    "files": "a stream has no files: for a claim, x says which consumer holds it",
}


class StreamReader:
    """Implements ``model.protocols.Reader`` for one group. ``shown`` is its address without secrets, ``judge`` knows which
    consumers are processes of this host. ``capabilities`` says what may be changed, ``read_only`` why nothing may. Messages in
    the trash expire after ``retention`` seconds; producers trim the stream to ``maxlen`` entries, 0: not known."""

    def __init__(
        self, endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge, *,
        clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic, retention: float = 0.0,
        maxlen: int = 0, capabilities: Callable[[], Capabilities] = Capabilities, read_only: str | None = None,
        watch: bool = True,
    ) -> None:  # fmt: skip
        self._names, self._shown, self._judge = names, shown, judge
        self._clock = clock
        self._retention = retention
        self._maxlen = maxlen
        self._read_only = read_only
        self._capabilities = capabilities
        self._watching = watch
        self._since = clock()
        self._server = StreamServer(endpoint, monotonic=monotonic)
        self._fetcher = StreamFetcher(self._server, names)
        self._looker = Looker(self._server, names, monotonic)
        self._counter = UndeliveredCounter(self._fetcher)
        self._changes = StreamChanges(endpoint, names.stream, monotonic)
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
        self._kept: dict[ListQuery, PagedListing | RowListing] = {}
        self._step = ""

    def see(self, *, rescan: bool = False) -> Observation:
        now = self._clock()
        self._changes.looked()
        self._step = f"asking {self._shown.partition('#')[0]}"
        try:
            self._last = self._seen(now)
            self._away = False
        except ServerTrouble as trouble:
            self._away = True
            self._flow.forget()
            return self._unseen(trouble, now)
        finally:
            self._step = ""
        return self._last

    def _seen(self, now: float) -> Observation:
        look = self._looker.look()
        judged = judged_consumers(look, self._judge)
        self._fetcher.entry_size = (look.server.used or 0) // max(1, look.length)
        claims = see_claims(self._server, self._fetcher, self._names, look, judged, self._looker.kept)
        undelivered = self._counter.count(look)
        self._look, self._judged, self._claims, self._undelivered = look, judged, claims, undelivered
        self._note_state(look)
        flow = self._flow.measure(look, undelivered, now)
        if flow.claimed:
            self._last_claim_at = now
        times = [row.in_box_since for row in claims.rows if row.in_box_since is not None]
        last_claims = [at for at in (self._last_claim_at, *times) if at is not None]
        capabilities = self._allowed(look)
        return Observation(
            target=self._shown,
            layout="stream",
            taken_at=now,
            complete=undelivered.complete,
            boxes=box_states(look, undelivered, self._waits_since(), min(times, default=None), now, self._retention),
            claims=claims.rows,
            counts=verdict_counts(judged.values()),
            claims_all=len(claims.rows) >= sum(one.state.pending for one in judged.values()),
            flow=flow,
            resources=capacities(look, undelivered, self._maxlen),
            absent=ABSENT,
            cursors=(cursor_source(look, self._shown.rpartition("/")[0], undelivered),),
            findings=(*self._passed_over(look, claims), *warnings(look, claims.oldest, self._maxlen), *_skew(look.now - now)),
            paused=None if look.paused is None else pause_from(json_object(look.paused), look.now),
            consumers=None if any(one.verdict is Verdict.UNKNOWN for one in judged.values()) else _running(judged),
            consumers_seen=_running(judged),
            last_claim_at=max(last_claims, default=None),
            who=self._viewer(capabilities),
            capabilities=capabilities,
            watch=Watch("live" if self._watching else "once", since=self._since, lag=lag_of(look)),
            generation=self._generation,
            hidden=hidden_facts(look),
        )

    def _unseen(self, trouble: ServerTrouble, now: float) -> Observation:
        """Returns the last picture, marked as such, where the server says nothing; none where it never did."""
        last, why = self._last, trouble.what
        seen_at = None if last is None else last.taken_at
        watch = Watch("away", why, _PERIOD, self._since, trouble.advice, seen_at)
        if last is None:
            boxes = {box: BoxState(box, None, complete=False, error=why, as_of=now) for box in _BOXES}
            nothing = Capabilities.nothing(self._read_only or why)
            return Observation(
                self._shown, "stream", now, False, boxes, absent=ABSENT, who=self._viewer(nothing), capabilities=nothing,
                watch=watch,
            )  # fmt: skip
        old = {box: replace(state, error=why if box in _BOXES else "") for box, state in last.boxes.items()}
        # What was seen last stays on the screen; nothing was measured since.
        return replace(
            last, taken_at=now, complete=False, boxes=old, flow=Flow(now, now, exact=False), consumers=None, watch=watch,
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
            tuple((name, one.state.pending, one.verdict) for name, one in self._judged.items()),
        )  # fmt: skip
        self._generation += state != self._state
        self._state = state

    def _waits_since(self) -> float | None:
        """Returns when the oldest message that waits was put."""
        ids = (self._claims.waiting, self._claims.undelivered if self._undelivered.number else None)
        return min((entry_time(id) for id in ids if id is not None), default=None)

    def _allowed(self, look: Look) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        if look.server.replica:
            return Capabilities.nothing("a replica: changes are made on its master")
        return self._capabilities()

    def _viewer(self, capabilities: Capabilities) -> Viewer:
        words = "READ-ONLY" if self._read_only is not None else "read-write" if capabilities.change else "read-only"
        if words == "read-only" and (why := capabilities.why_not(Action.REQUEUE)):
            words = f"read-only: {why}"
        return Viewer(user_name(os.geteuid()), os.geteuid(), words)

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        self._step = f"listing {query.box}"
        try:
            return self._listed(query, cancelled, progress)
        except ServerTrouble:
            if (kept := self._kept.get(query)) is not None:
                return kept
            return RowListing(query, [], now=self._clock(), complete=False, generation=self._generation)
        finally:
            self._step = ""

    def _listed(self, query: ListQuery, cancelled: Callable[[], bool], progress: ListProgress | None) -> Listing:
        parts = self._parts(query.box)
        made: PagedListing | RowListing
        if (backwards := in_order_of_ids(query)) is not None:
            complete = self._look is not None and (self._undelivered.complete or query.box is not Box.NEW)
            kept = self._kept.get(query)
            if self._away and kept is not None:
                return kept  # what was fetched of it is all there is
            before = kept if isinstance(kept, PagedListing) else None
            made = PagedListing(
                query, parts, backwards=backwards, complete=complete, generation=self._generation, before=before
            )
            if self._away:
                return made
        else:
            parts, rows = _of_consumers(parts, query, self._clock()), list[Row]()
            total = max(1, sum(one.count for one in parts))
            for page in chain(self._aside_rows(query.box), *(part.rows() for part in parts)):
                rows += page
                if cancelled() or len(rows) >= LISTED_AT_MOST:
                    break
                if progress is not None and progress.due():
                    progress.advanced(len(rows) / total, (), 0)
            state = None if self._last is None else self._last.boxes.get(query.box)
            most = LISTED_AT_MOST if len(rows) >= LISTED_AT_MOST else None
            complete = self._look is not None and most is None and not cancelled() and (state is None or state.complete)
            made = RowListing(
                query, rows[:most], now=self._clock(), complete=complete, generation=self._generation, ordered_over=most
            )
        self._keep(made)
        return made

    def _keep(self, listed: PagedListing | RowListing) -> None:
        """Keeps a list, to be shown while the server is away; of all only the last few."""
        self._kept.pop(listed.query, None)
        self._kept[listed.query] = listed
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def _parts(self, box: Box) -> list[Part]:
        look = self._look
        if look is None:
            return []
        if box is Box.NEW:
            last = look.group.last_delivered
            first = last if look.first is None or id_order(look.first) < id_order(last) else look.first
            found: list[Part] = [
                PendingPart(self._fetcher, HANDED_BACK, pending_of(look, HANDED_BACK), self._server_now),
                EntryPart(self._fetcher, self._undelivered.number, last, (first, look.last)),
                PendingPart(self._fetcher, LATER, pending_of(look, LATER), self._server_now, delayed=True),
            ]
            return [part for part in found if part.count]
        if box is not Box.CUR:
            return []
        holding = sorted(
            (one for one in self._judged.values() if one.state.pending),
            key=lambda one: (_RANKS.get(one.verdict, 3), -(one.state.idle or 0.0), one.state.name),
        )
        span = None if self._claims.oldest is None else (self._claims.oldest, look.group.last_delivered)
        return [
            PendingPart(self._fetcher, one.state.name, one.state.pending, self._server_now, judged=one, span=span)
            for one in holding
        ]

    def _server_now(self) -> float:
        """The clock of the server, as far as it was heard: the time of a claim is told as its age."""
        look, last = self._look, self._last
        return self._clock() if look is None or last is None else self._clock() + look.now - last.taken_at

    def _aside_rows(self, box: Box) -> Iterator[Sequence[Row]]:
        rows: Sequence[Row] = ()
        while box in ASIDE and self._look is not None:
            rows = self._fetcher.aside(box, f"({rows[-1].name}" if rows else "-", self._retention)
            yield rows
            if len(rows) < PAGE:
                return

    def read(self, key: Key, limit: int) -> Payload:
        box, id = _key(key)
        try:
            fields = self._fetcher.entry(box, id)
        except ServerTrouble as trouble:
            raise Unreadable(str(trouble), path=self._shown, advice="try again") from None
        if fields is None:
            raise Unreadable("its entry was deleted or trimmed", path=escape(id), advice="look again")
        own = {name: value for name, value in fields.items() if not (box in ASIDE and name.startswith(b"~"))}
        data = own.get(b"data")
        if data is None:
            named = {_text(name): _text(value) for name, value in own.items()}
            data = json.dumps(named, indent=1, ensure_ascii=False).encode("utf-8", "surrogateescape")
        facts = [("entry", escape(id)), ("stream", escape(self._names.of_box(box)))]
        more = {b"operation": fields.get(b"~op"), **(own if b"data" in own else {})}
        facts += [
            (escape(_text(name)), escape(_text(value))[:200])
            for name, value in more.items() if value is not None and name != b"data"
        ][:20]  # fmt: skip
        return Payload(data[:limit], len(data), len(data) > limit, tuple(facts))

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        found: dict[str, TrackedMessage] = {}
        for id in islice(dict.fromkeys(ids), _FOLLOWED):
            try:
                found[id] = self._located(id)
            except ServerTrouble:
                found[id] = TrackedMessage(id)
        return found

    def _located(self, id: str) -> TrackedMessage:
        look = self._look
        if look is None or not id.replace("-", "").isdecimal() or id.count("-") != 1:
            return TrackedMessage(id)
        put_at = entry_time(id)
        claim = self._fetcher.claim(id)
        if claim is not None and claim.consumer in (HANDED_BACK, LATER):
            return TrackedMessage(id, Box.NEW, put_at=put_at)
        if claim is not None:
            judged = self._judged.get(claim.consumer)
            pid = None if judged is None else judged.owner.pid
            verdict = None if judged is None else judged.verdict
            return TrackedMessage(
                id, Box.CUR, claimed_at=self._server_now() + claim.delivered / 1000, pid=pid, verdict=verdict, put_at=put_at
            )
        if id_order(id) > id_order(look.group.last_delivered) and self._fetcher.heads(id, id, 1):
            return TrackedMessage(id, Box.NEW, put_at=put_at)
        return TrackedMessage(id, gone_at=look.now, put_at=put_at)

    def consumers(self) -> ConsumerList:
        error = "" if self._last is not None else "the server was not heard yet"
        found = consumer_list(self._judged, self._claims.rows, self._clock())
        return replace(found, error=error) if error else found

    def holders(self, key: Key) -> Holders:
        box, id = _key(key)
        try:
            claim = self._fetcher.claim(id)
        except ServerTrouble as trouble:
            raise Unreadable(str(trouble), path=self._shown, advice="try again") from None
        if box is not Box.CUR or claim is None or claim.consumer not in self._judged:
            return Holders(escape(id), (), True, ("nobody holds it",))
        judged = self._judged[claim.consumer]
        how = f"holds the claim: {judged.evidence}"
        holding = Holding(judged.owner.pid, claim.consumer, None, how, self._server_now() + claim.delivered / 1000)
        return Holders(escape(id), (holding,), True, ("a server knows consumers by their names, not by processes",))

    def current_step(self) -> str:
        return self._step

    def changes(self, timeout: float) -> bool:
        return self._changes.wait(timeout)

    def wake(self) -> None:
        self._changes.wake()

    def close(self) -> None:
        self._changes.close()
        self._server.close()


def _key(key: Key) -> tuple[Box, str]:
    if not isinstance(key, tuple) or len(key) < 2:
        raise Unreadable("no message of this stream", path=escape(str(key)), advice="look again")
    return Box(key[0]), str(key[1])


def _of_consumers(parts: Sequence[Part], query: ListQuery, now: float) -> list[Part]:
    """Returns the parts that a filter can match, the parts of consumers that it names first. Only so many rows are looked
    through, and the server has an index of each consumer: with ``holder:worker-1`` the claims of ``worker-1`` come first."""
    chosen = query.selection
    words = parse(" ".join(filter(None, (query.filter, chosen.filter if chosen is not None else ""))), lenient=True)
    terms = [(term, wanted) for term, wanted in words.terms if term.key in ("holder", "pid", "verdict")]
    found: list[tuple[bool, Part]] = []
    for part in parts:
        if not isinstance(part, PendingPart) or part.judged is None:
            found.append((False, part))
            continue
        facts = MessageFacts(claim_row(PendingEntry("0-0", part.consumer, round(now * 1000), 1), part.judged), now)
        if all(term.holds(facts) is wanted for term, wanted in terms):
            found.append((not any(text in escape(part.consumer) for text in words.texts), part))
    return [part for _, part in sorted(found, key=lambda one: one[0])]


def _running(judged: Mapping[str, JudgedMember]) -> int:
    """Returns the number of consumers that are known to run."""
    return sum(one.verdict is Verdict.ALIVE for one in judged.values())


def _skew(seconds: float) -> tuple[QueueFinding, ...]:
    if abs(seconds) < _SKEW:
        return ()
    way = "ahead of" if seconds > 0 else "behind"
    text = f"the clock of the server is {age(abs(seconds))} {way} this one: ages are wrong by that"
    return (QueueFinding("clock-skew", text, 1),)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
