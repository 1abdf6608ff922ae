"""The name of its layout, kept in spooltop's own directory beside a queue: a drained queue has no file left to be known by.

Whoever may write the queue may have written the name. So it is only compared with the names of known layouts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from spooltop.engine.atomic import publish
from spooltop.engine.system.files import REAL_FILES, read_small

from .definition.layout import Layout
from .queue_dirs import QueueDirs

__all__ = ["KEPT", "keep_name", "kept_layout"]

KEPT = "layout"
_LIMIT = 1024


def keep_name(dirs: QueueDirs, name: str) -> None:
    """Writes the name of the layout by which the queue is changed, unless it stands there. Raises ``OSError``."""
    if _kept_name(dirs) == name:
        return
    own = dirs.private_dir(create=True)
    assert own is not None  # create=True makes it or raises
    publish(dirs.files, own, KEPT, f"{name}\n".encode(), dirs.files.fstat(own))


def kept_layout(path: str, layouts: Iterable[Layout], *, by_owner: bool = False) -> Layout | None:
    """Returns the layout whose name is kept beside the queue at ``path``; None for a name that none of ``layouts`` has, and
    with ``by_owner`` for one that neither its owner wrote, nor root or this user. Raises ``OSError`` where the queue cannot be
    opened."""
    names: dict[str, str | None] = {}
    for layout in layouts:
        if layout.side_dir not in names:
            with QueueDirs(path, layout.side_dir, REAL_FILES) as dirs:
                names[layout.side_dir] = _kept_name(dirs, by_owner=by_owner)
        if names[layout.side_dir] == layout.name:
            return layout
    return None


def _kept_name(dirs: QueueDirs, *, by_owner: bool = False) -> str | None:
    try:
        own = dirs.private_dir()
        if own is None:
            return None
        found = read_small(KEPT, own, limit=_LIMIT, whole=True)
        if by_owner and found.status.st_uid not in (0, os.geteuid(), dirs.owner_model.st_uid):
            return None
        return found.data.decode().removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None  # what cannot be read names no layout: the files may still show which it is
