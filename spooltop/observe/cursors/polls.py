"""Reads a poller's own log: how many messages were new, from which cursor to which. Pure.

Lines look like ``poll ok: 4 new (cursor 89632 -> 89636)`` and ``poll ok: 0 new (cursor=89636)``; a setting gives another form.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from spooltop.engine.system.files import open_regular
from spooltop.errors import UsageError
from spooltop.model.cursors import Poll
from spooltop.model.look.observation import Observation
from spooltop.model.text import escape
from spooltop.model.units import age, interval

from .history import ASK_FOR_LOGS, undecided

POLL_LINE = r"poll ok: (?P<new>\d+) new \(cursor(?: |=)(?P<start>.+?)(?: -> (?P<end>.+?))?\)"
_DATE = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?\s?(Z|[+-]\d\d:?\d\d)?")
_KEPT = 50
_PROVEN = ("reverted", "rewound", "missing", "unreadable")
_NEAR = 3.0
"""Seconds within which a line of the log and an observed write are the same write."""
_STALE = 3
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
        raise UsageError(f"the pattern of poll lines does not compile: {error}", advice=f"the usual one is {POLL_LINE}") from None
    if not {"new", "start"} <= set(found.groupindex):
        raise UsageError("the pattern of poll lines wants the groups new and start", advice=f"the usual one is {POLL_LINE}")
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
    found = _DATE.match(line)
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
        starts = [one.start for one in itertools.islice(reversed(self._polls), _STALE) if one.new]
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
        every = self._every
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

    @property
    def _every(self) -> float | None:
        gaps = sorted(later.at - earlier.at for earlier, later in itertools.pairwise(self._polls) if later.at > earlier.at)
        return gaps[len(gaps) // 2] if len(gaps) >= 2 else None


# The logs of pollers, found by the globs that the user gives and read from the end of the look before.

TAIL = 64 << 10
"""Bytes from the end of a log that the first look reads; no later look reads more than 16 times as much."""
_FILES_AT_MOST = 64


class LogGlob(Struct, frozen=True):
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
    """New lines of log files. A file that was rotated away or truncated is read from its start."""

    def __init__(self, globs: Sequence[LogGlob]) -> None:
        self._globs = tuple(globs)
        self._read: dict[str, tuple[int, int]] = {}

    def look(self) -> list[tuple[str | None, str, float, list[str]]]:
        """The logs with new lines, each as (source or None, file name, last write in epoch seconds, its new whole lines)."""
        found = []
        for one in self._globs:
            for path in sorted(glob.glob(one.pattern))[:_FILES_AT_MOST]:  # noqa: PTH207  Path.glob takes no absolute ones
                tail = self._tail(path)
                if tail is not None:
                    found.append((one.source, os.path.basename(path), *tail))
        return found

    def _tail(self, path: str) -> tuple[float, list[str]] | None:
        try:
            fd, status = open_regular(path, follow=True)
        except OSError:
            return None  # gone since it was listed, closed to us, or no plain file
        try:
            inode, offset = self._read.get(path, (0, 0))
            first = path not in self._read
            if inode != status.st_ino or offset > status.st_size:
                offset = max(0, status.st_size - TAIL) if first else 0
            data = os.pread(fd, 16 * TAIL, offset)
        except OSError:
            return None
        finally:
            os.close(fd)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == 16 * TAIL:
            whole = len(data)  # a line without an end is none of a poller
        self._read[path] = (status.st_ino, offset + whole)
        lines = data[:whole].decode("utf-8", "surrogateescape").split("\n")[:-1]
        if first and offset:
            del lines[:1]  # cut off at its begin
        return (status.st_mtime, lines) if lines else None


def poll_reader(globs: Sequence[str], settings: Mapping[str, str]) -> Callable[[Observation], tuple[Poll, ...]]:
    """Returns a function that reads the poll logs at each look. Raises ``UsageError`` for an invalid pattern."""
    logs = PollLogs([LogGlob.parse(one) for one in globs])
    pattern = poll_pattern(settings.get("SPOOLTOP_POLL_LINE") or POLL_LINE)

    def read(observation: Observation) -> tuple[Poll, ...]:
        sources = [name for one in observation.cursors for name in one.sections or {}]
        found = []
        for named, file, written_at, lines in logs.look():
            source = named if named is not None else source_of(file, sources)
            at = min(written_at, observation.taken_at)
            polls = (parse_poll(source, line, at, pattern) for line in lines if source is not None)
            found += [poll for poll in polls if poll is not None]
        return tuple(found)

    return read
