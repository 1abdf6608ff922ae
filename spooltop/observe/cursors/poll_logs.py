"""The logs of pollers, found by the globs that the user gives and read from the end of the look before."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence

from spooltop.engine.system.small_files import open_regular
from spooltop.model.cursors.state import Poll
from spooltop.model.look.observation import Observation
from spooltop.records import dataclass

from .polls import POLL_LINE, parse_poll, poll_pattern, source_of

__all__ = ["LogGlob", "PollLogs", "poll_reader"]

TAIL = 64 << 10
"""Bytes from the end of a log that the first look reads; no later look reads more than 16 times as much."""
_FILES_AT_MOST = 64


@dataclass(frozen=True, slots=True)
class LogGlob:
    """The files that match ``pattern``. All belong to ``source``; if that is None, each belongs to the source in its name."""

    pattern: str
    source: str | None = None

    @staticmethod
    def parse(text: str) -> LogGlob:
        """``GLOB`` or ``SOURCE=GLOB``.

        >>> LogGlob.parse("imessage=/var/log/im.log")
        LogGlob(pattern='/var/log/im.log', source='imessage')
        """
        source, equals, pattern = text.partition("=")
        return LogGlob(pattern, source) if equals and source and "/" not in source else LogGlob(text)


class PollLogs:
    """New lines of log files. A file that was rotated away or truncated is read from its start."""

    def __init__(self, globs: Sequence[LogGlob]) -> None:
        self._globs = tuple(globs)
        self._read: dict[str, tuple[int, int]] = {}

    def look(self) -> list[tuple[str | None, str, float, list[str]]]:
        """The logs with new lines, each as (source or None, file name, last write in epoch seconds, its new whole lines)."""
        found = []
        for one in self._globs:
            for path in sorted(glob.glob(one.pattern))[:_FILES_AT_MOST]:  # noqa: PTH207  Path.glob takes no absolute ones
                tail = self._tail(path)
                if tail is not None:
                    found.append((one.source, os.path.basename(path), *tail))
        return found

    def _tail(self, path: str) -> tuple[float, list[str]] | None:
        try:
            fd, status = open_regular(path, follow=True)
        except OSError:
            return None  # gone since it was listed, closed to us, or no plain file
        try:
            inode, offset = self._read.get(path, (0, 0))
            first = path not in self._read
            if inode != status.st_ino or offset > status.st_size:
                offset = max(0, status.st_size - TAIL) if first else 0
            data = os.pread(fd, 16 * TAIL, offset)
        except OSError:
            return None
        finally:
            os.close(fd)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == 16 * TAIL:
            whole = len(data)  # a line without an end is none of a poller
        self._read[path] = (status.st_ino, offset + whole)
        lines = data[:whole].decode("utf-8", "surrogateescape").split("\n")[:-1]
        if first and offset:
            del lines[:1]  # cut off at its begin
        return (status.st_mtime, lines) if lines else None


def poll_reader(globs: Sequence[str], settings: Mapping[str, str]) -> Callable[[Observation], tuple[Poll, ...]]:
    """Returns a function that reads the poll logs at each look. Raises ``UsageError`` for an invalid pattern."""
    logs = PollLogs([LogGlob.parse(one) for one in globs])
    pattern = poll_pattern(settings.get("SPOOLTOP_POLL_LINE") or POLL_LINE)

    def read(observation: Observation) -> tuple[Poll, ...]:
        sources = [name for one in observation.cursors for name in one.sections or {}]
        found = []
        for named, file, written_at, lines in logs.look():
            source = named if named is not None else source_of(file, sources)
            at = min(written_at, observation.taken_at)
            polls = (parse_poll(source, line, at, pattern) for line in lines if source is not None)
            found += [poll for poll in polls if poll is not None]
        return tuple(found)

    return read
