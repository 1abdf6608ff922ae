"""A terminal whose size changes all the time, while the spool moves: it goes on, obeys keys, and its last picture is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .consumers import Consumer, producer
from .terminal import ESC, Person, Terminal, all_of

Dashboard = Callable[..., Terminal]

SIZES = ((20, 5), (40, 10), (200, 60), (1, 1), (80, 9), (39, 60), (300, 3), (160, 50), (80, 24), (41, 11))
"""Columns and lines; below 40×10 nothing but that can be said."""
BACK = "\x7f"
VIEWS = ("1", "2", "3", "4", "5", "6", "7", "?", BACK, "z", BACK)


def shape(text: str) -> list[str]:
    """The lines of a screen without what changes by itself: times, rates, graphs, numbers by age, free space."""
    text = re.sub(r"\S+B free \d+%(, inodes free \d+%)?", "DISK", text)
    lines = (" ".join(re.sub(r"\d\d:\d\d:\d\d|[<≤≥]?[\d.]+(?:s|/s)(?!\w)", "T", line).split()) for line in text.split("\n"))
    return [re.sub(r"(?:\d+ ){6}\d+", "AGES", re.sub(r"·*[▁-█][·▁-█ ]*", "#", line)) for line in lines]


@pytest.mark.long
def test_it_lives_through_every_size_with_every_key(spool_path: Path, dashboard: Dashboard) -> None:
    Consumer.claim(spool_path).kill()
    (spool_path / "cursors.json").write_text('{"imessage": 89632}')
    screen = dashboard(str(spool_path))
    person = Person(screen)
    person.sees("1 claim of a dead consumer")
    with producer(spool_path) as feed:
        for turn in range(3):
            for at, view in enumerate(VIEWS):
                screen.resize(*SIZES[(at + turn) % len(SIZES)])
                screen.type(view)
                feed.put(7)
                screen.resize(*SIZES[(at * 3 + turn) % len(SIZES)])
                screen.type("j")
                screen.pump(0.05)
            screen.resize(20, 5)
            person.sees(all_of("spooltop needs", "40×10"))
            screen.resize(40, 10)
            person.sees(lambda text: "spooltop needs" not in text and bool(text.strip()))
    screen.resize(80, 23)
    for _ in range(len(VIEWS)):
        while screen.pump(0.5):
            continue
        if "PROBLEM" in screen.text:
            break
        screen.type(BACK)
    person.sees("1 PROBLEM")
    person.press("2", "New 233 ")
    person.press("g", all_of("New 233 ", '"rowid": 1'))
    fresh = Person(dashboard(str(spool_path)))
    fresh.sees("1 claim of a dead consumer")
    fresh.press("2", all_of("New 233 ", '"rowid": 1'))
    right = shape(fresh.screen.text)
    person.sees(lambda text: shape(text) == right)
    assert fresh.press("q", "1 PROBLEM") and fresh.leaves() == 0
    person.press("q", "1 PROBLEM")
    assert person.leaves() == 0
    assert b"Traceback" not in screen.raw


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
