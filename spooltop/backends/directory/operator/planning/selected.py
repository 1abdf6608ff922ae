"""Selects the messages that a selection means, out of the boxes and of what was set aside, and takes their status."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from spooltop.engine import names as grammar
from spooltop.engine import set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.filters import query
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.chunked import CHUNK, Column, column_of, columns_of, expand
from spooltop.model.operations.plan import Refusal
from spooltop.model.operations.progress import Progress
from spooltop.model.text import escape
from spooltop.model.vocabulary import ASIDE, Box

from ...listing.sorting import ordered
from ...storage.folders import Folders
from ...storage.location import OPERATION, Place, in_folder, seconds
from ...storage.metadata import time_of
from ...storage.name_forms import NameForms, named_like
from .packed_items import BOX, Message, MessageColumns, ids_of, is_claimed

__all__ = ["BoxNames", "Judged", "Look", "Selected", "SelectedMessages"]


class Judged(NamedTuple):
    """Verdicts on names by columns: the word of the verdict, the evidence, and the values of the ``Owner``."""

    verdict: Column = (None,)
    evidence: Column = ("",)
    owner: Column = (None,)


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


class Selected(NamedTuple):
    """Up to a chunk of selected messages. ``metadata`` are those beside each message that was set aside, ``blocks`` the disk
    space that it takes, ``forms`` what its name has in common with others, ``since`` when it came into its box."""

    messages: MessageColumns
    forms: NameForms
    metadata: Column
    blocks: list[int]
    since: list[float | None]

    def only(self, mask: Sequence[Any]) -> Selected:
        """Keeps the messages that ``mask`` selects."""
        if all(mask):
            return self
        return Selected(
            MessageColumns._make([_only(column, mask) for column in self.messages]),
            self.forms.only(mask), _only(self.metadata, mask),
            list(compress(self.blocks, mask)), list(compress(self.since, mask)),
        )  # fmt: skip


class _Listed(NamedTuple):
    """Up to a chunk of names in one folder, with what is known without a look at the files."""

    box: Box
    folder: str
    names: Sequence[str]
    forms: NameForms
    judged: Judged
    metadata: Column = ({},)

    def only(self, mask: Sequence[Any]) -> _Listed:
        """Keeps the names that ``mask`` selects."""
        judged = Judged._make([_only(column, mask) for column in self.judged])
        names = list(compress(self.names, mask))
        return _Listed(self.box, self.folder, names, self.forms.only(mask), judged, _only(self.metadata, mask))


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
        self._conditions = _Conditions(selection, now)
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
        for one in found if streamed else _together(list(found), self._progress.stopped):
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

    def _listed(self) -> Iterator[_Listed]:
        progress = self._progress
        progress.begin("looked at", sum(map(len, self._boxes.values())) + sum(len(one[2]) for one in self._aside))
        for box, listed in self._boxes.items():
            for whole in listed:
                for folder, names in _by_folder(whole) if box is Box.TMP else [("", whole)]:
                    forms = NameForms.of(names, claimed=is_claimed(box))
                    judged = listed.judge([in_folder(name, folder) for name in names] if folder else names, forms.tails)
                    yield _Listed(box, folder, names, forms, judged)
                progress.advance(len(whole))
        while self._aside:
            box, folder, whole, alone = self._aside.pop()
            for start in range(0, len(whole), CHUNK):
                names = whole[start : start + CHUNK]
                forms = NameForms.of(names, claimed=True)
                yield _Listed(box, folder, names, forms, Judged(), self._metadata(box, folder, names, alone))
                progress.advance(len(names))

    def _metadata(self, box: Box, folder: str, names: Sequence[str], alone: Collection[str]) -> Column:
        shared = self._folders.shared(box, folder)
        if not alone:
            return (shared,)
        own = {name: self._folders.metadata_of(Place(box, name, folder)) for name in set(alone).intersection(names)}
        return [own.get(name, shared) for name in names]

    def _select(self, listed: _Listed) -> Selected | None:
        conditions = self._conditions
        mask = conditions.of_names(listed)
        if mask is not None:
            listed = listed.only(mask)
        found = self._looked_at(listed) if listed.names else None
        return None if found is None else conditions.of_messages(found)

    def _looked_at(self, listed: _Listed) -> Selected | None:
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


class _Conditions:
    """The conditions of a selection, and which of its names were found."""

    def __init__(self, selection: Selection, now: float) -> None:
        self._selection = selection
        self._now = now
        self._ids = None if selection.ids is None else frozenset(selection.ids)
        self._keys = None if selection.keys is None else frozenset(selection.keys)
        self._filter = query.parse(selection.filter) if selection.filter else None
        self._met: set[object] = set()
        self.without_age = 0

    def may_be_in(self, box: Box) -> bool:
        if self._selection.box not in (None, box):
            return False
        return self._keys is None or any(isinstance(key, tuple) and key and key[0] == box for key in self._keys)

    def of_names(self, listed: _Listed) -> list[bool] | None:
        """The conditions that need no file, for each name; None where all names are selected."""
        selection, names = self._selection, listed.names
        masks: list[list[bool]] = []
        if selection.named:
            masks.append(self._are_named(listed))
        if selection.source is not None:
            masks.append([source == selection.source for source in _sources(listed)])
        if selection.verdict is not None:
            words = expand(listed.judged.verdict, len(names))
            masks.append([word == selection.verdict for word in words])
        if all(map(all, masks)):
            return None
        return [all(row) for row in zip(*masks, strict=True)]

    def _are_named(self, listed: _Listed) -> list[bool]:
        names, front = listed.names, f"{listed.folder}/" if listed.folder else ""
        ids = ids_of(listed.box, names, listed.forms.id_ends)
        keys = [(listed.box.value, front + name) for name in names]
        mask = [
            (self._keys is None or key in self._keys) and (self._ids is None or id in self._ids or name in self._ids)
            for id, name, key in zip(ids, names, keys, strict=True)
        ]
        for column in (ids, names, keys):
            self._met.update(compress(column, mask))
        return mask

    def of_messages(self, found: Selected) -> Selected | None:
        """The messages that meet the conditions on what their files and holders tell; None where no message does."""
        if self._filter is not None:
            messages = found.messages
            rows = (messages.message(place).row for place in range(messages.length))
            found = found.only([self._filter.match(row, self._now) for row in rows])
        if self._selection.older_than is not None and found.messages.name:
            ages = [None if since is None else max(0.0, self._now - since) for since in found.since]
            self.without_age += ages.count(None)
            found = found.only([self._selection.old_enough(age) for age in ages])
        return found if found.messages.name else None

    def missing(self) -> tuple[str, ...]:
        lost = [name for name in self._selection.ids or () if name not in self._met]
        unmet = (key for key in self._selection.keys or () if key not in self._met)
        lost += [str(key[-1]) if isinstance(key, tuple) and key else str(key) for key in unmet]
        return tuple(lost)


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


def _sources(listed: _Listed) -> Iterator[str | None]:
    for name, end, attributes in zip(listed.names, listed.forms.id_ends, listed.forms.attributes, strict=True):
        like = named_like(attributes) if end else None
        yield (like or grammar.parse(name, claimed=is_claimed(listed.box))).source


def _together(found: Sequence[Selected], stopped: Callable[[], bool]) -> Iterator[Selected]:
    """Puts messages of several boxes and folders into one order, the oldest first."""
    if not found:
        return
    counts = [one.messages.length for one in found]
    messages = MessageColumns._make(_chained(columns, counts) for columns in zip(*[one.messages for one in found], strict=True))
    forms = NameForms._make(list(chain.from_iterable(columns)) for columns in zip(*[one.forms for one in found], strict=True))
    metadata = _chained([one.metadata for one in found], counts)
    blocks = [blocks for one in found for blocks in one.blocks]
    since = [at for one in found for at in one.since]
    keys: Sequence[Any] = messages.name
    if 0 in forms.id_ends:  # the names do not all begin with the time
        rows = (messages.message(place).row for place in range(messages.length))
        keys = [(row.enqueued_at is None, row.enqueued_at or 0.0, row.name) for row in rows]
    order = ordered(keys, stopped) or ()
    for start in range(0, len(order), CHUNK):
        places = order[start : start + CHUNK]
        yield Selected(
            MessageColumns._make([_pick(column, places) for column in messages]),
            NameForms._make([[column[place] for place in places] for column in forms]),
            _pick(metadata, places), [blocks[place] for place in places], [since[place] for place in places],
        )  # fmt: skip


def _chained(columns: Sequence[Column], counts: Sequence[int]) -> Column:
    first = columns[0]
    if isinstance(first, tuple) and all(isinstance(one, tuple) and one == first for one in columns):
        return first
    return list(chain.from_iterable(map(expand, columns, counts)))


def _pick(column: Column, places: Iterable[int]) -> Column:
    return [column[place] for place in places] if isinstance(column, list) else column


def _only(column: Column, mask: Sequence[Any]) -> Column:
    return list(compress(column, mask)) if isinstance(column, list) else column


def _each(column: Column, function: Callable[[Mapping[str, object]], Any]) -> Column:
    return (function(column[0]),) if isinstance(column, tuple) else list(map(function, column))


def _reason(metadata: Mapping[str, object]) -> str:
    reason = metadata.get("reason")
    return reason if isinstance(reason, str) else ""


def _not_listed(dirs: SpoolDirs, box: Box, operation: str) -> Unreadable:
    what = f"{box}/{escape(operation)}: permission denied"
    return Unreadable(what, path=dirs.path, advice="nothing was changed; run this as its owner or as root")
