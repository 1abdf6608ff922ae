"""Tells how long the snapshot thread has been at its present work. A look may hang for ever, as on a dead NFS server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class CurrentStep:
    """The present work of a thread. May be read from any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: float | None = None
        self.name = ""
        """A description of the work; empty where the control knows it better."""

    def seconds(self) -> float:
        """Seconds since the work began or last made progress; 0 where there is none."""
        since = self._since
        return 0.0 if since is None else max(0.0, self._monotonic() - since)

    @contextmanager
    def working(self, name: str = "") -> Iterator[None]:
        self.name = name
        self.made_progress()
        try:
            yield
        finally:
            self._since = None

    def made_progress(self) -> None:
        """Counts the seconds from now on: a list of a million is long, not stuck."""
        self._since = self._monotonic()
