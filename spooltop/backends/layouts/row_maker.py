"""Makes rows of the files of a queue. What stands inside a file is read once, until the file changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner

from .definition.layout import Layout
from .definition.units import is_time
from .inside import parent, status
from .message_files import size_of_directory
from .sort_files import QueueFile, fact_of

__all__ = ["RowMaker", "box_of"]

_READ_AT_MOST = 5_000
"""Files that are read for one look, an even sample of those that were not read yet; the rest are read at the following looks."""
_READS = ("json", "file", "tail", "record")
_SIZE = "size"
"""Fact that no layout gives: the bytes of a message that is a directory."""
_LONGEST = 1000
"""Characters of a text that are kept."""
_PID_DIGITS = 10
_State = tuple[int, int, int]
Facts = dict[str, float | int | str | None]


def box_of(name: str) -> Box:
    """The box that a layout names."""
    return Box(name)


class RowMaker:
    """Makes the rows of one queue, look after look. ``root`` is the descriptor of its directory."""

    def __init__(self, layout: Layout, root: int) -> None:
        self._layout = layout
        self._root = root
        self._known: dict[str, tuple[_State, Facts]] = {}

    def rows(self, files: Sequence[QueueFile], notes: Mapping[str, str]) -> list[Row]:
        """Makes a row of each file, in the same order. ``notes`` are notes by path."""
        known, self._known = self._known, {}
        found = [self._status(file.path) for file in files]
        states = [None if one is None else (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for one in found]
        unread = []
        for place, (file, state) in enumerate(zip(files, states, strict=True)):
            before = known.get(file.path)
            if before is not None and before[0] == state and not _may_grow(file, found[place]):
                self._known[file.path] = before
            elif state is not None:
                unread.append(place)
        reading = [place for place in unread if _is_read(files[place]) or _is_directory(found[place])]
        left_out = set(reading) - set(_evenly(reading, _READ_AT_MOST)) if len(reading) > _READ_AT_MOST else ()
        for place in unread:
            state = states[place]
            if state is not None and place not in left_out:
                self._known[files[place].path] = state, self._facts(files[place], _is_directory(found[place]))
        return [
            self._row(file, one, self._known[file.path][1] if file.path in self._known else {}, notes.get(file.path, ""))
            for file, one in zip(files, found, strict=True)
        ]

    def was_read(self, path: str) -> bool:
        """True for a file whose facts are known as of the last look."""
        return path in self._known

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return status(self._root, path)
        except OSError:
            return None  # gone meanwhile

    def _facts(self, file: QueueFile, is_directory: bool) -> Facts:
        rules = file.match.facts if file.match is not None else {}
        facts = {name: fact_of(fact, self._root, file) for name, fact in rules.items()}
        if is_directory:
            facts[_SIZE] = self._size(file.path)
        return facts

    def _size(self, path: str) -> int | None:
        try:
            with parent(self._root, path) as (folder, name):
                return size_of_directory(folder, name)
        except OSError:
            return None  # gone meanwhile, or it cannot be read

    def _row(self, file: QueueFile, found: os.stat_result | None, facts: Facts, note: str) -> Row:
        box = Box.TRASH if file.match is None else box_of(file.match.box)
        owner = file.fields.get("owner")
        pid = pid if len(pid := file.fields.get("pid", "")) <= _PID_DIGITS else ""
        since, enqueued_at = _time(facts.get("since")), _time(facts.get("enqueued_at"))
        is_bound = since is None and box is not Box.NEW
        if since is None and box is Box.NEW:
            since = enqueued_at  # what waits is there since its put, as in a spool and a stream
        elif since is None and found is not None:
            since = found.st_mtime if box is Box.TMP else found.st_ctime
        attempts = _int(facts.get("attempts"))
        reason = facts.get("reason")
        return Row(
            key=(box.value, file.path), box=box, id=file.id, name=file.path,
            size=_int(facts.get(_SIZE)) if _is_directory(found) else None if found is None else found.st_size,
            enqueued_at=enqueued_at, in_box_since=since, since_is_bound=is_bound,
            source=_text(facts.get("source")) or file.fields.get("source"),
            attempt=attempts if attempts is not None and attempts >= 0 else None,
            owner=Owner(pid=int(pid) if pid else None, command=owner) if owner or pid else None, note=note,
            not_before=_time(facts.get("not_before")), written_at=None if found is None else found.st_mtime,
            reason=_text(reason) or "", expires_at=_time(facts.get("expires")),
        )  # fmt: skip


def _time(value: float | int | str | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) and is_time(value) else None


def _int(value: float | int | str | None) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: float | int | str | None) -> str | None:
    return None if value is None else str(value)[:_LONGEST]


def _is_directory(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISDIR(found.st_mode)


def _may_grow(file: QueueFile, found: os.stat_result | None) -> bool:
    """True for a directory that is being written: bytes in its files leave its own times as they are."""
    return file.match is not None and file.match.box == "tmp" and _is_directory(found)


def _is_read(file: QueueFile) -> bool:
    """True where the file is read for its facts."""
    return file.match is not None and any(fact.kind in _READS for fact in file.match.facts.values())


def _evenly(places: Sequence[int], most: int) -> list[int]:
    return [places[turn * len(places) // most] for turn in range(most)]
