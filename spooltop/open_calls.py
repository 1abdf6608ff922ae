"""Keeps the files of an object open while it is called, also if another thread closes it meanwhile."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from spooltop.engine.arguments import closed

from .run_each import call_watched

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["HasCalls", "OpenCalls", "while_open", "while_watched"]

P = ParamSpec("P")
R = TypeVar("R")


class OpenCalls:
    """Running calls of an object, each a ``with`` block that raises ``Closed`` after ``close``. ``path`` is named in the error;
    ``release`` closes the files, once, when the object is closed and the last call has ended. Thread-safe. ``patience``: seconds
    after which a call that is ``while_watched`` and hangs is left behind; ``step`` names what it is at."""

    def __init__(
        self, path: str, what: str, release: Callable[[], None], *, patience: float = math.inf, step: Callable[[], str] = str
    ) -> None:
        self.path = path
        self.patience = patience
        self.step = step
        self._what = what
        self._release = release
        self._counting = threading.RLock()
        self._running = 0
        self._closed = False

    def __enter__(self) -> None:
        with self._counting:
            if self._closed:
                raise closed(self.path, self._what)
            self._running += 1

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        with self._counting:
            self._running -= 1
            last = self._closed and self._running == 0
        if last:
            self._release()

    def close(self, interrupt: Callable[[], None]) -> None:
        """Closes the object: ``interrupt`` ends calls that wait, and the last running call releases the files. A second call does
        nothing."""
        with self._counting:
            if self._closed:
                return
            self._closed = True
            self._running += 1
        try:
            interrupt()
        finally:
            self.__exit__(None, None, None)


class HasCalls(Protocol):
    """Object whose methods are decorated with ``while_open``."""

    @property
    def _calls(self) -> OpenCalls: ...


T = TypeVar("T", bound=HasCalls)


def while_open(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Makes a method of a closed object raise ``Closed``, and keeps its files open during a call."""

    @wraps(method)
    def called(self: T, /, *arguments: P.args, **options: P.kwargs) -> R:
        with self._calls:
            return method(self, *arguments, **options)

    return called


def while_watched(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """As ``while_open``, for a method that reads a file system, which may never answer: raises ``DoesNotAnswer`` then, where the
    object has not endless patience."""
    is_open = while_open(method)

    @wraps(method)
    def called(self: T, /, *arguments: P.args, **options: P.kwargs) -> R:
        calls = self._calls
        return call_watched(partial(is_open, self, *arguments, **options), calls.patience, calls.path, calls.step)

    return called
