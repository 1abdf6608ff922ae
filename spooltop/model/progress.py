"""How far something long has come, and whether it is still wanted: told and asked now and then, not for each of a million."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..errors import Stopped

__all__ = ["EVERY", "Progress"]

EVERY = 500
"""Things between two questions: some hundredths of a second."""

T = TypeVar("T")


class Progress:
    """``stop`` is asked whether to end, which is ``Stopped``; ``tell`` gets words ("230,000 of 300,000 claims looked at").
    Of one thread."""

    def __init__(self, stop: Callable[[], bool] | None = None, tell: Callable[[str], object] | None = None) -> None:
        self._stop = stop
        self._tell = tell
        self._words = ""
        self._of = 0
        self._every = EVERY
        self._done = 0

    def begin(self, words: str, of: int = 0, *, every: int = EVERY) -> None:
        """What is gone through from now on, and how much there is of it (0: not known); asked is after so many."""
        self._words, self._of, self._every, self._done = words, of, every, 0
        self.check()

    def step(self) -> None:
        """One more is through. Raises ``Stopped``."""
        self._done += 1
        if self._done % self._every == 0:
            self.check()
            if self._tell is not None:
                of = f" of {self._of:,}" if self._of >= self._done else ""
                self._tell(f"{self._done:,}{of} {self._words}")

    def each(self, things: Iterable[T]) -> Iterator[T]:
        """``things``, a step each."""
        for one in things:
            self.step()
            yield one

    def stopped(self) -> bool:
        return self._stop is not None and self._stop()

    def check(self) -> None:
        """Raises ``Stopped`` where it is wanted no longer."""
        if self.stopped():
            raise Stopped("stopped on the way; nothing was changed")
