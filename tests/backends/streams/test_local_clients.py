"""Consumers of this host whose connections tie their names to processes; see ``PidJudge``."""

from __future__ import annotations

import os
import signal
import socket as sockets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.directory.liveness.processes import Processes
from spooltop.control import Control, open_control
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.scratch import own_state
from tests.stream_servers import KINDS, free_port, running

_HOLDS = """
import os, socket, sys
from redis import Redis
server = Redis(port=int(sys.argv[1]))
name = f"{socket.gethostname()}-{os.getpid()}"
server.xreadgroup("work", name, {"jobs": ">"}, count=2)
print(name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module", params=KINDS)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    with TemporaryDirectory(prefix="spooltop-streams-") as folder:
        with running(request.param, Path(folder), "--port", str(port := free_port())):
            yield port


@pytest.fixture
def server(port: int) -> Iterator[Any]:
    with Redis(port=port) as made:
        made.flushall()
        made.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(6):
            made.xadd("jobs", {"data": str(number)})
        yield made


@pytest.fixture
def holder(server: Any, port: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A consumer with two claims, named after its host and its pid."""
    words = [sys.executable, "-c", _HOLDS, str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
        process.kill()


@pytest.fixture
def opened(port: int, server: Any) -> Iterator[Control]:
    with open_control(f"redis://127.0.0.1:{port}#jobs/work", watch=False, settings=own_state()) as control:
        yield control


def _verdicts(control: Control) -> dict[str | None, tuple[Verdict | None, str]]:
    seen = control.look(rescan=True).observation
    return {row.owner.name: (row.verdict, row.evidence) for row in seen.claims if row.owner is not None}


def test_a_process_is_known_by_its_connection(
    holder: tuple[str, subprocess.Popen[str]], server: Any, opened: Control
) -> None:
    name, process = holder
    namesake = f"{sockets.gethostname()}-{os.getppid()}"  # a pid that runs, and has nothing to do with the server
    server.xreadgroup("work", namesake, {"jobs": ">"}, count=1)
    seen = _verdicts(opened)
    assert seen[name] == (Verdict.ALIVE, f"pid {process.pid} of this host was seen connected, and is running")
    assert seen[namesake] == (Verdict.UNKNOWN, f"may be pid {os.getppid()} of this host, which is running")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert server.ping() and server.ping()  # by its answers it has noticed
    dead = opened.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))
    assert {item.row.owner.name for item in dead.items if item.row.owner is not None} == {name} and len(dead.items) == 2
    assert {item.row.evidence for item in dead.items} == {f"pid {process.pid} of this host was connected, and has exited"}


def test_a_dead_process_that_was_not_seen_is_unknown(
    holder: tuple[str, subprocess.Popen[str]], server: Any, opened: Control
) -> None:
    name, process = holder
    process.kill()
    process.wait()
    verdict, evidence = _verdicts(opened)[name]
    assert verdict is Verdict.UNKNOWN and evidence.startswith(f"may be pid {process.pid} of this host")
    assert not opened.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD)).items


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_connections_are_found_in_the_tables_of_the_kernel(address: str) -> None:
    family = sockets.AF_INET6 if ":" in address else sockets.AF_INET
    with closing(sockets.socket(family)) as listening, closing(sockets.socket(family)) as client:
        listening.bind((address, 0))
        listening.listen()
        client.connect(listening.getsockname()[:2])
        shown = address.removeprefix("::ffff:")
        spelled = f"[{shown}]" if ":" in shown else shown
        connection = f"{spelled}:{client.getsockname()[1]}", f"{spelled}:{listening.getsockname()[1]}"
        (found,) = Processes().clients([os.getpid(), os.getppid()], [connection, ("x", "y"), ("[z]:1", "[z]:2")])
        assert found[0] == os.getpid() and found[2] == connection
        assert Processes().has_ended(*found[:2]) is False and Processes().has_ended(found[0], found[1] - 1) is True
        assert Processes().clients([os.getpid()], [connection[::-1]]) == []  # that end is accepted by nobody yet
