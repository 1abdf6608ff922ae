"""Stores of logs: the place of the logs of a target, who may have written them, and how they are read back.

The logs of a spool lie in ``.spooltop`` beside the boxes; but when root works on a spool that belongs to somebody else, below
``state_dir``, where the owner of the spool cannot write. The logs in the spool itself are untrusted input to root then. The
logs of cursor files, tickets and lock files alone lie below ``/var/lib/spooltop`` for root, else in the user's own state
directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import AuditFailed
from spooltop.model.operations.results import AuditLog

from .append_log import AppendLog
from .log_files import AUDIT, FULL, STATE_DIR, LogFiles, open_path, state_of
from .log_lines import LogLines
from .log_parts import NextPart

__all__ = ["LogPlace", "LogStore", "PathLogs", "SpoolLogs", "SpoolPathLogs", "StateLogs", "StoredLog", "audit_logs"]


class StoredLog(NamedTuple):
    """A log as it is read. ``trusted``: nobody else may write it."""

    lines: LogLines
    trusted: bool = True


class LogStore(Protocol):
    """The logs of one target, by file name."""

    @property
    def path(self) -> str:
        """The path that errors name."""
        ...

    def append(self, name: str, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        """Appends ``line``, which ends with a newline; an empty line only syncs. The line is synced when this returns, unless
        ``sync`` is off. ``following`` as for ``AppendLog``. Raises ``AuditFailed``, and ``OSError`` where the store itself cannot
        be opened."""
        ...

    def read(self, name: str, *, latest: int | None = None) -> Iterator[StoredLog]:
        """Yields the logs called ``name``, the user's own first, each to be read before the next; only the ``latest`` parts of
        each. Raises ``OSError`` where the store itself cannot be opened."""
        ...


def audit_logs(store: LogStore, operation: str) -> list[AuditLog]:
    """The lines of the audit logs that mention ``operation``, of the user's own log first. Raises ``OSError``."""
    found: list[AuditLog] = []
    mark = f'"{operation}"'.encode()
    for log in store.read(AUDIT):
        with closing(iter(log.lines)) as lines:
            about = [line for line in lines if mark in line]
        found.append(AuditLog(about[::-1], log.lines.torn, log.lines.unread, log.trusted))
    return found


class LogPlace(Protocol):
    """An open directory that keeps logs in a directory of spooltop's own."""

    @property
    def path(self) -> str: ...

    @property
    def owner_model(self) -> os.stat_result:
        """Owner, group and mode of new files."""
        ...

    def private_dir(self, *, create: bool = False) -> int | None:
        """Opens the directory of spooltop's own; None if it is missing and ``create`` is False. Raises ``OSError``."""
        ...


class SpoolLogs:
    """The logs of an open queue as one user keeps them: a ``LogStore``. Holds a descriptor only below ``state_dir``; close it."""

    def __init__(self, dirs: LogPlace, files: LogFiles, *, state_dir: str = STATE_DIR, uid: int | None = None) -> None:
        self._dirs = dirs
        self._files = files
        self._outside = (os.geteuid() if uid is None else uid) == 0 and dirs.owner_model.st_uid != 0
        self._state = state_of(state_dir, dirs.path) if self._outside else ""
        self._state_fd: int | None = None

    @property
    def path(self) -> str:
        return self._dirs.path

    @property
    def outside(self) -> bool:
        """True where these logs lie outside the spool, because it belongs to somebody else."""
        return self._outside

    def append(self, name: str, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        try:
            folder = self._folder(outside=self._outside, create=True)
            assert folder is not None  # create=True makes it or raises
            like = self._files.fstat(folder) if self._outside else self._dirs.owner_model
            AppendLog(self._files, folder, name, like).append(line, sync=sync, following=following)
        except OSError as error:
            raise AuditFailed(
                f"{name} cannot be written: {error.strerror or error}",
                path=self._state if self._outside else self._dirs.path,
                advice="nothing is changed without it; free space or fix its permissions",
                full=error.errno in FULL,
            ) from error

    def read(self, name: str, *, latest: int | None = None) -> Iterator[StoredLog]:
        for trusted in (True, False) if self._outside else (True,):
            folder = partial(self._folder, outside=self._outside and trusted, create=False)
            yield StoredLog(LogLines(self._files, folder, name, latest=latest), trusted)

    def part(self, name: str) -> LogLines:
        """The lines of one part of the user's own logs."""
        return LogLines(self._files, partial(self._folder, outside=self._outside, create=False), name)

    def close(self) -> None:
        if self._state_fd is not None:
            self._files.close(self._state_fd)
            self._state_fd = None

    def _folder(self, *, outside: bool, create: bool) -> int | None:
        """The directory of the user's own logs or of those in the spool; None if there is none. Raises ``OSError``."""
        if not outside:
            return self._dirs.private_dir(create=create)
        if self._state_fd is None:
            try:
                self._state_fd = open_path(self._files, self._state) if create else self._files.open_dir(self._state, follow=True)
            except FileNotFoundError:
                return None
        found = self._files.fstat(self._state_fd)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(errno.EPERM, "others may write its directory", self._state)
        return self._state_fd


class PathLogs:
    """The logs of the queue at ``path``, which ``opening`` opens for each call: a ``LogStore``."""

    def __init__(
        self, path: str, opening: Callable[[], AbstractContextManager[LogPlace]], files: LogFiles, *, state_dir: str
    ) -> None:
        self.path = path
        self._opening = opening
        self._files = files
        self._state_dir = state_dir

    def append(self, name: str, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        with self._opened() as logs:
            logs.append(name, line, sync=sync, following=following)

    def read(self, name: str, *, latest: int | None = None) -> Iterator[StoredLog]:
        with self._opened() as logs:
            yield from logs.read(name, latest=latest)

    @contextmanager
    def _opened(self) -> Iterator[SpoolLogs]:
        with self._opening() as dirs, closing(SpoolLogs(dirs, self._files, state_dir=self._state_dir)) as logs:
            yield logs


class SpoolPathLogs(PathLogs):
    """The logs of the spool at ``path``, which is opened for each call."""

    def __init__(self, path: str, files: LogFiles, *, state_dir: str) -> None:
        super().__init__(path, partial(SpoolDirs, path, files), files, state_dir=state_dir)


class StateLogs:
    """The logs of a ``target`` without a spool, in a directory of this user's own below ``state_dir``: a ``LogStore``."""

    def __init__(self, target: str, files: LogFiles, *, state_dir: str | None) -> None:
        self._files = files
        self._folder = None if state_dir is None else state_of(state_dir, target)

    @property
    def path(self) -> str:
        return self._folder or ""

    def append(self, name: str, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        if self._folder is None:
            raise AuditFailed("there is no place for the audit log", advice="set XDG_STATE_HOME or HOME")
        fd = open_path(self._files, self._folder)
        try:
            found = self._files.fstat(fd)
            if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(errno.EPERM, "others may write its directory")
            AppendLog(self._files, fd, name, found).append(line, sync=sync, following=following)
        finally:
            self._files.close(fd)

    def read(self, name: str, *, latest: int | None = None) -> Iterator[StoredLog]:
        """Yields one log at most: there is no other user's."""
        if self._folder is None:
            return
        try:
            fd = self._files.open_dir(self._folder, follow=True)
        except FileNotFoundError:
            return
        try:
            yield StoredLog(LogLines(self._files, lambda: fd, name, latest=latest))
        finally:
            self._files.close(fd)
