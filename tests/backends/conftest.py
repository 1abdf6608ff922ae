"""Fixture: file operations before which something else happens."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from spooltop.backends.log_store import LogFiles

Interpose = Callable[..., None]


@pytest.fixture
def before_call(monkeypatch: pytest.MonkeyPatch) -> Interpose:
    """``before_call("move", act, "a")`` has ``act`` called with the same arguments before each move of "a", of any name without
    one. What ``act`` raises, the operation raises; operations that ``act`` does itself are left alone."""

    def interpose(operation: str, act: Callable[..., object], name: str | None = None) -> None:
        real, busy = inspect.getattr_static(LogFiles, operation), False

        def call(self: LogFiles, *arguments: Any, **options: Any) -> Any:
            nonlocal busy
            if not busy and name in (None, arguments[0]):
                busy = True
                try:
                    act(*arguments)
                finally:
                    busy = False
            return real.__get__(self, type(self))(*arguments, **options)

        monkeypatch.setattr(LogFiles, operation, call)

    return interpose
