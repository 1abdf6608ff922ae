"""Selects the messages that a selection means, out of the boxes and of what was set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

from spooltop.engine import set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.progress import Progress
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape
from spooltop.model.vocabulary import ASIDE, Box, Json
from spooltop.records import replace

from ..storage.folders import Folders
from ..storage.location import OPERATION, Place
from ..storage.metadata import time_of
from ..storage.rows import aside_row

__all__ = ["Rows", "SelectedRow", "SelectedRows"]

Rows = Callable[[Box, Progress], Iterable[Row]]
"""Gives all messages of ``tmp``, ``new`` or ``cur`` as a fresh look finds them, judged, none left out, the oldest first. Raises
``Stopped`` where the look is cancelled."""

SelectedRow = tuple[Row, dict[str, Json]]
"""A message and the metadata beside it, which are empty unless it was set aside."""

_NO_METADATA: dict[str, Json] = {}


class SelectedRows:
    """The messages that ``selection`` means in the boxes ``sources``, in order, the oldest first. They can be read once.

    Raises ``UsageError`` for a filter that makes no sense, ``Unreadable`` where nothing was found and a box could not be read,
    ``Stopped``.
    """

    def __init__(
        self, dirs: SpoolDirs, rows: Rows, selection: Selection, sources: Sequence[Box], *, now: float, progress: Progress
    ) -> None:
        self._dirs = dirs
        self._rows = rows
        self._progress = progress
        self._conditions = _Conditions(selection, now)
        self._claims: Counter[str] = Counter()
        self._found: list[SelectedRow] = []
        self.unread: list[Unreadable] = []
        """The errors of boxes and folders that could not be read."""
        boxes = [box for box in sources if self._conditions.may_be_in(box)]
        # Nothing in new has to be compared with anything: of a million, only the plan keeps any.
        self._streamed = boxes == [Box.NEW]
        if not self._streamed:
            for box in boxes:
                self._read(box)
            if self.unread and not self._found:
                raise self.unread[0]
            self._found.sort(key=lambda one: (one[0].enqueued_at is None, one[0].enqueued_at or 0.0, one[0].name))

    def __iter__(self) -> Iterator[SelectedRow]:
        """Yields the messages and releases each as soon as it is given."""
        if self._streamed:
            rows = self._rows(Box.NEW, self._progress)
            self._progress.begin("looked at")
            return ((row, _NO_METADATA) for row in self._progress.each(rows) if self._conditions.met_by(row))
        self._progress.begin("listed", len(self._found))
        return self._progress.each(_released(self._found))

    def ids(self) -> Set[str]:
        """The ids of the messages that are yet to be given; none where they are read from ``new`` as they are given."""
        return {row.id for row, _ in self._found}

    def shares_its_id(self, row: Row) -> bool:
        """True where two claims have the id of ``row``."""
        return self._claims[row.id] > 1

    @property
    def missing(self) -> tuple[str, ...]:
        """The selected names that were not found on disk."""
        return self._conditions.missing()

    @property
    def without_age(self) -> int:
        """The number of messages that were left out because their age is not known."""
        return self._conditions.without_age

    def _read(self, box: Box) -> None:
        denied: list[str] = []
        progress = self._progress
        try:
            listed = (
                _aside_rows(self._dirs, box, denied) if box in ASIDE
                else ((row, _NO_METADATA) for row in self._rows(box, progress))
            )  # fmt: skip
        except Unreadable as error:
            self.unread.append(error)
            return
        progress.begin("looked at")
        for row, metadata in progress.each(listed):
            if box is Box.CUR:
                self._claims[row.id] += 1
            if self._conditions.met_by(row):
                self._found.append((row, metadata))
        self.unread += [_not_listed(self._dirs, box, operation) for operation in denied]


class _Conditions:
    """The conditions of a selection, and which of its names were found."""

    def __init__(self, selection: Selection, now: float) -> None:
        self._selection = selection
        self._now = now
        self._is_named = Selection(ids=selection.ids, keys=selection.keys).matcher(now)
        self._matches = replace(selection, ids=None, keys=None, older_than=None).matcher(now)
        self._met: set[object] = set()
        self.without_age = 0

    def may_be_in(self, box: Box) -> bool:
        if self._selection.box not in (None, box):
            return False
        keys = self._selection.keys
        return keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in keys)

    def met_by(self, row: Row) -> bool:
        if not self._is_named(row):
            return False
        if self._selection.named:
            self._met |= {row.id, row.name, row.key}
        if not self._matches(row):
            return False
        age = row.in_box_age(self._now)
        old_enough = self._selection.old_enough(age)
        self.without_age += not old_enough and age is None
        return old_enough

    def missing(self) -> tuple[str, ...]:
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)


def _aside_rows(dirs: SpoolDirs, box: Box, denied: list[str]) -> Iterator[SelectedRow]:
    """Yields the messages that were set aside in ``box``; the operations whose folders may not be listed go to ``denied``."""
    folders = Folders(dirs)
    for entry in set_aside.entries(dirs, box, denied):
        if not OPERATION.match(entry.operation):
            continue
        place = Place(box, entry.name, entry.operation)
        metadata = folders.metadata_of(place)
        at, reason = time_of(metadata), metadata.get("reason")
        since = at if at is not None else _changed_at(folders, place)
        row = aside_row(box, entry.operation, entry.name, since=since, reason=reason if isinstance(reason, str) else "")
        yield row, metadata
    folders.close()


def _changed_at(folders: Folders, place: Place) -> float | None:
    """The time when a message was set aside, where its metadata do not give it: a move changes ctime and nothing else."""
    try:
        return folders.files.stat(place.name, folders.of(place.box, place.folder).fd).st_ctime
    except OSError:
        return None  # gone since


def _released(found: list[SelectedRow]) -> Iterator[SelectedRow]:
    """Yields ``found`` in order and takes each entry out of the list."""
    found.reverse()
    while found:
        yield found.pop()


def _not_listed(dirs: SpoolDirs, box: Box, operation: str) -> Unreadable:
    what = f"{box}/{escape(operation)}: permission denied"
    return Unreadable(what, path=dirs.path, advice="nothing was changed; run this as its owner or as root")
