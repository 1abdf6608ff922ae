"""Bytes sent to the terminal: an idle screen sends none, a switch few, colour only where it is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .terminal import Dashboard, Terminal
from .views import switches, whole_spool


def rests(screen: Terminal) -> None:
    """Reads until nothing has come for a while."""
    while screen.pump(0.2):
        continue


def cost(screen: Terminal, act: Callable[[], object]) -> int:
    """Bytes written for ``act``."""
    written = len(screen.raw)
    act()
    while len(screen.raw) == written:
        assert screen.pump(20.0), "nothing was drawn"
    rests(screen)
    return len(screen.raw) - written


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (200, 60)], ids=str)
@pytest.mark.parametrize("messages", [5, 300])
def test_each_picture_is_sent_once(tmp_path: Path, dashboard: Dashboard, size: tuple[int, int], messages: int) -> None:
    if messages > 5:
        whole_spool(tmp_path / "spool", messages)
    else:
        with Spool.create(str(tmp_path / "spool"), durable=False) as spool:
            spool.put_many([b"x"] * messages)
    columns, rows = size
    pictures = {}
    for _ in range(3):  # on a busy machine there is more than one look before the key that freezes, and its news come on top
        screen = dashboard(str(tmp_path / "spool"), cols=columns, rows=rows)
        screen.wait_for("live · as of")
        screen.type("Z")  # frozen: nothing but a key changes what is shown
        screen.wait_for("FROZEN")
        rests(screen)
        first = len(screen.raw)
        redraw = partial(screen.type, "\x0c")
        pictures["first"] = first, cost(screen, redraw)
        if first <= 1.3 * pictures["first"][1]:
            break
    for name, act in (
        ("a size that came back", partial(screen.resize, columns, rows)), ("help", partial(screen.type, "?")),
    ):  # fmt: skip
        pictures[name] = cost(screen, act), cost(screen, redraw)
    assert all(sent <= 1.3 * once for sent, once in pictures.values()), pictures


@pytest.mark.long
def test_an_idle_screen_writes_under_a_hundred_bytes_a_second(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    screen.collect(12.0)  # until then ages are shown by the second
    assert screen.collect(12.0) < 12 * 100


@pytest.mark.long
def test_a_switch_of_view_costs_under_two_and_a_half_kilobytes(tmp_path: Path, dashboard: Dashboard) -> None:
    whole_spool(tmp_path / "spool", 1000)
    screen = dashboard(str(tmp_path / "spool"), rows=24)
    screen.wait_for("12 claims of dead consumers")
    screen.type("Z")  # frozen: nothing but a key changes what is shown
    screen.wait_for("FROZEN")
    found = switches(screen, 0.3)
    assert len(found) == 56
    # A list that takes long is shown in two steps, but no cell is drawn twice for it.
    assert max(found.values()) <= 2500, found


def test_without_colour_everything_is_in_the_terminals_own(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path), env={"NO_COLOR": "1"})
    screen.wait_for("live")
    screen.type("2")
    screen.wait_for("New 3")
    codes = {code for found in re.findall(rb"\x1b\[([0-9;]*)m", bytes(screen.raw)) for code in found.split(b";")}
    assert not {code for code in codes if code.isdigit() and ((30 <= int(code) <= 48 and code != b"39") or int(code) >= 90)}
