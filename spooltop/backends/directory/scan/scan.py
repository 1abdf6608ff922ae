"""Scans a box: names only, streamed, by descriptor. The scan is the truth; everything else is only a hint that a scan is due."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from msgspec import Struct, field

from spooltop.engine import names
from spooltop.model.vocabulary import LIVE, Box

# Counts the names in the boxes of a spool: a first picture, long before a look.


def count_boxes(path: str) -> Mapping[Box, int | None]:
    """Returns the number of names in each box of ``path``, without those that begin with a dot; None where a box cannot be
    counted."""
    return {box: _count(os.path.join(path, box)) for box in LIVE}


def _count(folder: str) -> int | None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return sum(name[0] != "." for name in os.listdir(fd))
    except OSError:
        return None
    finally:
        os.close(fd)


# Packs a million names into 30 MB: chunks of names joined by ``/``, the one byte that no name contains.

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


_IRREGULAR_AT_MOST = 1_000
_UNTIMED_AT_MOST = 50_000
_TRIED_AT_MOST = 10_000
_SAMPLE = 100
_AT_ONCE = 1_000
_ROOMY = 150
_PLAIN = re.compile(rb"(?:[0-9]{16}\.[!-.0-~]{0,133}/)+")
"""Matches joined names in the form of the engine and most others: a time in front, and room for the suffix of a claim."""
_TRIED = re.compile(rb"([^/]*,n=[1-9][0-9]{0,8}(?:,t=[0-9]{1,17})?(?:,e=[^,/]{1,24})?)/|[^/]*+/")
"""Captures, among names joined by ``/``, those of messages with earlier attempts, never a canary. Of other names it captures
nothing, but passes over them whole: a search would begin again at each letter."""
_IDS = re.compile(rb"([^,/]+)[^/]*/")

Generation = tuple[int, int, int]
"""(st_dev, st_ino, st_mtime_ns) of a directory: changes with every name that comes or goes."""


class BoxScan(Struct, frozen=True):
    """Result of one scan. Fields ending in ``_us`` are microseconds since the epoch, other times seconds of the monotonic
    clock.

    ``oldest_us`` is the earliest time found in a name (for names without a time: mtime). ``irregular`` are names that are not
    regular files or are too long for the suffix of a claim; ``duplicates`` are names whose id was also in the other box;
    ``tried`` are names that record earlier attempts, the first ten thousand (``tried_all``: they are all of them). ``staged`` are
    the files of ``tmp`` in staging directories, ``FOLDER/NAME``, which ``names`` does not hold. ``clean`` is
    False where the directory changed during the scan, ``complete`` is False where the listing broke off.
    """

    names: PackedNames = field(default_factory=PackedNames)
    oldest_us: int | None = None
    oldest_name: str | None = None
    irregular: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    tried_all: bool = True
    bytes: int | None = None
    bytes_estimated: bool = False
    generation: Generation | None = None
    clean: bool = True
    complete: bool = True
    error: str = ""
    duration: float = 0.0
    effort: float = 0.0
    """Processor seconds of ``duration``: without the time in which others had the machine, or it waited."""
    as_of: float = 0.0
    number: int = 0
    staged: tuple[str, ...] = ()


def generation_of(fd: int) -> Generation:
    """Returns the generation of an open directory. Raises ``OSError`` if the descriptor is stale (a network file system forgot
    it)."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino, found.st_mtime_ns


def quick_enqueued_us(name: str) -> int | None:
    """Returns the time at the front of a name, like ``names.enqueued_us``, but tries the usual form first."""
    if name[16:17] == "." and name[:16].isdecimal() and name[:16].isascii():
        return int(name[:16])
    return names.enqueued_us(name)


def scan_box(
    fd: int,
    *,
    ids: Set[str] = frozenset(),
    untimed: dict[str, int] | None = None,
    sizes: bool = True,
) -> BoxScan:
    """Lists the directory behind ``fd`` to its end. Never raises for what the directory does: ``error`` says it.

    ``ids`` are ids to look out for (those of the other box). ``untimed`` is the cache name → mtime in µs of names that hold
    no time; it is rewritten to what is still there. ``sizes``: exact bytes up to 200 files, else an estimate.
    """
    tally = _Tally(ids, untimed if untimed is not None else {})
    error = ""
    before: Generation | None = None
    own = -1
    began, worked = time.monotonic(), time.thread_time()
    try:
        # A descriptor of its own: the offset of a shared one would be moved by whoever else lists.
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        before = generation_of(own)
        with os.scandir(own) as entries:
            while some := list(islice(entries, _AT_ONCE)):
                tally.add(own, some)
        packed = tally.names
        after = generation_of(own)
        total, estimated = _bytes(own, packed) if sizes else (None, False)
    except OSError as problem:
        packed, after, total, estimated = tally.names, None, None, False
        error = "permission denied" if problem.errno in (1, 13) else str(problem.strerror)
    finally:
        if own >= 0:
            os.close(own)
    if untimed is not None:
        untimed.clear()
        untimed.update(tally.kept)
    oldest, oldest_name = tally.oldest()
    return BoxScan(
        packed, oldest, oldest_name, tuple(tally.irregular), tuple(tally.duplicates), tuple(tally.tried[:_TRIED_AT_MOST]),
        len(tally.tried) <= _TRIED_AT_MOST, total, estimated, before, before == after, not error, error,
        time.monotonic() - began, time.thread_time() - worked,
    )  # fmt: skip


class _Tally:
    """Collects the facts about each name during a scan. ``known`` is the cache of ``scan_box``, ``kept`` its new content."""

    def __init__(self, ids: Set[str], known: dict[str, int]) -> None:
        self.names = PackedNames()
        self.irregular: list[str] = []
        self.duplicates: list[str] = []
        self.tried: list[str] = []
        self.kept: dict[str, int] = {}
        self._ids = frozenset(os.fsencode(id) for id in ids)
        self._known = known
        self._oldest: int | None = None
        self._oldest_name: str | None = None
        self._first = b":"

    def oldest(self) -> tuple[int | None, str | None]:
        """Returns the earliest time (µs since the epoch) and its name."""
        if self._first != b":" and (self._oldest is None or int(self._first[:16]) < self._oldest):
            return int(self._first[:16]), os.fsdecode(self._first)
        return self._oldest, self._oldest_name

    def add(self, own: int, entries: Sequence[os.DirEntry[str]]) -> None:
        """Adds entries of a directory, all at once if all are plain files with a time in front."""
        regular = [entry.is_file(follow_symlinks=False) for entry in entries]
        joined = os.fsencode("/".join([entry.name for entry in entries])) + b"/"
        if not all(regular) or not _PLAIN.fullmatch(joined):
            for entry, is_file in zip(entries, regular, strict=True):
                self._take(own, entry.name, is_file)
            return
        found = joined[:-1].split(b"/")
        self.names.extend(found)
        if b",n=" in joined and len(self.tried) <= _TRIED_AT_MOST:
            self.tried += map(os.fsdecode, filter(None, _TRIED.findall(joined)))
        self._first = min(self._first, min(found))
        if self._ids and not self._ids.isdisjoint(_IDS.findall(joined)):
            self.duplicates += [os.fsdecode(name) for name in found if name.partition(b",")[0] in self._ids]

    def _take(self, own: int, name: str, is_file: bool) -> None:
        if name[0] == ".":
            return
        self.names.append(name)
        raw = os.fsencode(name)
        if b",n=" in raw and len(self.tried) <= _TRIED_AT_MOST and any(_TRIED.findall(raw + b"/")):
            self.tried.append(name)
        if self._ids and raw.partition(b",")[0] in self._ids:
            self.duplicates.append(name)
        if not is_file:
            if len(self.irregular) < _IRREGULAR_AT_MOST:
                self.irregular.append(name)
            return
        if len(raw) > _ROOMY and not names.claimable(name) and len(self.irregular) < _IRREGULAR_AT_MOST:
            self.irregular.append(name)
        if raw[16:17] == b"." and raw[:16].isdigit():
            self._first = min(self._first, raw)  # the usual form, which sorts as text like the number
            return
        when = names.enqueued_us(name)
        if when is None:
            when = self._known.get(name)
            if when is None and len(self.kept) < _UNTIMED_AT_MOST:
                try:
                    when = os.stat(name, dir_fd=own, follow_symlinks=False).st_mtime_ns // 1_000
                except OSError:
                    when = None  # gone since, so it has no age
            if when is not None and len(self.kept) < _UNTIMED_AT_MOST:
                self.kept[name] = when
        if when is not None and (self._oldest is None or when < self._oldest):
            self._oldest, self._oldest_name = when, name


def _bytes(fd: int, names: PackedNames) -> tuple[int | None, bool]:
    """Returns the bytes of all files, and whether that is an estimate: the mean of a sample times the count, for many files."""
    count = len(names)
    if not count:
        return 0, False
    exact = count <= 2 * _SAMPLE
    step = 1 if exact else count / _SAMPLE
    total = seen = 0
    for turn in range(count if exact else _SAMPLE):
        try:
            found = os.stat(names[int(turn * step)], dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue  # gone since: the mean of the others stands for it
        if stat.S_ISREG(found.st_mode):
            total += found.st_size
        seen += 1
    if exact:
        return total, False
    return (int(total / seen * count), True) if seen else (None, True)
