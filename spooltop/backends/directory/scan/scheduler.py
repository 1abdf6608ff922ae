"""Schedules the listings of a box."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Set

from spooltop.records import replace

from ..world import World
from .scan import BoxScan, Generation, generation_of, scan_box

__all__ = ["BoxScanner"]

_COARSE_NS = 20_000_000
_DUTY = 20
"""Minimum pause after a listing, as a multiple of its duration."""
_EACH = 1e-4
"""Seconds without another listing for each name."""


class BoxScanner:
    """Decides when a box is listed again: at once when asked or when the directory is another one, else when it changed and the
    last listing lies ``max(least, 20 × what it took)`` back, so that looking takes at most a twentieth of the time; of a box with
    thousands of names ten times ``least``."""

    def __init__(
        self,
        world: World,
        *,
        least: float = 0.1,
        sizes: bool = True,
        scan: Callable[..., BoxScan] = scan_box,
    ) -> None:
        self._world = world
        self._least = least
        self._sizes = sizes
        self._scan = scan
        self._untimed: dict[str, int] = {}
        self._last_at = 0.0
        self._number = 0
        self._coarse = False
        self.last: BoxScan | None = None
        self.due: float | None = None
        """Earliest time at which a change already seen is listed (monotonic seconds); None: no change is pending."""

    @property
    def times(self) -> dict[str, int]:
        """mtime in µs of the names that hold no time."""
        return self._untimed

    @property
    def period(self) -> float:
        """Whole seconds from one listing to the next where only time tells when to list."""
        return float(math.ceil(max(10 * self._least, _DUTY * self.last.duration if self.last is not None else 0.0)))

    def look(
        self,
        fd: int | None,
        *,
        force: bool = False,
        ids: Set[str] = frozenset(),
        missing: str = "is missing",
        unseen: bool = False,
    ) -> BoxScan:
        """Returns the last scan, or a new one if that is due. ``fd`` None: the box is not there, and ``missing`` says why.
        ``unseen``: the box may change and keep its mtime, so it is listed every ``period`` seconds; the same names make no new
        scan."""
        now = self._world.monotonic()
        self.due = None
        if fd is None:
            if self.last is None or self.last.error != missing:
                self._number += 1
                self.last = BoxScan(complete=False, error=missing, as_of=self._world.clock(), number=self._number)
            return self.last
        last = self.last
        try:
            current: Generation | None = generation_of(fd)
        except OSError:
            current = None
        same = last is not None and last.generation is not None and current is not None and last.generation[:2] == current[:2]
        if last is not None and same and not force:
            unchanged = current == last.generation and last.clean and not self._coarse and last.complete
            if unchanged and not unseen:
                return last
            wait = self.period if unchanged else self._rest(last, unseen)
            if now < self._last_at + wait:
                self.due = self._last_at + wait
                return last
        elif last is not None and last.error and not force and now - self._last_at < self._least:
            self.due = self._last_at + self._least
            return last
        as_of = self._world.clock()
        scan = self._scan(fd, ids=ids, untimed=self._untimed, sizes=self._sizes)
        # Kernels before 6.13 stamp directories by the tick: a change right after the scan could leave the same mtime.
        self._coarse = scan.generation is not None and scan.generation[2] > time.time_ns() - _COARSE_NS
        self._last_at = now
        if unseen and not force and last is not None and same and _same_names(last, scan):
            self.last = replace(last, duration=scan.duration, effort=scan.effort, as_of=as_of)
            return self.last
        self._number += 1
        self.last = replace(scan, as_of=as_of, number=self._number)
        if not scan.clean or self._coarse:
            self.due = now + self._rest(scan, unseen)
        return self.last

    def _rest(self, scan: BoxScan, unseen: bool) -> float:
        """Returns the least seconds from the beginning of this listing to that of the next. Using many names costs time as well.

        If a server does the work, its time counts. Else only processor time counts: on a busy machine a short listing may take
        long, and changes would be seen seconds late."""
        took = scan.duration if unseen else scan.effort
        return max(self._least, _DUTY * took, min(self._least * 10, len(scan.names) * _EACH))


def _same_names(last: BoxScan, scan: BoxScan) -> bool:
    """Returns whether two scans of one directory, with the same mtime, found the same names. An unchanged directory is always
    listed in the same order."""
    return (
        last.generation == scan.generation and last.clean and scan.clean and last.complete and scan.complete
        and last.duplicates == scan.duplicates and last.irregular == scan.irregular and last.names.same(scan.names)
    )  # fmt: skip
