"""A plan while the size of the terminal changes; Ctrl-L paints over what somebody else wrote into the terminal."""

from __future__ import annotations

from pathlib import Path

from .consumers import Consumer
from .terminal import ESC, Dashboard, Person, all_of

SIZES = ((20, 5), (40, 10), (200, 60), (1, 1), (80, 9), (39, 60), (300, 3), (160, 50), (80, 24), (41, 11))
"""Columns and lines; below 40×10 nothing but that can be said."""


def test_a_plan_stays_a_plan_while_the_size_changes(spool_path: Path, dashboard: Dashboard) -> None:
    Consumer.claim(spool_path).kill()
    screen = dashboard(str(spool_path))
    person = Person(screen)
    person.sees("1 claim of a dead consumer")
    person.press("r", "y requeue 1")
    for size in SIZES:
        screen.resize(*size)
        screen.pump(0.05)
    screen.resize(20, 5)
    person.sees("spooltop needs")
    screen.type("y")  # what cannot be read cannot be confirmed
    while screen.unread:
        screen.pump(0.05)
    screen.resize(60, 15)
    person.sees(lambda text: len(text.split("\n")[0]) == 60 and text.split("\n")[0].endswith("─┐"))  # in its new size
    person.sees(all_of("Requeue 1 claim", "y requeue 1"))
    assert len(list((spool_path / "cur").iterdir())) == 1
    person.press("y", "Requeued 1")
    person.press(ESC, "no problems detected")
    assert person.leaves() == 0


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
