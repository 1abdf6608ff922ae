"""The journal and the audit log of another program's queue."""

from __future__ import annotations

from functools import partial

from ...journal.log_files import LogFiles
from ...journal.log_store import PathLogs
from ..queue_dirs import QueueDirs

__all__ = ["QueueLogs"]


class QueueLogs(PathLogs):
    """The logs in spooltop's own directory of the queue at ``path``, which is opened for each call: a ``LogStore``."""

    def __init__(self, path: str, side_dir: str, files: LogFiles, *, state_dir: str) -> None:
        super().__init__(path, partial(QueueDirs, path, side_dir, files), files, state_dir=state_dir)
