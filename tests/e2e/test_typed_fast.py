"""Keys typed faster than screens come and go: none reaches a screen that was left, and nothing breaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .terminal import Terminal

Dashboard = Callable[..., Terminal]


@pytest.mark.parametrize("keys", ["?qqqq", "z?qqqq", "zzzz?qqqq", "3?qqqqqq", ":qqq"])
def test_keys_typed_ahead_of_the_screens_break_nothing(spool_path: Path, dashboard: Dashboard, keys: str) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    for key in keys:
        screen.type(key)
    screen.type("\x03")
    assert screen.wait_exit() in (0, 130)  # 130: a q has left the dashboard already, and the end of the program takes the Ctrl-C
    assert "Traceback" not in screen.text
