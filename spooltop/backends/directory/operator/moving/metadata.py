"""The metadata of messages that are set aside: written before the message arrives, and once for all messages whose metadata are
equal.

For a few messages, metadata by links take a third of the time of the moves. For very many they take half of it: the names fill
the directory, and with it the journal of the file system. Measured on ext4, a million: 47 s without, 91 s with a link for each,
where a bare loop of renames takes 18 to 23. So the metadata that the messages of a large operation have in common are in one
file beside its folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quoted
from stat import S_IMODE
from typing import NamedTuple

from spooltop.engine import set_aside
from spooltop.engine.atomic import write_new
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import mode_like
from spooltop.model.vocabulary import Box, Json

from ...storage.name_lookup import NameLookup

__all__ = ["MetaWriter"]

_SAME_TIME = 600.0
"""Seconds within which messages count as set aside at one time: at a low rate an operation takes days."""


class _Common(NamedTuple):
    """The common metadata beside a folder: its inode, its text and the parsed text. ``_NOTHING`` equals no metadata."""

    inode: int
    words: str
    said: Mapping[str, Json]


_NOTHING = _Common(0, "", {})


class MetaWriter:
    """Writes the metadata of one operation. They are given by the descriptor of the folder and their text, a JSON object still
    open. ``large``: the common part lies beside the folder."""

    def __init__(self, dirs: SpoolDirs, *, large: bool = False) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._large = large
        self._lookup = NameLookup(dirs.files)
        self._fit: set[int] = set()
        self._meta_names: dict[tuple[int, str], str] = {}
        self._common: dict[tuple[Box, str], _Common] = {}
        self._covered: dict[tuple[Box, str, str], bool] = {}

    def forget(self) -> None:
        """Forgets what is known by descriptor. To be called before a folder is closed: another may get its descriptor."""
        self._fit.clear()
        self._meta_names.clear()

    def settle(self) -> None:
        """Writes the common metadata again where they are gone. To be called after a batch: whoever empties the folder
        meanwhile removes what lies beside it, and the operation may have put more into a new one. Raises ``OSError``."""
        for box, folder in {asked[:2] for asked, covered in self._covered.items() if covered}:
            above, common = self._dirs.private_dir(box.value), self._common[box, folder]
            if above is None or self._lookup.there(set_aside.meta_name(folder), above) is False:
                self._common[box, folder] = common._replace(inode=self._write_common(box, folder, common.words))
        self._covered.clear()

    def covers(self, box: Box, folder: str, words: str) -> bool:
        """True where ``words`` are the common metadata beside ``folder``, which is this operation's own, for all messages in it
        that have none of their own. The first ones asked for are written there. Never raises ``OSError``: an error shows where
        each message gets its own."""
        if not self._large:
            return False
        asked = box, folder, words
        known = self._covered.get(asked)
        if known is None:
            known = self._covered[asked] = self._cover(box, folder, words)
        return known

    def _cover(self, box: Box, folder: str, words: str) -> bool:
        said: dict[str, Json] = json.loads(f"{words}}}")
        common = self._common.get((box, folder))
        try:
            if common is None or (common.said and self._lies_there(box, folder) is None):
                common = _Common(self._write_common(box, folder, words), words, said)
            elif common.said and self._lies_there(box, folder) != common.inode:
                common = _NOTHING  # somebody else's
        except OSError:
            common = _NOTHING
        self._common[box, folder] = common
        first, now = common.said.get("at"), said.get("at")
        if not isinstance(first, float) or not isinstance(now, float) or not 0 <= now - first < _SAME_TIME:
            return False
        return {**said, "at": first} == common.said

    def _lies_there(self, box: Box, folder: str) -> int | None:
        """The inode of the common metadata beside ``folder``."""
        above = self._dirs.private_dir(box.value)
        return None if above is None else self._lookup.inode(set_aside.meta_name(folder), above)

    def _write_common(self, box: Box, folder: str, words: str) -> int:
        """Writes common metadata and gives their inode. They survive power loss when this returns, as they count for all the
        messages. Raises ``OSError``, and leaves nothing then."""
        above = self._dirs.private_dir(box.value, create=True)
        assert above is not None  # create=True makes it or raises
        name = set_aside.meta_name(folder)
        inode = write_new(self._files, above, name, f"{words}}}\n".encode(), self._dirs.owner_model)
        try:
            self._files.sync_dir(above)
        except OSError:
            self.drop(folder, above)
            raise
        return inode

    def link(self, name: str, meta: tuple[int, str]) -> bool:
        """Links equal metadata of another message, if there are any, under the name for ``name``: a third of the time of a
        file. False where they have to be written."""
        meta_name = set_aside.meta_name(name)
        before = self._meta_names.get(meta)
        if before is None or name not in meta_name:
            return False
        try:
            self._files.link(before, meta[0], meta_name, meta[0])
        except OSError:
            return False  # writing them shows what is wrong: no links here, too many of them, or that one is gone
        return True

    def write(self, name: str, meta: tuple[int, str]) -> None:
        """Writes the metadata of one message. Raises ``OSError``, and leaves nothing then."""
        folder, words = meta
        meta_name = set_aside.meta_name(name)
        try:
            fd = self._files.create(meta_name, folder)
        except FileExistsError:
            if self._lookup.inode(name, folder) is not None:
                raise
            self._files.unlink(meta_name, folder)  # left by one that was cut off
            fd = self._files.create(meta_name, folder)
        shared = name in meta_name  # else the name is too long to stand there, and stands inside
        inside = "" if shared else f', "name": {quoted(name)}'
        try:
            try:
                self._files.write_all(fd, f"{words}{inside}}}\n".encode())
                if folder not in self._fit:
                    self._make_fit(fd, folder)
            finally:
                self._files.close(fd)
        except OSError:
            self.drop(name, folder)
            raise
        if shared:
            self._meta_names[meta] = meta_name

    def drop(self, name: str, folder: int) -> None:
        try:
            self._files.unlink(set_aside.meta_name(name), folder)
        except OSError:
            return  # metadata without a message are never shown; where the message stands is what counts

    def _make_fit(self, fd: int, folder: int) -> None:
        """Gives the metadata their owner and mode, and finds out whether new files in this folder have them from the start."""
        like, born = self._dirs.owner_model, self._files.fstat(fd)
        self._files.copy_owner(fd, like)
        if (born.st_uid, born.st_gid, S_IMODE(born.st_mode)) == (like.st_uid, like.st_gid, mode_like(like, False)):
            self._fit.add(folder)
