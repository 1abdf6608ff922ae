"""The directories that places of messages lie in, each opened once, and of those beside the boxes never too many at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from spooltop.engine import set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.vocabulary import Box, Json

from .location import Place
from .metadata import plain_meta

__all__ = ["Folder", "Folders", "drop_folder"]

_KEPT = 128
"""Folders of operations kept open: there may be more of them than a process may have descriptors."""


def drop_folder(dirs: SpoolDirs, box: Box, folder: str) -> None:
    """Takes away the folder of an operation if nothing is in it. Only for the trash: into the folders of other boxes a consumer
    that runs may be setting aside."""
    try:
        above = dirs.private_dir(box.value)
        if above is not None:
            dirs.forget(box.value, folder)
            with suppress(FileNotFoundError):  # who took it away was cut off
                dirs.files.rmdir(folder, above)
            dirs.files.unlink(set_aside.meta_name(folder), above)  # what all of them had in common, if they had
    except OSError:
        return  # something is in it, or it is gone, or it stays: an empty folder is in nobody's way


class Folder(NamedTuple):
    """A descriptor, kept by the ``SpoolDirs``, and the (device, inode) of the directory."""

    fd: int
    id: tuple[int, int]


class Folders:
    """``before_closing`` is called before any folder is closed to make room."""

    def __init__(self, dirs: SpoolDirs, before_closing: Callable[[], None] = lambda: None) -> None:
        self._dirs = dirs
        self.files = dirs.files
        self._before_closing = before_closing
        self._boxes: dict[Box, Folder] = {}
        self._aside: dict[tuple[Box, str], Folder] = {}
        self._shared: dict[tuple[Box, str], dict[str, Json]] = {}

    def of(self, box: Box, folder: str, *, create: bool = False) -> Folder:
        """The directory of what stands in ``folder`` of ``box`` (``Place``). ``FileNotFoundError`` where there is none and
        ``create`` is False, else ``OSError``."""
        if not folder:
            found = self._boxes.get(box)
            if found is None:
                found = self._boxes[box] = self._opened(self._dirs.box(box))
            return found
        found = self._aside.get((box, folder))
        if found is None:
            if len(self._aside) >= _KEPT:
                self.close()
            fd = set_aside.folder(self._dirs, box, folder, create=create)
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
        """``aside.read_shared`` by ``plain_meta``, what could be read once."""
        told = self._shared.get((box, folder))
        if told is None:
            told = plain_meta(set_aside.read_shared(self._dirs, box, folder))
            if told:
                if len(self._shared) >= _KEPT:
                    self._shared.clear()
                self._shared[box, folder] = told
        return told

    def close(self) -> None:
        """Closes those beside the boxes. Raises ``OSError``."""
        self._before_closing()
        while self._aside:
            (box, folder), _ = self._aside.popitem()
            self._dirs.forget(box.value, folder)

    def _opened(self, fd: int) -> Folder:
        found = self.files.fstat(fd)
        return Folder(fd, (found.st_dev, found.st_ino))
