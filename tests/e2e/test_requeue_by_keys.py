"""The main job through a real terminal: a consumer dies, its claim is seen, requeued by keys, and worked on again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .consumers import Consumer
from .terminal import Terminal

Dashboard = Callable[..., Terminal]


def test_a_killed_consumers_claim_is_requeued_by_keys_and_taken_again(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    victim = Consumer.claim(spool_path)
    assert victim.got is not None and victim.got["attempt"] == 1
    screen.type("3")
    screen.wait_for(lambda text: "Claims 1" in text and "alive" in text)
    victim.kill()
    screen.wait_for("DEAD")
    screen.type("r")
    screen.wait_for("y requeue 1")
    screen.type("y")
    screen.wait_for("Requeued 1")
    screen.type("\x1b")
    screen.wait_for("Claims 0")
    second = Consumer.claim(spool_path)
    assert second.got is not None
    assert second.got["id"] == victim.got["id"]
    assert second.got["attempt"] == 2
    assert second.got["data"] == victim.got["data"]
    assert second.end("ack") == 0
    screen.type("qq")
    assert screen.wait_exit() == 0


def test_a_living_consumers_claim_is_refused(spool_path: Path, dashboard: Dashboard) -> None:
    holder = Consumer.claim(spool_path)
    assert holder.got is not None
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    screen.type("3")
    screen.wait_for("Claims 1")
    screen.wait_for("alive")
    screen.type("r")
    screen.wait_for("Refused 1")
    screen.type("y")
    screen.type("\x1b")
    screen.wait_for("Claims 1")
    assert holder.end("ack") == 0
    screen.wait_for("Claims 0")
