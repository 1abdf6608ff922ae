"""A cursor file that is watched: the history of each source that it ever had, from its versions and its journal."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

from spooltop.model.cursors.state import CursorSource, CursorVersion, CursorWrite
from spooltop.model.look.locks import LockHolder
from spooltop.model.vocabulary import Json
from spooltop.patterns import pattern
from spooltop.records import replace

from .history import OFTEN, RING, CursorHistory, Write, key_of

__all__ = ["COMMON_TEMP", "WatchedFile"]

COMMON_TEMP = pattern(r"cursors\.(json\.)?tmp|cursors\.json~")
"""Temporary names that all writers share."""
_TEMP_BY_PID = pattern(r"cursors\.(json\.)?(tmp\.)?[0-9]+(\.tmp)?")
_LEFT_BEHIND = 60.0
_NEAR = 3.0
"""Seconds within which a line of the journal is about a version that was read."""
_SOURCES = 2_000
_OTHERS = 64
"""Other sources that are kept of one write. Where thousands change at once, a full list for each of them is quadratic."""
_STATES = 10
"""Contents of a file that are remembered, each by a hash: a stale copy is not older."""
_OFTEN = 2
"""Number of returns to one value that count as reverts in a file that is otherwise the same as before."""


class WatchedFile:
    """A cursor file over many looks. ``fields`` gives the field of a source's section that holds its cursor, None if it is
    detected; ``room`` is the largest number of writes that may be kept of each source now."""

    def __init__(self, path: str, shared: bool, fields: Callable[[str], str | None], room: Callable[[], int]) -> None:
        self.path = path
        self.shared = shared
        self.sections: Mapping[str, Json] = {}
        """Its content when it last parsed."""
        self.histories: dict[str, CursorHistory] = {}
        self.gone_since: dict[str, float] = {}
        """Sources that it no longer has, and since when."""
        self.away_since: float | None = None
        self.error = ""
        """The reason why it does not parse now."""
        self.good_at: float | None = None
        self.lock_holders: tuple[LockHolder, ...] = ()
        self.lock_there: bool | None = None
        self.journaled = False
        """True once the journal recorded a write."""
        self.left_out = 0
        self.cut: frozenset[str] = frozenset()
        self._field = fields
        self._room = room
        self._previous = 0.0
        self._stamp: Hashable = None
        self.in_file = True
        self.behind: Mapping[str, tuple[int, bool]] = {}
        self._read_at = 0.0
        self._content = 0
        """A hash of its content that changes with each section separately."""
        self._contents: deque[int] = deque(maxlen=_STATES)
        """The hashes of earlier contents."""
        self._unread: deque[tuple[float, int]] = deque(maxlen=RING)
        """(when, how many) writes that were not read."""
        self._temp_files: dict[str, float] = {}
        """Names of temporary files beside it, and since when they have been seen."""

    def add(self, source: CursorSource, now: float, previous: float) -> None:
        """Takes one look at ``now``; ``previous`` is the time of the look before. Never raises for the content of the file."""
        self.lock_holders, self.lock_there, self.in_file = source.lock_holders, source.lock_there, source.in_file
        self.behind = source.behind
        self.away_since = None
        self._note_temp_files(source, now)
        self._previous = previous
        lines = list(source.journal)
        self.journaled = self.journaled or bool(lines)
        own = self._lines_of(source, lines)
        for version in source.earlier:
            self._take(source, version, own, lines, version.read_at)
        if source.sections is None:
            self.error = source.error or "does not parse"
            return
        self.error = ""
        self.left_out, self.cut = source.left_out, source.cut
        stamp = source.stamp
        same = stamp == self._stamp and source.sections == self.sections
        if same and not lines:
            self.good_at = now
            return
        read_at = now if source.read_at is None else max(now, source.read_at)
        last = CursorVersion(read_at, source.mtime, source.sections, source.inode, source.unread, source.writer)
        self._take(source, last, own, lines, read_at, same=same, newest=True)
        self.good_at, self._stamp = now, stamp

    def _note_temp_files(self, source: CursorSource, now: float) -> None:
        seen = self._temp_files
        for name in [name for name in seen if name not in source.temp_files and not COMMON_TEMP.fullmatch(name)]:
            del seen[name]  # it was not left behind, its writer was at work
        for name in source.temp_files:
            if COMMON_TEMP.fullmatch(name) or _TEMP_BY_PID.fullmatch(name):
                seen.setdefault(name, now)

    def unsafe_names(self, now: float) -> tuple[str, ...]:
        """Returns the names beside it that show an unsafe writer: a temporary name that all writers share, once it was seen (it
        exists only briefly), and a name with a pid that was left behind for a minute."""
        seen = self._temp_files.items()
        return tuple(sorted(name for name, since in seen if COMMON_TEMP.fullmatch(name) or now - since >= _LEFT_BEHIND))

    def unread_since(self, since: float) -> int:
        """Counts the writes since ``since`` (epoch seconds) that were not read."""
        return sum(many for at, many in self._unread if at >= since)

    def _lines_of(self, source: CursorSource, lines: list[CursorWrite]) -> list[CursorWrite]:
        """Removes from ``lines``, and returns, those that describe exactly the change of one version, in the order of both."""
        if source.unread is None or self.good_at is None or source.sections is None:
            return []
        found, before, place = [], self.sections, 0
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
        self, source: CursorSource, version: CursorVersion, own: list[CursorWrite], lines: list[CursorWrite],
        now: float, *, same: bool = False, newest: bool = False,
    ) -> None:  # fmt: skip
        """Takes one version of the file.

        ``own`` are journal lines about versions, ``lines`` all others; lines that are used are removed. ``same``: it is the
        version of the previous look; ``newest``: all lines are about it or earlier versions.
        """
        first = self.good_at is None
        at = self._written_at(version.mtime, now, first=first)
        before = self.sections
        noted: set[str] = set()
        unread = version.unread
        if unread is None or first or same:
            noted = self._take_lines(version.sections, lines, now, known=unread is not None and not first)
        elif lines:
            noted = self._take_unread(version, lines)
            unread = max(0, unread - len(noted))
        if same and not noted:
            return
        if unread:
            self._unread.append((now, unread))
        exact = None if version.unread is None else version.unread == 0
        both = {} if first else {**before, **version.sections}
        changed = [name for name in both if _differs(before, version.sections, name)]
        self._note_content(version.sections, changed if not first else list(version.sections))
        steps = {} if first else dict(self._steps(version.sections, changed))
        # what the journal has was written on its own, even where one look found both
        alone = {name for name in noted if name in version.sections and self.histories[name].is_at(version.sections[name])}
        held_by = source.lock_holders if newest else ()
        # a server moves each cursor by itself: that one look found both says nothing
        others = [name for name in changed if name not in alone] if source.in_file else []
        ahead = [name for name in others if steps.get(name, 0) > 0]
        not_back = {name for name in others if steps.get(name, -1) >= 0}
        for name, value in version.sections.items():
            history = self.histories.get(name)
            plain = Write(version.inode, held_by=held_by, writer=version.writer, lock_there=source.lock_there)
            if history is None:
                self.histories[name] = self._history(at, value, plain, name, seen_at=now)
            elif name in noted and history.is_at(value):
                history.value = value  # the journal has this write
            elif (not self.shared and not same) or name in changed or name in noted:
                # in a shared file a write that left this section as it was is as likely another source's
                write = replace(
                    plain, also=_besides(others, name), advanced=_besides(ahead, name), kept=len(not_back) > (name in not_back),
                    exact=exact, repeated=first or self._content in self._contents,
                )  # fmt: skip
                history.write(at, value, self._journaled(write, name, history, value, own))
            self.gone_since.pop(name, None)
        for name in self.histories:
            if name not in version.sections:
                self.gone_since.setdefault(name, at if not first else now)
        self.sections, self._read_at, self.good_at = version.sections, now, now
        self._forget_gone()
        if newest and lines and self._take_lines(version.sections, lines, now, known=True):
            for name, value in version.sections.items():
                if not (history := self.histories[name]).is_at(value):
                    history.write(at, value, Write(version.inode, exact=exact, lock_there=source.lock_there))

    def _history(
        self, at: float, value: Json, write: Write, source: str, *, seen_at: float, before: bool = False
    ) -> CursorHistory:
        return CursorHistory(
            at, value, write, seen_at=seen_at, field=self._field(source), before=before, room=self._room,
            often=_OFTEN if self.shared else OFTEN,
        )  # fmt: skip

    def _forget_gone(self) -> None:
        """Forgets the sources that have been gone longest, if there are too many."""
        too_many = len(self.histories) - _SOURCES
        if too_many > 0:
            for gone in sorted(self.gone_since, key=self.gone_since.__getitem__)[:too_many]:
                del self.histories[gone], self.gone_since[gone]

    def _note_content(self, sections: Mapping[str, Json], changed: Sequence[str]) -> None:
        self._contents.append(self._content)
        for name in changed:
            for held in (self.sections, sections):
                if name in held:
                    self._content ^= hash((name, key_of(held[name], self._field(name))))

    def _take_lines(
        self, sections: Mapping[str, Json], lines: list[CursorWrite], now: float, *, known: bool
    ) -> set[str]:
        """Takes all lines of the journal, including those from before the first look, and returns their sources. ``known``: each
        write of the file was noticed."""
        found = set()
        for one in lines:
            history = self.histories.get(one.source)
            if history is None and one.source in sections:
                began = min(one.at, now)
                value = one.new if one.old is None else one.old  # None: there was nothing before
                history = self._history(began, value, Write(), one.source, seen_at=began, before=one.old is not None)
                self.histories[one.source] = history
            if history is not None:
                history.add_journaled(one, now, known=known)
                found.add(one.source)
        lines.clear()
        return found

    def _take_unread(self, version: CursorVersion, lines: list[CursorWrite]) -> set[str]:
        """Takes from ``lines`` those about writes before this version that were not read, and those that changed nothing. Returns
        the sources of the former."""
        found: set[str] = set()
        for one in list(lines):
            history = self.histories.get(one.source)
            if history is None or one.at > version.read_at + _NEAR or not history.is_at(one.old):
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

    def _written_at(self, mtime: float, now: float, *, first: bool) -> float:
        """Returns the file's own time of writing if it is plausible, else when it was seen."""
        earliest = 0.0 if first else min(self._previous, self._read_at) - 1.0
        return mtime if earliest < mtime <= now else now

    def _steps(self, after: Mapping[str, Json], changed: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yields (source, 1 forward, 0 unchanged, -1 back) for changed sources that still exist."""
        for name in changed:
            history = self.histories.get(name)
            if history is not None and name in after:
                yield name, history.direction_to(after[name])


def _besides(names: Sequence[str], name: str) -> tuple[str, ...]:
    """The first ``_OTHERS`` of ``names`` without ``name``."""
    return tuple(itertools.islice((other for other in names if other != name), _OTHERS))


def _is_of(one: CursorWrite, history: CursorHistory, value: Json) -> bool:
    """True if the line describes the write that brings the source from its current value to ``value``."""
    return history.is_at(one.old) and history.key(one.new) == history.key(value)


def _differs(before: Mapping[str, Json], after: Mapping[str, Json], name: str) -> bool:
    if (name in before) != (name in after):
        return True
    return before.get(name) != after.get(name) and repr(before.get(name)) != repr(after.get(name))  # NaN is as it was
