"""The items of a plan by columns, packed where they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from stat import S_IFREG
from typing import Any, NamedTuple, overload

from msgspec.structs import replace

from spooltop.engine import names as grammar
from spooltop.model.operations.chunked import CHUNK, Chunked, Column, column_of, columns_of, cut, expand, joined, pack
from spooltop.model.operations.plan import Item, ItemColumns
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict

from ..storage.location import FileStatus, Place, Ref, in_folder
from ..storage.rows import aside_row, claim_row, new_row, tmp_row

KEEP = 255
"""``TargetColumns.kept`` of a message that keeps its name."""


class MessageColumns(NamedTuple):
    """Columns of messages as they are now, from which their rows are made; words in place of boxes and verdicts.

    ``id_end`` is the length of the id at the front of the name, 0 where the name has to be parsed for it; ``token_at`` is the
    place of the token of a claim, 0 without one. ``owner`` holds the values of an ``Owner``. ``since`` is when the message came
    into its box; None: as its name and its status tell. ``reason`` is why it was set aside.
    """

    box: Column
    folder: Column
    name: list[str]
    id_end: Column
    token_at: Column
    mode: Column
    nlink: Column
    ino: Column
    size: Column
    mtime_ns: Column
    ctime_ns: Column
    folder_id: Column
    verdict: Column
    evidence: Column
    owner: Column
    since: Column
    reason: Column

    @property
    def length(self) -> int:
        return len(self.name)

    def message(self, place: int) -> Message:
        return Message._make([column[place if isinstance(column, list) else 0] for column in self])

    @property
    def ids(self) -> list[str]:
        ends = expand(self.id_end, self.length)
        if isinstance(self.box, tuple):
            return ids_of(BOX[self.box[0]], self.name, ends)
        boxes = (BOX[word] for word in self.box)
        return [ids_of(box, [name], [end])[0] for box, name, end in zip(boxes, self.name, ends, strict=True)]


class TargetColumns(NamedTuple):
    """Columns of moves, as the members of a ``Ref``. The name at the target is the first ``kept`` characters of the name and
    ``suffix``. Most moves of a plan have these in common."""

    target_box: Column
    target_folder: Column
    kept: Column
    suffix: Column
    meta: Column
    to: Column
    warning: Column


class Message(NamedTuple):
    """A row of ``MessageColumns``."""

    box: str
    folder: str
    name: str
    id_end: int = 0
    token_at: int = 0
    mode: int = S_IFREG
    nlink: int = 1
    ino: int = 0
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    folder_id: tuple[int, int] = (0, 0)
    verdict: str | None = None
    evidence: str = ""
    owner: tuple[Any, ...] | None = None
    since: float | None = None
    reason: str = ""

    @property
    def found(self) -> FileStatus:
        return FileStatus(self.mode, self.nlink, self.ino, self.size, self.mtime_ns, self.ctime_ns)

    @property
    def parsed(self) -> grammar.Name:
        return grammar.parse(self.name, claimed=is_claimed(BOX[self.box]))

    @property
    def row(self) -> Row:
        box, found, since = BOX[self.box], self.found, self.since
        if box is Box.CUR:
            row = claim_row(self.parsed, found)
        elif box is Box.NEW:
            row = new_row(self.name, found)
        elif box is Box.TMP:
            row = tmp_row(in_folder(self.name, self.folder), found)
        else:
            since = found.st_ctime if since is None else since
            row = replace(aside_row(box, self.folder, self.name, reason=self.reason), size=self.size)
        if since is not None:
            row = replace(row, in_box_since=since)
        owner = row.owner if self.owner is None else Owner(*self.owner)
        return row.judged(VERDICT[self.verdict], self.evidence, owner)


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


class PackedItems(Chunked[Item]):
    """Keeps the items of a directory spool: ``ref`` is a ``Ref``, ``row.key`` two str."""

    def __init__(self) -> None:
        super().__init__()
        self._open: Sequence[Item] = ()
        self.warnings: Counter[str] = Counter()
        """The number of items with each warning."""
        self.oldest_at: float | None = None
        """When the first of them came into its box."""
        self.boxes: set[Box] = set()
        self.verdicts: Counter[Verdict | None] = Counter()
        """The number of items with each verdict. What is in ``cur`` and was not judged is unknown."""

    def add(self, messages: MessageColumns, moves: TargetColumns, since: Iterable[float | None]) -> None:
        """Adds at least one item; ``since`` is when each came into its box."""
        count = messages.length
        times = (at for at in (self.oldest_at, *since) if at is not None)
        self.oldest_at = min(times, default=None)
        self.warnings.update(filter(None, expand(moves.warning, count)))
        self.boxes.update(map(BOX.__getitem__, set(messages.box)))
        unjudged = Verdict.UNKNOWN if messages.box == (Box.CUR.value,) else None  # what is in cur may be held
        self.verdicts.update(VERDICT[word] or unjudged for word in expand(messages.verdict, count))
        more: list[Column] = [*messages, *moves]
        if isinstance(self._open, Batch):
            before = self._open
            more = [joined(one, len(before), two, count) for one, two in zip(before.packed, more, strict=True)]
            count += len(before)
        while count >= CHUNK:
            self._chunks.append(pack([cut(column, 0, CHUNK) for column in more]))
            more, count = [cut(column, CHUNK, count) for column in more], count - CHUNK
        self._open = Batch(more, count) if count else ()

    def unpacked(self, packed: list[Column]) -> Batch:
        return Batch(packed)


class Batch(Sequence[Item]):
    """Up to a chunk of items, at least one. An item is made when it is asked for: a mover of a million wants a few columns of
    each thousand."""

    def __init__(self, columns: list[Column], count: int = CHUNK) -> None:
        self.packed = columns
        self._messages = MessageColumns._make(columns[:_MESSAGE])
        self._moves = TargetColumns._make(columns[_MESSAGE:])
        self._count = count

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
        return _item([column[index] if isinstance(column, list) else column[0] for column in self.packed])

    def __iter__(self) -> Iterator[Item]:
        return map(_item, zip(*[expand(column, self._count) for column in self.packed], strict=True))

    @cached_property
    def columns(self) -> ItemColumns:
        one = self._messages
        return ItemColumns(one.ids, one.name, [BOX[word] for word in expand(one.box, self._count)], ("",) * self._count)

    @property
    def refs(self) -> Refs:
        one, to = self._messages, self._moves
        moves = zip(*map(self._each, (one.name, to.kept, to.suffix)), strict=True)
        names = [name[:kept] + suffix for name, kept, suffix in moves]
        token: Column = (None,)
        if "cur" in one.box:
            token = column_of(_tokens(*map(self._each, (one.name, one.token_at, one.box))))
        target_name = ("",) if to.target_box == (None,) else column_of(names)
        return Refs(
            one.box, one.name, one.folder, one.ino, one.size, one.ctime_ns, one.folder_id, token, to.target_box, target_name,
            to.target_folder, to.meta, to.to, one.verdict,
        )  # fmt: skip

    def _each(self, column: Column) -> Sequence[Any]:
        return expand(column, self._count)


_MESSAGE = len(MessageColumns._fields)


def _item(values: Sequence[Any]) -> Item:
    message = Message._make(values[:_MESSAGE])
    to_box, to_folder, kept, suffix, meta, to, warning = values[_MESSAGE:]
    target = None if to_box is None else Place(BOX[to_box], message.name[:kept] + suffix, to_folder)
    (token,) = _tokens([message.name], [message.token_at], [message.box])
    ref = Ref(
        Place(BOX[message.box], message.name, message.folder), message.ino, message.size, message.ctime_ns, message.folder_id,
        token, target, meta, None if to is None else BOX[to],
    )  # fmt: skip
    return Item(message.row, ref, warning)


def refs_of(items: Sequence[Item]) -> Refs:
    """Returns the pins of items, at least one, by columns. Raises ``TypeError`` for an item of something else than a directory
    spool."""
    return items.refs if isinstance(items, Batch) else Refs._make(columns_of(map(_pin, items)))


def _pin(item: Item) -> tuple[Any, ...]:
    ref, verdict = item.ref, item.verdict
    if not isinstance(ref, Ref):
        raise TypeError("not of a directory spool")
    place, target = ref.place, ref.target
    return (
        place.box.value, place.name, place.folder, ref.ino, ref.size, ref.ctime_ns, ref.folder_id, ref.token,
        target and target.box.value, target.name if target else "", target.folder if target else "",
        ref.meta, ref.box and ref.box.value, verdict and verdict.value,
    )  # fmt: skip


def _tokens(names: Sequence[str], places: Sequence[int], boxes: Sequence[str]) -> list[str | None]:
    """The tokens of claims, each at its place in the name."""
    claims = zip(names, places, boxes, strict=True)
    return [name[at : at + 32] if at and box == "cur" else None for name, at, box in claims]


def is_claimed(box: Box) -> bool:
    """True where names may have the tail of a claim."""
    return box not in (Box.NEW, Box.TMP)


def ids_of(box: Box, names: Sequence[str], id_ends: Sequence[int]) -> list[str]:
    """The ids of names, of which ``id_ends`` are the lengths, 0 where a name is to be parsed."""
    claimed = is_claimed(box)
    return [name[:end] if end else grammar.parse(name, claimed=claimed).id for name, end in zip(names, id_ends, strict=True)]


BOX = {box.value: box for box in Box}
VERDICT: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
