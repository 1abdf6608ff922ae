"""What somebody else wrote over the dashboard is gone after Ctrl-L."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
