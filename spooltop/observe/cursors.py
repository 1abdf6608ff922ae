"""Watches cursor files over time: which sources moved, were reverted, or vanished.

Memory is bounded whatever the files hold: 2,000 sources, and 12,000 writes of all of them together.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from spooltop.model.observation import CursorSection, CursorSource, CursorVersion, CursorWrite, LockHolder, Poll
from spooltop.model.vocabulary import Json

from ..model.snapshot import Cursor
from ..model.text import escape
from ..model.units import age
from .cursor_history import OFTEN, RING, Change, CursorHistory, Write, key_of
from .cursor_verdict import judge, suspected_writers, writers_of
from .polls import PollHistory

__all__ = ["CursorWatch"]

_COMMON = re.compile(r"cursors\.(json\.)?tmp|cursors\.json~")
_BY_PID = re.compile(r"cursors\.(json\.)?(tmp\.)?[0-9]+(\.tmp)?")
_LEFT_BEHIND = 60.0
_NEAR = 3.0
"""Seconds within which a line of the journal is about a version that was read."""
_SOURCES = 2_000
_WRITES = 12_000
_OTHERS = 64
"""Other sources that are kept of one write. Where thousands change at once, a full list for each of them is quadratic."""
_STATES = 10
"""Contents of a file that are remembered, each by a hash: a stale copy is not older."""
_OFTEN = 2
"""Number of returns to one value that count as reverts in a file that is otherwise the same as before."""


@dataclass(slots=True)
class _File:
    """A cursor file: its content when it last parsed, and the history of each source that it ever had."""

    path: str
    shared: bool
    stamp: tuple[int, float, int] | None = None
    sections: Mapping[str, Json] = field(default_factory=dict)
    histories: dict[str, CursorHistory] = field(default_factory=dict)
    gone_since: dict[str, float] = field(default_factory=dict)
    error: str = ""
    error_since: float = 0.0
    good_at: float | None = None
    away_since: float | None = None
    lock_holders: tuple[LockHolder, ...] = ()
    lock_there: bool | None = None
    journaled: bool = False
    """True once the journal recorded a write."""
    read_at: float = 0.0
    content: int = 0
    """A hash of its content that changes with each section separately."""
    contents: deque[int] = field(default_factory=lambda: deque(maxlen=_STATES))
    """The hashes of earlier contents."""
    unread: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RING))
    """(when, how many) writes that were not read."""
    left_out: int = 0
    cut: frozenset[str] = frozenset()

    def is_repeated(self) -> bool:
        """True if it has a content that it had before."""
        return self.content in self.contents


class CursorWatch:
    """Derives a ``Cursor`` for every source from the cursor files of each look. A source that vanishes is kept."""

    def __init__(self, window: float, fields: Mapping[str, str] | None = None) -> None:
        """Counts lost updates over ``window`` seconds. ``fields``: source → the field that holds its cursor; "*" for all."""
        self._window = window
        self._fields = fields or {}
        self._files: dict[str, _File] = {}
        self._temp_files: dict[str, dict[str, float]] = {}
        self._polls: dict[str, PollHistory] = {}
        self._looked_at = 0.0

    def add(
        self, sources: Sequence[CursorSource], now: float, polls: Sequence[Poll], arrived: Mapping[str, int]
    ) -> tuple[Cursor, ...]:
        """Takes one look at ``now`` (epoch seconds); ``arrived``: source → messages that came into ``new`` since the previous
        look. Never raises for the content of a file or a log."""
        for poll in polls:
            self._polls.setdefault(poll.source, PollHistory()).add(poll)
        for file in self._files.values():
            for name, history in file.histories.items():
                history.arrived(arrived.get(name, 0))
        there = set()
        for source in sources:
            there.add(source.path)
            file = self._files.setdefault(source.path, _File(source.path, source.shared))
            file.lock_holders, file.lock_there = source.lock_holders, source.lock_there
            file.away_since = None
            self._note_temp_files(source, now)
            self._read(file, source, now)
        for path, file in self._files.items():
            if path not in there and file.away_since is None:
                file.away_since = now
        self._looked_at = now
        return tuple(cursor for file in self._files.values() for cursor in self._cursors(file, now))

    def _note_temp_files(self, source: CursorSource, now: float) -> None:
        seen = self._temp_files.setdefault(source.path, {})
        for name in [name for name in seen if name not in source.temp_files and not _COMMON.fullmatch(name)]:
            del seen[name]  # it was not left behind, its writer was at work
        for name in source.temp_files:
            if _COMMON.fullmatch(name) or _BY_PID.fullmatch(name):
                seen.setdefault(name, now)

    @property
    def unsafe(self) -> Mapping[str, tuple[str, ...]]:
        """Cursor file → names beside it that show an unsafe writer: a temporary name that all writers share, once it was seen (it
        exists only briefly), and a name with a pid that was left behind for a minute."""
        found = {
            path: tuple(
                sorted(name for name, since in seen.items() if _COMMON.fullmatch(name) or self._looked_at - since >= _LEFT_BEHIND)
            )
            for path, seen in self._temp_files.items()
        }
        return {path: names for path, names in found.items() if names}

    @property
    def errors(self) -> Mapping[str, tuple[str, int]]:
        """Files that do not parse now: path → (reason, number of sources that they had)."""
        return {file.path: (file.error, len(file.histories)) for file in self._files.values() if file.error}

    def lost_updates(self, path: str, source: str, now: float) -> tuple[CursorHistory, list[Change]] | None:
        """Returns the lost updates of a source in a file, oldest first, with its history."""
        file = self._files.get(path)
        history = file.histories.get(source) if file else None
        return None if history is None else (history, history.lost_updates(now))

    @property
    def left_out(self) -> Mapping[str, int]:
        """Cursor file → number of sources in it that are not watched, because they are too many or their names too long."""
        return {file.path: file.left_out for file in self._files.values() if file.left_out}

    def highest(self, source: Json, file: Json) -> Json:
        """Returns the high-water mark of ``source`` in ``file`` (None: in the first that has it), None if it was never seen."""
        for path, known in list(self._files.items()):
            history = known.histories.get(source) if isinstance(source, str) else None
            if history is not None and file in (None, path):
                return history.top
        return None

    def moves(self, path: str, source: str) -> int:
        """Counts the changes of the source's value that were seen."""
        file = self._files.get(path)
        history = file.histories.get(source) if file else None
        return len(history.changes) if history else 0

    def _read(self, file: _File, source: CursorSource, now: float) -> None:
        lines = list(source.journal)
        file.journaled = file.journaled or bool(lines)
        own = self._lines_of(file, source, lines)
        for version in source.earlier:
            self._take(file, source, version, own, lines, version.read_at)
        if source.sections is None:
            if not file.error:
                file.error_since = now
            file.error = source.error or "does not parse"
            return
        file.error = ""
        file.left_out, file.cut = source.left_out, source.cut
        stamp = (source.inode, source.mtime, source.size)
        same = stamp == file.stamp and source.sections == file.sections
        if same and not lines:
            file.good_at = now
            return
        read_at = now if source.read_at is None else max(now, source.read_at)
        last = CursorVersion(read_at, source.mtime, source.sections, source.inode, source.unread, source.writer)
        self._take(file, source, last, own, lines, read_at, same=same, newest=True)
        file.good_at, file.stamp = now, stamp

    def _lines_of(self, file: _File, source: CursorSource, lines: list[CursorWrite]) -> list[CursorWrite]:
        """Removes from ``lines``, and returns, those that describe exactly the change of one version, in the order of both."""
        if source.unread is None or file.good_at is None or source.sections is None:
            return []
        found, before, place = [], file.sections, 0
        for after in (*(version.sections for version in source.earlier), source.sections):
            for turn in range(place, len(lines)):
                one = lines[turn]
                key = partial(key_of, field=self._field(one.source))
                if (
                    one.source in before and one.source in after and key(before[one.source]) == key(one.old) != key(one.new)
                    and key(after[one.source]) == key(one.new)
                ):  # fmt: skip
                    found.append(one)
                    place = turn + 1
                    break
            before = after
        for one in found:
            lines.remove(one)
        return found

    def _take(
        self, file: _File, source: CursorSource, version: CursorVersion, own: list[CursorWrite], lines: list[CursorWrite],
        now: float, *, same: bool = False, newest: bool = False,
    ) -> None:  # fmt: skip
        """Takes one version of the file.

        ``own`` are journal lines about versions, ``lines`` all others; lines that are used are removed. ``same``: it is the
        version of the previous look; ``newest``: all lines are about it or earlier versions.
        """
        first = file.good_at is None
        at = self._written_at(file, version.mtime, now, first=first)
        before = file.sections
        told: set[str] = set()
        unread = version.unread
        if unread is None or first or same:
            told = self._take_lines(file, version.sections, lines, now, known=unread is not None and not first)
        elif lines:
            told = self._take_unread(file, version, lines)
            unread = max(0, unread - len(told))
        if same and not told:
            return
        if unread:
            file.unread.append((now, unread))
        exact = None if version.unread is None else version.unread == 0
        both = {} if first else {**before, **version.sections}
        changed = [name for name in both if _differs(before, version.sections, name)]
        self._note_content(file, version.sections, changed if not first else list(version.sections))
        steps = {} if first else dict(_steps(file, version.sections, changed))
        # what the journal tells of stood in a write of its own, even where one look found both
        alone = {name for name in told if name in version.sections and _is_current(file, name, version.sections[name])}
        held_by = source.lock_holders if newest else ()
        others = [name for name in changed if name not in alone]
        ahead = [name for name in others if steps.get(name, 0) > 0]
        not_back = {name for name in others if steps.get(name, -1) >= 0}
        for name, value in version.sections.items():
            history = file.histories.get(name)
            plain = Write(version.inode, held_by=held_by, writer=version.writer, lock_there=source.lock_there)
            if history is None:
                file.histories[name] = self._history(file, at, value, plain, name, seen_at=now)
            elif name in told and history.key(history.value) == history.key(value):
                history.value = value  # the journal told of this write
            elif (not file.shared and not same) or name in changed or name in told:
                # in a shared file a write that left this section as it was is as likely another source's
                write = replace(
                    plain, also=_besides(others, name), advanced=_besides(ahead, name), kept=len(not_back) > (name in not_back),
                    exact=exact, repeated=first or file.is_repeated(),
                )  # fmt: skip
                history.write(at, value, self._journaled(write, name, history, value, own))
            file.gone_since.pop(name, None)
        for name in file.histories:
            if name not in version.sections:
                file.gone_since.setdefault(name, at if not first else now)
        file.sections, file.read_at, file.good_at = version.sections, now, now
        self._forget_gone(file)
        if newest and lines and self._take_lines(file, version.sections, lines, now, known=True):
            for name, value in version.sections.items():
                history = file.histories[name]
                if history.key(history.value) != history.key(value):
                    history.write(at, value, Write(version.inode, exact=exact, lock_there=source.lock_there))

    def _history(
        self, file: _File, at: float, value: Json, write: Write, source: str, *, seen_at: float, before: bool = False
    ) -> CursorHistory:
        return CursorHistory(
            at, value, write, seen_at=seen_at, field=self._field(source), before=before, room=self._room,
            often=_OFTEN if file.shared else OFTEN,
        )  # fmt: skip

    def _room(self) -> int:
        """Most writes that may be kept of each source."""
        return max(6, min(RING, _WRITES // max(1, sum(len(file.histories) for file in self._files.values()))))

    def _forget_gone(self, file: _File) -> None:
        """Forgets the sources that have been gone longest, if there are too many."""
        while len(file.histories) > _SOURCES and file.gone_since:
            gone = min(file.gone_since, key=lambda name: file.gone_since[name])
            del file.histories[gone], file.gone_since[gone]

    def _note_content(self, file: _File, sections: Mapping[str, Json], changed: Sequence[str]) -> None:
        file.contents.append(file.content)
        for name in changed:
            for held in (file.sections, sections):
                if name in held:
                    file.content ^= hash((name, key_of(held[name], self._field(name))))

    def _take_lines(
        self, file: _File, sections: Mapping[str, Json], lines: list[CursorWrite], now: float, *, known: bool
    ) -> set[str]:
        """Takes all lines of the journal, including those from before the first look, and returns their sources. ``known``: each
        write of the file was noticed."""
        found = set()
        for one in lines:
            history = file.histories.get(one.source)
            if history is None and one.source in sections:
                began = min(one.at, now)
                value = one.new if one.old is None else one.old  # None: there was nothing before
                history = self._history(file, began, value, Write(), one.source, seen_at=began, before=one.old is not None)
                file.histories[one.source] = history
            if history is not None:
                history.add_journaled(one, now, known=known)
                found.add(one.source)
        lines.clear()
        return found

    def _take_unread(self, file: _File, version: CursorVersion, lines: list[CursorWrite]) -> set[str]:
        """Takes from ``lines`` those about writes before this version that were not read, and those that changed nothing. Returns
        the sources of the former."""
        found: set[str] = set()
        for one in list(lines):
            history = file.histories.get(one.source)
            if history is None or one.at > version.read_at + _NEAR or history.key(one.old) != history.key(history.value):
                continue
            changed_nothing = history.key(one.old) == history.key(one.new)
            missed = len(found) < (version.unread or 0)
            if changed_nothing or missed:
                lines.remove(one)
                history.add_journaled(one, version.read_at, known=True)
                found |= set() if changed_nothing else {one.source}
        return found

    def _journaled(self, write: Write, source: str, history: CursorHistory, value: Json, lines: list[CursorWrite]) -> Write:
        """Returns ``write`` with its writer if one of the lines describes it."""
        one = next((one for one in lines if one.source == source and _is_of(one, history, value)), None)
        if one is None:
            return write
        lines.remove(one)
        history.journal_writes.append(one.at)
        return replace(
            write, also=(), advanced=(), kept=False, journaled=True, writer=one.writer, held_by=write.held_by or (one.writer,)
        )

    def _written_at(self, file: _File, mtime: float, now: float, *, first: bool) -> float:
        """Returns the file's own time of writing if it is plausible, else when it was seen."""
        earliest = 0.0 if first else min(self._looked_at, file.read_at) - 1.0
        return mtime if earliest < mtime <= now else now

    def _cursors(self, file: _File, now: float) -> Iterator[Cursor]:
        if file.error and not file.histories:
            name = os.path.basename(file.path)
            yield Cursor(
                source=name if file.shared else name.removesuffix(".json"), value=None, shown="?", verdict="unreadable",
                evidence=escape(file.error), file=file.path, shared=file.shared, lock_holders=file.lock_holders,
            )  # fmt: skip
        since = now - self._window
        unread = sum(many for at, many in file.unread if at >= since)
        for source, history in file.histories.items():
            polls = self._polls.get(source) or PollHistory()
            by_log = polls.unexplained(history.steps_back)
            verdict, evidence, recent = self._verdict(file, source, history, now, at_least=bool(unread or by_log))
            shown = history.shown(history.value)
            before = verdict
            verdict, evidence = polls.judge(
                verdict, evidence, shown, history.moved_at, now, unexplained=by_log, window=self._window
            )
            if verdict == "reverted" != before:
                recent = by_log
            lost = history.lost_updates(now)
            writes = sum(1 for at in history.writes if at >= since)
            yield Cursor(
                source=source,
                value=file.sections.get(source, history.value),
                shown=shown,
                field=history.field,
                verdict=verdict,
                evidence=evidence,
                file=file.path,
                shared=file.shared,
                moved_at=history.moved_at,
                moved_is_bound=history.moved_is_bound,
                every=history.every,
                writes=writes if writes or not file.shared else None,
                writes_unread=unread,
                reverts=history.reverts + by_log,
                reverts_recent=recent,
                reverts_is_bound=bool(unread or by_log),
                history=_with_losses(history, lost),
                lock_holders=file.lock_holders,
                suspects=suspected_writers(lost, now, window=self._window),
                reverted_by=writers_of(lost, now, window=self._window),
                unsafe=tuple(self._unsafe_words(file, history)),
                polls=polls.newest_first,
                same_start=polls.same_start,
                cut=source in file.cut,
            )

    def _unsafe_words(self, file: _File, history: CursorHistory) -> Iterator[str]:
        shared = file.shared and len(file.histories) > 1
        writes = list(itertools.islice(history.ring, len(history.writes))) if shared else []
        if writes and (bare := sum(write.lock_there is False for write in writes)):
            yield f"{bare} of {len(writes)} writes without the lock: there is no .cursors.lock"
        elif shared and file.lock_there is False:
            yield "nobody locks by .cursors.lock: it is not there"
        elif file.journaled and (strange := sum(not write.journaled for write in writes)):
            yield f"{strange} of {len(writes)} writes not in .cursors.journal"
        for name in self.unsafe.get(file.path, ()):
            yield f"{'common temp ' if _COMMON.fullmatch(name) else 'left behind '}{escape(name)} seen"

    def _field(self, source: str) -> str | None:
        return self._fields.get(source, self._fields.get("*"))

    def _verdict(
        self, file: _File, source: str, history: CursorHistory, now: float, *, at_least: bool
    ) -> tuple[str, str, int]:
        name = escape(os.path.basename(file.path))
        if file.away_since is not None:
            return "missing", f"{name} is gone for {age(now - file.away_since)}; last {history.shown(history.value)}", 0
        if file.error:
            good = f"; the value is of {age(now - file.good_at)} ago" if file.good_at is not None else ""
            return "unreadable", f"{name}: {escape(file.error)}{good}", 0
        if source in file.gone_since:
            gone = age(now - file.gone_since[source])
            return "missing", f"not in {name} for {gone}; last {history.shown(history.value)}", 0
        return judge(history, now, shared=file.shared, window=self._window, at_least=at_least)


def _besides(names: Sequence[str], name: str) -> tuple[str, ...]:
    """The first ``_OTHERS`` of ``names`` without ``name``."""
    return tuple(itertools.islice((other for other in names if other != name), _OTHERS))


def _is_current(file: _File, name: str, value: Json) -> bool:
    history = file.histories[name]
    return history.key(history.value) == history.key(value)


def _is_of(one: CursorWrite, history: CursorHistory, value: Json) -> bool:
    """True if the line describes the write that brings the source from its current value to ``value``."""
    return history.key(one.old) == history.key(history.value) and history.key(one.new) == history.key(value)


def _with_losses(history: CursorHistory, lost: Sequence[Change]) -> tuple[CursorSection, ...]:
    times = {change.at for change in lost}
    return tuple(replace(write, lost=True) if write.back and write.at in times else write for write in history.ring)


def _differs(before: Mapping[str, Json], after: Mapping[str, Json], name: str) -> bool:
    if (name in before) != (name in after):
        return True
    return before.get(name) != after.get(name) and repr(before.get(name)) != repr(after.get(name))  # NaN is as it was


def _steps(file: _File, after: Mapping[str, Json], changed: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yields (source, 1 forward, 0 unchanged, -1 back) for changed sources that still exist."""
    for name in changed:
        history = file.histories.get(name)
        if history is not None and name in after:
            yield name, history.direction_to(after[name])
