"""Counts the names in the boxes of a spool: a first picture, long before a look."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spooltop.model.vocabulary import LIVE, Box


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
