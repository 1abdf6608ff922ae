"""Watches cursor files over time: which sources moved, were reverted, or vanished.

Memory is bounded whatever the files hold: 2,000 sources, and 12,000 writes of all of them together.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

from spooltop.model.cursors.state import Cursor, CursorSection, CursorSource, Poll
from spooltop.model.text import escape
from spooltop.model.units import age
from spooltop.model.vocabulary import Json
from spooltop.records import replace

from .history import RING, Change, CursorHistory
from .polls import PollHistory
from .verdict import judge, on_a_server, suspected_writers, writers_of
from .watched_file import COMMON_TEMP, WatchedFile

__all__ = ["CursorWatch"]

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
                history=_with_losses(history, lost),
                lock_holders=file.lock_holders,
                suspects=suspected_writers(lost, now, window=self.window),
                reverted_by=writers_of(lost, now, window=self.window),
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


def _with_losses(history: CursorHistory, lost: Sequence[Change]) -> tuple[CursorSection, ...]:
    times = {change.at for change in lost}
    return tuple(replace(write, lost=True) if write.back and write.at in times else write for write in history.ring)
