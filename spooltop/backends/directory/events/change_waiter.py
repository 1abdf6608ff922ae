"""Waits until the next look is due."""

from __future__ import annotations

import threading

from ..world import World

__all__ = ["ChangeWaiter"]


class ChangeWaiter:
    """Waits for a change, for ``wake``, or for the time at which a look is due. Thread-safe. Listeners set ``changed``."""

    def __init__(self, world: World) -> None:
        self.changed = threading.Event()
        self._monotonic = world.monotonic
        self._due: float | None = None

    def set_due(self, due: float | None, *, within: float | None = None) -> None:
        """Makes a look due at ``due`` (monotonic seconds; None: not by time), and in ``within`` seconds at the latest."""
        soon = None if within is None else self._monotonic() + within
        self._due = min((at for at in (due, soon) if at is not None), default=None)

    def wait(self, timeout: float) -> bool:
        """Returns True if a look is due, False after ``timeout`` seconds."""
        due = self._due
        changed = self.changed.wait(timeout if due is None else max(0.0, min(timeout, due - self._monotonic())))
        self.changed.clear()
        return changed or (due is not None and self._monotonic() >= due)

    def wake(self) -> None:
        """Ends a ``wait`` in another thread."""
        self.changed.set()
