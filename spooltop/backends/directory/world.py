"""The system around a directory: its files, the clocks and the processes, handed to everything that reads or changes it."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct, field

from spooltop.model.backend import OpenSettings

from ..journal.log_store import LogFiles
from .liveness.processes import Processes

# Options with which a directory is opened, the same for its reader and its operators.


class OpenOptions(OpenSettings, frozen=True, kw_only=True):
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


class System(Struct, frozen=True):
    """File operations, the wall clock (epoch seconds), a clock that only runs forward, and the process table."""

    files: LogFiles = field(default_factory=LogFiles)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    processes: Processes = field(default_factory=Processes)
