"""Workers of spooltop on a stream that are killed: their commands end, and what they held is told and waited for."""

from __future__ import annotations

import os
import re
import signal
import socket as sockets
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine.system.host import process_start
from tests.cli.streams import finish, spooltop, start

from .conftest import NAMES

_GONE = 1 << 22
"""No process has this number: it is the largest of Linux, and never given out."""


@pytest.fixture(autouse=True)
def three(jobs: Any) -> None:
    """Puts three messages."""
    for number in range(3):
        jobs.xadd("jobs", {"data": str(number)})


@pytest.fixture
def killed(url: str, tmp_path: Path) -> Iterator[list[int]]:
    """A worker was killed while it had two commands: the pids of the first, and of a child of it that ignores SIGTERM. Before it
    starts a second command, its guard knows of the first."""
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    script = f"trap '' TERM; (sh -c 'echo $SPOOLTOP_ID $PPID $$ > {pids}; exec sleep 600')"
    with start("work", url, "--jobs", "2", "--", "sh", "-c", script, stdin=subprocess.DEVNULL) as process:
        with open(os.open(pids, os.O_RDWR)) as told:
            first, second = sorted(told.readline().split() for _ in range(2))
        process.kill()
    yield [int(word) for word in first[1:]]
    for pid in map(int, (*first[1:], *second[1:])):
        if process_start(pid) is not None:
            os.kill(pid, signal.SIGKILL)


def test_the_command_of_a_killed_worker_ends(killed: list[int]) -> None:
    while any(process_start(pid) is not None for pid in killed):
        threading.Event().wait(0.05)


def _gone_worker(jobs: Any, milliseconds: int) -> str:
    """Has a worker of this host claimed a message, and ended; its lease runs on."""
    name = f"{sockets.gethostname()}-{_GONE}-abcdef"
    jobs.xreadgroup("work", name, {"jobs": ">"}, count=1)
    jobs.hset(NAMES.consumers, name, f"{sockets.gethostname()} {_GONE}")
    jobs.set(NAMES.lease(name), "1", px=milliseconds)
    return name


def test_a_requeue_of_the_dead_says_why_there_are_none(url: str, jobs: Any) -> None:
    name = _gone_worker(jobs, 590_000)
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=2)
    assert re.search(r"running .* its process is gone, its lease runs 9m more", spooltop("consumers", url).out)
    done = spooltop("requeue", url, "--verdict", "dead", "--yes")
    assert done.code == 4 and "note: 2 not dead: unknown." in done.out
    assert f"note: 1 not dead: {name}: its process is gone, its lease runs 9m" in done.out


def test_a_drain_waits_for_the_lease_of_a_worker_that_is_gone(url: str, jobs: Any) -> None:
    _gone_worker(jobs, 500)
    done = finish(["work", url, "--drain", "--", "cat"])
    assert (done.code, sorted(done.out)) == (0, ["0", "1", "2"])
    assert jobs.xpending("jobs", "work")["pending"] == 0


def test_a_drain_names_what_others_hold(url: str, jobs: Any) -> None:
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=1)
    done = finish(["work", url, "--drain", "--", "cat"])
    assert (done.code, sorted(done.out)) == (1, ["1", "2"])
    assert "1 claimed by bob is left: no lease" in done.err
    jobs.set(NAMES.lease("bob"), "1")
    jobs.hset(NAMES.consumers, "bob", "far 1")
    done = finish(["work", url, "--drain", "--", "cat"])
    assert done.code == 0 and "1 claimed by bob is left: its lease runs" in done.err
    jobs.hdel(NAMES.consumers, "bob")
    assert "1 claimed by bob is left: its lease runs" in finish(["work", url, "--drain", "--", "cat"]).err


def test_a_worker_goes_on_where_the_server_lost_its_data(url: str, jobs: Any) -> None:
    with start("work", url, "--", "cat", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stderr is not None
        assert sorted(process.stdout.read(3)) == [ord("0"), ord("1"), ord("2")]
        jobs.flushall()
        for line in process.stderr:
            if b"both were made again, empty" in line:
                break
        jobs.xadd("jobs", {"data": "3"})
        assert process.stdout.read(1) == b"3"
        jobs.xgroup_destroy("jobs", "work")
        for line in process.stderr:
            if b"no such group any more; spooltop init makes it again" in line:
                break
        assert spooltop("init", url).code == 0
        jobs.xadd("jobs", {"data": "4"})
        while process.stdout.read(1) != b"4":
            pass  # the message before may come again: its ack may have found no group
        process.terminate()
        assert process.wait() == 0
