"""The lease of a consumer: a key that ends by itself, renewed by a thread as long as the process runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from spooltop.errors import SpooltopError

__all__ = ["ConsumerLease"]

_RENEWALS = 3
"""Renewals within the time of a lease."""


class ConsumerLease:
    """A lease of ``seconds``, taken and renewed by ``renew``, which raises ``SpooltopError`` where that is not possible.

    ``held`` is True only while the last renewal is younger than the lease, counted from before it was sent: a consumer claims
    nothing without it, since others may take its claims by then. CLOCK_BOOTTIME counts, so that a suspended machine finds its
    leases ended.
    """

    def __init__(self, renew: Callable[[], object], seconds: float) -> None:
        self.seconds = seconds
        self._renew = renew
        self._until = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def held(self) -> bool:
        return _now() < self._until

    def take(self) -> None:
        """Takes the lease, unless it is held, and keeps it from now on. Raises what ``renew`` raises."""
        if self.held:
            return
        with self._starting:
            if not self.held:
                self._renew_now()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the renewals. The lease itself runs on until it ends or is given up."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._until = 0.0

    def _renew_now(self) -> None:
        began = _now()
        self._renew()
        self._until = began + self.seconds

    def _keep(self) -> None:
        while not self._stop.wait(self.seconds / _RENEWALS):
            try:
                self._renew_now()
            except SpooltopError:
                continue  # ``held`` turns False by itself, and whoever claims then is told why


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
