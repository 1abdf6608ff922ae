"""Lists of a stream that page: windows are fetched when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spooltop.errors import Unreadable
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key

from .parts import Part
from .server.requests import ServerTrouble

__all__ = ["PagedListing", "in_order_of_ids"]


class PagedListing:
    """List of ``parts``, one after the other, from the end with ``backwards``. Of a window that cannot be
    fetched there are the rows that were shown before, also by the list ``before`` of the same query, if any."""

    timed = False
    ordered_over: int | None = None

    def __init__(
        self, query: ListQuery, parts: Sequence[Part], *, backwards: bool, complete: bool, generation: int,
        before: PagedListing | None = None,
    ) -> None:  # fmt: skip
        self.query = query
        self.complete = complete
        self.generation = generation
        self._parts = parts
        self._backwards = backwards
        self._count = sum(part.count for part in parts)
        self._last: tuple[int, int, Sequence[Row]] = (0, 0, ())
        self._stale: tuple[int, int, Sequence[Row]] = (0, 0, ()) if before is None else before.shown

    @property
    def shown(self) -> tuple[int, int, Sequence[Row]]:
        """The window that was fetched last, with its rows."""
        return self._last if self._last[2] else self._stale

    def __len__(self) -> int:
        return self._count

    def window(self, start: int, stop: int) -> Sequence[Row]:
        start, stop = max(0, start), min(self._count, max(0, stop))
        begin, end, rows = self._last
        if begin <= start and stop <= end:
            return rows[start - begin : stop - begin]
        first, last = (self._count - stop, self._count - start) if self._backwards else (start, stop)
        found: list[Row] = []
        try:
            for part in self._parts:
                if first < part.count and last > 0:
                    found += part.window(first, last)
                first, last = first - part.count, last - part.count
        except ServerTrouble:  # the rows that were fetched before are stale, as all that is shown then
            if not begin <= start < end:
                begin, end, rows = self._stale
            return rows[start - begin : stop - begin] if begin <= start < end else ()
        if self._backwards:
            found.reverse()
        if len(found) == stop - start:
            self._last = (start, stop, found)
        return found

    def find(self, key: Key) -> int | None:
        if not isinstance(key, tuple) or len(key) < 2 or key[0] != self.query.box:
            return None
        begin, _, rows = self._last
        for place, row in enumerate(rows):
            if row.key == key:
                return begin + place
        before = 0
        try:
            for part in self._parts:
                if (at := part.find(str(key[1]))) is not None:
                    return self._count - 1 - before - at if self._backwards else before + at
                before += part.count
        except ServerTrouble:
            return None
        return None

    def keys(self) -> Iterator[Key]:
        """Yields all keys, in order. Raises ``Unreadable`` where the server stops answering."""
        try:
            for part in reversed(self._parts) if self._backwards else self._parts:
                if self._backwards:
                    yield from [row.key for page in part.rows() for row in page][::-1]
                else:
                    for page in part.rows():
                        yield from (row.key for row in page)
        except ServerTrouble as trouble:
            raise Unreadable(str(trouble), advice="try again") from None


def in_order_of_ids(query: ListQuery) -> bool | None:
    """Returns whether a list begins with its end, where the server has it in order already; None where it has not."""
    if query.filter or (query.selection is not None and query.selection != type(query.selection)(box=query.box)):
        everything = query.selection is None or query.selection == type(query.selection)(everything=True)
        if query.filter or not everything:
            return None
    column, descending = query.sort.column, query.sort.descending
    if query.box is Box.NEW and column in ("age", "held"):
        return not descending
    if query.box is Box.NEW and column == "name":
        return descending
    if query.box is Box.CUR and column == "verdict" and descending:
        return False
    return None
