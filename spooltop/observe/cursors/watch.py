"""Watches cursor files over time: which sources moved, were reverted, or vanished.

Memory is bounded whatever the files hold: 2,000 sources, and 12,000 writes of all of them together.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from spooltop.model.cursors import Cursor, CursorSource, CursorVersion, CursorWrite, Poll
from spooltop.model.look.locks import LockHolder
from spooltop.model.text import escape
from spooltop.model.units import age
from spooltop.model.vocabulary import Json

from .history import OFTEN, RING, CursorHistory, Write, judge, key_of, on_a_server, recent_of, suspected_writers, writers_of
from .polls import PollHistory

# A cursor file that is watched: the history of each source that it ever had, from its versions and its journal.

COMMON_TEMP = re.compile(r"cursors\.(json\.)?tmp|cursors\.json~")
"""Temporary names that all writers share."""
_TEMP_BY_PID = re.compile(r"cursors\.(json\.)?(tmp\.)?[0-9]+(\.tmp)?")
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
        """Returns ``write`` with its writer if one of the lines describes it: from the current value to ``value``."""
        key = history.key(value)
        ours = (one for one in lines if one.source == source and history.is_at(one.old) and history.key(one.new) == key)
        one = next(ours, None)
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


def _differs(before: Mapping[str, Json], after: Mapping[str, Json], name: str) -> bool:
    if (name in before) != (name in after):
        return True
    return before.get(name) != after.get(name) and repr(before.get(name)) != repr(after.get(name))  # NaN is as it was


_WRITES = 12_000


class CursorWatch:
    """Derives a ``Cursor`` for every source from the cursor files of each look. A source that vanishes is kept."""

    def __init__(self, window: float, fields: Mapping[str, str] | None = None) -> None:
        """Counts lost updates over ``window`` seconds. ``fields``: source → the field that holds its cursor; "*" for all."""
        self.window = window
        self._fields = fields or {}
        self._files: dict[str, WatchedFile] = {}
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
            if source.path not in self._files:
                self._files[source.path] = WatchedFile(source.path, source.shared, self._field, self._room)
            self._files[source.path].add(source, now, self._looked_at)
        for path, file in self._files.items():
            if path not in there and file.away_since is None:
                file.away_since = now
        self._looked_at = now
        return tuple(cursor for file in self._files.values() for cursor in self._cursors(file, now))

    def _room(self) -> int:
        """Most writes that may be kept of each source."""
        return max(6, min(RING, _WRITES // max(1, sum(len(file.histories) for file in self._files.values()))))

    @property
    def unsafe(self) -> Mapping[str, tuple[str, ...]]:
        """Cursor file → names beside it that show an unsafe writer."""
        names = {path: file.unsafe_names(self._looked_at) for path, file in self._files.items()}
        return {path: unsafe for path, unsafe in names.items() if unsafe}

    @property
    def errors(self) -> Mapping[str, tuple[str, int]]:
        """Files that do not parse now: path → (reason, number of sources that they had)."""
        return {file.path: (file.error, len(file.histories)) for file in self._files.values() if file.error}

    def history(self, path: str, source: str) -> CursorHistory | None:
        """Returns the history of a source in a file, None if it has none."""
        file = self._files.get(path)
        return file.histories.get(source) if file else None

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
        history = self.history(path, source)
        return len(history.changes) if history else 0

    def _cursors(self, file: WatchedFile, now: float) -> Iterator[Cursor]:
        if file.error and not file.histories:
            name = os.path.basename(file.path)
            yield Cursor(
                source=name if file.shared else name.removesuffix(".json"), value=None, shown="?", verdict="unreadable",
                evidence=escape(file.error), file=file.path, shared=file.shared, lock_holders=file.lock_holders,
            )  # fmt: skip
        since = now - self.window
        unread = file.unread_since(since)
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
            writes = sum(1 for at in history.writes if at >= since)
            behind, exact = file.behind.get(source, (None, True))
            if not file.in_file:
                verdict, evidence = on_a_server(verdict, evidence, behind, exact=exact)
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
                history=tuple(replace(one, lost=True) if one.back and one.at in times else one for one in history.ring),
                lock_holders=file.lock_holders,
                suspects=suspected_writers(recent_losses),
                reverted_by=writers_of(recent_losses),
                in_file=file.in_file,
                behind=behind,
                behind_is_bound=not exact,
                unsafe=tuple(self._unsafe_words(file, history)),
                polls=polls.newest_first,
                same_start=polls.same_start,
                cut=source in file.cut,
            )

    def _unsafe_words(self, file: WatchedFile, history: CursorHistory) -> Iterator[str]:
        shared = file.shared and len(file.histories) > 1
        writes = list(itertools.islice(history.ring, len(history.writes))) if shared else []
        if writes and (bare := sum(write.lock_there is False for write in writes)):
            yield f"{bare} of {len(writes)} writes without the lock: there is no .cursors.lock"
        elif shared and file.lock_there is False:
            yield "nobody locks by .cursors.lock: it is not there"
        elif file.journaled and (bypassed := sum(not write.journaled for write in writes)):
            yield f"{bypassed} of {len(writes)} writes not in .cursors.journal"
        for name in file.unsafe_names(self._looked_at):
            yield f"{'common temp ' if COMMON_TEMP.fullmatch(name) else 'left behind '}{escape(name)} seen"

    def _field(self, source: str) -> str | None:
        return self._fields.get(source, self._fields.get("*"))

    def _verdict(
        self, file: WatchedFile, source: str, history: CursorHistory, now: float, *, at_least: bool
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
        return judge(history, now, shared=file.shared, window=self.window, at_least=at_least)
