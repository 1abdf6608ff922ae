"""Progress and cancellation of long work: reported and checked now and then, not for each of a million items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from spooltop.errors import Stopped

__all__ = ["BATCH", "EVERY", "Progress"]

BATCH = 1_000
"""Most items that one intent line, one sync and one result line cover."""
EVERY = 500
"""Steps between two checks: some hundredths of a second."""

T = TypeVar("T")


class Progress:
    """Checks ``stop``, which ends the work with ``Stopped``, and passes words to ``tell`` ("230,000 of 300,000 claims looked
    at"). ``show`` receives the first of many items. For one thread."""

    def __init__(
        self,
        stop: Callable[[], bool] | None = None,
        tell: Callable[[str], object] | None = None,
        show: Callable[[Sequence[Any]], object] | None = None,
    ) -> None:
        self._stop = stop
        self._tell = tell
        self._show = show
        self._words = ""
        self._of = 0
        self._every = EVERY
        self._done = 0

    def begin(self, words: str, of: int = 0, *, every: int = EVERY) -> None:
        """Starts a phase: ``words`` name the items, ``of`` is their number (0: not known); ``every`` is the number of steps
        between checks."""
        self._words, self._of, self._every, self._done = words, of, every, 0
        self.check()

    def step(self) -> None:
        """Counts one more item. Raises ``Stopped``."""
        self.advance(1)

    def advance(self, steps: int) -> None:
        """Counts ``steps`` more items, which were done together. Raises ``Stopped``."""
        before, self._done = self._done, self._done + steps
        if self._done // self._every > before // self._every:
            self.check()
            if self._tell is not None:
                of = f" of {self._of:,}" if self._of >= self._done else ""
                self._tell(f"{self._done:,}{of} {self._words}")

    def each(self, things: Iterable[T]) -> Iterator[T]:
        """Yields ``things``, a step each."""
        for one in things:
            self.step()
            yield one

    def found(self, items: Sequence[Any]) -> None:
        """Passes the first of the items found so far on, once there is a whole chunk of them."""
        if self._show is not None and len(items) >= BATCH:
            self._show(items[:BATCH])
            self._show = None

    def stopped(self) -> bool:
        return self._stop is not None and self._stop()

    def check(self) -> None:
        """Raises ``Stopped`` if the work was cancelled."""
        if self.stopped():
            raise Stopped("stopped on the way; nothing was changed")
