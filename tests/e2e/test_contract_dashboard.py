"""The dashboard on a real terminal: no colour if none is wanted, keys typed too early, and watching writes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from .consumers import Consumer
from .terminal import Terminal

Dashboard = Callable[..., Terminal]


def on_the_claim(text: str) -> bool:
    """The view of claims is painted, and the cursor stands on one."""
    return "Claims 1" in text and "verdict  DEAD" in text


def test_without_colour_everything_is_in_the_terminals_own(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path), env={"NO_COLOR": "1"})
    screen.wait_for("live")
    screen.type("2")
    screen.wait_for("New 3")
    codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", bytes(screen.raw)) for code in found.split(b";")}
    coloured = {code for code in codes if code.isdigit() and ((30 <= int(code) <= 48 and code != b"39") or int(code) >= 90)}
    assert not coloured
    screen.type("qq")
    assert screen.wait_exit() == 0


def test_keys_typed_before_a_plan_is_painted_confirm_nothing(spool_path: Path, dashboard: Dashboard) -> None:
    Consumer.claim(spool_path).kill()
    screen = dashboard(str(spool_path))
    screen.wait_for("live")
    screen.type("3")
    screen.wait_for(on_the_claim)
    screen.type("ry")
    screen.wait_for("y requeue 1")
    assert "Requeued" not in screen.text
    screen.type("\x1b")
    screen.wait_for(on_the_claim)
    screen.type("ryyyyyyy")
    screen.wait_for("y requeue 1")
    assert "Requeued" not in screen.text
    screen.type("\x03")
    assert screen.wait_exit() == 0
    assert len(list((spool_path / "cur").iterdir())) == 1


def test_watching_writes_nothing(spool_path: Path, dashboard: Dashboard) -> None:
    Consumer.claim(spool_path).kill()
    (spool_path / "cursors.json").write_text('{"a": 1}')

    def state() -> list[tuple[str, int, int, int]]:
        everything = (spool_path, *spool_path.rglob("*"))
        return sorted((str(one), (s := one.lstat()).st_ino, s.st_mtime_ns, s.st_ctime_ns) for one in everything)

    before = state()
    screen = dashboard(str(spool_path))
    screen.wait_for("live")
    back = ("\x1b", on_the_claim)
    for key, seen in (("3", on_the_claim), ("r", "y requeue 1"), back, ("d", "y purge 1"), back, ("2", "New 2")):
        screen.type(key)
        screen.wait_for(seen)
    screen.type("qq")
    assert screen.wait_exit() == 0
    assert state() == before
