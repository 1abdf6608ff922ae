"""Long lists in a tenth of the memory: compressed chunks of plain columns. An object is made only when it is asked for."""

from __future__ import annotations

import marshal
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import local
from typing import Any, TypeVar, overload

from .plan import BATCH

CHUNK = BATCH
"""Items per chunk. A batch is announced, done and reported together, so it is unpacked once."""

T = TypeVar("T")

Column = list[Any] | tuple[Any]
"""A list with a value for each row; or a tuple with the one value that all rows have."""


def columns_of(rows: Iterable[Sequence[Any]]) -> list[Column]:
    """Transposes a table that has at least one row into columns.

    >>> columns_of([("a", 1, None), ("b", 1, None)])
    [['a', 'b'], (1,), (None,)]
    """
    return [column_of(values) for values in zip(*rows, strict=True)]


def column_of(values: Sequence[Any]) -> Column:
    """Packs ``values``, of which there is at least one, into a column."""
    return (values[0],) if values.count(values[0]) == len(values) else list(values)


def expand(column: Column, count: int) -> Sequence[Any]:
    """Returns a value for each of ``count`` rows."""
    return column if isinstance(column, list) else column * count


def joined(one: Column, count: int, two: Column, more: int) -> Column:
    """Appends the column ``two`` of ``more`` rows to the column ``one`` of ``count`` rows."""
    return one if isinstance(one, tuple) and one == two else [*expand(one, count), *expand(two, more)]


def cut(column: Column, start: int, stop: int) -> Column:
    """Returns the rows from ``start`` to ``stop``."""
    return column[start:stop] if isinstance(column, list) else column


def pack(columns: list[Column]) -> bytes:
    """Packs columns of plain values that marshal accepts."""
    return zlib.compress(marshal.dumps(columns), 1)


class Chunked(Sequence[T]):
    """A list that only grows. A subclass appends to ``_open``, moves whole chunks of it to ``_chunks``, packed or as a function
    that makes the chunk anew whenever it is read, and unpacks them."""

    def __init__(self) -> None:
        self._chunks: list[bytes | Callable[[], Sequence[T]]] = []
        self._open: Sequence[T] = []
        self._last = local()  # two threads may look at a list: each keeps the chunk that it unpacked

    @abstractmethod
    def unpacked(self, packed: list[Column]) -> Sequence[T]: ...

    def as_list(self) -> Sequence[T]:
        """Returns a plain list if there are no packed chunks, else self."""
        return self if self._chunks else list(self._open)

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._open)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[place] for place in range(start, stop, step)]
            return self._between(start, max(start, stop))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._chunk(place // CHUNK)[place % CHUNK]

    def __iter__(self) -> Iterator[T]:
        for chunk in self._chunks:
            yield from self._all_of(chunk)
        yield from self._open

    def _between(self, start: int, stop: int) -> Sequence[T]:
        if start % CHUNK == 0 and stop == start + CHUNK:
            return self._chunk(start // CHUNK)
        found: list[T] = []
        for number in range(start // CHUNK, (stop + CHUNK - 1) // CHUNK):
            first = number * CHUNK
            found += self._chunk(number)[max(0, start - first) : stop - first]
        return found

    def _chunk(self, number: int) -> Sequence[T]:
        if number == len(self._chunks):
            return self._open
        if getattr(self._last, "number", None) != number:
            self._last.chunk = self._all_of(self._chunks[number])
            self._last.number = number
        chunk: Sequence[T] = self._last.chunk
        return chunk

    def _all_of(self, chunk: bytes | Callable[[], Sequence[T]]) -> Sequence[T]:
        if not isinstance(chunk, bytes):
            return chunk()
        return self.unpacked(marshal.loads(zlib.decompress(chunk)))
