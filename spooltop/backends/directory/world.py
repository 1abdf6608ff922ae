"""The system around a directory: its files, the clocks and the processes, handed to everything that reads or changes it."""

from __future__ import annotations

import time

from msgspec import Struct, field

from spooltop.model import Clock, OpenSettings

from ..log_store import LogFiles
from .liveness.processes import LockTable, Processes, read_table

# Options with which a directory is opened, the same for its reader and its operators.


class OpenOptions(OpenSettings, kw_only=True):
    """Options of a directory besides the settings of every target.

    ``layout`` is the kind of the target; ``as_spool``: a mail folder was taken for a job spool. ``cursor_files`` are cursor
    files, or folders of them, in place of those in the spool or beside it. A box is listed at most every ``least`` seconds, and
    at most ``judged_at_most`` claims and files in ``tmp`` are judged.
    """

    layout: str = "spool"
    as_spool: bool = False
    cursor_files: tuple[str, ...] = ()
    least: float = 0.1
    judged_at_most: int = 20_000

    @property
    def shows_above(self) -> bool:
        """True if the cursors and locks in the directory above are shown too."""
        return self.layout not in ("cursors", "locks")


_LOCKS_FOR = 1.0
"""Seconds for which a table of locks is kept."""


class System(Struct):
    """File operations, the wall clock (epoch seconds), a clock that only runs forward, and the process table."""

    files: LogFiles = field(default_factory=LogFiles)
    clock: Clock = time.time
    monotonic: Clock = time.monotonic
    processes: Processes = field(default_factory=Processes)
    _locks: tuple[float, LockTable] | None = None

    def lock_table(self) -> LockTable:
        """Returns all locks of this machine that can be seen, read at most once a second."""
        at = self.monotonic()
        if self._locks is None or at - self._locks[0] >= _LOCKS_FOR:
            self._locks = (at, read_table(self.processes))
        return self._locks[1]
