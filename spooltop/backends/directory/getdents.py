"""A directory in large pieces, getdents64(2): Python's own scandir gives the interpreter to another thread at each name.

While the dashboard is being loaded that other thread is busy, and each name would then cost its whole turn.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator

__all__ = ["blocks", "count", "counted", "here"]

_getdents64 = getattr(ctypes.CDLL(None, use_errno=True), "getdents64", None)
if _getdents64 is not None:
    _getdents64.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
    _getdents64.restype = ctypes.c_ssize_t

_BLOCK = 1 << 19
_LENGTH, _NAME = 16, 19
"""Where the length of an entry (two bytes) and its name stand in it, after d_ino and d_off."""


def here() -> bool:
    """Whether this system's C library has getdents64."""
    return _getdents64 is not None


def blocks(fd: int) -> Iterator[bytes]:
    """The entries of the directory ``fd`` (open, at its beginning), as the kernel lays them out. Raises ``OSError``."""
    if _getdents64 is None:
        raise OSError(38, "no getdents64 here")
    room = ctypes.create_string_buffer(_BLOCK)
    while (got := _getdents64(fd, room, _BLOCK)) != 0:
        if got < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        yield ctypes.string_at(room, got)


def counted(block: bytes) -> int:
    """How many entries of a block have a name that does not begin with a dot."""
    length = int.from_bytes(block[_LENGTH : _LENGTH + 2], sys.byteorder)
    entries, rest = divmod(len(block), length)
    # Names of one length, as nearly all spools have them: what stands at each step is looked at by slices alone.
    if not rest and all(block[_LENGTH + at :: length] == block[_LENGTH + at : _LENGTH + at + 1] * entries for at in (0, 1)):
        return entries - block[_NAME::length].count(b".")
    at = found = 0
    low, high = (_LENGTH, _LENGTH + 1) if sys.byteorder == "little" else (_LENGTH + 1, _LENGTH)
    while at < len(block):
        found += block[at + _NAME] != 46
        at += block[at + low] | block[at + high] << 8
    return found


def count(fd: int) -> int:
    """How many names the directory ``fd`` holds, those that begin with a dot apart. Raises ``OSError``."""
    return sum(map(counted, blocks(fd)))
