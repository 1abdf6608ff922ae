"""The items of a large plan in a tenth of the room: chunks of plain tuples, compressed; an ``Item`` is made when asked for."""

from __future__ import annotations

import marshal
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, overload

from ...model.kind import BATCH
from ...model.plan import Item
from ...model.row import Row
from ...model.words import Box, Owner, Verdict
from .places import Place, Ref

__all__ = ["KEPT_PLAIN", "PackedItems"]

CHUNK = BATCH
"""What is announced, done and told together is unpacked once."""
KEPT_PLAIN = 1_000
"""Up to so many items a list is as good."""


class PackedItems(Sequence[Item]):
    """A list that only grows. Items are those of a directory spool: ``ref`` is a ``Ref``, ``row.key`` a tuple of str."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._open: list[Item] = []
        self._last: tuple[int, list[Item]] = (-1, [])
        self.warnings: Counter[str] = Counter()
        """How often each warning stands there."""
        self.oldest_at: float | None = None
        """When the first of them came into its box."""

    def append(self, item: Item) -> None:
        self._open.append(item)
        if (since := item.row.in_box_since) is not None and (self.oldest_at is None or since < self.oldest_at):
            self.oldest_at = since
        if item.warning:
            self.warnings[item.warning] += 1
        if len(self._open) == CHUNK:
            self._chunks.append(zlib.compress(marshal.dumps([_packed(one) for one in self._open]), 1))
            self._open = []

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._open)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[place] for place in range(start, stop, step)]
            return self._between(start, max(start, stop))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._chunk(place // CHUNK)[place % CHUNK]

    def __iter__(self) -> Iterator[Item]:
        for chunk in self._chunks:
            yield from _items(chunk)
        yield from self._open

    def _between(self, start: int, stop: int) -> list[Item]:
        found: list[Item] = []
        for number in range(start // CHUNK, (stop + CHUNK - 1) // CHUNK):
            first = number * CHUNK
            found += self._chunk(number)[max(0, start - first) : stop - first]
        return found

    def _chunk(self, number: int) -> list[Item]:
        if number == len(self._chunks):
            return self._open
        last = self._last  # read once: two threads may look at a plan
        if last[0] != number:
            last = self._last = (number, _items(self._chunks[number]))
        return last[1]


class _PackedItem(Item):
    """Its row and its ref are made when asked for: whoever moves a million wants a few words of each row. Equal to the same
    item in a list."""

    __slots__ = ("_packed",)

    _packed: tuple[Any, ...]

    def __init__(self, packed: tuple[Any, ...]) -> None:
        object.__setattr__(self, "_packed", packed)

    @property
    def row(self) -> Row:
        return _row(self._packed)

    @property
    def ref(self) -> Ref:
        return _ref(self._packed)

    @property
    def warning(self) -> str:
        return str(self._packed[-2])

    @property
    def words(self) -> str:
        return str(self._packed[-1])

    @property
    def box(self) -> Box:
        return _BOX[self._packed[1]]

    @property
    def id(self) -> str:
        return str(self._packed[2])

    @property
    def name(self) -> str:
        return str(self._packed[3])

    @property
    def verdict(self) -> Verdict | None:
        return _VERDICT[self._packed[10]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Item):
            return NotImplemented
        return (self.row, self.ref, self.warning, self.words) == (other.row, other.ref, other.warning, other.words)

    __hash__ = Item.__hash__


def _items(chunk: bytes) -> list[Item]:
    return [_PackedItem(one) for one in marshal.loads(zlib.decompress(chunk))]


def _packed(item: Item) -> tuple[Any, ...]:
    row, ref = item.row, item.ref
    if not isinstance(ref, Ref) or not isinstance(row.key, tuple):
        raise TypeError(f"not of a directory spool: {ref!r}")
    place, target = ref.place, ref.target
    return (
        tuple(str(part) for part in row.key), row.box.value, row.id, row.name, row.size, row.enqueued_at, row.in_box_since,
        row.since_is_bound, row.source, row.attempt, None if row.verdict is None else row.verdict.value, row.evidence,
        None if row.owner is None else astuple(row.owner), row.note, row.not_before, row.canary, row.written_at, row.reason,
        place.folder, ref.ino, ref.size, ref.ctime_ns, ref.folder_id, ref.token,
        None if target is None else (target.box.value, target.name, target.folder),
        None if ref.meta is None else dict(ref.meta), None if ref.box is None else ref.box.value,
        item.warning, item.words,
    )  # fmt: skip


def _row(packed: tuple[Any, ...]) -> Row:
    (
        key, box, id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, verdict, evidence, owner, note,
        not_before, canary, written_at, reason,
    ) = packed[:_REF]  # fmt: skip
    return Row(
        key, _BOX[box], id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, _VERDICT[verdict], evidence,
        None if owner is None else Owner(*owner), note, not_before, canary, written_at, reason,
    )  # fmt: skip


def _ref(packed: tuple[Any, ...]) -> Ref:
    folder, ino, size, ctime_ns, folder_id, token, target, meta, to, _, _ = packed[_REF:]
    # What was a place when it was packed is not checked again.
    place = tuple.__new__(Place, (_BOX[packed[1]], packed[3], folder))
    goes = None if target is None else tuple.__new__(Place, (_BOX[target[0]], target[1], target[2]))
    return Ref(place, ino, size, ctime_ns, folder_id, token, goes, meta, None if to is None else _BOX[to])


_REF = 18
"""Where the words of the ref begin, after those of the row."""
_BOX = {box.value: box for box in Box}
_VERDICT: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
