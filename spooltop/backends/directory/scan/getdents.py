"""Reads a directory in large pieces by getdents64(2). ``os.scandir`` lets another thread run at each name.

That thread is busy while the dashboard is loaded, and then each name would cost a whole time slice.
"""

from __future__ import annotations

import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from spooltop.engine.system.syscalls import directory_blocks

_BLOCK = 1 << 17
_LARGE = 1 << 20
"""Block size for use where each return to the interpreter has to wait for another thread."""
_AT_ONCE = 64
"""Entries that are unpacked together."""
_LENGTH, _TYPE, _NAME = 16, 18, 19
"""Offsets of the length (two bytes), the type and the name in an entry, after d_ino and d_off."""
_LOW_HIGH = (_LENGTH, _LENGTH + 1) if sys.byteorder == "little" else (_LENGTH + 1, _LENGTH)
REGULAR, OTHER, UNKNOWN = 8, 4, 0
"""Types of entries: a regular file; anything else; unknown, if the file system does not give the type."""
_TIMED = re.compile(rb"\0\x08([0-9]{16}\.[^\0]*)\0")
"""Matches the high byte of the length of an entry, the type of a regular file, and a name with a time in front; on a big-endian
machine it matches nothing."""


def blocks(fd: int, size: int = _BLOCK) -> Iterator[bytes]:
    """Yields the entries of the directory ``fd`` (open, at its beginning) as the kernel lays them out. Raises ``OSError``."""
    return directory_blocks(fd, size)


def _without_dots(block: bytes) -> bytes:
    """Cuts off ``.`` and ``..``, with which the first block begins: their entries are shorter than those of messages."""
    at = 0
    while block[at + _NAME : at + _NAME + 2] == b".\0" or block[at + _NAME : at + _NAME + 3] == b"..\0":
        at += block[at + _LOW_HIGH[0]] | block[at + _LOW_HIGH[1]] << 8
    return block[at:] if at else block


def _even(block: bytes) -> int:
    """Returns the length of the entries if all have the same length, as in nearly all spools, else 0. Compares slices only."""
    if not block:
        return 0
    length = int.from_bytes(block[_LENGTH : _LENGTH + 2], sys.byteorder)
    number, rest = divmod(len(block), length)
    same = all(block[_LENGTH + at :: length] == block[_LENGTH + at : _LENGTH + at + 1] * number for at in (0, 1))
    return length if same and not rest else 0


def entries(block: bytes) -> tuple[list[bytes], bytes, int]:
    """Returns the names in a block, without ``.`` and ``..`` where it begins with them, and their types, one byte each. If all
    names are found at once to begin with 16 digits and a dot, it also returns a length that none exceeds, else 0."""
    block = _without_dots(block)
    if length := _even(block):
        timed = length > _NAME + 17 and block[_NAME + 16 :: length] == b"." * (len(block) // length)
        timed = timed and all(block[_NAME + at :: length].isdigit() for at in range(16))
        return _even_names(block, length), block[_TYPE::length], length - _NAME if timed else 0
    if found := _timed_names(block):
        return found, bytes((REGULAR,)) * len(found), max(map(len, found))
    types = bytearray()
    index, (low, high) = block.index, _LOW_HIGH
    at, end = 0, len(block)
    while at < end:
        found.append(block[at + _NAME : index(0, at + _NAME)])
        types.append(block[at + _TYPE])
        at += block[at + low] | block[at + high] << 8
    return found, bytes(types), 0


def _even_names(block: bytes, length: int) -> list[bytes]:
    """Returns the names in a block of entries of one length."""
    end = block.index(0, _NAME)  # of the first name, and mostly of each
    number = len(block) // length
    if all(block[at::length] == bytes(number) for at in range(end, length)) and 0 not in block[end - 1 :: length]:
        return _fields(block, length, end)
    return b"/".join(_fields(block, length, length)).replace(b"\0", b"").split(b"/")


def _fields(block: bytes, length: int, end: int) -> list[bytes]:
    """Returns the bytes from the name to ``end`` of each entry, ``_AT_ONCE`` by each call of the interpreter."""
    number = len(block) // length
    several = f"{_NAME}x{end - _NAME}s{length - end}x" * _AT_ONCE
    padded = block.ljust(-(-number // _AT_ONCE) * _AT_ONCE * length, b"\0")
    return list(chain.from_iterable(struct.iter_unpack(several, padded)))[:number]


def _timed_names(block: bytes) -> list[bytes]:
    """Returns the names in a block if all are regular files that begin with 16 digits and a dot, else an empty list.

    The pattern matches nowhere else: no name contains NUL, and from within the numbers in front of a name 17 bytes always reach
    the high byte of the length, which is no digit and no dot.
    """
    names = _TIMED.findall(block)
    lengths = Counter(map(len, names))
    whole = sum(count * (_NAME + 1 + length + 7 & ~7) for length, count in lengths.items()) == len(block)
    return names if whole else []


def counted(block: bytes) -> int:
    """Counts the entries of a block whose names do not begin with a dot."""
    block = _without_dots(block)
    if length := _even(block):
        return len(block) // length - block[_NAME::length].count(b".")
    at = found = 0
    low, high = _LOW_HIGH
    while at < len(block):
        found += block[at + _NAME] != 46
        at += block[at + low] | block[at + high] << 8
    return found


def count(fd: int) -> int:
    """Counts the names in the directory ``fd``, except those that begin with a dot. Raises ``OSError``."""
    return sum(map(counted, blocks(fd, _LARGE)))
