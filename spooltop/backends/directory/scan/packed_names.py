"""Packs a million names into 30 MB: chunks of names joined by ``/``, the one byte that no name contains."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["CHUNK", "PackedNames"]

CHUNK = 256


class PackedNames:
    """List of file names that only grows. Names are str outside (``os.fsdecode``) and bytes inside."""

    __slots__ = ("_chunks", "_last", "_last_names", "_open")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._open: list[bytes] = []
        self._last: int = -1
        self._last_names: list[str] = []

    def append(self, name: str) -> None:
        self._open.append(os.fsencode(name))
        if len(self._open) == CHUNK:
            self._chunks.append(b"/".join(self._open))
            self._open = []

    def extend(self, names: list[bytes]) -> None:
        """Appends many at once, as bytes."""
        names = self._open + names
        whole = len(names) // CHUNK * CHUNK
        self._chunks += [b"/".join(names[start : start + CHUNK]) for start in range(0, whole, CHUNK)]
        self._open = names[whole:]

    def same(self, other: PackedNames) -> bool:
        """Returns whether both hold the same names in the same order."""
        return self._chunks == other._chunks and self._open == other._open

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._open)

    def _names_of(self, number: int) -> list[str]:
        if number == len(self._chunks):
            if number != self._last or len(self._last_names) != len(self._open):
                self._last, self._last_names = number, [os.fsdecode(name) for name in self._open]
        elif number != self._last or len(self._last_names) != CHUNK:
            self._last, self._last_names = number, os.fsdecode(self._chunks[number]).split("/")
        return self._last_names

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._names_of(index // CHUNK)[index % CHUNK]

    def sample(self, places: Iterable[int]) -> Iterator[str]:
        """Yields the names at ``places``, which lie far apart: a chunk of names of one length is not unpacked."""
        here, chunk, length = -1, b"", 0
        for place in places:
            number, within = divmod(place, CHUNK)
            if number != here:
                here, chunk = number, self._chunks[number] if number < len(self._chunks) else b""
                length = _even_length(chunk)
            yield os.fsdecode(chunk[within * length : (within + 1) * length - 1]) if length else self[place]

    def pick(self, places: Sequence[int]) -> list[str]:
        """The names at ``places``, in that order; no chunk is unpacked twice."""
        low, high = min(places, default=0), max(places, default=0)
        if high - low < 2 * len(places):  # close together, as nearly all are where the directory is in order
            first = low // CHUNK
            around = [name for number in range(first, high // CHUNK + 1) for name in self._names_of(number)]
            return [around[place - first * CHUNK] for place in places]
        picked = [""] * len(places)
        here, names = -1, [""]
        for turn in sorted(range(len(places)), key=places.__getitem__):
            number, at = divmod(places[turn], CHUNK)
            if number != here:
                here, names = number, self._names_of(number)
            picked[turn] = names[at]
        return picked

    def __iter__(self) -> Iterator[str]:
        for _, chunk in self.chunks():
            yield from os.fsdecode(chunk).split("/")

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """(index of its first name, names joined by ``/``) of each chunk: to look through many names without making each."""
        for number, chunk in enumerate(self._chunks):
            yield number * CHUNK, chunk
        if self._open:
            yield len(self._chunks) * CHUNK, b"/".join(self._open)

    def find(self, name: str) -> int | None:
        """The index of a name, None where it is not among them."""
        wanted = os.fsencode(name)
        for start, chunk in self.chunks():
            if wanted in chunk:
                names = os.fsdecode(chunk).split("/")
                if name in names:
                    return start + names.index(name)
        return None


def _even_length(chunk: bytes) -> int:
    """Returns the length of each name of a whole chunk with the ``/`` behind it, if all have the same length, else 0."""
    length = chunk.find(b"/") + 1
    return length if len(chunk) + 1 == length * CHUNK and chunk[length - 1 :: length] == b"/" * (CHUNK - 1) else 0
