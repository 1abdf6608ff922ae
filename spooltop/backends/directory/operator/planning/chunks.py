"""Chunks of messages on their way into a plan: names as they are listed, and messages as they are selected, by columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from spooltop.model.operations.chunked import CHUNK, Column, expand
from spooltop.model.vocabulary import Box

from ...listing.sorting import ordered
from ...storage.name_forms import NameForms
from .packed_items import MessageColumns

__all__ = ["Judged", "Listed", "Selected", "in_order"]


class Judged(NamedTuple):
    """Verdicts on names by columns: the word of the verdict, the evidence, and the values of the ``Owner``."""

    verdict: Column = (None,)
    evidence: Column = ("",)
    owner: Column = (None,)


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


class Listed(NamedTuple):
    """Up to a chunk of names in one folder, with what is known without a look at the files."""

    box: Box
    folder: str
    names: Sequence[str]
    forms: NameForms
    judged: Judged
    metadata: Column = ({},)

    def only(self, mask: Sequence[Any]) -> Listed:
        """Keeps the names that ``mask`` selects."""
        judged = Judged._make([_only(column, mask) for column in self.judged])
        names = list(compress(self.names, mask))
        return Listed(self.box, self.folder, names, self.forms.only(mask), judged, _only(self.metadata, mask))


def in_order(found: Sequence[Selected], stopped: Callable[[], bool]) -> Iterator[Selected]:
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
