"""The engine's journal beside the cursors, ``.cursors.journal``, read from the end of the look before."""

from __future__ import annotations

import os

from spooltop.engine.cursors import JOURNAL, JOURNAL_MAX
from spooltop.engine.system.files import open_regular
from spooltop.model.cursors import CursorWrite
from spooltop.model.look.locks import LockHolder
from spooltop.model.text import finite, json_object
from spooltop.records import dataclass

__all__ = ["CursorJournal", "parse_journal"]

REMEMBERED = 3600.0
"""Seconds before the first look from which writes count."""


def parse_journal(data: bytes) -> list[tuple[str, CursorWrite]]:
    """The (file name, write) of each valid line. Other lines are left out: whoever may write beside the cursors may have
    written them."""
    found: list[tuple[str, CursorWrite]] = []
    for line in data.split(b"\n"):
        record = json_object(line)
        if record.get("cut") or "old" not in record or "new" not in record:
            continue
        file, source, pid, command = (record.get(name) for name in ("file", "source", "pid", "command"))
        at = finite(record.get("time"))
        if at is None or not isinstance(file, str):
            continue
        if not isinstance(source, str) or isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid < 1 << 31:
            continue
        writer = LockHolder(pid, command if isinstance(command, str) else None, since=at)
        found.append((file, CursorWrite(at, source, record["old"], record["new"], writer)))
    return found


@dataclass(frozen=True, slots=True)
class _Read:
    inode: int
    offset: int
    newest: float


class CursorJournal:
    """The journals in some folders. Each write is reported once."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}

    def since(self, path: str, fd: int, now: float) -> dict[str, tuple[CursorWrite, ...]]:
        """The writes by file name since the look before (at the first: of the last hour), in the folder ``path``, open as
        ``fd``."""
        try:
            own, found = open_regular(JOURNAL, fd)
        except OSError:
            return {}  # nobody here writes through the engine, or it is closed to us
        try:
            known = self._read.get(path)
            on = known is not None and known.inode == found.st_ino and known.offset <= found.st_size
            start = known.offset if known is not None and on else max(0, found.st_size - 2 * JOURNAL_MAX)
            if on and start == found.st_size:
                return {}
            data = os.pread(own, 2 * JOURNAL_MAX, start)
        except OSError:
            return {}  # a file system that fails: the cursors themselves are read
        finally:
            os.close(own)
        whole = data.rfind(b"\n") + 1
        newest = now - REMEMBERED if known is None else known.newest
        writes: dict[str, list[CursorWrite]] = {}
        for name, one in parse_journal(data[:whole]):
            if on or one.at > newest:  # a rotation keeps lines that were reported already
                writes.setdefault(name, []).append(one)
        newest = max([newest, *(min(one.at, now) for these in writes.values() for one in these)])
        self._read[path] = _Read(found.st_ino, start + whole, newest)
        return {name: tuple(these) for name, these in writes.items()}
