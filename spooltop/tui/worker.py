"""Plans and applies in a thread; results go back through a callback in that thread. Another thread reads what was kept of an
earlier dashboard."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from spooltop.control import Control
from spooltop.errors import SpooltopError
from spooltop.model.backend import KeptView

T = TypeVar("T")


def outcome(job: Callable[[], T]) -> T | SpooltopError:
    """Returns the result of ``job``, or the error that it raised, so that no thread of the dashboard ends by one."""
    try:
        return job()
    except SpooltopError as error:
        return error
    except OSError as error:
        return SpooltopError(error.strerror or str(error), path=error.filename)
    except Exception as error:  # noqa: BLE001  a defect below is shown and must not end the thread
        return SpooltopError(f"internal error, please report: {error!r}")


class Worker:
    """Runs jobs (plans and operations) one after the other in a thread of its own, so that a slow disk blocks neither keys nor
    looks."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Callable[[], T], reply: Callable[[T | SpooltopError], object]) -> None:
        """Runs ``job`` in the thread and calls ``reply`` there with what it returned, or with the error that it raised."""
        self._jobs.put(lambda: reply(outcome(job)))

    def stop(self, timeout: float) -> bool:
        """Ends the thread after the job under way; True where that ended within ``timeout`` seconds."""
        self._jobs.put(None)
        if self._thread.ident is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


_PATIENCE = 0.3
"""Seconds for which a home that does not answer is waited for."""


def kept_view(control: Control) -> KeptView:
    """Returns what was kept; the default where it cannot be read. May block."""
    found = outcome(control.kept_view)
    return KeptView() if isinstance(found, SpooltopError) else found


def read_kept(control: Control) -> Callable[[], KeptView | None]:
    """Begins to read what was kept in a thread. Returns a function for the result, which is None where the home does not answer:
    nothing is kept at the end then, either."""
    found: list[KeptView] = []
    thread = threading.Thread(target=lambda: found.append(kept_view(control)), name="kept", daemon=True)
    thread.start()

    def take() -> KeptView | None:
        thread.join(_PATIENCE)
        return found[0] if found else None

    return take
