"""Pins messages by identity, and finds the messages that wait under the same ids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from typing import NamedTuple

from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.progress import Progress
from spooltop.model.vocabulary import Box, Json

from ..storage.folders import Folders
from ..storage.location import Place, Ref

__all__ = ["Pinned", "inodes_in_new", "pin"]


class Pinned(NamedTuple):
    """A file as it is now: its place, its status, and the (device, inode) of its directory."""

    place: Place
    found: os.stat_result
    folder_id: tuple[int, int]

    def ref(
        self, token: str | None, target: Place | None, meta: Mapping[str, Json] | None = None, box: Box | None = None
    ) -> Ref:
        """The pin of a move of this file; the arguments are those of ``Ref``."""
        found = self.found
        return Ref(self.place, found.st_ino, found.st_size, found.st_ctime_ns, self.folder_id, token, target, meta, box)


def pin(folders: Folders, place: Place) -> Pinned:
    """Pins the file at ``place``. Raises ``OSError``."""
    folder = folders.of(place.box, place.folder)
    return Pinned(place, folders.files.stat(place.name, folder.fd), folder.id)


def inodes_in_new(dirs: SpoolDirs, ids: Set[str], progress: Progress) -> dict[str, int]:
    """Finds the messages in ``new`` that have one of ``ids``: id → inode. One pass over the names."""
    if dirs.new is None or not ids:
        return {}
    found: dict[str, int] = {}
    progress.begin("in new compared")
    for name in progress.each(dirs.files.scan(dirs.new)):
        start = name.partition(",")[0]
        maybe = start in ids or "%" in start or name in ids  # an id is there as it is, encoded, or is the whole name
        if maybe and (id := names.parse(name, claimed=False).id) in ids:
            try:
                found[id] = dirs.files.stat(name, dirs.new).st_ino
            except FileNotFoundError:
                continue  # claimed meanwhile
    return found
