"""Ctrl-L paints over what somebody else wrote into the terminal; else it changes nothing, whatever happened before."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from .terminal import Terminal

Dashboard = Callable[..., Terminal]


def test_ctrl_l_paints_over_what_was_written_into_the_terminal(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for(lambda text: "live · as of" in text and "\n 1Over" in text)
    row = next(at for at, line in enumerate(screen.text.split("\n")) if line.startswith(" 1Over"))
    was = screen.text.split("\n")[row][:12]
    screen.screen.cursor_position(row + 1, 1)
    screen.screen.draw("wall: lunch!")
    assert "wall: lunch!" in screen.text
    screen.type("\x0c")
    screen.wait_for(lambda text: "wall: lunch!" not in text and text.split("\n")[row].startswith(was))


@pytest.mark.long
def test_after_many_keys_and_sizes_a_full_repaint_changes_nothing(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    chance = random.Random(20)
    for _ in range(60):
        if chance.random() < 0.3:
            screen.resize(chance.randint(40, 130), chance.randint(10, 45))
        screen.type(chance.choice("1234567jkGg?\x7f!tI<>z\x7fx\x7f"))
        screen.pump(chance.choice((0.0, 0.01, 0.05)))
    screen.resize(100, 30)
    screen.type("\x7f" * 6 + "1Z")  # frozen: nothing but a key changes what is shown
    screen.wait_for(lambda text: "PROBLEM" in text.upper() or "no problems detected" in text)
    while screen.pump(0.5):
        continue
    painted, written = screen.text, len(screen.raw)
    screen.type("\x0c")
    while len(screen.raw) - written < 500:
        assert screen.pump(20.0), "it was not painted again"
    while screen.pump(0.5):
        continue
    assert screen.text == painted
