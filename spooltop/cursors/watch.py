"""Watches cursor files and the logs of pollers over time, one source with both: which moved, were reverted, or vanished.

Memory is bounded whatever the files hold: 2,000 sources, and 12,000 writes of all of them together.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from spooltop.engine.files import GrowingFiles
from spooltop.model import Observation, Problem, Redactor, Severity, UsageError
from spooltop.model.vocabulary import Action, Environ, Frozen, JsonObject, age, escape, fit, interval
from spooltop.observe.observer import Codes, FeatureRules, RuleInput, base_name
from spooltop.observe.thresholds import Thresholds

from .history import (
    ASK_FOR_LOGS,
    NOT_ADVANCING,
    OFTEN,
    RING,
    CursorHistory,
    judge,
    key_of,
    on_a_server,
    recent_of,
    revert_words,
    suspected_writers,
    undecided,
    writers_of,
)
from .model import Cursor, CursorSection, CursorSource, CursorWrite, Poll, cursor_fields

# A cursor file that is watched: the history of each source that it ever had, from its versions and its journal.

COMMON_TEMP = r"cursors\.(json\.)?tmp|cursors\.json~"
"""Temporary names that all writers share."""
_TEMP_BY_PID = r"cursors\.(json\.)?(tmp\.)?[0-9]+(\.tmp)?"
_LEFT_BEHIND = 60.0
_NEAR = 3.0
"""Seconds within which a line of the journal is about a version that was read, or of a poll log about a write that was seen."""
_SOURCES = 2_000
_OTHERS = 64
"""Other sources that are kept of one write. Where thousands change at once, a full list for each of them is quadratic."""
_STATES = 10
"""Contents of a file that are remembered, each by a hash: a stale copy is not older."""
_OFTEN = 2
"""Number of returns to one value that count as reverts in a file that is otherwise the same as before."""


class WatchedFile(Struct):
    """A cursor file over many looks: the ``source`` as it was last seen, without its content. ``field`` gives the field of a
    source's section that holds its cursor, None if it is detected; ``room`` is the largest number of writes that may be kept of
    each source now. ``sections`` is its content when it last parsed, at ``good_at``; ``error`` is the reason why it does not
    parse now. ``gone_since`` are the sources that it no longer has. ``left_out`` counts those that are not watched, because they
    are too many or their names too long. ``journaled``: the journal has recorded a write. ``unread`` is (when, how many) writes
    that were not read."""

    source: CursorSource
    _field: Callable[[str], str | None]
    _room: Callable[[], int]
    sections: JsonObject = {}
    histories: dict[str, CursorHistory] = {}
    gone_since: dict[str, float] = {}
    away_since: float | None = None
    error: str = ""
    good_at: float | None = None
    journaled: bool = False
    left_out: int = 0
    cut: frozenset[str] = frozenset()
    unread: deque[tuple[float, int]] = field(default_factory=partial(deque, maxlen=RING))
    _stamp: Hashable = None
    _previous: float = 0.0
    _looked_at: float = 0.0
    _read_at: float = 0.0
    _content: int = 0
    """A hash of its content that changes with each section separately."""
    _contents: deque[int] = field(default_factory=partial(deque, maxlen=_STATES))
    """The hashes of earlier contents."""
    _temp_files: dict[str, float] = {}
    """Names of temporary files beside it, and since when they have been seen."""

    def add(self, source: CursorSource, now: float) -> None:
        """Takes one look at ``now``. Never raises for the content of the file."""
        self.source = source.replace(sections=None, journal=(), earlier=())
        self.away_since = None
        self._previous, self._looked_at = self._looked_at, now
        self._note_temp_files(source, now)
        lines = list(source.journal)
        self.journaled = self.journaled or bool(lines)
        own = self._lines_of(source, lines)
        for version in source.earlier:
            self._take(version, next(own), lines, version.read_at or now)
        if source.sections is None:
            self.error = source.error or "does not parse"
            return
        self.error = ""
        self.left_out, self.cut = source.left_out, source.cut
        same = source.stamp == self._stamp and source.sections == self.sections
        if not same or lines:
            self._take(source, next(own), lines, max(now, source.read_at or now), same=same, newest=True)
        self.good_at, self._stamp = now, source.stamp

    def _note_temp_files(self, source: CursorSource, now: float) -> None:
        seen = self._temp_files
        for name in [name for name in seen if name not in source.temp_files and not re.fullmatch(COMMON_TEMP, name)]:
            del seen[name]  # it was not left behind, its writer was at work
        for name in source.temp_files:
            if re.fullmatch(COMMON_TEMP, name) or re.fullmatch(_TEMP_BY_PID, name):
                seen.setdefault(name, now)

    def unsafe_names(self, now: float) -> tuple[str, ...]:
        """Returns the names beside it that show an unsafe writer: a temporary name that all writers share, once it was seen (it
        exists only briefly), and a name with a pid that was left behind for a minute."""
        seen = self._temp_files.items()
        return tuple(sorted(name for name, since in seen if re.fullmatch(COMMON_TEMP, name) or now - since >= _LEFT_BEHIND))

    def _lines_of(self, source: CursorSource, lines: list[CursorWrite]) -> Iterator[CursorWrite | None]:
        """Returns for each version the line of the journal that describes exactly its change. Removes all of them from ``lines``
        first: none is about a write before an earlier version, which was not read."""
        found: list[CursorWrite | None] = []
        before = self.sections
        for version in (*source.earlier, source):
            after = version.sections or {}
            known = version.unread is not None and self.good_at is not None
            one = next((line for line in lines if known and self._is_about(line, before, after)), None)
            if one is not None:
                lines.remove(one)
            found.append(one)
            before = after
        return iter(found)

    def _is_about(self, line: CursorWrite, before: JsonObject, after: JsonObject) -> bool:
        name, key = line.source, partial(key_of, field=self._field(line.source))
        if name not in before or name not in after:
            return False
        return key(before[name]) == key(line.old) != key(line.new) == key(after[name])

    def _take(
        self, version: CursorSource, own: CursorWrite | None, lines: list[CursorWrite], now: float, *, same: bool = False,
        newest: bool = False,
    ) -> None:  # fmt: skip
        """Takes one version of the file, which was read at ``now``. ``own`` is the line of the journal about its change; of the
        ``lines`` about no version it removes those that it uses. ``same``: it is the version of the previous look; ``newest``:
        all lines are about it or earlier versions.
        """
        first = self.good_at is None
        # the file's own time of writing if it is plausible, else when it was seen
        earliest = 0.0 if first else min(self._previous, self._read_at) - 1.0
        at = version.mtime if earliest < version.mtime <= now else now
        before, after = self.sections, version.sections or {}
        noted: set[str] = set()
        unread = version.unread
        if unread is None or first or same:
            noted = self._take_lines(after, lines, now, known=unread is not None and not first)
        elif lines:
            noted = self._take_unread(unread, lines, now)
            unread = max(0, unread - len(noted))
        if same and not noted:
            return
        if unread:
            self.unread.append((now, unread))
        exact = None if version.unread is None else version.unread == 0
        both = {} if first else {**before, **after}
        changed = [name for name in both if _differs(before, after, name)]
        self._note_content(after, changed if not first else list(after))
        steps = {
            name: self.histories[name].direction_to(after[name]) for name in changed if name in after and name in self.histories
        }
        # what the journal has was written on its own, even where one look found both
        alone = {name for name in noted if name in after and self.histories[name].is_at(after[name])}
        # a server moves each cursor by itself: that one look found both says nothing
        others = [name for name in changed if name not in alone] if version.in_file else []
        ahead = [name for name in others if steps.get(name, 0) > 0]
        not_back = {name for name in others if steps.get(name, -1) >= 0}
        for name, value in after.items():
            history = self.histories.get(name)
            plain = CursorSection(
                at, value, held_by=version.lock_holders, writer=version.writer, lock_there=self.source.lock_there
            )
            if history is None:
                self.histories[name] = self._history(plain, name, seen_at=now)
            elif name in noted and history.is_at(value):
                history.value = value  # the journal has this write
            elif (not self.source.shared and not same) or name in changed or name in noted:
                # in a shared file a write that left this section as it was is as likely another source's
                if own is not None and own.source == name and history.is_at(own.old):
                    history.journal_writes.append(own.at)
                    held_by = plain.held_by or (own.writer,)
                    write = plain.replace(held_by=held_by, writer=own.writer, exact=exact, journaled=True)
                else:
                    write = plain.replace(
                        also_changed=_besides(others, name), advanced=_besides(ahead, name), exact=exact,
                        kept=len(not_back) > (name in not_back), repeated=first or self._content in self._contents,
                    )  # fmt: skip
                history.write(write)
            self.gone_since.pop(name, None)
        for name in self.histories:
            if name not in after:
                self.gone_since.setdefault(name, at if not first else now)
        self.sections, self._read_at, self.good_at = after, now, now
        too_many = max(0, len(self.histories) - _SOURCES)
        for gone in sorted(self.gone_since, key=self.gone_since.__getitem__)[:too_many]:  # the longest first
            del self.histories[gone], self.gone_since[gone]
        if newest and lines and self._take_lines(after, lines, now, known=True):
            for name, value in after.items():
                if not (history := self.histories[name]).is_at(value):
                    history.write(CursorSection(at, value, exact=exact, lock_there=self.source.lock_there))

    def _history(self, first: CursorSection, source: str, *, seen_at: float, before: bool = False) -> CursorHistory:
        return CursorHistory(
            first, seen_at=seen_at, field=self._field(source), before=before, room=self._room,
            often=_OFTEN if self.source.shared else OFTEN,
        )  # fmt: skip

    def _note_content(self, sections: JsonObject, changed: Sequence[str]) -> None:
        self._contents.append(self._content)
        for name in changed:
            for held in (self.sections, sections):
                if name in held:
                    self._content ^= hash((name, key_of(held[name], self._field(name))))

    def _take_lines(
        self, sections: JsonObject, lines: list[CursorWrite], now: float, *, known: bool
    ) -> set[str]:
        """Takes all lines of the journal, including those from before the first look, and returns their sources. ``known``: each
        write of the file was noticed."""
        found = set()
        for one in lines:
            history = self.histories.get(one.source)
            if history is None and one.source in sections:
                began = min(one.at, now)
                first = CursorSection(began, one.new if one.old is None else one.old)  # None: there was nothing before
                history = self._history(first, one.source, seen_at=began, before=one.old is not None)
                self.histories[one.source] = history
            if history is not None:
                history.add_journaled(one, now, known=known)
                found.add(one.source)
        lines.clear()
        return found

    def _take_unread(self, unread: int, lines: list[CursorWrite], now: float) -> set[str]:
        """Takes from ``lines`` those about the ``unread`` writes before the version of ``now``, and those that changed nothing.
        Returns the sources of the former."""
        found: set[str] = set()
        for one in list(lines):
            history = self.histories.get(one.source)
            if history is None or one.at > now + _NEAR or not history.is_at(one.old):
                continue
            changed_nothing = history.key(one.old) == history.key(one.new)
            if changed_nothing or len(found) < unread:
                lines.remove(one)
                history.add_journaled(one, now, known=True)
                found |= set() if changed_nothing else {one.source}
        return found


def _besides(names: Sequence[str], name: str) -> tuple[str, ...]:
    """The first ``_OTHERS`` of ``names`` without ``name``."""
    return tuple(itertools.islice((other for other in names if other != name), _OTHERS))


def _differs(before: JsonObject, after: JsonObject, name: str) -> bool:
    old, new = before.get(name, ...), after.get(name, ...)
    return old != new and repr(old) != repr(new)  # NaN is as it was


# Reads a poller's own log: how many messages were new, from which cursor to which. Lines look like ``poll ok: 4 new (cursor 89632
# -> 89636)`` and ``poll ok: 0 new (cursor=89636)``; a setting gives another form.

POLL_LINE = r"poll ok: (?P<new>\d+) new \(cursor(?: |=)(?P<start>.+?)(?: -> (?P<end>.+?))?\)"
_DATE = r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?\s?(Z|[+-]\d\d:?\d\d)?"
_KEPT = 50
_PROVEN = ("reverted", "rewound", "missing", "unreadable")
_STALE_STARTS = 3
"""Polls whose starts count: a poll that starts where one of them did found that its save was undone."""
_LEAST = 2
"""Least number of saves undone according to the log alone that is reported: once may be a person."""
_FRESH = 300.0
"""Seconds for which a poll counts as recent while its interval is not known yet."""


def poll_pattern(text: str) -> re.Pattern[str]:
    """Compiles a pattern for poll lines. Raises ``UsageError`` if it does not compile, or lacks the groups ``new`` and
    ``start``."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise UsageError(f"the pattern of poll lines does not compile: {error}", f"the usual one is {POLL_LINE}") from None
    if not {"new", "start"} <= set(found.groupindex):
        raise UsageError("the pattern of poll lines wants the groups new and start", f"the usual one is {POLL_LINE}")
    return found


def parse_poll(source: str, line: str, seen_at: float, pattern: re.Pattern[str]) -> Poll | None:
    """Parses one line; None if it describes no poll. Its time is its own if it begins with a date, else when it was seen.

    >>> parse_poll("imessage", "poll ok: 4 new (cursor 89632 -> 89636)", 1.0, re.compile(POLL_LINE)).end
    '89636'
    """
    found = pattern.search(line)
    if found is None:
        return None
    groups = found.groupdict()
    new = groups["new"] or ""
    if not (new.isascii() and new.isdigit() and len(new) <= 18) or groups["start"] is None:
        return None
    return Poll(source, _time(line, seen_at), int(new), groups["start"], groups.get("end") or groups["start"], line[:500])


def _time(line: str, seen_at: float) -> float:
    found = re.match(_DATE, line)
    if found is None:
        return seen_at
    from datetime import datetime  # takes 2 ms to load: only for poll logs

    day, time, zone = found.groups()
    try:
        when = datetime.fromisoformat(f"{day}T{time}{zone or ''}")
        return min(when.timestamp(), seen_at)  # without a zone it is local time
    except (ValueError, OverflowError, OSError):
        return seen_at


def source_of(name: str, sources: Sequence[str]) -> str | None:
    """Returns the source of a log file by its name: the longest source that is a word in it.

    >>> source_of("poll-imessage.log", ["imessage", "message"]), source_of("teamster.log", ["teams"])
    ('imessage', None)
    """
    fits = [one for one in sources if one and re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", name)]
    return max(fits, key=len, default=None)


class PollHistory:
    """The last polls of one source."""

    def __init__(self) -> None:
        self._polls: deque[Poll] = deque(maxlen=_KEPT)
        self._lost = 0
        self._last_lost: tuple[Poll, Poll] | None = None

    def add(self, poll: Poll) -> None:
        starts = [one.start for one in itertools.islice(reversed(self._polls), _STALE_STARTS) if one.new]
        if self._polls and poll.start != self._polls[-1].end and poll.start in starts:
            self._lost += 1
            self._last_lost = (self._polls[-1], poll)
        self._polls.append(poll)

    def unexplained(self, steps_back: int) -> int:
        """Counts saves in the log that were undone, beyond the ``steps_back`` that were seen in the file."""
        more = self._lost - steps_back
        return more if more >= _LEAST else 0

    @property
    def newest_first(self) -> tuple[Poll, ...]:
        return tuple(reversed(self._polls))

    @property
    def same_start(self) -> int:
        """Counts the last polls that found something new from one and the same start; 1 is normal."""
        count = 0
        for poll in reversed(self._polls):
            if poll.new == 0 or poll.start != self._polls[-1].start:
                break
            count += 1
        return count

    def judge(
        self, verdict: str, evidence: str, current: str, moved_at: float, now: float, *, unexplained: int = 0, window: float = 0.0
    ) -> tuple[str, str]:
        """Combines the verdict and evidence of the cursor file with the log.

        ``current`` is the cursor as shown, ``moved_at`` when it last moved, ``unexplained`` the result of that method; reverts
        longer than ``window`` seconds ago are past. What the file proves (a lost update, a rewind, a missing file) remains the
        verdict.
        """
        if not self._polls:
            return verdict, evidence
        last = self._polls[-1]
        silent = max(0.0, now - last.at)
        gaps = sorted(later.at - one.at for one, later in itertools.pairwise(self._polls) if later.at > one.at)
        every = gaps[len(gaps) // 2] if len(gaps) >= 2 else None
        over = silent > (3 * every + 2.0 if every is not None else _FRESH)
        if (same := self.same_start) > 1:
            words = f"its poll log found new ones {same}× from the same start {escape(last.start)}, last {age(silent)} ago"
            if verdict in _PROVEN:
                return verdict, f"{evidence}; {words}"
            words = f"lost at least {same - 1}×: {words}"
            if over and every is not None and verdict != "advancing":
                return "stopped", f"no poll in its log for {age(silent)}, every {interval(every)} before; {words}"
            return "stalled", words
        if unexplained and self._last_lost is not None and verdict not in _PROVEN and now - self._last_lost[1].at <= window:
            saved, again = self._last_lost
            words = f"reverted {escape(saved.end)}→{escape(again.start)}, at least {unexplained}× by its poll log"
            return "reverted", f"{words}, last {age(max(0.0, now - again.at))} ago"
        if not undecided(verdict, evidence):
            return verdict, evidence
        evidence = evidence.removesuffix(ASK_FOR_LOGS)
        if over:
            if every is None:
                return verdict, evidence
            return "stopped", f"no poll in its log for {age(silent)}, every {interval(every)} before"
        lost = sum(1 for poll in self._polls if poll.new and poll.end != current and poll.at > moved_at + _NEAR)
        if lost > 1:
            words = f"its poll log found new ones {lost}× since it moved, last {age(silent)} ago"
            return "stalled", f"lost at least {lost - 1}×: {words}"
        if last.new == 0 and last.end == current:
            return "idle", f"its poller ran {age(silent)} ago and has nothing new"
        return verdict, evidence



# The logs of pollers, found by the globs that the user gives and read from the end of the look before.

TAIL = 64 << 10
"""Bytes from the end of a log that the first look reads; no later look reads more than 16 times as much."""
_FILES_AT_MOST = 64


class LogGlob(Frozen):
    """The files that match ``pattern``. All belong to ``source``; if that is None, each belongs to the source in its name."""

    pattern: str
    source: str | None = None

    @staticmethod
    def parse(text: str) -> LogGlob:
        """``GLOB`` or ``SOURCE=GLOB``.

        >>> LogGlob.parse("imessage=/var/log/im.log")
        LogGlob(pattern='/var/log/im.log', source='imessage')
        """
        source, equals, pattern = text.partition("=")
        return LogGlob(pattern, source) if equals and source and "/" not in source else LogGlob(text)


class PollLogs:
    """The logs of pollers. Raises ``UsageError`` for an invalid pattern."""

    def __init__(self, globs: Sequence[str], settings: Environ) -> None:
        self.globs = [LogGlob.parse(one) for one in globs]
        self._pattern = poll_pattern(settings.get("SPOOLTOP_POLL_LINE") or POLL_LINE)
        self._files = GrowingFiles(TAIL, 16 * TAIL)

    def add_to(self, observation: Observation) -> Observation:
        """Returns ``observation`` with the polls in the lines that the logs have since the last time."""
        return observation.replace(polls=tuple(self._read(observation)))

    def _read(self, observation: Observation) -> Iterator[Poll]:
        sources = [name for one in observation.cursors for name in one.sections or {}]
        for one in self.globs:
            for path in sorted(glob.glob(one.pattern))[:_FILES_AT_MOST]:  # noqa: PTH207  Path.glob takes no absolute ones
                try:
                    lines, _, written_at = self._files.new_lines(path, path, follow=True)
                except OSError:
                    continue  # gone since it was listed, closed to us, or no plain file
                source = one.source if one.source is not None else source_of(os.path.basename(path), sources)
                if source is not None:
                    at = min(written_at, observation.taken_at)
                    texts = (line.decode("utf-8", "surrogateescape") for line in lines)
                    yield from filter(None, (parse_poll(source, text, at, self._pattern) for text in texts))


# Cursors over many looks, by their files and the logs of their pollers.

_WRITES = 12_000
_NAME_CELLS = 40
_NAMED = 4
_CODES = ("cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing")


class CursorWatch(FeatureRules):
    """Derives a ``Cursor`` for every source from the cursor files of each look, and the problems. A source that vanishes is
    kept."""

    window: float
    """Seconds over which lost updates are counted."""
    cursors: tuple[Cursor, ...] = ()

    def __init__(self, words: Environ) -> None:
        self._fields = cursor_fields(words.get("SPOOLTOP_CURSOR_FIELD", ""))
        self._files: dict[str, WatchedFile] = {}
        self._polls: dict[str, PollHistory] = {}

    def redacted(self, observation: Observation, redactor: Redactor) -> Observation:
        """Returns the observation with the values of cursors and the lines of poll logs hidden as ``redactor`` says."""
        cursors = tuple(_redacted(one, redactor) for one in observation.cursors)
        polls = tuple(poll.replace(line=redactor.text(poll.line)) for poll in observation.polls)
        return observation.replace(cursors=cursors, polls=polls)

    def add(self, observation: Observation, thresholds: Thresholds) -> dict[str, Any]:
        """Never raises for the content of a file or a log."""
        now, arrived = observation.taken_at, observation.flow.arrived_by_source
        self.window = thresholds.cursor_window
        for poll in observation.polls:
            self._polls.setdefault(poll.source, PollHistory()).add(poll)
        for file in self._files.values():
            for name, history in file.histories.items():
                history.arrived(arrived.get(name, 0))
        for source in observation.cursors:
            if source.path not in self._files:
                self._files[source.path] = WatchedFile(source, self._field, self._room)
            self._files[source.path].add(source, now)
        for path in self._files.keys() - {source.path for source in observation.cursors}:
            file = self._files[path]
            file.away_since = now if file.away_since is None else file.away_since
        self.cursors = tuple(cursor for file in self._files.values() for cursor in self._cursors(file, now))
        return {"cursors": self.cursors}

    def problems(self, seen: RuleInput) -> Iterator[Problem]:
        for file in self._files.values():
            if file.error:
                text, sources = f"{base_name(file.source.path)} cannot be read: {escape(file.error)}", len(file.histories)
                if sources:
                    text += f"; last good values of {sources} kept"
                first = self._first_source(file)
                yield Problem("cursor-unreadable", Severity.CRITICAL, text, max(1, sources), view="cursors", subject=first)
        for cursor in self.cursors:
            name = escape(cursor.source)
            if cursor.verdict == "reverted":
                text = f"{name} {self._reverted(seen, cursor)}"
                yield _cursor("cursor-reverted", Severity.CRITICAL, text, cursor, cursor.reverts_recent)
            elif cursor.verdict == "missing":
                yield _cursor("cursor-missing", Severity.CRITICAL, f"{name}: {cursor.evidence}", cursor)
            elif cursor.verdict in ("rewound", "stopped", "stalled"):
                yield _cursor(f"cursor-{cursor.verdict}", Severity.WARNING, f"{name} {cursor.verdict}: {cursor.evidence}", cursor)
        for file in self._files.values():
            if not (names := file.unsafe_names(seen.now)):
                continue
            first = fit(escape(names[0]), min(_NAME_CELLS, len(escape(names[0]))))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            text = f"{base_name(file.source.path)} is written unsafely: {first}{more} seen"
            yield Problem("unsafe-writer", Severity.WARNING, text, len(names), view="cursors", subject=self._first_source(file))

    def _reverted(self, seen: RuleInput, cursor: Cursor) -> str:
        history, window = self._history(cursor), seen.thresholds.cursor_window
        lost = history.lost_updates(seen.now) if history is not None else []
        if history is None or not lost:
            return cursor.evidence
        text = revert_words(history, lost, seen.now, window=window, at_least=cursor.reverts_is_bound)
        written = [f", written by {name} ({times} of " for name, times in cursor.reverted_by]
        carried = [f", as {escape(source)} wrote ({times} of " for source, times in cursor.suspects]
        who = "".join([*written, *carried][:1])
        return f"{text}{who}{len(recent_of(lost, seen.now, window))})" if who else text

    def _first_source(self, file: WatchedFile) -> str | None:
        return next((cursor.source for cursor in self.cursors if cursor.file == file.source.path), None)

    def not_judged(self) -> Iterator[str]:
        few = [
            (escape(cursor.source), moves)
            for cursor in self.cursors
            if (moves := self._moves(cursor)) < 2
            and cursor.verdict in ("new", "advancing", NOT_ADVANCING)
        ]
        if few:
            names = ", ".join(f"{name} {moves}" for name, moves in few[:_NAMED])
            more = f", {len(few) - _NAMED} more" if len(few) > _NAMED else ""
            yield f"cursors (need 2 writes of each source; {names}{more})"

    def codes(self, seen: RuleInput) -> Codes:
        # Journals and poll logs count as moves: what they tell needs no second look.
        few = [cursor for cursor in self.cursors if self._moves(cursor) < 2]
        if few:
            why = "needs --watch over 2 writes of each source"
            yield why, ("cursor-reverted", "cursor-rewound")
            if any(cursor.every is None for cursor in few):
                yield why, ("cursor-stalled", "cursor-stopped")
        if self.cursors and seen.watched <= 0:
            yield "needs --watch", ("cursor-missing", "unsafe-writer")
        if any(file.error for file in self._files.values()):
            yield "a cursor file cannot be read", _CODES
        if any(file.left_out for file in self._files.values()):
            yield "not all sources were read", (*_CODES, "cursor-unreadable")

    def not_visible(self) -> Iterator[str]:
        for file in self._files.values():
            if file.left_out:
                yield f"{file.left_out:,} more sources in {escape(file.source.path.rpartition('/')[2])}"

    def plan_options(self, action: Action, options: JsonObject) -> JsonObject:
        if action is not Action.SET_CURSOR or "highest" in options:
            return options
        files = [known for path, known in list(self._files.items()) if options.get("file") in (None, path)]
        history = next(filter(None, (known.histories.get(str(options.get("source"))) for known in files)), None)
        return options if history is None or history.top is None else {**options, "highest": history.top}

    def _room(self) -> int:
        """Most writes that may be kept of each source."""
        return max(6, min(RING, _WRITES // max(1, sum(len(file.histories) for file in self._files.values()))))

    def _history(self, cursor: Cursor) -> CursorHistory | None:
        file = self._files.get(cursor.file)
        return file.histories.get(cursor.source) if file else None

    def _moves(self, cursor: Cursor) -> int:
        """Counts the changes of the value that were seen."""
        history = self._history(cursor)
        return len(history.changes) if history else 0

    def _cursors(self, file: WatchedFile, now: float) -> Iterator[Cursor]:
        last = file.source
        if file.error and not file.histories:
            name = os.path.basename(last.path)
            yield Cursor(
                source=name if last.shared else name.removesuffix(".json"), value=None, shown="?", verdict="unreadable",
                evidence=escape(file.error), file=last.path, shared=last.shared, lock_holders=last.lock_holders,
            )  # fmt: skip
        since = now - self.window
        unread = sum(many for at, many in file.unread if at >= since)
        for source, history in file.histories.items():
            polls = self._polls.get(source) or PollHistory()
            by_log = polls.unexplained(history.steps_back)
            verdict, evidence, recent = self._verdict(file, source, history, now, at_least=bool(unread or by_log))
            shown = history.shown(history.value)
            before = verdict
            verdict, evidence = polls.judge(
                verdict, evidence, shown, history.moved_at, now, unexplained=by_log, window=self.window
            )
            if verdict == "reverted" != before:
                recent = by_log
            lost = history.lost_updates(now)
            recent_losses = recent_of(lost, now, self.window)
            times = {change.at for change in lost}
            writes = sum(write.at >= since for write in history.writes)
            behind, exact = last.behind.get(source, (None, True))
            if not last.in_file:
                verdict, evidence = on_a_server(verdict, evidence, behind, exact=exact)
            yield Cursor(
                source=source,
                value=file.sections.get(source, history.value),
                shown=shown,
                field=history.field,
                verdict=verdict,
                evidence=evidence,
                file=last.path,
                shared=last.shared,
                moved_at=history.moved_at,
                moved_is_bound=history.moved_is_bound,
                every=history.every,
                writes=writes if writes or not last.shared else None,
                writes_unread=unread,
                reverts=history.reverts + by_log,
                reverts_recent=recent,
                reverts_is_bound=bool(unread or by_log),
                history=tuple(one.replace(lost=one.at in times) if one.lost else one for one in history.ring),
                lock_holders=last.lock_holders,
                suspects=suspected_writers(recent_losses),
                reverted_by=writers_of(recent_losses),
                in_file=last.in_file,
                behind=behind,
                behind_is_bound=not exact,
                unsafe=tuple(self._unsafe_words(file, history, now)),
                polls=polls.newest_first,
                same_start=polls.same_start,
                cut=source in file.cut,
            )

    def _unsafe_words(self, file: WatchedFile, history: CursorHistory, now: float) -> Iterator[str]:
        shared = file.source.shared and len(file.histories) > 1
        writes = history.writes if shared else []
        if writes and (bare := sum(write.lock_there is False for write in writes)):
            yield f"{bare} of {len(writes)} writes without the lock: there is no .cursors.lock"
        elif shared and file.source.lock_there is False:
            yield "nobody locks by .cursors.lock: it is not there"
        elif file.journaled and (bypassed := sum(not write.journaled for write in writes)):
            yield f"{bypassed} of {len(writes)} writes not in .cursors.journal"
        for name in file.unsafe_names(now):
            yield f"{'common temp ' if re.fullmatch(COMMON_TEMP, name) else 'left behind '}{escape(name)} seen"

    def _field(self, source: str) -> str | None:
        return self._fields.get(source, self._fields.get("*"))

    def _verdict(
        self, file: WatchedFile, source: str, history: CursorHistory, now: float, *, at_least: bool
    ) -> tuple[str, str, int]:
        name = escape(os.path.basename(file.source.path))
        if file.away_since is not None:
            return "missing", f"{name} is gone for {age(now - file.away_since)}; last {history.shown(history.value)}", 0
        if file.error:
            good = f"; the value is of {age(now - file.good_at)} ago" if file.good_at is not None else ""
            return "unreadable", f"{name}: {escape(file.error)}{good}", 0
        if source in file.gone_since:
            gone = age(now - file.gone_since[source])
            return "missing", f"not in {name} for {gone}; last {history.shown(history.value)}", 0
        return judge(history, now, shared=file.source.shared, window=self.window, at_least=at_least)


RULES = CursorWatch


def _cursor(code: str, severity: Severity, text: str, cursor: Cursor, count: int = 1) -> Problem:
    return Problem(code, severity, text, count, view="cursors", subject=cursor.source)


def _redacted(cursor: CursorSource, redactor: Redactor) -> CursorSource:
    hide = partial(redactor.section, marked=True)
    sections = cursor.sections and {name: hide(name, value) for name, value in cursor.sections.items()}
    journal = (one.replace(old=hide(one.source, one.old), new=hide(one.source, one.new)) for one in cursor.journal)
    earlier = (_redacted(one, redactor) for one in cursor.earlier)
    return cursor.replace(sections=sections, journal=tuple(journal), earlier=tuple(earlier))
