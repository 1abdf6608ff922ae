"""Follows messages through change events: counts what arrives and departs, and tracks a few messages by their ids.

Counts come from change events where they are available, else from the difference of two scans. Every count is tied to an id: a
message that goes back to ``new`` has not arrived, and one that is set aside is not done. A tracked message is looked up under the
name that an event tells, so a location is always true. Only the claim, who made it and when, rests on the events.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, suppress
from itertools import accumulate, islice
from typing import Literal

from msgspec import Struct, field

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.names import Name, encode_value, enqueued_us, parse
from spooltop.model import Box, Completion, Flow, HolderFlow, Return, Row, TrackedMessage, Verdict, began

from ..log_store import JOURNAL, LogFiles, LogLines, LogStore
from .scan import BoxScan, SetAsideBoxes
from .storage import epoch
from .watcher import LATE, EventReport, Events

# Reads the moves that operators announced in the journal since the last look. Such a move is not flow. An intent line is
# written and synced before its batch is moved, so it is there when the change events of these moves are.

_AT_MOST = 64 << 20
"""Bytes of the journal that one look reads. Earlier ones are skipped."""
_ANNOUNCED = 200_000
"""Names that are remembered, newest first: the change events of their moves come within a look or two."""
Move = Literal["requeued", "put back", "out of new", "out of cur", "claim"]
"""A name in ``new`` that was a claim, or had been set aside; a name that leaves ``new``; a claim that is moved or deleted; a name
in ``cur`` that an undo puts back."""


class OperatorMoves(Struct):
    """Exact names that operators move, each as often as it was announced and not yet seen to happen."""

    _files: LogFiles
    _newest: dict[bool, int] = {}
    _announced: dict[tuple[Move, str], int] = {}

    def take(self, move: Move, name: str, many: int = 1) -> int:
        """Returns how many of the ``many`` observed moves of ``name`` an operator made, and deducts them from what was
        announced."""
        left = self._announced.pop((move, name), 0)
        if left > many:
            self._announced[move, name] = left - many
        return min(left, many)

    def look(self, dirs: SpoolDirs) -> None:
        """Reads what was added since the last look; the first look only notes where the journals end."""
        with suppress(OSError):  # what is closed to this user is not read
            for lines in LogStore.beside(dirs, self._files).read(JOURNAL):
                with suppress(OSError):
                    self._follow(lines.trusted, lines)
        for trusted in (True, False):
            self._newest.setdefault(trusted, 0)

    def _follow(self, trusted: bool, lines: LogLines) -> None:
        before, newest = self._newest.get(trusted), 0
        added: list[bytes] = []
        size = 0
        with closing(iter(lines)) as newest_first:
            for line in newest_first:
                known, size = hash(line), size + len(line)
                newest = newest or known
                if before is None or known == before or size > _AT_MOST:
                    break
                added.append(line)
        self._newest[trusted] = newest or before or 0
        for line in reversed(added):
            self._add(line)

    def _add(self, line: bytes) -> None:
        if b'"line":"intent"' not in line[:200]:
            return
        from ..journal import decode
        from .journal import MOVES, MoveIntent  # loads all of the journal, which most looks find no line in

        try:
            record = decode(line, MOVES)
        except (ValueError, RecursionError):
            return  # anybody may have written it; who undoes says so
        for run in record.moves if isinstance(record, MoveIntent) else ():
            box, to_box = (place and place[0] for place in (run.source_folder, run.target_folder))
            if to_box is Box.NEW and box is not None:  # what an operator puts there has arrived
                self._announce("requeued" if box is Box.CUR else "put back", run.target_names)
            if box is Box.NEW:
                self._announce("out of new", run.names)
            elif box is Box.CUR:
                self._announce("out of cur", run.names)
            if to_box is Box.CUR:
                self._announce("claim", run.target_names)
        # All at once: a dict looks for its first name among all that were deleted before it.
        for known in list(islice(self._announced, max(0, len(self._announced) - _ANNOUNCED))):
            del self._announced[known]

    def _announce(self, move: Move, names: Iterable[str]) -> None:
        for name in names:
            self._announced[move, name] = self._announced.get((move, name), 0) + 1


TRACKED_AT_MOST = 1_000
_SETTLED = 2.0
"""Seconds for which a message must be nowhere before it counts as gone, unless an event reported that it left. Boxes are scanned
one after the other, and each at most once a second."""


class _Track(Struct):
    """State of one tracked message: when it was last seen anywhere, the last names known from events and looks, its last claim,
    when it left that claim, and since when it has been nowhere."""

    seen_at: float
    new: str | None = None
    cur: str | None = None
    tmp: str | None = None
    claimed_at: float | None = None
    pid: int | None = None
    left_at: float | None = None
    missing_at: float | None = None
    position: int | None = None
    verdict: Verdict | None = None


class MessageTracker(Struct):
    """``in_box`` returns something true if a name is in a box now. Canaries are remembered before anybody asks for them, other
    messages only from then on."""

    _in_box: Callable[[Box, str], object]
    _set_aside: SetAsideBoxes
    _tracks: dict[str, _Track] = {}
    # A canary exists to be tracked, and is most likely gone before anybody could ask for its id.
    _canaries: dict[str, _Track] = {}
    _since: float = 0.0
    _searched_scan: int = -1
    _counted: tuple[int, frozenset[str]] | None = None

    def add_events(self, batches: Iterable[Events]) -> None:
        """Takes in the events since the last look."""
        for batch in batches:
            for raw, name in self._relevant(batch.added, Box.NEW):
                if name.canary and self._track(name.id) is None:
                    if len(self._canaries) == TRACKED_AT_MOST:
                        del self._canaries[next(iter(self._canaries))]
                    self._canaries[name.id] = _Track(batch.at)
                if (track := self._track(name.id)) is not None:
                    track.new = raw
            for raw, name in self._relevant(batch.added, Box.CUR):
                if (track := self._track(name.id)) is not None:
                    self._claimed(track, raw, epoch(name.claimed_us) or batch.at, name.pid)
            for raw, name in self._relevant(batch.deleted, Box.CUR):
                if (track := self._track(name.id)) is not None and track.cur == raw:
                    track.left_at = batch.at

    def _relevant(self, changes: Mapping[str, Iterable[str]], box: Box) -> Iterator[tuple[str, Name]]:
        """Yields the names in a box that may belong to a tracked message. If no message is tracked, only canaries are, so that
        millions of names are not parsed."""
        for raw in changes.get(box, ()):
            if self._tracks or ",x=1" in raw:
                yield raw, parse(raw, claimed=box is Box.CUR)

    def _track(self, id: str) -> _Track | None:
        return self._tracks.get(id) or self._canaries.get(id)

    def where(
        self, ids: Sequence[str], since: float, now: float, new: BoxScan, rows: Iterable[Row], *, current: bool
    ) -> dict[str, TrackedMessage]:
        """Locates the first ``TRACKED_AT_MOST`` of ``ids``; all other messages are no longer tracked. Claims that began before
        ``since`` do not count. ``new`` and ``rows`` (claims and files in ``tmp``) are those of the last look; ``current``:
        ``new`` has not changed since it was scanned."""
        ids = ids[:TRACKED_AT_MOST]
        if any(id not in self._tracks for id in ids):
            self._searched_scan = -1
        self._tracks = {id: self._tracks.get(id) or self._canaries.pop(id, None) or _Track(now) for id in ids}
        self._since = since
        if not ids:
            return {}
        for row in rows:
            if (track := self._tracks.get(row.id)) is None:
                continue
            if row.box is Box.TMP:
                track.tmp = row.name
            else:
                self._claimed(track, row.name, row.in_box_since, row.owner.pid if row.owner is not None else None)
                track.verdict = row.verdict
        self._find(new)
        boxes = {id: self._box(id, track) for id, track in self._tracks.items()}
        self._count_older({id for id, box in boxes.items() if box is Box.NEW}, new)

        def tracked(id: str, track: _Track, box: Box | None) -> TrackedMessage:
            gone = None
            if box is not None:
                track.seen_at, track.missing_at, track.left_at = now, None, None
            elif track.missing_at is None:
                track.missing_at = now  # the two halves of a move may be reported one after the other: the next look tells
            elif new.complete:
                listed = current or new.as_of >= track.seen_at
                if track.left_at is not None or (listed and now - track.missing_at >= _SETTLED):
                    gone = track.missing_at if track.left_at is None else track.left_at
            waiting = box is Box.NEW
            return TrackedMessage(
                id, box, track.position if waiting else None, len(new.names) if waiting else None, track.claimed_at, track.pid,
                gone, track.verdict if box is Box.CUR else None, epoch(enqueued_us(id)),
            )  # fmt: skip

        return {id: tracked(id, track, boxes[id]) for id, track in self._tracks.items()}

    def _claimed(self, track: _Track, raw: str, at: float | None, pid: int | None) -> None:
        if raw == track.cur or (track.claimed_at is not None and (at or 0.0) < track.claimed_at):
            return
        track.cur, track.left_at = raw, None
        if at is not None and at >= self._since:
            track.claimed_at, track.pid = at, pid

    def _find(self, new: BoxScan) -> None:
        """Searches the scan for messages that no event named, once for each scan."""
        if new.number == self._searched_scan:
            return
        self._searched_scan = new.number
        unknown = {id for id, track in self._tracks.items() if track.new is None}
        starts = {encode_value(id) for id in unknown} | unknown
        if not unknown:
            return
        for raw in new.names:
            if (raw in starts or raw.partition(",")[0] in starts) and (id := parse(raw, claimed=False).id) in unknown:
                self._tracks[id].new = raw

    def _box(self, id: str, track: _Track) -> Box | None:
        for box, raw in ((Box.CUR, track.cur), (Box.NEW, track.new), (Box.TMP, track.tmp)):
            if raw is not None and self._in_box(box, raw):
                return box
        return self._set_aside.ids().get(id)

    def _count_older(self, waiting: set[str], new: BoxScan) -> None:
        """Sets the position of each waiting message: one more than the number of older messages in ``new``. Consumers take
        messages by time, then by name. Does nothing if neither the scan nor the messages have changed."""
        if not waiting or (new.number, frozenset(waiting)) == self._counted:
            return
        self._counted = (new.number, frozenset(waiting))
        mine: list[tuple[int, str, str]] = []
        for id in waiting:
            raw = self._tracks[id].new or ""
            when = new.put_us(raw)
            self._tracks[id].position = None
            if when is not None:
                mine.append((when, raw, id))
        mine.sort()
        keys = [(when, raw) for when, raw, _ in mine]
        if not keys:
            return
        last = f"{keys[-1][0]:016}"
        older = [0] * (len(keys) + 1)
        for raw in new.names:
            if raw[16:17] == "." and raw[:16] > last and raw[:16].isdecimal():
                continue  # the usual form, which sorts as text like the number
            when = new.put_us(raw)
            if when is not None and (key := (when, raw)) < keys[-1]:
                older[bisect_right(keys, key)] += 1
        for (_, _, id), total in zip(mine, accumulate(older), strict=False):
            self._tracks[id].position = total + 1


# Counts arrivals and departures.

# Messages that were put, claimed and finished within one batch of events: thousands a second where consumers keep up. Their names
# are found together, without parsing each.

ShortLived = tuple[str, str, str, str, str, str, str]
"""The claim, the name in ``new``, the id, the source or "", the token and the time (µs) of the claim, both "" where another kind
of consumer took it, and for such a one the holder, as ``holder_of`` names it, else ""."""

_FIRST_CLAIM = (
    r"((([0-9]{16}\.P[0-9]{1,10}R[0-9a-f]{16}\.[A-Za-z0-9._-]++)(?:,s=([A-Za-z0-9._-]++))?)"
    r"(?:,c=([0-9a-f]{32})\.([0-9]{16}):2,P[0-9]{1,10}|:(?:2,)?(P[0-9]{1,10})))/|[^/]*+/"
)
"""Captures, of each name before a ``/``, the parts of a first claim on one of our own messages in its plain form; nothing of any
other name. Later attempts are counted one by one, because their names tell how often the message came back."""


def short_lived(batch: Events) -> dict[str, ShortLived]:
    """Returns the messages that arrived and were finished within a batch, by id: those with plain names of the engine that came
    and went once."""
    (came, left), (taken, ended) = batch.of(Box.NEW), batch.of(Box.CUR)
    waiting = {name for name in came.keys() & left.keys() - batch.back_in(Box.NEW) if came[name] == left[name] == 1}
    claims = taken.keys() & ended.keys() - batch.back_in(Box.CUR)
    found = [one for one in re.findall(_FIRST_CLAIM, "/".join([*claims, ""])) if one[1] in waiting]
    often = Counter(one[2] for one in found)
    return {one[2]: one for one in found if often[one[2]] == 1}


_MOST = 4_000
"""Consumers that are counted between two looks, the busiest."""


def holder_of(name: Name) -> str:
    """The holder of a claim: its token, else ``P`` and its pid; "" where the name has neither."""
    return name.token or ("" if name.pid is None else f"P{name.pid}")


_REMEMBERED = 50_000
_RETURNS = 1_000
"""Most returns that one look reports."""
_AT_ONCE = 1.0
"""Seconds by which the time in the name of a claim may be before that of the rename which made it."""
_SAMPLES = 100
"""Completions that one look reports at least, if there are so many."""


def last_claim(claims: Iterable[Row], cur: BoxScan) -> float | None:
    """Returns the time of the last claim, as far as the claims that exist tell it: that of the newest of them, if nothing changed
    in ``cur`` after it. Else others may have been claimed and finished since."""
    newest = max(began(claims), default=None)
    if newest is None or (cur.generation is not None and cur.generation[2] / 1e9 > newest + _AT_ONCE):
        return None
    return newest


class _Gone(Struct):
    """A message that left ``cur`` and has not been seen elsewhere yet. ``turn`` is the number of the look."""

    turn: int
    completion: Completion
    attempts: int | None
    """Number of earlier attempts, for a claim of our own; None where nobody counts attempts."""
    holder: str = ""


_Moves = tuple[list[Name], list[Name], list[Name], list[Name]]
"""The names of one id in one batch: added to ``new``, gone from it, added to ``cur``, gone from it."""


_COMPARED_AT_MOST = 100_000


class FlowMeter(Struct):
    """Counts the messages that came and went since the last look: from change events if there are any, else from the difference
    of two scans. ``in_new`` asks the directory if a name is in ``new`` now, where a batch alone is ambiguous."""

    _set_aside: SetAsideBoxes
    _in_new: Callable[[str], object]
    _operators: OperatorMoves
    _aside_ids: Set[str] = frozenset()
    _compared: tuple[set[str], set[str]] | None = None
    _compared_scans: tuple[int, int] = (-1, -1)
    _listened: bool = False
    _tried: set[str] = set()
    _claimed_at: dict[str, float] = {}
    _gone: dict[str, _Gone] = {}
    _finished: Counter[str] = field(default_factory=Counter)
    _failed: Counter[str] = field(default_factory=Counter)
    _failed_now: Counter[str] = field(default_factory=Counter)
    """Failures that count one look later, as it is known only then what was done."""
    _holder_claims: dict[str, float] = {}
    _since: float | None = None
    _turn: int = 0
    last_claim_at: float | None = None
    # Counted since the last ``_take``.
    _arrived: int = 0
    _claimed: int = 0
    _requeued: int = 0
    _retried: int = 0
    _shifted: int = 0
    _returns: deque[Return] = field(default_factory=lambda: deque(maxlen=_RETURNS))
    _sources: Counter[str] = field(default_factory=Counter)

    @property
    def unsettled(self) -> bool:
        """True where something left ``cur`` and it is not yet known whether it is done: a look that comes soon will know more."""
        return bool(self._gone)

    def look(
        self, dirs: SpoolDirs, now: float, report: EventReport, new: BoxScan, cur: BoxScan, claims: Sequence[Row], *, exact: bool
    ) -> Flow:
        """Returns the flow since the last look. ``exact``: the directories are those of the last look."""
        self._operators.look(dirs)  # after the change events were taken, so that each of their moves is announced
        before = self._aside_ids
        self._aside_ids = self._set_aside.ids().keys()
        self._add(report.batches, before)
        if self.last_claim_at is None and claims and not (self._listened and report.listening):
            for row in claims:  # those that existed when watching began
                if row.in_box_since is not None and len(self._claimed_at) < _REMEMBERED:
                    self._claimed_at.setdefault(row.id, row.in_box_since)
            self.last_claim_at = last_claim(claims, cur)
        if not (report.listening or report.reason):  # it begins: the first batch tells what came since
            self._since = now if self._since is None else self._since
            return Flow(self._since, now, exact=False)
        self._listened = report.listening  # from now on the events tell of each claim, some after a look has listed it
        if report.listening and report.until is not None:
            now = report.until  # what came later has not been received: a rate covers the time for which events were received
        if report.listening:
            self._compared, self._compared_scans = None, (-1, -1)
        elif (new.number, cur.number) != self._compared_scans:
            self._compare(now, new, cur, before)
        measured = report.listening or self._compared is not None
        return self._take(now, exact=exact and report.exact, measured=measured)

    def _compare(self, now: float, new: BoxScan, cur: BoxScan, aside: Set[str]) -> None:
        """Adds the difference of two scans. Bounded, because sets of a million names would stall everything."""
        self._compared_scans = (new.number, cur.number)
        before, self._compared = self._compared, None
        if len(new.names) + len(cur.names) <= _COMPARED_AT_MOST:
            self._compared = waiting, claimed = set(new.names), set(cur.names)
            if before is not None:  # messages that came and went in between are missing
                self._add([Events(
                    {Box.NEW: Counter(waiting - before[0]), Box.CUR: Counter(claimed - before[1])},
                    {Box.NEW: Counter(before[0] - waiting), Box.CUR: Counter(before[1] - claimed)}, at=now,
                )], aside)  # fmt: skip

    def _add(self, batches: Sequence[Events], aside: Set[str]) -> None:
        """Counts the batches of one look. ``aside`` are the ids that were set aside: coming back from there is no arrival."""
        for batch in batches:
            back = None if batch.back is None else batch.back_in(Box.NEW)
            in_new = self._in_new if back is None else back.__contains__
            passed = short_lived(batch)
            claims, waiting = ({one[place] for one in passed.values()} for place in (0, 1))
            (came, left), (taken, ended) = batch.of(Box.NEW), batch.of(Box.CUR)
            moves = defaultdict[str, _Moves](lambda: ([], [], [], []))
            known: dict[tuple[bool, str], Name] = {}
            for place, changes in enumerate((
                came.keys() - waiting, left.keys() - waiting, taken.keys() - claims,
                ended.keys() - batch.back_in(Box.CUR) - claims,
            )):  # fmt: skip
                claimed = place >= 2
                for raw in changes:
                    name = known.get((claimed, raw)) or known.setdefault((claimed, raw), parse(raw, claimed=claimed))
                    if not name.canary:
                        moves[name.id][place].append(name)
            # More is known about these than that they came and went, or the claim gave back the same name that it took.
            odd = {id for id, one in passed.items() if back is None and not one[4] and in_new(one[1])}
            odd |= passed.keys() & (moves.keys() | self._gone.keys() | self._claimed_at.keys())
            for id in odd:
                new, cur = parse(passed[id][1], claimed=False), parse(passed[id][0], claimed=True)
                for seen, name in zip(moves[id], (new, new, cur, cur), strict=True):
                    seen.append(name)
                del passed[id]
            self._count_short_lived(passed, batch, aside)
            for id, moved in moves.items():
                self._count(id, moved, batch, aside, in_new)

    def _count_short_lived(self, passed: Mapping[str, ShortLived], batch: Events, aside: Set[str]) -> None:
        """Counts the messages that were put, claimed and finished within one batch: nearly all where consumers keep up."""
        late = batch.late > LATE
        for id, (_, _, _, source, token, claimed_us, foreign) in passed.items():
            if id not in aside:
                self._arrived += 1
                if source:
                    self._sources[source] += 1
            holder = token or foreign
            # Only a claim of our own tells when within the batch it was made. A late batch says nothing about durations.
            claimed_at = int(claimed_us) / 1e6 if claimed_us else None
            self._notice_claim(holder, claimed_at or batch.at)
            put_at, claimed_at = (None, None) if late else (int(id[:16]) / 1e6, claimed_at)
            self._gone[id] = _Gone(self._turn, Completion(put_at, claimed_at, batch.at), 0 if token else None, holder)
        self._claimed += len(passed)

    def _notice_claim(self, holder: str, at: float) -> None:
        claims = self._holder_claims
        if at > claims.get(holder, 0.0) and (holder in claims or len(claims) < _MOST):
            claims[holder] = at
        if self.last_claim_at is None or at > self.last_claim_at:
            self.last_claim_at = at

    def _leaves(self, id: str, batch: Events, name: Name, claimed_at: float | None) -> None:
        put_at = epoch(name.enqueued_us)
        if batch.late > LATE:
            put_at = claimed_at = None  # nobody knows when it left, so it is no sample of how long anything takes
        attempts = name.attempts if name.token else None
        self._gone[id] = _Gone(self._turn, Completion(put_at, claimed_at, batch.at), attempts, holder_of(name))

    def _count(self, id: str, moved: _Moves, batch: Events, aside: Set[str], in_new: Callable[[str], object]) -> None:
        operators = self._operators
        came, left, claimed, gone_from_cur = moved
        put_back: list[Name] = []
        arrived: list[Name] = []
        requeued = 0
        for name in came:
            many = batch.added[Box.NEW][name.raw]
            back_again = operators.take("put back", name.raw, many)
            again = operators.take("requeued", name.raw, many - back_again)
            requeued += again
            self._shifted += back_again + again
            if back_again:
                put_back.append(name)
            if back_again + again < many:
                arrived.append(name)
        for name in left:
            self._shifted -= operators.take("out of new", name.raw, batch.deleted[Box.NEW][name.raw])
        self._requeued += requeued
        if id in aside and not (claimed or gone_from_cur or id in self._gone):
            put_back, arrived = put_back + arrived, []  # by an operator whose journal cannot be read here
        taken = [name for name in claimed if not operators.take("claim", name.raw)]
        undone = len(taken) < len(claimed)
        ended = [name for name in gone_from_cur if not operators.take("out of cur", name.raw)]
        moved = arrived, left, taken, ended
        back = bool(requeued or put_back or undone)
        gone = self._gone.pop(id, None) if arrived or taken or back else None
        claims = (*taken, *ended)
        exact = all(name.token for name in claims) and all(name.attempts is not None for name in arrived)
        if exact and (gone is None or gone.attempts is not None):
            self._count_exact(id, moved, batch, gone, back=back)
        else:
            self._count_foreign(id, moved, batch, gone, in_new, back=back)

    def _count_exact(self, id: str, moved: _Moves, batch: Events, gone: _Gone | None, *, back: bool) -> None:
        """Counts the moves of a message with names of our own. They hold the number of attempts, so each return is counted, in
        any order and at any speed."""
        arrived, left, taken, ended = moved
        returns = sorted((name for name in arrived if name.attempts), key=lambda name: name.attempts or 0)
        before = [name.attempts or 0 for name in (*left, *ended)]
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
        self._count_claims(id, batch, many, returns, taken, len(taken))
        holders = {name.attempts or 0: holder_of(name) for name in ended}
        if gone is not None:
            holders[gone.attempts or 0] = gone.holder
        for name in returns:
            if Return(name.ended, name.not_before is not None, id, batch.at).failed:
                self._failed_now[holders.get((name.attempts or 0) - 1, "")] += 1
        if ended:
            last = max(ended, key=lambda name: (name.attempts or 0, name.claimed_us or 0))
            still = {name.raw for name in taken} - {name.raw for name in ended}
            if not back and not still and max(after, default=0) <= (last.attempts or 0):
                self._leaves(id, batch, last, self._claim_time(id, last))

    def _count_foreign(
        self, id: str, moved: _Moves, batch: Events, gone: _Gone | None, in_new: Callable[[str], object], *, back: bool
    ) -> None:
        """Counts the moves of a message that foreign consumers take. All its returns share one name, and so do all its claims:
        they are counted from how often each name appeared and where the message is now."""
        arrived, left, taken, ended = moved
        passed = bool({name.raw for name in taken} & {name.raw for name in ended}) and len(taken) == len(ended)
        here = back or (bool(arrived) and (not left or any(in_new(name.raw) for name in arrived)))
        puts = sum(batch.added[Box.NEW][name.raw] for name in arrived)
        claims = sum(batch.added[Box.CUR][name.raw] for name in taken)
        began_claimed = gone is not None or (bool(ended) and not passed) or id in self._claimed_at
        # Each return ends a claim; of the claims one may stand there still, or have ended for good.
        returns = max(0, claims + began_claimed - (0 if here or not claims else 1))
        if arrived:
            returns = min(returns, puts)
            if puts > returns:
                self._arrives(arrived)
        else:
            returns = int(gone is not None and bool(taken))
        self._count_claims(id, batch, returns, [], taken, claims)
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

    def _count_claims(self, id: str, batch: Events, many: int, returns: list[Name], taken: list[Name], claims: int) -> None:
        """Counts ``many`` returns, of which ``returns`` are the names that were seen, and as many ``claims``, under the names
        ``taken``."""
        self._retried += many
        self._returns += (Return(name.ended, name.not_before is not None, id, batch.at) for name in returns)
        if returns and len(self._tried) < _REMEMBERED:
            self._tried.add(id)
        if many:
            self._claimed_at.pop(id, None)
        if taken:
            self._claimed += claims
            name = _last(taken)
            when = epoch(name.claimed_us) or batch.at
            self._notice_claim(holder_of(name), when)
            if len(self._claimed_at) < _REMEMBERED:
                self._claimed_at[id] = when

    def _claim_time(self, id: str, name: Name) -> float | None:
        remembered = self._claimed_at.pop(id, None)
        return epoch(name.claimed_us) or remembered

    def _take(self, now: float, *, exact: bool, measured: bool) -> Flow:
        """Returns the flow since the last ``_take``. A message that left ``cur`` before that and has appeared nowhere since is
        done, unless it was set aside: the two halves of a move may be reported one after the other."""
        ended: list[_Gone] = []
        recovered: list[str] = []
        waiting: dict[str, _Gone] = {}
        for id, gone in self._gone.items():
            if gone.turn == self._turn:
                waiting[id] = gone
                continue
            if id in self._aside_ids:
                self._failed[gone.holder] += 1  # rejected
                continue
            ended.append(gone)
            if id in self._tried:
                self._tried.discard(id)
                recovered.append(id)
        self._finished.update(gone.holder for gone in ended)
        # An even sample of very many, else the figures of a minute would describe its last second.
        step = max(1, len(ended) // _SAMPLES)
        completions = tuple(gone.completion for gone in ended[::step])
        self._gone = waiting
        since = now if self._since is None else self._since
        flow = Flow(
            since, now, self._arrived, self._claimed, self._requeued, len(ended), dict(self._sources), completions,
            exact, measured and self._since is not None, self._retried, tuple(self._returns), tuple(recovered), self._shifted,
            self._by_holder(),
        )  # fmt: skip
        self._since = now
        self._turn += 1
        self._arrived = self._claimed = self._requeued = self._retried = self._shifted = 0
        self._returns.clear()
        self._sources.clear()
        return flow

    def _by_holder(self) -> dict[str, HolderFlow]:
        """Returns what each consumer finished and failed at since the last ``_take``, and its last claim."""
        done, failed, claimed = self._finished, self._failed, self._holder_claims
        holders = (done.keys() | failed.keys() | claimed.keys()) - {""}
        if len(holders) > _MOST:
            holders = set(sorted(holders, key=lambda holder: done[holder] + failed[holder], reverse=True)[:_MOST])
        self._finished, self._failed, self._failed_now, self._holder_claims = Counter(), self._failed_now, Counter(), {}
        return {holder: HolderFlow(done[holder], failed[holder], claimed.get(holder)) for holder in holders}


def _last(claims: list[Name]) -> Name:
    """Returns the most recent claim on a message in a batch. The claims of a batch are unordered."""
    return max(claims, key=lambda name: name.claimed_us or 0)
