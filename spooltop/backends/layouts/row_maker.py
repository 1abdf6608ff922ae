"""Makes rows of the files of a queue. What stands inside a file is read once, until the file changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner

from .definition.layout import Layout
from .inside import status
from .sort_files import QueueFile, fact_of

__all__ = ["RowMaker", "box_of"]

_READ_AT_MOST = 20_000
"""Files that are read for one look; the rest are read at the following looks."""
_READS = ("json", "file", "tail")
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
        reads = 0
        rows = []
        for file in files:
            found = self._status(file.path)
            state = (0, 0, 0) if found is None else (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
            before = known.get(file.path)
            if before is not None and before[0] == state:
                facts = before[1]
            elif found is None or reads >= _READ_AT_MOST:
                rows.append(self._row(file, found, {}, notes.get(file.path, "")))
                continue
            else:
                facts, read = self._facts(file)
                reads += read
            self._known[file.path] = state, facts
            rows.append(self._row(file, found, facts, notes.get(file.path, "")))
        return rows

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return status(self._root, path)
        except OSError:
            return None  # gone meanwhile

    def _facts(self, file: QueueFile) -> tuple[Facts, bool]:
        """The facts of a file, and whether it was read for them."""
        rules = file.match.facts if file.match is not None else {}
        return {name: fact_of(fact, self._root, file) for name, fact in rules.items()}, any(
            fact.kind in _READS for fact in rules.values()
        )

    def _row(self, file: QueueFile, found: os.stat_result | None, facts: Facts, note: str) -> Row:
        assert file.match is not None
        box = box_of(file.match.box)
        owner = file.fields.get("owner")
        pid = file.fields.get("pid")
        since = _time(facts.get("since"))
        if since is None and box is not Box.NEW and found is not None:
            since = found.st_mtime if box is Box.TMP else found.st_ctime
        attempts = facts.get("attempts")
        reason = facts.get("reason")
        return Row(
            key=(box.value, file.path), box=box, id=file.id, name=file.path,
            size=None if found is None or file.match.template.directory else found.st_size,
            enqueued_at=_time(facts.get("enqueued_at")), in_box_since=since, since_is_bound=facts.get("since") is None,
            source=file.fields.get("source"), attempt=attempts if isinstance(attempts, int) else None,
            owner=Owner(pid=int(pid) if pid else None, command=owner) if owner or pid else None, note=note,
            not_before=_time(facts.get("not_before")), written_at=None if found is None else found.st_mtime,
            reason="" if reason is None else str(reason), expires_at=_time(facts.get("expires")),
        )  # fmt: skip


def _time(value: float | int | str | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
