"""The system around a directory: its files, the clocks and the processes, handed to everything that reads or changes it."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct, field

from spooltop.engine.presence import ANY_MACHINE
from spooltop.model.redact import Redactor

from ..journal.log_store import LogFiles
from .liveness.processes import ANY_HOST, Processes

# Options with which a directory is opened, the same for its reader and its operators.


class OpenOptions(Struct, frozen=True):
    """``layout`` is the kind of the target, None for a path that the reader identifies itself: ``as_spool`` then takes a mail
    folder for a job spool. ``read_only`` says why nothing may be changed. With ``watch`` a reader listens for changes.

    ``cursor_files`` are cursor files, or folders of them, in place of those in the spool or beside it. ``hosts`` and ``pids``
    are the settings ``claims.hosts`` and ``claims.pids``. Messages in the trash expire after ``retention`` seconds (0: never). A
    lock without a holder is stale after ``stale_after`` seconds. ``redactor`` hides values in plans, results and logs.

    Holders of claims are described, with command and user, once they hold one for ``described_after`` seconds.

    A box is listed at most every ``least`` seconds, and at most ``judged_at_most`` claims and files in ``tmp`` are judged.
    """

    layout: str | None = None
    read_only: str | None = None
    as_spool: bool = False
    watch: bool = True
    cursor_files: tuple[str, ...] = ()
    hosts: str = ANY_MACHINE
    pids: str = ANY_HOST
    retention: float = 0.0
    stale_after: float = 300.0
    redactor: Redactor = field(default_factory=Redactor)
    described_after: float = 0.0
    least: float = 0.1
    judged_at_most: int = 20_000


class System(Struct, frozen=True):
    """File operations, the wall clock (epoch seconds), a clock that only runs forward, and the process table."""

    files: LogFiles = field(default_factory=LogFiles)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    processes: Processes = field(default_factory=Processes)
