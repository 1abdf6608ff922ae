"""Selects the messages that a selection means, out of the boxes and of what was set aside, and takes their status."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, Protocol

from spooltop.engine import set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.chunked import CHUNK, Column, column_of, columns_of, expand
from spooltop.model.operations.plan import Progress, Refusal
from spooltop.model.text import escape
from spooltop.model.vocabulary import ASIDE, Box

from ....journal.log_files import OPERATION
from ...storage.folders import Folders
from ...storage.location import Place, in_folder, seconds
from ...storage.metadata import time_of
from ...storage.name_forms import NameForms, named_like
from .chunks import Judged, Listed, Selected, in_order
from .conditions import SelectionConditions
from .packed_items import BOX, Message, MessageColumns, is_claimed

__all__ = ["BoxNames", "Look", "SelectedMessages"]


class BoxNames(Protocol):
    """The messages of ``tmp``, ``new`` or ``cur`` as a fresh look finds them, none left out, the oldest first."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Sequence[str]]:
        """Yields up to a chunk of names at a time, from the beginning each time; ``FOLDER/NAME`` in a staging directory."""
        ...

    def unordered(self) -> Iterator[Sequence[str]]:
        """Yields the same names in any order."""
        ...

    def judge(self, names: Sequence[str], tails: Sequence[str]) -> Judged:
        """Judges names after the listing; ``tails`` are those of claims (``NameForms``)."""
        ...


Look = Callable[[Box, Progress], BoxNames]
"""Lists a box. Raises ``Stopped`` where the look is cancelled."""


class SelectedMessages:
    """The messages that ``selection`` means in the boxes ``sources``, in order, the oldest first. They can be read once.

    Raises ``UsageError`` for a filter that makes no sense, ``Unreadable`` where nothing was found and a box could not be read,
    ``Stopped``.
    """

    def __init__(
        self, dirs: SpoolDirs, look: Look, selection: Selection, sources: Sequence[Box], *, now: float, progress: Progress
    ) -> None:
        self._dirs = dirs
        self._folders = Folders(dirs)
        self._progress = progress
        self._conditions = SelectionConditions(selection, now)
        self._aside: list[tuple[Box, str, list[str], list[str]]] = []
        self._boxes: dict[Box, BoxNames] = {}
        self.refused: list[Refusal] = []
        """The messages that cannot be looked at."""
        self.unread: list[Unreadable] = []
        """The errors of boxes and folders that could not be read."""
        for box in sources:
            if self._conditions.may_be_in(box):
                self._list(look, box)

    def __iter__(self) -> Iterator[Selected]:
        """Yields the messages, up to a chunk at a time."""
        streamed = not self._aside and len(self._boxes) == 1 and Box.TMP not in self._boxes  # which has several folders
        found = filter(None, map(self._select, self._listed()))
        none = True
        for one in found if streamed else in_order(list(found), self._progress.stopped):
            none = False
            yield one
        self._progress.check()
        if self.unread and none and not self.refused:
            raise self.unread[0]
        self._folders.close()

    def names(self) -> Iterator[tuple[Box, Sequence[str]]]:
        """Yields the names in all boxes, selected or not, in any order."""
        for box, names in self._boxes.items():
            yield from ((box, chunk) for chunk in names.unordered())
        yield from ((box, names) for box, _, names, _ in self._aside)

    @property
    def missing(self) -> tuple[str, ...]:
        """The selected names that were not found on disk."""
        return self._conditions.missing()

    @property
    def without_age(self) -> int:
        """The number of messages that were left out because their age is not known."""
        return self._conditions.without_age

    def _list(self, look: Look, box: Box) -> None:
        if box not in ASIDE:
            try:
                self._boxes[box] = look(box, self._progress)
            except Unreadable as error:
                self.unread.append(error)
            return
        denied: list[str] = []
        for operation, names in set_aside.folders(self._dirs, box, denied):
            self._progress.check()
            if OPERATION.match(operation):
                own = {name for name in names if name.startswith(".")}
                shown = [name for name in names if not name.startswith(".")]
                alone = [name for name in shown if set_aside.meta_name(name) in own] if own else []
                self._aside.append((box, operation, shown, alone))
        self.unread += [_not_listed(self._dirs, box, operation) for operation in denied]

    def _listed(self) -> Iterator[Listed]:
        progress = self._progress
        progress.begin("looked at", sum(map(len, self._boxes.values())) + sum(len(one[2]) for one in self._aside))
        for box, listed in self._boxes.items():
            for whole in listed:
                for folder, names in _by_folder(whole) if box is Box.TMP else [("", whole)]:
                    forms = NameForms.of(names, claimed=is_claimed(box))
                    judged = listed.judge([in_folder(name, folder) for name in names] if folder else names, forms.tails)
                    yield Listed(box, folder, names, forms, judged)
                progress.advance(len(whole))
        while self._aside:
            box, folder, whole, alone = self._aside.pop()
            for start in range(0, len(whole), CHUNK):
                names = whole[start : start + CHUNK]
                forms = NameForms.of(names, claimed=True)
                yield Listed(box, folder, names, forms, Judged(), self._metadata(box, folder, names, alone))
                progress.advance(len(names))

    def _metadata(self, box: Box, folder: str, names: Sequence[str], alone: Collection[str]) -> Column:
        shared = self._folders.shared(box, folder)
        if not alone:
            return (shared,)
        own = {name: self._folders.metadata_of(Place(box, name, folder)) for name in set(alone).intersection(names)}
        return [own.get(name, shared) for name in names]

    def _select(self, listed: Listed) -> Selected | None:
        conditions = self._conditions
        mask = conditions.of_names(listed)
        if mask is not None:
            listed = listed.only(mask)
        found = self._looked_at(listed) if listed.names else None
        return None if found is None else conditions.of_messages(found)

    def _looked_at(self, listed: Listed) -> Selected | None:
        """Takes the status of each file. What has gone since it was listed is left out."""
        box, folder, names, forms, judged, metadata = listed
        statuses = self._statuses(box, folder, names)
        if None in statuses:
            there = [status is not None for status in statuses]
            box, folder, names, forms, judged, metadata = listed.only(there)
            statuses = list(compress(statuses, there))
        if not names:
            return None
        mode, nlink, ino, size, mtime_ns, ctime_ns, blocks = columns_of(map(_STATUS, statuses))
        claims = box is Box.CUR
        messages = MessageColumns(
            (box.value,), (folder,), list(names), column_of(forms.id_ends),
            column_of(forms.token_places(names)) if claims else (0,), mode, nlink, ino, size, mtime_ns, ctime_ns,
            (self._folders.of(box, folder).id,), *judged,
            _each(metadata, time_of), _each(metadata, _reason),
        )  # fmt: skip
        return Selected(messages, forms, metadata, list(expand(blocks, len(names))), _since(messages, forms))

    def _statuses(self, box: Box, folder: str, names: Sequence[str]) -> list[os.stat_result | None]:
        stat = self._dirs.files.stat
        try:
            fd = self._folders.of(box, folder).fd
            return [stat(name, fd) for name in names]
        except OSError:
            return [self._status(box, folder, name) for name in names]

    def _status(self, box: Box, folder: str, name: str) -> os.stat_result | None:
        """Takes the status of a file; None where it has gone, or is refused because it cannot be accessed."""
        try:
            return self._dirs.files.stat(name, self._folders.of(box, folder).fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            row = Message(box.value, folder, name).row
            self.refused.append(Refusal(row, f"cannot be accessed: {error.strerror}"))
            return None


_STATUS = attrgetter("st_mode", "st_nlink", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_blocks")


def _since(messages: MessageColumns, forms: NameForms) -> list[float | None]:
    """When each message came into its box, as its row says: most names alone tell it, and no row is made."""
    told: list[float | None]
    box = BOX[messages.box[0]]
    if box is Box.CUR:
        times = [tail[36:52] for tail in forms.tails]
        digits = "".join(times)
        if digits.isdecimal() and len(digits) == 16 * len(times):
            return [float(us) / 1e6 for us in times]
        told = [float(tail[36 : tail.index(":")]) / 1e6 if tail[:1] == "," else None for tail in forms.tails]
    elif box in ASIDE:
        told = list(expand(messages.since, messages.length))
        if None in told:
            told = [seconds(ns) if at is None else at for at, ns in zip(told, expand(messages.ctime_ns, len(told)), strict=True)]
    else:
        returned = {
            one: box is Box.NEW and (like := named_like(one)) is not None and like.attempts for one in set(forms.attributes)
        }
        columns = zip(messages.name, forms.id_ends, forms.attributes, expand(messages.ctime_ns, messages.length), strict=True)
        told = [None if not end else seconds(ns) if returned[one] else float(name[:16]) / 1e6 for name, end, one, ns in columns]
    if None not in told:
        return told
    return [at if at is not None else messages.message(place).row.in_box_since for place, at in enumerate(told)]


def _by_folder(names: Sequence[str]) -> Iterable[tuple[str, Sequence[str]]]:
    """Groups files of ``tmp`` by their staging directory."""
    groups: dict[str, list[str]] = {}
    for name in names:
        folder, _, plain = name.rpartition("/")
        groups.setdefault(folder, []).append(plain)
    return groups.items()


def _each(column: Column, function: Callable[[Mapping[str, object]], Any]) -> Column:
    return (function(column[0]),) if isinstance(column, tuple) else list(map(function, column))


def _reason(metadata: Mapping[str, object]) -> str:
    reason = metadata.get("reason")
    return reason if isinstance(reason, str) else ""


def _not_listed(dirs: SpoolDirs, box: Box, operation: str) -> Unreadable:
    what = f"{box}/{escape(operation)}: permission denied"
    return Unreadable(what, path=dirs.path, advice="nothing was changed; run this as its owner or as root")
