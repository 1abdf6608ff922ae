"""Where the journal and the audit log of a spool lie, and how they are read back.

In ``.spooltop`` beside the boxes; but when root works on a spool that belongs to somebody else, below ``state_dir``, where the
owner of the spool cannot write. What stands in the spool's own journal is untrusted input to root then.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.names import encode_value
from spooltop.engine.os_errors import advice
from spooltop.errors import AuditFailed, Unreadable
from spooltop.model.audit import AuditLog
from spooltop.model.progress import Progress

from .append_log import AppendLog, lines_of
from .item_lines import decoded
from .journal import Operation, decode, gather, unfinished
from .log_files import LogFiles, open_path

__all__ = ["AUDIT", "FULL", "JOURNAL", "STATE_DIR", "Books", "state_of"]

STATE_DIR = "/var/lib/spooltop"
"""Root's own, for spools of others."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What stops every change but those that free space."""

AUDIT = "audit.jsonl"
"""The name of an audit log, of whatever books."""

JOURNAL = "journal.jsonl"
"""The name of a journal, of whatever books."""


def state_of(state_dir: str, path: str) -> str:
    """The directory below ``state_dir`` for the books of ``path``, by what it really is."""
    real = os.path.realpath(path)
    mark = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return os.path.join(state_dir, f"{encode_value(os.path.basename(real))[:40]}-{mark}")


class Books:
    """The books of one spool as one user keeps them. Holds a descriptor only below ``state_dir``; close it."""

    def __init__(
        self, dirs: SpoolDirs, files: LogFiles, *, state_dir: str = STATE_DIR, uid: int | None = None
    ) -> None:
        self._dirs = dirs
        self._files = files
        self._apart = (os.geteuid() if uid is None else uid) == 0 and dirs.like.st_uid != 0
        self._state = state_of(state_dir, dirs.path)
        self._state_fd: int | None = None

    @property
    def apart(self) -> bool:
        """True where these books lie outside the spool, because it belongs to somebody else."""
        return self._apart

    def write_journal(self, line: bytes, *, sync: bool = True) -> None:
        """Synced, unless the next line will be. Raises ``AuditFailed``."""
        self._append(JOURNAL, line, sync=sync)

    def sync_journal(self) -> None:
        """Lines that were not. Raises ``AuditFailed``."""
        self._append(JOURNAL, b"")

    def write_audit(self, line: bytes, *, sync: bool = True) -> None:
        """Synced, unless the next line will be. Raises ``AuditFailed``."""
        self._append(AUDIT, line, sync=sync)

    def write_beside(self, name: str, line: bytes) -> None:
        """A journal of what is no message (cursors, locks), ``name``. Raises ``AuditFailed``."""
        self._append(name, line)

    def read_beside(self, name: str, *, own: bool = False) -> list[tuple[list[bytes], bool, int]]:
        """What ``AppendLog.lines`` gives of the journals ``name``, the own one first, or (``own``) of that alone. Raises
        ``OSError``."""
        both = (True, False) if self._apart and not own else (self._apart,)
        logs = [self._log(name, apart=apart, create=False) for apart in both]
        return [log.lines() for log in logs if log is not None]

    def audited(self) -> list[AuditLog]:
        """The audit logs, the own one first. Raises ``OSError``."""
        found: list[AuditLog] = []
        for trusted in (True, False) if self._apart else (True,):
            log = self._log(AUDIT, apart=self._apart and trusted, create=False)
            if log is not None:
                found.append(AuditLog(*log.lines(), trusted))
        return found

    def interrupted(self) -> list[Operation]:
        """Those with a batch that has no result, holding that batch alone. All the rest of the journals is passed over."""
        return [told for told in self._gathered(unfinished, [], Progress()).values() if told.open]

    def read(self, progress: Progress) -> tuple[dict[str, Operation], list[str]]:
        """All operations by id, in the order of their begin, and what is wrong with the journals, in words. Raises ``Unreadable``
        where the own one cannot be read: what is not known of is not what was not done; ``Stopped``."""
        troubles: list[str] = []
        return self._gathered(lines_of, troubles, progress, whole=True), troubles

    def _gathered(
        self, narrowed: Callable[[bytes], Iterable[bytes]], troubles: list[str], progress: Progress, *, whole: bool = False
    ) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        for trusted in (True, False) if self._apart else (True,):
            try:
                log = self._log(JOURNAL, apart=self._apart and trusted, create=False)
                if log is None:
                    continue
                data, torn, unread = log.whole()
            except OSError as error:
                words = f"the journal cannot be read: {error.strerror}"
                if whole and trusted:
                    raise Unreadable(words, path=self._dirs.path, advice=advice(error)) from error
                troubles.append(words)
                continue
            progress.begin("lines of the journal read", every=1)
            entries, bad = decoded(progress.each(narrowed(data)), decode)
            if unread:
                troubles.append(f"the first {unread / 1e6:.0f} MB of the journal were not read: what they tell cannot be undone")
            if torn:
                troubles.append("the last line of the journal is cut off: a crash or a full disk")
            if bad:
                troubles.append(f"{bad} lines of the journal are no journal lines and were left out")
            for operation, told in gather(entries, trusted=trusted).items():
                found.setdefault(operation, told)
        return found

    def close(self) -> None:
        if self._state_fd is not None:
            self._files.close(self._state_fd)
            self._state_fd = None

    def _append(self, name: str, line: bytes, *, sync: bool = True) -> None:
        try:
            log = self._log(name, apart=self._apart, create=True)
            assert log is not None  # create=True makes it or raises
            log.append(line, sync=sync)
        except OSError as error:
            raise AuditFailed(
                f"{name} cannot be written: {error.strerror or error}",
                path=self._state if self._apart else self._dirs.path,
                advice="nothing is changed without it; free space or mend its rights",
                full=error.errno in FULL,
            ) from error

    def _log(self, name: str, *, apart: bool, create: bool) -> AppendLog | None:
        if not apart:
            own = self._dirs.own(create=create)
            return None if own is None else AppendLog(self._files, own, name, self._dirs.like)
        if self._state_fd is None:
            try:
                self._state_fd = open_path(self._files, self._state) if create else self._files.open_dir(self._state, follow=True)
            except FileNotFoundError:
                return None
        found = self._files.fstat(self._state_fd)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(errno.EPERM, "others may write its directory", self._state)
        return AppendLog(self._files, self._state_fd, name, found)
