"""Consumers on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import Desk, new_desk

from .streams import spooltop


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A dead consumer with two claims and a running one with one."""
    one = new_desk(tmp_path)
    for number in range(3):
        one.put(one.id(number))
    one.claim_and_die(one.id(0), one.id(1))
    one.claim(one.id(2))
    yield one
    one.close()


def test_the_table_has_the_dead_first(desk: Desk) -> None:
    done = spooltop("consumers", desk.path)
    assert (done.code, done.err) == (0, "")
    title, dead, running = done.out.splitlines()
    assert title.split()[:3] == ["verdict", "pid", "command"]
    assert dead.split()[0] == "DEAD" and dead.endswith("exited")
    assert running.split()[:2] == ["running", str(desk.processes[1].pid)]
    assert " · " in running  # no rate after a single look


def test_each_is_an_object_a_line(desk: Desk) -> None:
    dead, running = map(json.loads, spooltop("consumers", desk.path, "--json").out.splitlines())
    assert set(dead) >= {
        "schema", "verdict", "pid", "host", "user", "command", "token", "started_at", "claims", "longest_held", "last_claim",
        "done_rate", "failed_rate", "cpu", "memory", "evidence",
    }  # fmt: skip
    assert (dead["verdict"], dead["claims"], dead["pid"], dead["cpu"], dead["memory"], dead["done_rate"]) == (
        "dead", 2, desk.processes[0].pid, None, None, None
    )  # fmt: skip
    assert (running["schema"], running["verdict"], running["claims"], running["cpu"]) == (1, "alive", 1, None)
    assert running["memory"] > 1_000_000 and len(running["token"]) == 32 and running["longest_held"] >= 0


def test_watching_gives_rates(desk: Desk) -> None:
    *_, running = map(json.loads, spooltop("consumers", desk.path, "--json", "--watch", "2").out.splitlines())
    assert (running["done_rate"], running["failed_rate"]) == (0.0, 0.0)
    assert running["cpu"] is not None and running["window"] > 0


def test_only_one_verdict(desk: Desk) -> None:
    dead = spooltop("consumers", desk.path, "--verdict", "dead")
    assert [line.split()[0] for line in dead.out.splitlines()] == ["verdict", "DEAD"]
    none = spooltop("consumers", desk.path, "--verdict", "unknown")
    assert (none.code, none.out) == (4, "")
    assert none.err.endswith("no consumer is unknown\n")


def test_nobody_and_wrong_words(tmp_path: Path) -> None:
    assert spooltop("init", tmp_path / "s").code == 0
    assert spooltop("consumers", tmp_path / "s").out == "no consumers here\n"
    assert spooltop("consumers", tmp_path / "s", "--watch", "0").code == 2
    (tmp_path / "s" / "cur" / "nobody").touch()
    assert "1 claim names no consumer" in spooltop("consumers", tmp_path / "s").err
