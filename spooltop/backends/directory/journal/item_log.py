"""Where it is written down what was done to things that are no messages: cursors, locks. An intent line before, a result line
after, in a journal of their own, and the audit log.

Of a spool it stands with the spool's own books; of cursor files or tickets alone below ``/var/lib/spooltop`` for root, else in
the user's own state.
"""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol

from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import AuditFailed
from spooltop.model.audit import AuditLog

from .append_log import AppendLog
from .log_files import LogFiles, open_path
from .records import AUDIT, Books, state_of

__all__ = ["BesideBooks", "SpoolBooks", "StateBooks"]


class BesideBooks(Protocol):
    """``journal`` and ``audit`` raise ``AuditFailed``."""

    def journal(self, line: bytes) -> None: ...

    def audit(self, line: bytes, *, sync: bool = True) -> None: ...

    def audited(self) -> list[AuditLog]:
        """The audit logs, the own one first. Raises ``OSError``."""
        ...

    def read(self) -> tuple[list[list[bytes]], list[str]]:
        """The lines of each journal, the own one first, and what is wrong with them, in words."""
        ...

    def read_own(self) -> list[bytes]:
        """The lines of the journal that nobody else may write."""
        ...


class _Journals(ABC):
    """What is read of a journal of ``what``, wherever it stands."""

    def __init__(self, files: LogFiles, what: str) -> None:
        self._files = files
        self._what = what

    @abstractmethod
    def _logs(self, *, own: bool) -> list[tuple[list[bytes], bool, int]]:
        """What ``AppendLog.lines`` gives of each, the own one first; of that alone where ``own``. Raises ``OSError``."""
        ...

    def read(self) -> tuple[list[list[bytes]], list[str]]:
        try:
            return _told(self._logs(own=False), self._what)
        except OSError as error:
            return [], [f"the journal of {self._what} cannot be read: {error.strerror}"]

    def read_own(self) -> list[bytes]:
        try:
            return next((lines for lines, _, _ in self._logs(own=True)), [])
        except OSError:
            return []  # ``read`` says so


class SpoolBooks(_Journals):
    """With the books of the spool at ``path``; its journal is of ``what``."""

    def __init__(self, path: str, files: LogFiles, *, state_dir: str, what: str) -> None:
        super().__init__(files, what)
        self._path = path
        self._state_dir = state_dir

    def journal(self, line: bytes) -> None:
        with self._writing(), self._books() as books:
            books.write_beside(f"{self._what}.jsonl", line)

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        with self._writing(), self._books() as books:
            books.write_audit(line, sync=sync)

    def audited(self) -> list[AuditLog]:
        with self._books() as books:
            return books.audited()

    def _logs(self, *, own: bool) -> list[tuple[list[bytes], bool, int]]:
        with self._books() as books:
            return books.read_beside(f"{self._what}.jsonl", own=own)

    @contextmanager
    def _books(self) -> Iterator[Books]:
        with SpoolDirs(self._path, self._files) as dirs, closing(Books(dirs, self._files, state_dir=self._state_dir)) as books:
            yield books

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _failed(self._path, self._what, error) from error


class StateBooks(_Journals):
    """Of what lies in ``target`` without a spool: in a directory of this user's own below ``state_dir``."""

    def __init__(self, target: str, files: LogFiles, *, state_dir: str | None, what: str) -> None:
        super().__init__(files, what)
        self._folder = None if state_dir is None else state_of(state_dir, target)

    def journal(self, line: bytes) -> None:
        self._append(f"{self._what}.jsonl", line)

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        self._append(AUDIT, line, sync=sync)

    def audited(self) -> list[AuditLog]:
        return [AuditLog(*told, True) for told in self._lines(AUDIT)]

    def _logs(self, *, own: bool) -> list[tuple[list[bytes], bool, int]]:
        return self._lines(f"{self._what}.jsonl")  # there are no others than the own one

    def _lines(self, name: str) -> list[tuple[list[bytes], bool, int]]:
        if self._folder is None:
            return []
        try:
            fd = self._files.open_dir(self._folder, follow=True)
        except FileNotFoundError:
            return []
        try:
            return [AppendLog(self._files, fd, name, self._files.fstat(fd)).lines()]
        finally:
            self._files.close(fd)

    def _append(self, name: str, line: bytes, *, sync: bool = True) -> None:
        if self._folder is None:
            raise AuditFailed("there is no place for the audit log", advice="set XDG_STATE_HOME or HOME")
        try:
            fd = open_path(self._files, self._folder)
            try:
                found = self._files.fstat(fd)
                if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise PermissionError(1, "others may write its directory")
                AppendLog(self._files, fd, name, found).append(line, sync=sync)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise _failed(self._folder, self._what, error) from error


def _told(logs: list[tuple[list[bytes], bool, int]], what: str) -> tuple[list[list[bytes]], list[str]]:
    troubles: list[str] = []
    for _, torn, unread in logs:
        if unread:
            troubles.append(f"the first {unread / 1e6:.0f} MB of the journal of {what} were not read")
        if torn:
            troubles.append(f"the last line of the journal of {what} is cut off: a crash or a full disk")
    return [lines for lines, _, _ in logs], troubles


def _failed(path: str, what: str, error: OSError) -> AuditFailed:
    return AuditFailed(
        f"what happens to {what} cannot be written down: {error.strerror or error}",
        path=path,
        advice="nothing is changed without it; free space or mend its rights",
    )
