"""The system around a directory: its files, the clocks and the processes, handed to everything that reads or changes it."""

from __future__ import annotations

import time
from collections.abc import Callable

from spooltop.records import dataclass, field

from ..journal.log_files import LogFiles
from .liveness.processes import Processes

__all__ = ["World"]


@dataclass(frozen=True, slots=True)
class World:
    """File operations, the wall clock (epoch seconds), a clock that only runs forward, and the process table."""

    files: LogFiles = field(default_factory=LogFiles)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    processes: Processes = field(default_factory=Processes)
