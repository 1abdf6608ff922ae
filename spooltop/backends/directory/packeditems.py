"""The items of a large plan, packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ...model.chunked import Chunked
from ...model.plan import Item
from ...model.row import Row
from ...model.words import Box, Owner, Verdict
from .places import Place, Ref

__all__ = ["PackedItems"]


class PackedItems(Chunked[Item]):
    """Items are those of a directory spool: ``ref`` is a ``Ref``, ``row.key`` a tuple of str."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: Counter[str] = Counter()
        """How often each warning stands there."""
        self.oldest_at: float | None = None
        """When the first of them came into its box."""

    def noted(self, more: Sequence[Item]) -> None:
        for one in more:
            if (since := one.row.in_box_since) is not None and (self.oldest_at is None or since < self.oldest_at):
                self.oldest_at = since
            if one.warning:
                self.warnings[one.warning] += 1

    def packed(self, one: Item) -> tuple[Any, ...]:
        return _packed(one)

    def unpacked(self, chunk: list[tuple[Any, ...]]) -> list[Item]:
        items: list[Item] = []
        for packed in chunk:
            item = _new_item(_PackedItem)
            _set_packed(item, packed)
            items.append(item)
        return items


class _PackedItem(Item):
    """Its row and its ref are made when asked for: whoever moves a million wants a few words of each row. Equal to the same
    item in a list."""

    __slots__ = ("_packed",)

    _packed: tuple[tuple[Any, ...], tuple[Any, ...], str, str]

    @property
    def row(self) -> Row:
        (
            key, box, id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, verdict, evidence, owner, note,
            not_before, canary, written_at, reason, expires_at,
        ) = self._packed[0]  # fmt: skip
        return Row(
            key, _BOX[box], id, name, size, enqueued_at, in_box_since, since_is_bound, source, attempt, _VERDICT[verdict],
            evidence, None if owner is None else Owner(*owner), note, not_before, canary, written_at, reason, expires_at,
        )  # fmt: skip

    @property
    def ref(self) -> Ref:
        box, name, folder, ino, size, ctime_ns, folder_id, token, target, meta, to = self._packed[1]
        # What was a place when it was packed is not checked again.
        place = _place(Place, (_BOX[box], name, folder))
        goes = None if target is None else _place(Place, (_BOX[target[0]], target[1], target[2]))
        return _new_ref(Ref, (place, ino, size, ctime_ns, folder_id, token, goes, meta, None if to is None else _BOX[to]))

    @property
    def warning(self) -> str:
        return self._packed[2]

    @property
    def words(self) -> str:
        return self._packed[3]

    @property
    def box(self) -> Box:
        return _BOX[self._packed[0][1]]

    @property
    def id(self) -> str:
        id: str = self._packed[0][2]
        return id

    @property
    def name(self) -> str:
        name: str = self._packed[0][3]
        return name

    @property
    def verdict(self) -> Verdict | None:
        return _VERDICT[self._packed[0][10]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Item):
            return NotImplemented
        return (self.row, self.ref, self.warning, self.words) == (other.row, other.ref, other.warning, other.words)

    __hash__ = Item.__hash__


_new_item = object.__new__
_set_packed = _PackedItem.__dict__["_packed"].__set__
"""Past what keeps an item from being changed, and past making a row for it."""
_place, _new_ref = tuple.__new__, tuple.__new__


def _packed(item: Item) -> tuple[Any, ...]:
    row, ref = item.row, item.ref
    if not isinstance(ref, Ref) or not isinstance(row.key, tuple):
        raise TypeError(f"not of a directory spool: {ref!r}")
    place, target, owner = ref.place, ref.target, row.owner
    box, name = _WORD[row.box], row.name
    return (
        (
            (*map(str, row.key),), box, row.id, name, row.size, row.enqueued_at, row.in_box_since, row.since_is_bound,
            row.source, row.attempt, None if row.verdict is None else _WORD[row.verdict], row.evidence,
            None if owner is None else _owner(owner), row.note, row.not_before, row.canary, row.written_at, row.reason,
            row.expires_at,
        ),
        (
            _WORD[place.box], place.name, place.folder, ref.ino, ref.size, ref.ctime_ns, ref.folder_id, ref.token,
            None if target is None else (_WORD[target.box], target.name, target.folder),
            None if ref.meta is None else dict(ref.meta), None if ref.box is None else _WORD[ref.box],
        ),
        item.warning, item.words,
    )  # fmt: skip


def _owner(owner: Owner) -> tuple[Any, ...]:
    return tuple([getattr(owner, name) for name in _OWNER])


_OWNER = [field.name for field in fields(Owner)]
_WORD: dict[Box | Verdict, str] = {word: word.value for word in (*Box, *Verdict)}
_BOX = {box.value: box for box in Box}
_VERDICT: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
