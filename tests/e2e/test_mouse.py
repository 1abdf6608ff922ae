"""The mouse, by what a terminal sends for it: clicks choose and open, the wheel scrolls, keys and titles that are drawn are
pressed. Movements are never asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .consumers import Consumer
from .terminal import Dashboard, Terminal

pytestmark = pytest.mark.long


def click(screen: Terminal, words: str, line: Callable[[str], bool] = lambda line: True) -> None:
    """Presses and releases the first button on the first place where these words stand."""
    screen.wait_for(lambda text: any(words in drawn and line(drawn) for drawn in text.split("\n")))
    while screen.pump(0.3):  # the old footer may stand for a moment under the new title: who clicks waits for a whole screen
        continue
    y, text = next((y, text) for y, text in enumerate(screen.screen.display) if words in text and line(text))
    place = f"{text.index(words) + 1};{y + 1}"
    screen.type(f"\x1b[<0;{place}M\x1b[<0;{place}m")


def test_the_mouse_does_what_keys_do(spool_path: Path, dashboard: Dashboard) -> None:
    Consumer.claim(spool_path).kill()
    screen = dashboard(str(spool_path))
    screen.wait_for("1 claim of a dead consumer")
    click(screen, "2New")
    screen.wait_for(lambda text: "New 2" in text and '"rowid"' in text)
    second = screen.screen.display[3]
    assert not second.startswith("▌")
    click(screen, second.split()[-1][-9:])
    screen.wait_for(lambda text: text.split("\n")[3].startswith("▌"))
    click(screen, "source", lambda line: "message" in line)
    screen.wait_for("sorted by source")
    screen.type("\x1b[<64;5;4M")  # the wheel, up
    screen.wait_for(lambda text: text.split("\n")[2].startswith("▌"))
    click(screen, "▌")  # the chosen row opens
    screen.wait_for(lambda text: "sorted by" not in text and "Esc back" in text)
    click(screen, "back")
    screen.wait_for("sorted by source")
    click(screen, "1Over")
    screen.wait_for("1 PROBLEM")
    click(screen, "▌")
    screen.wait_for("Claims › claims-dead 1")
    screen.wait_for("requeue this 1")
    click(screen, "requeue this 1")
    screen.wait_for("y requeue 1")
    click(screen, "y requeue 1")
    screen.wait_for("the mouse does not confirm: press y")
    assert len(list((spool_path / "cur").iterdir())) == 1
    click(screen, "Esc Cancel")
    screen.wait_for("Claims › claims-dead 1")
    screen.type("qq")
    assert screen.wait_exit() == 0
    assert b"\x1b[?1000h" in screen.raw and b"\x1b[?1006h" in screen.raw
    for mode in (b"1002", b"1003", b"1015", b"1016"):
        assert b"\x1b[?" + mode + b"h" not in screen.raw
    assert screen.raw.rindex(b"\x1b[?1000l") > screen.raw.rindex(b"\x1b[?1000h")
