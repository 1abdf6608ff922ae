"""Incidents at three in the morning, played by keys; the number of keys is part of the promise."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .consumers import Consumer
from .terminal import ESC, SPOOLTOP, Dashboard, Person, Terminal, all_of, in_one_line
from .test_who_lives import NOBODY, needs_root

pytestmark = pytest.mark.long


def depth(text: str) -> int:
    """Reads the depth of ``new`` from the Overview."""
    found = re.search(r"^ new +([\d,]+) ", text, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else -1


def test_the_depth_rises_and_two_consumers_are_dead(spool_path: Path, dashboard: Dashboard) -> None:
    victims = [Consumer.claim(spool_path), Consumer.claim(spool_path)]
    with Spool(str(spool_path), durable=False) as spool:
        person = Person(dashboard(str(spool_path)))
        person.sees(lambda text: depth(text) == 1)
        for victim in victims:
            victim.kill()
        spool.put_many([b"x"] * 4)
        pids = [str(victim.pid) for victim in victims]
        person.sees(lambda text: depth(text) == 5 and all_of("✗ 2 claims of dead consumers", "consumers 0", *pids)(text))
        spool.put_many([b"x"] * 40)
        person.sees(lambda text: depth(text) == 45)
        person.press("r", all_of("Requeue 2 claims", "y requeue 2", *pids))
        spool.put(b"x")
        person.press("y", all_of("done 2 · skipped 0 · failed 0", "2 wait in new, place 1 to 2 of 48"))
        again = [Consumer.claim(spool_path), Consumer.claim(spool_path)]
        person.sees(all_of(*(f"claimed by {consumer.pid}" for consumer in again)))
        assert [consumer.end("ack") for consumer in again] == [0, 0]
        person.sees(lambda text: text.count("done after") == 2)
        person.press(ESC, lambda text: "no problems detected" in text and depth(text) == 46)
        assert person.leaves() == 0
    assert b"requeued 2; undo: spooltop undo" in person.screen.raw
    assert [consumer.got["attempt"] for consumer in again] == [2, 2]
    assert {consumer.got["id"] for consumer in again} == {victim.got["id"] for victim in victims}
    assert person.keys == 4


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A directory that every user may enter."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


@needs_root
def test_a_user_without_rights_is_told_how_to_get_them(anybodys: Path) -> None:
    path = anybodys / "spool"
    with Spool.create(str(path), durable=False) as spool:
        spool.put(b"x")
    for part in (path, *path.iterdir()):
        part.chmod(0o755)
    Consumer.claim(path).kill()
    with Terminal([*NOBODY, *SPOOLTOP, str(path)], env={"HOME": "/"}) as screen:
        person = Person(screen)
        text = person.sees(all_of("1 claim of a dead consumer", "read-only"))
        assert "r requeue 1" not in text
        for key, word in (("r", "requeue"), ("d", "purge"), ("i", "inject")):
            advice = f"{word}: you are nobody, new belongs to root 0755. Try: sudo -u root spooltop {path}"
            person.press(key, in_one_line(advice))
        person.press("?", lambda text: text.startswith(" Move") and "Try: sudo -u root" in " ".join(text.split()))
        person.press("q", "1 claim of a dead consumer")
        assert person.leaves() == 0
    assert len(os.listdir(path / "cur")) == 1
