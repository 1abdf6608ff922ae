"""Listens for changes in the boxes of a spool, where that works, and says how changes are noticed."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from spooltop.engine.dirs import SpoolDirs
from spooltop.model.look.observation import Watch
from spooltop.model.vocabulary import Box

from ..storage.filesystem import Mount, changes_unseen, sends_no_events
from ..world import World
from .report import EventReport

if TYPE_CHECKING:
    from .watcher import Source, Watcher

__all__ = ["EventListener"]


class EventListener:
    """Listens to ``new`` and ``cur``. ``changed`` is set whenever an event was received. Without ``wanted`` it does nothing and
    loads no watcher, and each look stands alone. ``source`` yields the events; None: the kernel."""

    def __init__(
        self,
        path: str,
        changed: threading.Event,
        world: World,
        *,
        wanted: bool,
        source: Source | None,
    ) -> None:
        self._path = path
        self._changed = changed
        self._wanted = wanted
        self._world = world
        self._source = source
        self._watcher: Watcher | None = None

    def take(self, dirs: SpoolDirs, mount: Mount | None) -> EventReport:
        """Returns the events since the last call; the first call begins to listen."""
        if not self._wanted or sends_no_events(mount):
            return EventReport()
        if self._watcher is None:
            from .watcher import Watcher, kernel_source

            there = [box for box, fd in ((Box.NEW, dirs.new), (Box.CUR, dirs.cur)) if fd is not None]
            if not there:
                return EventReport(reason="there is no box to watch")
            paths = {box: os.path.join(self._path, box.value) for box in there}
            clock, monotonic = self._world.clock, self._world.monotonic
            source = self._source or kernel_source
            self._watcher = Watcher(paths, self._changed, clock=clock, monotonic=monotonic, source=source)
            self._watcher.start()
        return self._watcher.take()

    def starting(self, report: EventReport) -> bool:
        """True if it has begun to listen and has received nothing yet."""
        return self._watcher is not None and not report.listening and not report.reason

    def describe(self, report: EventReport, mount: Mount | None, *, period: float, since: float) -> Watch:
        """Describes how changes are noticed: by events, or by a listing every ``period`` seconds."""
        if not self._wanted:
            return Watch("once", "", None, since)
        if sends_no_events(mount):
            kind = mount.fs_type if mount is not None else "?"
            return Watch("scan", f"{kind} sends no events", period, since)
        if report.listening or not report.reason:
            return Watch("live", "overlay", period, since) if changes_unseen(mount) else Watch("live", "", None, since)
        return Watch("scan", report.reason, period, since)

    def close(self) -> None:
        """Stops listening. The next ``take`` begins anew, in the directories that have these names then."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
