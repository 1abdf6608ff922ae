"""The journal beside cursor files: a line for each time that their lock was acquired, or given up after a timeout.

A line says when, by whom, and which value was replaced by which: what a dashboard that opens later knows of the past.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping

from spooltop.model.untrusted import finite, json_object
from spooltop.model.vocabulary import Json

from ..atomic import publish
from ..system.files import Files
from ..system.host import command_line
from ..system.small_files import open_regular

__all__ = ["JOURNAL", "JOURNAL_MAX", "note", "timeouts_since"]

JOURNAL = ".cursors.journal"
JOURNAL_MAX = 1 << 20
"""Bytes that the journal may take; then its newest half is kept."""
_LINE_MAX = 64 << 10
_TIMED_OUT = "timed_out"
_NEWEST = 256 << 10
"""Bytes of a journal that are searched for timeouts."""


def note(
    files: Files, folder: int, at: float, file: str, source: str, values: Mapping[str, Json] | None = None
) -> None:
    """Appends a line about the cursor ``source`` of ``file`` at ``at`` (epoch seconds): the values that were replaced, None for a
    timeout. An error is not reported: the cursor is stored, and a journal on a full disk is no reason to deny that."""
    who: dict[str, Json] = {"time": at, "file": file, "source": source, "pid": os.getpid(), "command": command_line()}
    line = _encode({**who, **({_TIMED_OUT: True} if values is None else values)})
    if len(line) > _LINE_MAX:
        line = _encode({**who, "cut": True})
    try:
        fd = files.open_lasting(JOURNAL, folder, append=True)
        try:
            now = files.fstat(fd)
            if not stat.S_ISREG(now.st_mode) or now.st_nlink != 1:
                return  # something else was put there, to be written to
            if now.st_size == 0:
                files.copy_owner(fd, files.fstat(folder))
            if now.st_size + len(line) <= JOURNAL_MAX:
                files.write_all(fd, line)
            elif values is not None:  # only who has the lock may put a shorter one in its place
                newest = files.read(fd, 2 * JOURNAL_MAX)[-JOURNAL_MAX // 2 :]
                kept = newest[newest.find(b"\n") + 1 :] + line
                publish(files, folder, JOURNAL, kept, now, draft=JOURNAL, durable=False)
        finally:
            files.close(fd)
    except OSError:
        return  # as said above


def _encode(record: Mapping[str, Json]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def timeouts_since(files: Files, folder: int, since: float) -> Iterator[bool]:
    """Yields for each line since ``since`` (epoch seconds), newest first, if the wait for the lock timed out. Only the newest
    part of a long journal is read."""
    try:
        fd, found = open_regular(JOURNAL, folder, files=files)
        try:
            data = os.pread(fd, _NEWEST, max(0, found.st_size - _NEWEST))
        finally:
            files.close(fd)
    except OSError:
        return  # there is none, or it is not ours to look into
    for line in reversed(data.splitlines()):
        record = json_object(line)
        at = finite(record.get("time"))
        if at is None:
            continue  # torn, or not ours
        if at < since:
            return
        yield record.get(_TIMED_OUT) is True
