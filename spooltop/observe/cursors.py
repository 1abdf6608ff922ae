"""Cursor files over time: who moved, who was put back, who vanished."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..model.sight import CursorSection, CursorSource, LockParty, Poll
from ..model.snapshot import Cursor
from ..model.text import escape
from ..model.units import age
from ..model.words import Json
from .cursor_history import Change, CursorHistory
from .cursor_verdict import judge, suspects_of, writers_of
from .polls import PollHistory

__all__ = ["CursorWatch"]

_COMMON = re.compile(r"cursors\.(json\.)?tmp|cursors\.json~")
_BY_PID = re.compile(r"cursors\.(json\.)?(tmp\.)?[0-9]+(\.tmp)?")
_LEFT_BEHIND = 60.0


@dataclass(slots=True)
class _File:
    """One cursor file: what it held when it last parsed, and the history of each source that it ever had."""

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
    lock_holders: tuple[LockParty, ...] = ()
    lock_there: bool | None = None
    journaled: bool = False
    """True once the journal told of a write."""


class CursorWatch:
    """Takes the cursor files of each look and says what became of every source. A source that vanishes stays."""

    def __init__(self, window: float, fields: Mapping[str, str] | None = None) -> None:
        """Put-backs are counted over ``window`` seconds. ``fields``: source → the field that holds its cursor; "*" for all."""
        self._window = window
        self._fields = fields or {}
        self._files: dict[str, _File] = {}
        self._litter: dict[str, dict[str, float]] = {}
        self._polls: dict[str, PollHistory] = {}
        self._looked_at = 0.0

    def add(
        self, sources: Sequence[CursorSource], now: float, polls: Sequence[Poll] = (), arrived: Mapping[str, int] | None = None
    ) -> tuple[Cursor, ...]:
        """One look at ``now`` (epoch seconds); ``arrived``: source → messages that came into ``new`` since the look before. Never
        raises for what a file or a log holds."""
        for poll in polls:
            self._polls.setdefault(poll.source, PollHistory()).add(poll)
        for file in self._files.values():
            for name, history in file.histories.items():
                history.arrived((arrived or {}).get(name, 0))
        there = set()
        for source in sources:
            there.add(source.path)
            file = self._files.setdefault(source.path, _File(source.path, source.shared))
            file.lock_holders, file.lock_there = source.lock_holders, source.lock_there
            file.away_since = None
            self._note_litter(source, now)
            self._read(file, source, now)
        for path, file in self._files.items():
            if path not in there and file.away_since is None:
                file.away_since = now
        self._looked_at = now
        return tuple(cursor for file in self._files.values() for cursor in self._cursors(file, now))

    def _note_litter(self, source: CursorSource, now: float) -> None:
        seen = self._litter.setdefault(source.path, {})
        for name in [name for name in seen if name not in source.litter and not _COMMON.fullmatch(name)]:
            del seen[name]  # it was not left behind, its writer was at work
        for name in source.litter:
            if _COMMON.fullmatch(name) or _BY_PID.fullmatch(name):
                seen.setdefault(name, now)

    @property
    def unsafe(self) -> Mapping[str, tuple[str, ...]]:
        """Cursor file → names beside it that tell of an unsafe writer: a temporary name that all writers share, once it was seen
        (it stands for a moment only), and one made of a pid that was left behind for a minute."""
        found = {
            path: tuple(
                sorted(name for name, since in seen.items() if _COMMON.fullmatch(name) or self._looked_at - since >= _LEFT_BEHIND)
            )
            for path, seen in self._litter.items()
        }
        return {path: names for path, names in found.items() if names}

    @property
    def errors(self) -> Mapping[str, tuple[str, int]]:
        """Files that do not parse now: path → (why, how many sources they had)."""
        return {file.path: (file.error, len(file.histories)) for file in self._files.values() if file.error}

    def put_backs(self, path: str, source: str, now: float) -> tuple[CursorHistory, list[Change]] | None:
        """The put-backs of a source in a file, oldest first, with its history."""
        file = self._files.get(path)
        history = file.histories.get(source) if file else None
        return None if history is None else (history, history.put_backs(now))

    def highest(self, source: Json, file: Json) -> Json:
        """The high-water mark of ``source`` in ``file`` (None: in the first that has it), None where it was never seen."""
        for path, known in list(self._files.items()):
            history = known.histories.get(source) if isinstance(source, str) else None
            if history is not None and file in (None, path):
                return history.top
        return None

    def moves(self, path: str, source: str) -> int:
        """How many changes of the source's value were seen."""
        file = self._files.get(path)
        history = file.histories.get(source) if file else None
        return len(history.changes) if history else 0

    def _read(self, file: _File, source: CursorSource, now: float) -> None:
        if source.sections is None:
            if not file.error:
                file.error_since = now
            file.error = source.error or "does not parse"
            return
        file.error = ""
        stamp = (source.inode, source.mtime, source.size)
        first = file.good_at is None
        file.good_at = now
        same = stamp == file.stamp and source.sections == file.sections
        if same and not source.journal:
            return
        at = self._written_at(source.mtime, now, first=first)
        before = file.sections
        told = self._take_journal(file, source, now)
        if same and not told:
            return
        both = {} if first else {**before, **source.sections}
        changed = [name for name in both if _differs(before, source.sections, name)]
        advanced = [] if first else list(_advanced(file, source.sections, changed))
        # what the journal tells of stood in a write of its own, even where one look found both
        alone = {name for name in told if name in source.sections and _stands(file, name, source.sections[name])}
        for name, value in source.sections.items():
            history = file.histories.get(name)
            if history is None:
                file.histories[name] = CursorHistory(
                    at, value, source.inode, source.lock_holders, seen_at=now, field=self._field(name), writer=source.writer,
                    lock_there=source.lock_there,
                )  # fmt: skip
            elif name in told and history.key(history.value) == history.key(value):
                history.value = value  # the journal told of this write
            elif (not file.shared and not same) or name in changed or name in told:
                # in a shared file a write that left this section as it was is as likely another source's
                also = tuple(other for other in changed if other != name and other not in alone)
                history.write(
                    at, value, source.inode, also, tuple(other for other in advanced if other in also), source.lock_holders,
                    source.writer, lock_there=source.lock_there,
                )  # fmt: skip
            file.gone_since.pop(name, None)
        for name in file.histories:
            if name not in source.sections:
                file.gone_since.setdefault(name, at if not first else now)
        file.stamp, file.sections = stamp, source.sections

    def _take_journal(self, file: _File, source: CursorSource, now: float) -> frozenset[str]:
        """What the journal tells of writes, also of before the first look; the sources it is about."""
        file.journaled = file.journaled or bool(source.journal)
        for one in source.journal:
            history = file.histories.get(one.source)
            if history is None and one.source in (source.sections or {}):
                began = min(one.at, now)
                value = one.new if one.old is None else one.old  # None: there was nothing before
                field = self._field(one.source)
                history = file.histories[one.source] = CursorHistory(
                    began, value, 0, (), seen_at=began, field=field, before=one.old is not None
                )
            if history is not None:
                history.told(one, now)
        return frozenset(one.source for one in source.journal if one.source in file.histories)

    def _written_at(self, mtime: float, now: float, *, first: bool) -> float:
        """The file's own time of writing where it is believable, else when it was seen."""
        earliest = 0.0 if first else self._looked_at - 1.0
        return mtime if earliest < mtime <= now else now

    def _cursors(self, file: _File, now: float) -> Iterator[Cursor]:
        if file.error and not file.histories:
            name = os.path.basename(file.path)
            yield Cursor(
                source=name if file.shared else name.removesuffix(".json"), value=None, shown="?", verdict="unreadable",
                evidence=escape(file.error), file=file.path, shared=file.shared, lock_holders=file.lock_holders,
            )  # fmt: skip
        for source, history in file.histories.items():
            verdict, evidence, put_back = self._verdict(file, source, history, now)
            polls = self._polls.get(source) or PollHistory()
            shown = history.shown(history.value)
            verdict, evidence = polls.judge(verdict, evidence, shown, history.moved_at, now)
            put = history.put_backs(now)
            since = now - self._window
            writes = sum(1 for at in history.writes if at >= since)
            yield Cursor(
                source=source,
                value=history.value,
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
                put_back=put_back,
                history=_with_losses(history, put),
                lock_holders=file.lock_holders,
                suspects=suspects_of(put, now, window=self._window),
                put_back_by=writers_of(put, now, window=self._window),
                unsafe=tuple(self._unsafe_words(file, history)),
                polls=polls.newest_first,
                same_start=polls.same_start,
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

    def _verdict(self, file: _File, source: str, history: CursorHistory, now: float) -> tuple[str, str, int]:
        name = escape(os.path.basename(file.path))
        if file.away_since is not None:
            return "missing", f"{name} is gone for {age(now - file.away_since)}; last {history.shown(history.value)}", 0
        if file.error:
            good = f"; the value is of {age(now - file.good_at)} ago" if file.good_at is not None else ""
            return "unreadable", f"{name}: {escape(file.error)}{good}", 0
        if source in file.gone_since:
            gone = age(now - file.gone_since[source])
            return "missing", f"not in {name} for {gone}; last {history.shown(history.value)}", 0
        return judge(history, now, shared=file.shared, window=self._window)


def _stands(file: _File, name: str, value: Json) -> bool:
    history = file.histories[name]
    return history.key(history.value) == history.key(value)


def _with_losses(history: CursorHistory, put: Sequence[Change]) -> tuple[CursorSection, ...]:
    lost = {change.at for change in put}
    return tuple(replace(write, lost=True) if write.back and write.at in lost else write for write in history.ring)


def _differs(before: Mapping[str, Json], after: Mapping[str, Json], name: str) -> bool:
    if (name in before) != (name in after):
        return True
    return before.get(name) != after.get(name) and repr(before.get(name)) != repr(after.get(name))  # NaN is as it was


def _advanced(file: _File, after: Mapping[str, Json], changed: Sequence[str]) -> Iterator[str]:
    for name in changed:
        history = file.histories.get(name)
        if history is not None and name in after and history.direction_to(after[name]) > 0:
            yield name
