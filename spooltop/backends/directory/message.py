"""Reports on a list while it is being made: the progress, the number of matches so far, and the first of them."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence

from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import NotRegular, open_regular
from spooltop.errors import Unreadable
from spooltop.model.protocols import ListProgress
from spooltop.model.row import Payload, Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import ASIDE, Box, Key, Verdict

from ..access import closed_words, user_name
from .storage.location import folders_dir
from .storage.rows import kind_of_file

AT_ONCE = 150
"""Rows that are shown before all are known: more than fit on a screen."""


class ListPreview:
    """Reports to ``progress`` when a report is due; never if it is None. It keeps the first names by name, or the last
    (``backwards``), because most names begin with their time. ``row`` makes the row of a name."""

    def __init__(self, progress: ListProgress | None, row: Callable[[str], Row], *, backwards: bool) -> None:
        self._progress = progress
        self._row = row
        self._backwards = backwards
        self._names: list[str] = []
        self._edge: str | None = None
        self._count = 0
        self._from = self._to = 0.0

    @property
    def wanted(self) -> bool:
        return self._progress is not None

    def stage(self, until: float) -> None:
        """Begins the next stage of the work, which ends at the share ``until`` of the whole."""
        self._from, self._to = self._to, until

    def take(self, names: Sequence[str]) -> None:
        """Adds names that match."""
        self._count += len(names)
        edge = self._edge
        if edge is None or (max(names) > edge if self._backwards else min(names) < edge):
            self._names += names
            if len(self._names) > 4 * AT_ONCE:
                self._cut()

    def at(self, share: float) -> None:
        """Reports that ``share`` of this stage is done, if a report is due."""
        progress = self._progress
        if progress is not None and progress.due():
            self._cut()
            rows = [self._row(raw) for raw in self._names]
            progress.advanced(self._from + share * (self._to - self._from), rows, self._count)

    def _cut(self) -> None:
        self._names.sort(reverse=self._backwards)
        del self._names[AT_ONCE:]
        if len(self._names) == AT_ONCE:
            self._edge = self._names[-1]


# Reads the beginning of one message, and makes the lines of its detail.

def split_key(key: Key) -> tuple[Box, str, str]:
    """Splits a key into box, folder ("" unless it was set aside or is in a staging directory) and name. Raises ``Unreadable`` if
    it is not a key of a spool."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], str):
        box, rest = key
        folder, slash, name = rest.rpartition("/")
        if box in (kind.value for kind in Box) and name not in ("", ".", "..") and "/" not in folder and folder != "..":
            kind = Box(box)
            if (kind is Box.TMP or (kind in ASIDE) is bool(slash)) and (not slash or folder not in ("", ".")):
                return kind, folder, name
    raise Unreadable("no message of this spool", advice="look again")


def read_message(dirs: SpoolDirs, key: Key, limit: int, row: Row | None, sentences: Mapping[str, str]) -> Payload:
    """Reads at most ``limit`` bytes from the beginning. Raises ``Unreadable`` if the message is gone, not a regular file, or
    may not be read."""
    box, within, name = split_key(key)
    shown = f"{box}/{escape(name)}"
    folder = -1
    fd = -1
    try:
        if within:
            above = dirs.private_dir(folders_dir(box))
            if above is None:
                raise FileNotFoundError(2, "gone")
            folder = os.open(within, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        fd, found = open_regular(name, folder if within else dirs.box(box))
        parts: list[bytes] = []
        offset = 0
        while offset < limit and (part := os.pread(fd, limit - offset, offset)):
            parts.append(part)
            offset += len(part)
    except FileNotFoundError:
        raise Unreadable("gone since", path=shown, advice="it was taken, finished or moved") from None
    except NotRegular as problem:
        raise Unreadable(kind_of_file(problem.status), path=shown) from None
    except PermissionError:
        words = _closed_words(dirs, folder if within else dirs.box(box), name)
        raise Unreadable("permission denied", path=shown, advice=words) from None
    except OSError as problem:
        what = "a symbolic link, not a message" if problem.errno == errno.ELOOP else str(problem.strerror)
        raise Unreadable(what, path=shown) from None
    finally:
        for open_fd in (fd, folder):
            if open_fd >= 0:
                os.close(open_fd)
    data = b"".join(parts)
    return Payload(data, found.st_size, found.st_size > len(data), facts_of(name, box, found, row, sentences))


def _closed_words(dirs: SpoolDirs, folder: int, name: str) -> str:
    """Says whose the message ``name`` is, and the command to try; of the spool where its ``folder`` is closed too (then -1)."""
    try:
        return closed_words("it", os.stat(name, dir_fd=folder, follow_symlinks=False), dirs.path)
    except OSError:
        return closed_words("the spool", os.fstat(dirs.root), dirs.path)


def facts_of(
    raw: str, box: Box, found: os.stat_result, row: Row | None, sentences: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Makes the lines of the detail. ``row`` is the judged row, if there is one; ``sentences`` gives the evidence on the holder
    with a token in full."""
    name = names.parse(raw, claimed=box is Box.CUR or box in ASIDE)
    told_us = name.enqueued_us if box is not Box.TMP or names.is_own_id(name.id) else None  # as its row has it
    put_at = found.st_mtime if told_us is None else told_us / 1e6
    facts = [("enqueued", when(put_at) + ("" if told_us is not None else " (last written; its name contains no time)"))]
    if box is Box.CUR:
        claimed = f"claimed {when(name.claimed_us / 1e6)}" if name.claimed_us else f"claimed {when(found.st_ctime)} at the latest"
        if name.flags is not None:  # mail that was read (maildir(5)): nobody claimed it
            claimed = f"in cur since {when(found.st_ctime)} at the latest"
        facts[0] = ("enqueued", f"{facts[0][1]} · {claimed}")
    if name.source is not None:
        facts.append(("source", escape(name.source)))
    if (ended := name.ended if row is None else row.ended) is not None:
        facts.append(("last attempt", escape(ended)))
    if name.not_before is not None:
        facts.append(("waits", f"not before {when(name.not_before / 1e6)}"))
    if row is not None and row.verdict is not None:
        owner = row.owner
        if owner is not None and owner.pid is not None:
            words = f"pid {owner.pid}"
            words += f" {escape(owner.command)}" if owner.command else ""
            words += f" of {escape(owner.user)}" if owner.user else ""
            words += f" on {escape(owner.host)}" if owner.host else ""
            facts.append(("owner", words))
        sentence = sentences.get(name.token, "") if name.token is not None else ""
        facts.append(("holder" if box is Box.CUR else "writer", sentence or row.evidence))
        if row.verdict is Verdict.DEAD and owner is not None and owner.pid is not None:
            facts.append(("look up", f"journalctl _PID={owner.pid}"))
    if row is not None and row.reason:
        facts.append(("set aside", escape(row.reason)))
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    facts.append(("file", f"{user_name(found.st_uid)} {mode}" + (f" · {found.st_nlink} names" if found.st_nlink > 1 else "")))
    return tuple(facts)


def when(at: float) -> str:
    """Local time with its offset: a detail is copied into tickets and read elsewhere."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
