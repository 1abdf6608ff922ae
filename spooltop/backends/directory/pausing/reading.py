"""Reads the pause of a spool at each look."""

from __future__ import annotations

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.pausing import PAUSED, pause_of
from spooltop.model.look.observation import Pause

from ..storage.file_pin import Pin, pinned

__all__ = ["PauseReader"]


class PauseReader:
    """Reads the pause; its file only if that has changed since the last look."""

    def __init__(self) -> None:
        self._seen: tuple[Pin, Pause | None] | None = None

    def look(self, dirs: SpoolDirs) -> Pause | None:
        """Returns the pause; None if the spool is not paused, or if that is not visible."""
        try:
            own = dirs.private_dir()
            if own is None:
                return None
            pin = pinned(dirs.files.stat(PAUSED, own))
            if self._seen is None or self._seen[0] != pin:
                self._seen = pin, pause_of(dirs, own)
            return self._seen[1]
        except OSError:
            return None
