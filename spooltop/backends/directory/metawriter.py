"""The metadata beside what is set aside: written before the message comes, and by a link where another's say the same."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted
from stat import S_IMODE

from ...engine import aside
from ...engine.dirs import SpoolDirs
from ...engine.files import mode_like
from .sight import Sight

__all__ = ["MetaWriter"]


class MetaWriter:
    """For one operation. What is to be written is told by the descriptor of the folder and the words, a JSON object still
    open."""

    def __init__(self, dirs: SpoolDirs) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._sight = Sight(dirs.files)
        self._fit: set[int] = set()
        self._beside: dict[tuple[int, str], str] = {}

    def forget(self) -> None:
        """To be called before a folder is closed: another may get its descriptor."""
        self._fit.clear()
        self._beside.clear()

    def link(self, name: str, meta: tuple[int, str]) -> bool:
        """Gives the metadata of another message that say the same, if there are any, the name of those of ``name`` too: a third
        of the time of a file. False where they have to be written."""
        beside = aside.meta_name(name)
        before = self._beside.get(meta)
        if before is None or name not in beside:
            return False
        try:
            self._files.link(before, meta[0], beside, meta[0])
        except OSError:
            return False  # what is wrong is told by writing them: no links here, too many of them, or that one is gone
        return True

    def write(self, name: str, meta: tuple[int, str]) -> None:
        """Raises ``OSError``, and leaves nothing then."""
        folder, words = meta
        beside = aside.meta_name(name)
        try:
            fd = self._files.create(beside, folder)
        except FileExistsError:
            if self._sight.inode(name, folder) is not None:
                raise
            self._files.unlink(beside, folder)  # left by one that was cut off
            fd = self._files.create(beside, folder)
        shared = name in beside  # else the name is too long to stand there, and stands inside
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
            self._beside[meta] = beside

    def drop(self, name: str, folder: int) -> None:
        try:
            self._files.unlink(aside.meta_name(name), folder)
        except OSError:
            return  # metadata without a message are never shown; where the message stands is what counts

    def _make_fit(self, fd: int, folder: int) -> None:
        """Gives the metadata to whom it belongs, and finds out whether all in this folder are born so."""
        like, born = self._dirs.like, self._files.fstat(fd)
        self._files.own_as(fd, like)
        if (born.st_uid, born.st_gid, S_IMODE(born.st_mode)) == (like.st_uid, like.st_gid, mode_like(like, False)):
            self._fit.add(folder)
