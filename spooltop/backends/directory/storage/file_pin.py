"""Identity of a file beside the messages: a lock, a pause. It tells if the file is still the one that was seen."""

from __future__ import annotations

import os

__all__ = ["Pin", "pinned"]

Pin = tuple[int, int, int, int]
"""Identifies a file with its content: inode, size, mtime and ctime in ns."""


def pinned(found: os.stat_result) -> Pin:
    """The pin of a file with this status."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
