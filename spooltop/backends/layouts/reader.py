"""Looks at a queue of another program, as its layout says. Changes nothing in it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.locks import Holders, Lock, LockHolder
from spooltop.model.look.observation import BoxState, Observation, VerdictCounts, Watch
from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box, Key, Verdict

from ..row_listing import RowListing
from ..surroundings import Surroundings
from .cross_checks import findings, notes_of, read_states
from .definition.layout import Layout
from .detect import open_root
from .inside import MOST, parent, read, status
from .row_maker import RowMaker, box_of
from .sort_files import QueueFile, fact_of, sort_files
from .verdicts import HolderVerdict, judge
from .workers import consumers_of

__all__ = ["LayoutReader"]

_PERIOD = 2.0
"""Seconds between two looks at least."""
_SHARE = 20
"""Looks are apart by at least this many times the time that one takes."""
_JUDGED_AT_MOST = 20_000


class LayoutReader:
    """Implements ``model.protocols.Reader`` for the directory ``path``. ``around`` answers questions about processes."""

    def __init__(
        self, path: str, layout: Layout, around: Surroundings, *, clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic, most: int = MOST,
    ) -> None:  # fmt: skip
        self._path = path
        self._layout = layout
        self._around = around
        self._clock = clock
        self._monotonic = monotonic
        self._most = most
        self._since = clock()
        self._root = open_root(path)
        self._rows = RowMaker(layout, self._root)
        self._listed: dict[Box, list[Row]] = {}
        self._generation = 0
        self._complete = False
        self._step = ""
        self._woken = threading.Event()
        self._rest = _PERIOD
        self.read_only = layout.read_only or f"a queue of {layout.name}: spooltop shows it, its own program changes it"
        """Says why nothing is changed."""
        self._capabilities = Capabilities.nothing(self.read_only)

    def see(self, *, rescan: bool = False) -> Observation:
        began = self._monotonic()
        now = self._clock()
        error = ""
        self._step = f"reading {self._path}"
        try:
            files, self._complete = sort_files(self._layout, self._root, self._most)
        except OSError as problem:
            files, self._complete, error = [], False, os.strerror(problem.errno or 0)
        found = [file for file in files if file.match is not None]
        states = read_states(self._layout, self._root, files)
        rows = self._rows.rows(found, notes_of(self._layout, found, states))
        rows = self._judged(found, rows, now)
        self._keep(rows)
        claims = self._listed.get(Box.CUR, [])
        writers = self._listed.get(Box.TMP, [])
        observation = Observation(
            target=self._path,
            layout="layout",
            taken_at=now,
            complete=self._complete,
            boxes=self._boxes(now, error),
            claims=tuple(sorted(claims, key=_held)[:_JUDGED_AT_MOST]),
            tmp=tuple(sorted(writers, key=_held)[:_JUDGED_AT_MOST]),
            counts=_counts(claims, writers),
            judged_all=max(len(claims), len(writers)) <= _JUDGED_AT_MOST,
            findings=findings(self._layout, self._root, files, states),
            disk=self._around.disk(self._root),
            locks=self._locks(now),
            who=self._around.viewer(self._capabilities, "READ-ONLY"),
            capabilities=self._capabilities,
            watch=Watch("scan", self._layout.name, _PERIOD, self._since),
            generation=self._generation,
        )
        self._rest = max(_PERIOD, _SHARE * (self._monotonic() - began))
        return observation

    def _judged(self, files: Sequence[QueueFile], rows: Sequence[Row], now: float) -> list[Row]:
        """The rows with verdicts, those of claims and of files that are being written."""
        self._step = f"asking who works on {self._path}"
        asked = [
            (file, row.in_box_since or row.enqueued_at or now)
            for file, row in zip(files, rows, strict=True)
            if row.box in (Box.CUR, Box.TMP)
        ][:_JUDGED_AT_MOST]
        verdicts = judge(self._layout, self._root, asked, self._around, now)
        return [
            row if (one := verdicts.get(file.path)) is None else _with(row, one) for file, row in zip(files, rows, strict=True)
        ]

    def _keep(self, rows: Sequence[Row]) -> None:
        listed: dict[Box, list[Row]] = {}
        for row in rows:
            listed.setdefault(row.box, []).append(row)
        self._generation += listed != self._listed
        self._listed = listed

    def _boxes(self, now: float, error: str) -> dict[Box, BoxState]:
        known = {box_of(match.box) for match in self._layout.matches}
        states = {box: self._box(box, now, error) for box in Box if box in known}
        for name, why in self._layout.blind.items():
            box = box_of(name)
            states[box] = BoxState(box, None, complete=False, as_of=now, note=why)
        return states

    def _box(self, box: Box, now: float, error: str) -> BoxState:
        rows = self._listed.get(box, [])
        if error:
            return BoxState(box, None, complete=False, error=error, as_of=now)
        times = [at for row in rows if (at := _since(row)) is not None]
        sizes = [row.size for row in rows]
        total = None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
        return BoxState(box, len(rows), self._complete, total, oldest_at=min(times, default=None), as_of=now)

    def _locks(self, now: float) -> tuple[Lock, ...]:
        locks = []
        for rule in self._layout.locks:
            try:
                status(self._root, rule.path)
            except OSError:
                continue
            file = QueueFile(rule.path, None, {})
            holder = None if rule.holder is None else fact_of(rule.holder, self._root, file)
            until = None if rule.until is None else fact_of(rule.until, self._root, file)
            ended = isinstance(until, float) and until < now
            words = "its lease cannot be read" if not isinstance(until, float) else ""
            verdict = "unknown" if words else "free" if ended else "held"
            locks.append(
                Lock(
                    os.path.join(self._path, rule.path), rule.kind,
                    () if holder is None or ended else (LockHolder(None, escape(str(holder))),), verdict=verdict,
                    evidence=words or ("its lease has ended" if ended else "its lease runs"),
                )
            )  # fmt: skip
        return tuple(locks)

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        rows = self._listed.get(query.box, [])
        return RowListing(query, rows, now=self._clock(), complete=self._complete, generation=self._generation)

    def read(self, key: Key, limit: int) -> Payload:
        row = self._row(key)
        shown = escape(row.name)
        self._step = f"reading {shown}"
        try:
            found = status(self._root, row.name)
            data = read(self._root, row.name, limit)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            raise Unreadable("gone since" if gone else os.strerror(error.errno or 0), path=shown) from None
        facts = [("file", shown)]
        if row.evidence:
            facts.append(("holder" if row.box is Box.CUR else "writer", row.evidence))
        return Payload(data, found.st_size, found.st_size > len(data), tuple(facts))

    def _row(self, key: Key) -> Row:
        found = next((row for rows in self._listed.values() for row in rows if row.key == key), None)
        if found is None:
            raise Unreadable("no message of this queue", path=escape(str(key)), advice="look again")
        return found

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        wanted = set(ids[:1000])
        rows = {row.id: row for rows in self._listed.values() for row in rows if row.id in wanted}
        return {
            id: TrackedMessage(id) if (row := rows.get(id)) is None else TrackedMessage(id, row.box, put_at=row.enqueued_at)
            for id in wanted
        }

    def consumers(self) -> ConsumerList:
        return consumers_of(self._listed.get(Box.CUR, []), self._clock())

    def holders(self, key: Key) -> Holders:
        name = self._row(key).name if isinstance(key, tuple) else os.path.relpath(str(key), self._path)
        if not isinstance(key, tuple) and all(rule.path != name for rule in self._layout.locks):
            raise Unreadable("nothing of this queue", path=escape(str(key)), advice="name a lock as it is listed")
        try:
            with parent(self._root, name) as (folder, last):
                return self._around.holders(escape(name), os.stat(last, dir_fd=folder, follow_symlinks=False), folder)
        except OSError as error:
            raise Unreadable(os.strerror(error.errno or 0), path=escape(name)) from None

    def current_step(self) -> str:
        return self._step

    def changes(self, timeout: float) -> bool:
        due = self._rest <= timeout
        woken = self._woken.wait(min(timeout, self._rest))
        self._woken.clear()
        return woken or due

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        os.close(self._root)


def _since(row: Row) -> float | None:
    """The time that the age of a box counts from: of the put for ``new``, of the claim and the like for the others."""
    return row.enqueued_at if row.box is Box.NEW else row.in_box_since or row.enqueued_at


def _held(row: Row) -> float:
    return row.in_box_since or row.enqueued_at or 0.0


def _with(row: Row, judged: HolderVerdict) -> Row:
    owner = row.owner if judged.pid is None or row.owner is None else row.owner._replace(pid=judged.pid)
    return row.judged(judged.verdict, judged.evidence, owner)


def _counts(claims: Sequence[Row], writers: Sequence[Row]) -> VerdictCounts:
    def count(rows: Sequence[Row], verdict: Verdict) -> int:
        return sum(row.verdict is verdict for row in rows)

    return VerdictCounts(
        count(claims, Verdict.ALIVE), count(claims, Verdict.DEAD), count(claims, Verdict.UNKNOWN),
        count(writers, Verdict.WRITING), count(writers, Verdict.ABANDONED), count(writers, Verdict.UNKNOWN),
    )  # fmt: skip
