"""Opens the directories of message places, each once, and never too many folders of operations at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from spooltop.engine import set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.vocabulary import Box, Json

from .location import Place, folders_dir
from .metadata import plain_meta

__all__ = ["Folder", "Folders", "drop_folder"]

_KEPT = 128
"""Folders that are kept open. There may be more folders than a process may have descriptors."""
_LISTED = 10_000
"""Names of metadata in one folder up to which they are kept."""


def drop_folder(dirs: SpoolDirs, box: Box, folder: str) -> None:
    """Removes the folder of an operation if it is empty. Only for the trash: a running consumer may be setting aside into the
    folders of other boxes."""
    try:
        above = dirs.private_dir(box.value)
        if above is not None:
            dirs.forget(box.value, folder)
            with suppress(FileNotFoundError):  # a removal was interrupted
                dirs.files.rmdir(folder, above)
            dirs.files.unlink(set_aside.meta_name(folder), above)  # the shared metadata, if there are any
    except OSError:
        return  # it has content, or is gone, or stays: an empty folder does no harm


class Folder(NamedTuple):
    """A descriptor, kept by the ``SpoolDirs``, and the (device, inode) of the directory."""

    fd: int
    id: tuple[int, int]


class Folders:
    """Folders of operations and staging directories. ``before_closing`` is called before any of them is closed to make room."""

    def __init__(self, dirs: SpoolDirs, before_closing: Callable[[], None] = lambda: None) -> None:
        self._dirs = dirs
        self.files = dirs.files
        self._before_closing = before_closing
        self._boxes: dict[Box, Folder] = {}
        self._aside: dict[tuple[Box, str], Folder] = {}
        self._shared: dict[tuple[Box, str], dict[str, Json]] = {}
        self._own: dict[tuple[Box, str], frozenset[str] | None] = {}

    def of(self, box: Box, folder: str, *, create: bool = False) -> Folder:
        """Returns the directory ``folder`` of ``box`` (``Place``). Raises ``FileNotFoundError`` if there is none and ``create``
        is False, and ``OSError``."""
        if not folder:
            found = self._boxes.get(box)
            if found is None:
                found = self._boxes[box] = self._opened(self._dirs.box(box))
            return found
        found = self._aside.get((box, folder))
        if found is None:
            if len(self._aside) >= _KEPT:
                self.close()
            fd = self._dirs.private_dir(folders_dir(box), folder, create=create)
            if fd is None:
                raise FileNotFoundError(f"{box}/{folder}")
            found = self._aside[box, folder] = self._opened(fd)
        return found

    def metadata_of(self, place: Place) -> dict[str, Json]:
        """Reads the metadata of a message that was set aside: ``origin``, ``reason``, ``at``, ``who``, ``operation`` and
        ``ended``, each a plain value of limited length. ``was`` holds the metadata that it had if it had been set aside before.
        Empty where nothing can be read. Raises ``OSError`` only for a descriptor that cannot be closed.
        """
        try:
            folder = self.of(place.box, place.folder)
        except OSError:
            return {}
        own = set_aside.read_metadata(self.files, place.name, folder.fd)
        return self.shared(place.box, place.folder) if own is None else plain_meta(own)

    def shared(self, box: Box, folder: str) -> dict[str, Json]:
        """Returns the shared metadata of a folder through ``plain_meta``. They are read once."""
        found = self._shared.get((box, folder))
        if found is None:
            found = plain_meta(set_aside.read_shared(self._dirs, box, folder))
            if found:
                if len(self._shared) >= _KEPT:
                    self._shared.clear()
                self._shared[box, folder] = found
        return found

    def own_metadata(self, box: Box, folder: str) -> frozenset[str] | None:
        """Returns the names of the metadata of single messages in a folder, listed once; None where they are too many to keep, or
        cannot be listed."""
        if (box, folder) not in self._own:
            if len(self._own) >= _KEPT:
                return None
            try:
                names = self.files.scan(self.of(box, folder).fd)
                found = frozenset(islice((name for name in names if name.startswith(".")), _LISTED))
            except OSError:
                found = None
            self._own[box, folder] = None if found is None or len(found) == _LISTED else found
        return self._own[box, folder]

    def close(self) -> None:
        """Closes all folders. Raises ``OSError``."""
        self._before_closing()
        while self._aside:
            (box, folder), _ = self._aside.popitem()
            self._dirs.forget(folders_dir(box), folder)

    def _opened(self, fd: int) -> Folder:
        found = self.files.fstat(fd)
        return Folder(fd, (found.st_dev, found.st_ino))
