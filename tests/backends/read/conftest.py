"""Spools, and Controls on them that look with a process table and clocks of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control

from .table import surround

Opened = Callable[..., Control]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """An empty spool."""
    path = tmp_path / "spool"
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens Controls; without events unless asked, so that nothing happens between two looks.

    ``processes`` is the process table and ``monotonic`` the clock of the scans. A box is listed at most every ``least`` seconds,
    and at most ``judged_at_most`` claims are judged; the rest is for ``open_control``.
    """
    with ExitStack() as stack:

        def opener(path: Path, *, least: float = 0.0, judged_at_most: int = 20_000, **wanted: Any) -> Control:
            around = {name: wanted.pop(name) for name in ("processes", "monotonic") if name in wanted}
            surround(monkeypatch, around, least=least, judged_at_most=judged_at_most)
            return stack.enter_context(open_control(str(path), **{"watch": False, "settings": {}, **wanted}))

        yield opener
