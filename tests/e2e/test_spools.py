"""Several spools on a terminal: one is opened and left, one hangs, one has a consumer that is killed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .consumers import Consumer
from .person import DOWN, ENTER, ESC, Person, all_of
from .terminal import SPOOLTOP, Terminal
from .test_survives import server_of
from .test_who_lives import needs_root

pytestmark = pytest.mark.long


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three spools with 3, 1 and 2 messages."""
    for name, count in (("alpha", 3), ("beta", 1), ("gamma", 2)):
        with Spool.create(tmp_path / "queues" / name) as spool:
            spool.put_many([b"x"] * count)
    return tmp_path / "queues"


def chosen(name: str) -> Callable[[str], bool]:
    """True of a Spools view with the cursor on this spool."""
    return lambda text: any(line.startswith("▌") and f" {name} " in line for line in text.splitlines())


def first(name: str) -> Callable[[str], bool]:
    """True of a Spools view with this spool on top."""
    return lambda text: len(lines := text.splitlines()) > 2 and f" {name} " in lines[2]


def test_one_is_opened_and_left_to_the_same_row_filter_and_sort(root: Path, dashboard: Callable[..., Terminal]) -> None:
    person = Person(dashboard(str(root / "alpha"), str(root / "beta"), f"{root}/g*"))
    person.sees(all_of("3 spools", "alpha", "beta", "gamma", "Enter open"))
    person.press("/", "Enter keeps")
    person.press("m", all_of("1 match", "gamma"))
    person.press("\x7f", "3 match")
    person.press("a", all_of("3 match", "/a"))
    person.press(ENTER, "match a")
    person.press("s", "Sort by")
    person.press(DOWN, "▌name")
    person.press(ENTER, all_of("spool↑", "match a"))
    person.press("g", chosen("alpha"))
    person.press(DOWN, chosen("beta"))
    person.press(ENTER, all_of("queues/beta", "1Over"))
    person.press("2", "New 1")
    person.press("0", all_of("3 of 3 spools match a", "spool↑"))
    person.sees(chosen("beta"))
    person.press(ENTER, "New 1")
    person.press(ESC, "no problems detected")  # the Overview: two Esc typed at once would be one key
    person.press(ESC, all_of("3 of 3 spools match a", "spool↑"))
    person.sees(chosen("beta"))
    person.press(ESC, all_of("3 spools", "q quit"))
    assert person.leaves() == 0


def test_a_directory_of_spools_shows_a_killed_consumer_on_top(root: Path, dashboard: Callable[..., Terminal]) -> None:
    consumer = Consumer.claim(root / "gamma")
    person = Person(dashboard(str(root)))
    person.sees(all_of("3 spools", "alpha"))
    person.sees(first("alpha"))
    consumer.kill()
    person.sees(first("gamma"))
    person.sees("1 claim of a dead")
    assert person.leaves() == 0


@needs_root
def test_one_that_does_not_answer_blocks_no_other_and_no_key(root: Path, tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    fuse = [sys.executable, "-m", "tests.e2e.fusefs", str(root / "gamma"), str(mount)]
    with Terminal(["unshare", "--mount", *fuse, *SPOOLTOP, str(mount), str(root / "alpha"), str(root / "beta")]) as screen:
        person = Person(screen)
        person.sees(all_of("3 spools", "alpha", "beta"))
        server = server_of(screen)
        server.send_signal(signal.SIGUSR1)
        person.press("R", "looking again")
        person.sees("does not answer")
        with Spool(root / "beta") as spool:
            spool.put_many([b"x"] * 40)
        person.sees(lambda text: any("beta" in line and " 41 " in line for line in text.splitlines()))
        person.press("/", "Enter keeps")
        person.press("b", all_of("/b", "match"))
        person.press(ENTER, "match b")
        assert person.leaves("\x03") == 0
        server.terminate()
