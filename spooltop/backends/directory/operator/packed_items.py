"""The items of a large plan, packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from spooltop.model.chunked import CHUNK, Chunked, Column, columns_of, expand
from spooltop.model.plan import Item, ItemColumns
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Json, Owner, Verdict
from spooltop.records import fields

from ..storage.location import Place, Ref

__all__ = ["BOX", "VERDICT", "Batch", "PackedItems", "Refs"]


class PackedItems(Chunked[Item]):
    """Packs the items of a directory spool: ``ref`` is a ``Ref``, ``row.key`` two str."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: Counter[str] = Counter()
        """The number of items with each warning."""
        self.oldest_at: float | None = None
        """When the first of them came into its box."""
        self.boxes: set[Box] = set()
        self.verdicts: set[Verdict | None] = set()

    def observe(self, more: Sequence[Item]) -> None:
        for one in more:
            if (since := one.row.in_box_since) is not None and (self.oldest_at is None or since < self.oldest_at):
                self.oldest_at = since
            if one.warning:
                self.warnings[one.warning] += 1
            self.boxes.add(one.row.box)
            self.verdicts.add(one.row.verdict)

    def packed(self, chunk: Sequence[Item]) -> list[Column]:
        return columns_of(map(_packed, chunk))

    def unpacked(self, packed: list[Column]) -> Batch:
        return Batch(packed)


class Refs(NamedTuple):
    """The pins of a batch by columns; words in place of boxes and verdicts."""

    box: Column
    name: Column
    folder: Column
    ino: Column
    size: Column
    ctime_ns: Column
    folder_id: Column
    token: Column
    target_box: Column
    target_name: Column
    target_folder: Column
    meta: Column
    to: Column
    verdict: Column


class Batch(Sequence[Item]):
    """Up to a chunk of items, at least one. An item is made when it is asked for: a mover of a million wants a few columns of
    each thousand."""

    def __init__(self, columns: list[Column], count: int = CHUNK) -> None:
        self._columns = columns
        self._count = count

    @classmethod
    def of(cls, items: Sequence[Item]) -> Batch:
        return items if isinstance(items, cls) else cls(columns_of(map(_packed, items)), len(items))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return _made([column[index] if isinstance(column, list) else column[0] for column in self._columns])

    def __iter__(self) -> Iterator[Item]:
        return map(_made, zip(*[expand(column, self._count) for column in self._columns], strict=True))

    @property
    def columns(self) -> ItemColumns:
        ids, names, boxes, words = (expand(self._columns[number], self._count) for number in (_ID, _NAME, _ROW_BOX, _WORDS))
        return ItemColumns(ids, names, [BOX[word] for word in boxes], words)

    @property
    def refs(self) -> Refs:
        return Refs._make([*self._columns[_REF], self._columns[_VERDICT_WORD]])


class _PackedItem(Item):
    """An item whose row and pin are made when they are asked for. Equal to the same item in a list."""

    __slots__ = ("_packed",)

    _packed: Sequence[Any]

    @property
    def row(self) -> Row:
        (
            box, key, within, id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, verdict, evidence,
            owner, note, not_before, canary, written_at, reason, expires_at, ended,
        ) = self._packed[_ROW]  # fmt: skip
        return Row(
            (key, within), BOX[box], id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, VERDICT[verdict],
            evidence, None if owner is None else Owner(*owner), note, not_before, canary, written_at, reason, expires_at, ended,
        )  # fmt: skip

    @property
    def ref(self) -> Ref:
        box, name, folder, ino, size, ctime_ns, folder_id, token, to_box, to_name, to_folder, meta, to = self._packed[_REF]
        # What was a place when it was packed is not checked again.
        place = _place(Place, (BOX[box], name, folder))
        goes = None if to_box is None else _place(Place, (BOX[to_box], to_name, to_folder))
        return _new_ref(Ref, (place, ino, size, ctime_ns, folder_id, token, goes, meta, None if to is None else BOX[to]))

    @property
    def warning(self) -> str:
        return str(self._packed[_WARNING])

    @property
    def words(self) -> str:
        return str(self._packed[_WORDS])

    @property
    def value(self) -> Json:
        return None  # of no message

    @property
    def box(self) -> Box:
        return BOX[self._packed[_ROW_BOX]]

    @property
    def id(self) -> str:
        return str(self._packed[_ID])

    @property
    def name(self) -> str:
        return str(self._packed[_NAME])

    @property
    def verdict(self) -> Verdict | None:
        return VERDICT[self._packed[_VERDICT_WORD]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Item):
            return NotImplemented
        return (self.row, self.ref, self.warning, self.words) == (other.row, other.ref, other.warning, other.words)

    __hash__ = Item.__hash__


_new_item = object.__new__
_set_packed = _PackedItem.__dict__["_packed"].__set__
"""Past what keeps an item from being changed, and past making a row for it."""
_place, _new_ref = tuple.__new__, tuple.__new__


def _made(packed: Sequence[Any]) -> Item:
    item = _new_item(_PackedItem)
    _set_packed(item, packed)
    return item


def _packed(item: Item) -> tuple[Any, ...]:
    row, ref = item.row, item.ref
    if not isinstance(ref, Ref) or not isinstance(row.key, tuple) or len(row.key) != 2:
        raise TypeError(f"not of a directory spool: {ref!r}")
    place, target, owner = ref.place, ref.target, row.owner
    box, name = _WORD[row.box], row.name
    return (
        box, *map(str, row.key), row.id, name, row.size, row.enqueued_at, row.in_box_since, row.since_is_bound,
        row.source, row.attempt, None if row.verdict is None else _WORD[row.verdict], row.evidence,
        None if owner is None else _owner(owner), row.note, row.not_before, row.canary, row.written_at, row.reason,
        row.expires_at, row.ended,
        _WORD[place.box], place.name, place.folder, ref.ino, ref.size, ref.ctime_ns, ref.folder_id, ref.token,
        *((None, "", "") if target is None else (_WORD[target.box], target.name, target.folder)),
        None if ref.meta is None else dict(ref.meta), None if ref.box is None else _WORD[ref.box],
        item.warning, item.words,
    )  # fmt: skip


_ROW, _REF = slice(0, 21), slice(21, 34)
_ROW_BOX, _ID, _NAME, _VERDICT_WORD, _WARNING, _WORDS = 0, 3, 4, 11, 34, 35
"""Positions in the tuple that ``_packed`` gives."""


def _owner(owner: Owner) -> tuple[Any, ...]:
    return tuple([getattr(owner, name) for name in _OWNER])


_OWNER = [field.name for field in fields(Owner)]
_WORD: dict[Box | Verdict, str] = {word: word.value for word in (*Box, *Verdict)}
BOX = {box.value: box for box in Box}
VERDICT: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
