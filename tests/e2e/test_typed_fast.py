"""Keys typed faster than screens come and go: none reaches a screen that was left, and nothing breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .terminal import ESC, Person, Terminal, all_of

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


def test_a_plan_typed_with_its_y_is_confirmed_by_the_next_one_and_undone_after_its_result_was_closed(
    spool_path: Path, dashboard: Dashboard
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    draft = spool_path / "tmp" / f"1795222800.{dead.pid}.{os.uname().nodename}"
    draft.write_bytes(b"x")
    early = "y came before the plan was painted; press it again"
    person = Person(dashboard(str(spool_path)))
    person.sees("live · as of")
    person.press("4dy", all_of("Purge 1 file", early))
    assert draft.exists()
    person.sees(lambda text: "y purge 1" in text)  # the plan was shown for long enough
    person.press("y", "Purged 1")
    assert not draft.exists()
    person.press(ESC, " Tmp 0")
    person.press("zy", all_of("Undo purge of 1 message", early, "y undo 1"))
    person.press("y", "Undone 1")
    assert draft.exists()
    assert b"\x1b]52" not in person.screen.raw  # nothing was copied
