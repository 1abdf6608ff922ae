"""A spool with messages, and the dashboard on a pty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .terminal import SPOOLTOP, Terminal


@pytest.fixture
def spool_path(tmp_path: Path) -> Path:
    """A spool with three messages in ``new``."""
    path = tmp_path / "spool"
    with Spool.create(str(path), durable=False) as spool:
        for number in range(3):
            spool.put(b'{"rowid": %d}' % number, source="imessage")
    return path


@pytest.fixture
def dashboard() -> Iterator[Callable[..., Terminal]]:
    """Opens ``spooltop`` with arguments on a pty; all are closed at the end."""
    opened: list[Terminal] = []

    def start(*args: str, cols: int = 80, rows: int = 23, env: dict[str, str] | None = None) -> Terminal:
        terminal = Terminal([*SPOOLTOP, *args], cols=cols, rows=rows, env=env)
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()
