"""History of one source's cursor: its writes, which of them reverted it, and its usual interval."""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spooltop.model import Json, LockHolder, age, escape, interval, program

from .model import CursorSection, CursorWrite, direction, order, pick, shown

RING = 200
"""Most writes that are kept of each source."""
_KEPT = 256
"""Characters of a section above which its history keeps only the cursor, and of a cursor above which it keeps only the
beginning."""
_STALE = 3
"""Most moves that a stale copy lags behind: going back over more is a rewind, unless something else proves a lost update."""
OFTEN = 3
"""Number of returns to one value that prove lost updates if no other source shares the file."""
_GAPS = 20
_FEWEST_GAPS = 2
_REMEMBERED = 3600.0
_RECENT = 8
_NEAR = 3.0
"""Seconds within which a line of the journal and an observed write are the same write."""


def key_of(value: Json, field: str | None = None) -> str:
    """Returns a key that equal cursors share: the type and the text of what ``pick`` finds."""
    picked = pick(_bounded(value, field), field)
    return f"{type(picked).__name__}:{picked!r}"


def _bounded(value: Json, field: str | None) -> Json:
    """Shortens a section for the history: a long one to its cursor, a long cursor to its beginning."""
    if not isinstance(value, str | list | dict) or len(text := json.dumps(value)) <= _KEPT:
        return value
    picked = pick(value, field)
    if not isinstance(picked, list | dict | str) or len(text := json.dumps(picked)) <= _KEPT:
        return picked
    from hashlib import blake2b  # loads OpenSSL: only for long cursors

    digest = blake2b(text.encode(), digest_size=6).hexdigest()
    begin = text.strip('"')[: _KEPT - 96]
    return f"{begin}… ({len(text)} characters, {digest})"


class CursorHistory:
    """History that grows by ``write``, ``add_journaled`` and ``arrived``; everything else is derived from it.

    ``field`` names the cursor in a section, None if it is detected. ``before``: ``value`` preceded the first journalled write,
    and no look found it. ``often``: number of returns to one value that count as lost updates if nothing else in those writes
    tells them from a rewind. ``room``: most writes that may be kept.
    """

    def __init__(
        self, first: CursorSection, *, seen_at: float, field: str | None = None, before: bool = False, often: int = OFTEN,
        room: Callable[[], int] = lambda: RING,
    ) -> None:  # fmt: skip
        self.field = field
        self._before = before
        self._often = often
        self._room = room
        self.value = value = _bounded(first.value, field)
        self.reverts = 0
        """Lost updates since it was watched, and those before that the journal has."""
        self.first_seen = seen_at
        self.written_at = self.moved_at = first.at
        self.steps_back = 0
        """Number of times it was seen to go back: lost updates and rewinds."""
        self.moved_is_bound = True
        self.ring = deque([first.replace(value=value, shown=shown(value, field))])
        """Its writes, newest first, and at the end, as long as there is room, the value that was there first."""
        self._written = 0
        self.journal_writes: deque[float] = deque()
        """Times of the writes in the journal, also of those that changed nothing."""
        self.repeated = 0
        """Writes since the last move that left the value as it was."""
        self.repeats_ever = 0
        self.busy_repeats = 0
        """Number of those writes that followed new messages of this source."""
        self._arrived = 0
        self.changes: deque[CursorSection] = deque()
        """Writes that changed the value, oldest first."""
        self._forward: deque[float] = deque(maxlen=_GAPS + 1)
        self._seen: dict[str, int] = {self.key(value): 0}
        self.top: Json = value
        """The high-water mark; for tokens without order the newest that was ever seen."""

    @property
    def writes(self) -> list[CursorSection]:
        """The writes that were seen, newest first."""
        return list(itertools.islice(self.ring, self._written))

    def key(self, value: Json) -> str:
        return key_of(value, self.field)

    def is_at(self, value: Json) -> bool:
        """True if ``value`` has the current cursor."""
        return self.key(value) == self.key(self.value)

    def pick(self, value: Json) -> Json:
        return pick(value, self.field)

    def shown(self, value: Json) -> str:
        return shown(value, self.field)

    def step(self, old: Json, new: Json) -> int | None:
        """Compares two values: 1 forward, -1 back, 0 equal in order; None for tokens without order."""
        return direction(self.pick(old), self.pick(new))

    def direction_to(self, value: Json) -> int:
        """Compares ``value`` with the current one: 1 forward, -1 back, 0 the same. A token without order is forward if it is
        new."""
        step = self.step(self.value, value)
        if step is not None:
            return step
        if self.is_at(value):
            return 0
        if order(self.pick(value)) is not None or order(self.pick(self.value)) is not None:
            return 1  # the kind of value changed: a new beginning, not a step back
        place = self._seen.get(self.key(value))
        return 1 if place is None or place > self._seen.get(self.key(self.value), -1) else -1

    def arrived(self, messages: int) -> None:
        """Counts ``messages`` of this source that came into ``new``."""
        self._arrived += messages

    def write(self, write: CursorSection) -> None:
        """Adds one write of this source's section, including one that changed nothing."""
        at, value = write.at, _bounded(write.value, self.field)
        recent = {write.at for write in self.writes[:_RECENT]}
        while at in recent:
            at += 1e-6  # a file system's clock stands still for milliseconds; each write is known by its own time
        step, key = self.direction_to(value), self.key(value)
        recent_changes = enumerate(itertools.islice(reversed(self.changes), _STALE), 1)
        over = None if step >= 0 else next((moves for moves, one in recent_changes if self.key(one.old) == key), None)
        write = write.replace(at=at, value=value, shown=self.shown(value), back=step < 0, old=self.value, over=over)
        self.ring.appendleft(write)
        self._written += 1
        self.written_at = at
        if key == self.key(self.value):
            self.value = value
            self.repeated += 1
            self.repeats_ever += 1
            self.busy_repeats += self._arrived > 0
            self._arrived = 0
            self._trim()
            return
        self.repeated = self.busy_repeats = self._arrived = 0
        self.changes.append(write)
        if step < 0:
            self.steps_back += 1
            self._judge(write, known=key in self._seen)
        if step > 0:
            self._forward.append(at)
        if key not in self._seen:
            self._seen[key] = max(self._seen.values(), default=-1) + 1
        comparable = self.step(self.top, value)
        if comparable == 1 or (comparable is None and step > 0 and not self._behind_token(value)):
            self.top = value
        self.value = value
        self.moved_at, self.moved_is_bound = at, False
        self._trim()

    def _judge(self, write: CursorSection, *, known: bool) -> None:
        """Marks ``write``, the newest, as a lost update if it is one, and earlier changes that it proves to be lost updates.

        A writer of a stale copy of the whole file moves its own source forward and others back, in one write. So an update is
        lost if another source advanced in the same write that returned this one to a value that it had before. If the effect of a
        single write is not known, or nothing else changed, a person may have set it back: it counts when it happens again.
        """
        if write.journaled or not known or write.exact is False:
            return
        stale = write.over is not None
        if (write.advanced and write.exact) or ((write.advanced or write.kept) and stale):
            self._lose([write])
        elif stale and write.repeated and len(returns := self._returns(write)) >= self._often:
            self._lose(returns)

    def _returns(self, last: CursorSection) -> list[CursorSection]:
        """Returns ``last`` and the changes just before it that restored the same value, and may come from a stale copy too."""
        key, found, moves = self.key(last.value), [last], 0
        for change in itertools.islice(reversed(self.changes), 1, None):
            moves += 1
            if moves > _STALE or last.at - change.at > _REMEMBERED:
                break
            if change.over is not None and self.key(change.value) == key and not change.journaled:
                found.append(change)
                moves = 0
        return found

    def _lose(self, changes: Sequence[CursorSection]) -> None:
        for change in changes:
            if not change.lost:
                self.reverts += 1
                self._amend(change, lost=True)

    def _amend(self, write: CursorSection, **known: Any) -> None:
        """Adds to a write what is known of it by now. The value that was there first may have its time."""
        amended = write.replace(**known)
        for kept in (self.ring, self.changes):
            for place, one in enumerate(kept):
                if one is write:
                    kept[place] = amended

    def _trim(self) -> None:
        room = self._room()
        for kept in (self.changes, self.journal_writes):
            while len(kept) > room:
                kept.popleft()
        while len(self.ring) > room:
            self.ring.pop()
        while len(self._seen) > 10 * room:
            del self._seen[next(iter(self._seen))]

    def _behind_token(self, value: Json) -> bool:
        """True if the high-water mark is a token that came later than ``value``."""
        top = self._seen.get(self.key(self.top))
        return order(self.pick(value)) is None and top is not None and top > self._seen.get(self.key(value), top)

    def add_journaled(self, one: CursorWrite, now: float, *, known: bool = False) -> None:
        """Adds one line of the journal. A write that was seen already gets its writer.

        If the line replaced a value other than the current one, somebody wrote in between without the journal. If each write is
        ``known``, the line is about one that was not read, and its position is not known.
        """
        at = min(one.at, now)
        self.journal_writes.append(at)
        recent = list(itertools.islice(self.ring, _RECENT + 1))
        seen_writes = recent[:-1] if self._before and len(self.ring) == len(recent) else recent
        for place, seen in enumerate(seen_writes[:_RECENT]):
            before = recent[place + 1].value if place + 1 < len(recent) else one.old  # the first was no write that we saw
            if (
                not seen.journaled
                and (seen.writer is None or seen.writer.pid == one.writer.pid)
                and abs(seen.at - at) <= _NEAR
                and self.key(seen.value) == self.key(one.new)
                and self.key(before) == self.key(one.old)
            ):
                self.reverts -= seen.lost
                held_by = seen.held_by or (one.writer,)
                self._amend(seen, writer=one.writer, held_by=held_by, also_changed=(), advanced=(), journaled=True, lost=False)
                return
        if not self.is_at(one.old):
            if known:
                return
            self.write(CursorSection(at, one.old))
        self.write(CursorSection(at, one.new, held_by=(one.writer,), writer=one.writer, journaled=True))

    @property
    def below_top(self) -> bool:
        """True if it is below its high-water mark."""
        step = self.step(self.value, self.top)
        return step == 1 if step is not None else self.key(self.value) != self.key(self.top)

    def recovered(self, change: CursorSection) -> bool:
        """True if it has since passed the value that it had when ``change`` reverted it."""
        place = self._seen.get(self.key(change.old), -1)
        later = [other.value for other in self.changes if other.at > change.at]
        return any(
            self._seen.get(self.key(value), 0) > place if (step := self.step(change.old, value)) is None else step == 1
            for value in later
        )

    def lost_updates(self, now: float) -> list[CursorSection]:
        """Returns the lost updates of the last hour, oldest first. Neither a single step back on its own, which is a rewind, nor
        a journalled write counts: such a write knew what it replaced."""
        return [change for change in self.changes if change.lost and change.at >= now - _REMEMBERED]

    @property
    def every(self) -> float | None:
        """The learnt interval between forward moves (the median), None before three of them."""
        return usual_interval(self._forward)

    def explained(self, times: Sequence[float] | None = None) -> float | None:
        """Returns the seconds of silence that are normal for it: three times the usual interval, or 1.5 times the longest.
        Intervals are between its forward moves, or between ``times``."""
        times = self._forward if times is None else times
        usual = usual_interval(times)
        return None if usual is None else max(3 * usual, 1.5 * max(_gaps(times))) + 2.0


def _gaps(times: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times) if later > earlier][-_GAPS:]


def usual_interval(times: Sequence[float]) -> float | None:
    """Returns the median interval between ``times``, None before three of them; the lower of the two middle values if there are
    two: between the interval of a poller and one pause of it, their mean would be an interval that never occurred."""
    gaps = sorted(_gaps(times))
    return gaps[(len(gaps) - 1) // 2] if len(gaps) >= _FEWEST_GAPS else None


# Judges one source's history: a verdict of one word, with evidence. Pure. No limit is set by hand except for the first minutes:
# what is late, silent or stuck follows from the source's own history.

NOT_ADVANCING = "not advancing"
"""The verdict where the file alone does not tell an idle source from a stalled one."""
ASK_FOR_LOGS = "; idle or stalled? give --poll-log"
"""Appended if only a file shared by several sources is known."""
_USUAL = "within its usual interval"
_NEW_FOR = 60.0
_INTERVAL_UNKNOWN = 300.0
"""While the interval is not known yet, a forward move counts as recent for this many seconds."""
_REPEATS = 2
"""Writes of the same value, with messages of the source before each, that are no longer a coincidence."""


def judge(
    history: CursorHistory, now: float, *, shared: bool, window: float, at_least: bool = False
) -> tuple[str, str, int]:
    """Returns (verdict, evidence, reverts): the lost updates of the last ``window`` seconds or, if there are none, of the last
    hour. ``at_least``: there may be more that were not seen."""
    lost = history.lost_updates(now)
    recent = [change for change in lost if change.at >= now - window]
    if lost and (len(recent) > 1 or not history.recovered(lost[-1])):
        words = revert_words(history, lost, now, window=window, at_least=at_least)
        return "reverted", words + _writers_words(recent or lost), len(recent or lost)
    before = f"; reverted {len(lost)}×, last {age(now - lost[-1].at)} ago" if lost else ""
    if history.below_top:
        back = next((change for change in reversed(history.changes) if change.back), None)
        since = f" {age(now - back.at)} ago" if back else ""
        by = f" by {_name(back.writer)}" if back and back.writer else ""
        how = f"went back {history.shown(back.old)}→{history.shown(back.value)}{since}{by}; " if back else ""
        return "rewound", f"{how}its highest was {history.shown(history.top)}{before}", len(lost)
    verdict, words = _pace(history, now, shared=shared)
    return verdict, words + before, len(recent or lost)


def undecided(verdict: str, evidence: str) -> bool:
    """True where the cursor file alone does not tell whether the source is idle, stalled or stopped."""
    return verdict in (NOT_ADVANCING, "new", "stopped") or evidence.startswith(_USUAL)


def _pace(history: CursorHistory, now: float, *, shared: bool) -> tuple[str, str]:
    unmoved = max(0.0, now - history.moved_at)
    explained = history.explained()
    if history.busy_repeats > (_REPEATS if explained is None else 0) and (explained is None or unmoved > explained):
        since = f", not advancing for {age(unmoved)}" if history.changes else ""
        return "stalled", f"written {history.repeated}× with the same value while messages of it keep arriving{since}"
    stopped = _stopped(history, now, shared=shared)
    if stopped:
        return "stopped", stopped
    if not history.changes:
        return _never_moved(history, now, shared=shared)
    every = history.every
    if every is None:
        if unmoved <= _INTERVAL_UNKNOWN:
            moves = sum(1 for change in history.changes if not change.back)
            return "advancing", f"moved {moves}×, last {age(unmoved)} ago"
        return NOT_ADVANCING, f"not advancing for {age(unmoved)}, update interval not known yet{ASK_FOR_LOGS}"
    if unmoved <= max(1.25 * every, every + 5.0):
        return "advancing", f"every {interval(every)}, last {age(unmoved)} ago"
    if explained is not None and unmoved <= explained:
        return "idle", f"{_USUAL}, every {interval(every)}, last {age(unmoved)} ago"
    words = f"not advancing for {age(unmoved)}, every {interval(every)} before"
    written = max(0.0, now - history.written_at)
    if history.repeated and written < unmoved:
        if history.journal_writes and history.journal_writes[-1] > history.moved_at:
            return "idle", f"its poller wrote {age(written)} ago and has nothing new"
        if not shared:
            return NOT_ADVANCING, f"{words}; idle or stalled? written {age(written)} ago with the same value"
    return NOT_ADVANCING, words + ASK_FOR_LOGS


def on_a_server(verdict: str, evidence: str, behind: int | None, *, exact: bool) -> tuple[str, str]:
    """Returns the verdict on a cursor that a server keeps, which counts what comes after it: no log of a poller is needed."""
    if verdict == "new":
        return verdict, "seen once"
    if verdict != NOT_ADVANCING or behind is None:
        return verdict, evidence
    words = evidence.removesuffix(ASK_FOR_LOGS)
    if not behind and exact:
        return "idle", "nothing waits"
    return verdict, f"{words}; {'' if exact else '≥'}{behind:,} {'waits' if behind == 1 and exact else 'wait'}"


def _never_moved(history: CursorHistory, now: float, *, shared: bool) -> tuple[str, str]:
    written = age(max(0.0, now - history.written_at))
    if history.repeated and history.journal_writes:
        return "idle", f"its poller wrote {written} ago and has nothing new"
    if not shared and history.writes:
        return NOT_ADVANCING, f"idle or stalled? written {len(history.writes)}× with the same value"
    watched = now - history.first_seen
    if watched < _NEW_FOR:
        return "new", "seen once, no write yet"
    return NOT_ADVANCING, f"not advancing in {age(watched)} of watching{ASK_FOR_LOGS}"


def _stopped(history: CursorHistory, now: float, *, shared: bool) -> str:
    """Says why the source counts as stopped, "" if it does not or that is not known: in a file that others write too, only the
    journal shows it."""
    silent = max(0.0, now - history.written_at)
    times = history.journal_writes if shared else [write.at for write in reversed(history.writes)]
    limit = history.explained(times)
    if limit is None or silent <= limit:
        return ""
    if shared and not (history.writes and all(write.journaled for write in history.writes)):
        return ""  # another program writes this source too
    words = f"not written for {age(silent)}, every {interval(usual_interval(times))} before"
    return words if history.repeats_ever else f"{words}; or nothing was new: it was never written without a move"


def revert_words(
    history: CursorHistory, lost: Sequence[CursorSection], now: float, *, window: float, at_least: bool = False
) -> str:
    """Describes the last lost update and their number: ``reverted 89636→89632, 5× in 5m``."""
    last = lost[-1]
    recent = [change for change in lost if change.at >= now - window]
    watched = min(window, now - history.first_seen)
    bound = "at least " if at_least else ""
    often = f"{len(recent)}× in {age(watched)}" if recent else f"{len(lost)}×, last {age(now - last.at)} ago"
    return f"reverted {history.shown(last.old)}→{history.shown(last.value)}, {bound}{often}"


def recent_of(lost: Sequence[CursorSection], now: float, window: float) -> Sequence[CursorSection]:
    """Returns those of the last ``window`` seconds, or all of them if there are none."""
    return [change for change in lost if change.at >= now - window] or lost


def suspected_writers(lost: Sequence[CursorSection]) -> tuple[tuple[str, int], ...]:
    """Counts in how many of these writes each other source advanced: (source, count), most first."""
    return _most_first(source for change in lost for source in change.advanced)


def writers_of(lost: Sequence[CursorSection]) -> tuple[tuple[str, int], ...]:
    """Counts these writes by writer, if it was seen: (writer, count), most first. A poller that is restarted each time is counted
    by its command."""
    return _most_first(_name(change.writer) for change in lost if change.writer is not None)


def _most_first(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _writers_words(lost: Sequence[CursorSection]) -> str:
    """Names the sources that advanced in those writes, and who wrote most of them. Where no writer was seen, the sources are only
    suspects."""
    advanced = ", ".join(f"{escape(source)} advanced in {n} of {len(lost)}" for source, n in suspected_writers(lost)[:2])
    written = "".join(f"; {n} written by {name}" for name, n in writers_of(lost)[:1])
    return (f"; {advanced} of these writes" if advanced else "") + written


def _name(writer: LockHolder | None) -> str:
    if writer is None:
        return "?"
    return escape(program(writer.command)) if writer.command else f"pid {writer.pid}"
