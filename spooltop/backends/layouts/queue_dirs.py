"""The directory of a queue and the one of spooltop's own beside its messages, as descriptors.

A location is a path relative to the queue; one that begins with ``//`` is relative to spooltop's own directory, in which the
journal, the audit log and what was set aside lie: ``//trash/OPERATION/0/queue/7.msg``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.engine.dirs import make_dir
from spooltop.engine.system.files import Files, close_all

__all__ = [
    "ASIDE", "QueueDirs", "aside", "in_queue", "is_aside", "is_location", "own_name",
    "shown_location",
]  # fmt: skip

ASIDE = "//"
"""Beginning of a location in spooltop's own directory."""


def aside(*parts: str) -> str:
    """The location of a path in spooltop's own directory."""
    return ASIDE + "/".join(parts)


def is_aside(location: str) -> bool:
    """True for what lies in spooltop's own directory."""
    return location.startswith(ASIDE)


def in_queue(location: str) -> str:
    """The path in the queue from which the file at ``location`` was set aside, or at which it lies."""
    return location if not is_aside(location) else location.removeprefix(ASIDE).split("/", 3)[-1]


def is_location(location: str) -> bool:
    """True for a location that leads out of no directory."""
    parts = location.removeprefix(ASIDE).split("/")
    return "\0" not in location and all(part not in ("", ".", "..") for part in parts)


def own_name(side_dir: str, path: str) -> tuple[bool, str]:
    """The name of spooltop's own directory for the queue at ``path``, and True where it lies beside the queue, not in it."""
    name = side_dir.replace("{root}", os.path.basename(os.path.realpath(path)))
    return name.startswith("../"), name.removeprefix("../")


def shown_location(location: str, side_dir: str, path: str) -> str:
    """The location as a path that is relative to the queue at ``path``: ``.spooltop/trash/OPERATION/0/queue/7.msg``."""
    beside, name = own_name(side_dir, path)
    return f"{'../' if beside else ''}{name}/{location.removeprefix(ASIDE)}" if is_aside(location) else location


class QueueDirs:
    """Open descriptors of a queue: a ``LogPlace``. No link is followed below ``path``. Raises ``OSError`` where the queue cannot
    be opened. Close it."""

    def __init__(self, path: str, side_dir: str, files: Files) -> None:
        self.path = path
        self.files = files
        self._beside, self._name = own_name(side_dir, path)
        self._own: int | None = None
        self._above: int | None = None
        self.root = files.open_dir(path, follow=True)
        try:
            self._like = files.fstat(self.root)
        except BaseException:
            self.close()
            raise

    @property
    def owner_model(self) -> os.stat_result:
        """Owner, group and mode of new directories: those of the queue's own."""
        return self._like

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode of the queue's directory."""
        return self._like.st_dev, self._like.st_ino

    @property
    def own_name(self) -> str:
        """The name of spooltop's own directory, relative to the queue."""
        return f"../{self._name}" if self._beside else self._name

    def above(self) -> int:
        """The descriptor of the directory in which spooltop's own lies, which must not be closed."""
        if not self._beside:
            return self.root
        if self._above is None:
            self._above = self.files.open_dir("..", self.root)
        return self._above

    def private_dir(self, *, create: bool = False) -> int | None:
        """Opens spooltop's own directory, which must not be closed; None if it is missing and ``create`` is False. A new one
        gets owner, group and mode of the queue. Raises ``OSError``, also where it is a link."""
        if self._own is None:
            try:
                self._own = self.files.open_dir(self._name, self.above())
            except FileNotFoundError:
                if not create:
                    return None
                make_dir(self.files, self._name, self.above(), self._like)
                self._own = self.files.open_dir(self._name, self.above())
        return self._own

    @contextmanager
    def parent(self, location: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The descriptor of the directory in which ``location`` lies, and its last name. ``create`` makes the directories on
        the way. Raises ``OSError``, also for a link on the way."""
        *folders, name = location.removeprefix(ASIDE).split("/")
        at = self.private_dir(create=create) if is_aside(location) else self.root
        if at is None:
            raise FileNotFoundError(2, os.strerror(2), self._name)
        opened: list[int] = []
        try:
            for folder in folders:
                at = self._open(folder, at, create=create)
                opened.append(at)
            yield at, name
        finally:
            close_all(self.files, opened)

    def _open(self, folder: str, at: int, *, create: bool) -> int:
        try:
            return self.files.open_dir(folder, at)
        except FileNotFoundError:
            if not create:
                raise
        make_dir(self.files, folder, at, self.files.fstat(at))
        return self.files.open_dir(folder, at)

    def status(self, location: str) -> os.stat_result | None:
        """The status of what lies there, of a link itself; None where nothing does. Raises ``OSError``."""
        try:
            with self.parent(location) as (at, name):
                return self.files.stat(name, at)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """Closes all descriptors; a second call does nothing."""
        fds = [fd for fd in (self._own, self._above, self.root) if fd is not None and fd >= 0]
        self._own = self._above = None
        self.root = -1
        close_all(self.files, fds)

    def __enter__(self) -> QueueDirs:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
