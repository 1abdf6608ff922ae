"""A mount that takes each request and answers none: no signal ends whoever waits for it. Each command says so and ends, the
dashboard is drawn and its keys answer. The program behind the mount lives on, so that nothing ends by itself."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from spooltop.engine import Spool

from ..cli.streams import commands
from ..needs import needs
from .terminal import ESC, SPOOLTOP, Person, Terminal

pytestmark = [pytest.mark.long, needs("root", "unshare", "nsenter")]

HUNG, FINE = "HUNG", "FINE"
ONE = {
    "init": "HUNG", "put": "HUNG", "move": "HUNG FINE --yes", "work": "HUNG --drain -- true", "status": "HUNG",
    "check": "-t 3 HUNG", "doctor": "HUNG", "bench": "HUNG --seconds 2", "events": "HUNG", "metrics": "HUNG", "ls": "HUNG",
    "show": "HUNG a", "requeue": "HUNG ALL --yes", "purge": "HUNG ALL --box new --yes", "hold": "HUNG ALL --yes",
    "release": "HUNG ALL --yes", "restore": "HUNG ALL --box trash --yes", "inject": "HUNG --yes", "undo": "HUNG 7f3a --yes",
    "ops": "HUNG", "cursors": "HUNG", "consumers": "HUNG", "locks": "HUNG", "tickets": "HUNG", "unlock": "HUNG a.lock --yes",
    "layouts": "try nq HUNG", "pause": "HUNG --yes", "resume": "HUNG --yes",
}  # fmt: skip
WITHOUT_A_TARGET = {"demo", "config", "completion", "help", "version"}
FURTHER = (
    "status --json HUNG", "status --watch 2s HUNG", "HUNG", "--json HUNG", "ls HUNG/new",
    "cursors --cursor-file HUNG/cursors.json HUNG", "ls HUNG --box cur --json", "check -t 3 HUNG/*", "status 'HUNG/*'",
    "put FINE HUNG/message", "move FINE HUNG --yes", "status FINE HUNG", "status --json HUNG FINE",
    "check -t 3 FINE HUNG", "metrics FINE HUNG", "FINE HUNG",
    "events HUNG HUNG/new", "metrics --listen 0 HUNG", "layouts try HUNG/mine.toml FINE",
)  # fmt: skip
READING = (
    "status HUNG", "check -t 3 HUNG", "ls HUNG", "metrics FINE HUNG", "doctor HUNG", "consumers HUNG", "requeue HUNG ALL --yes",
)  # fmt: skip


class Mount(NamedTuple):
    """A process in the namespace of the mount, the mount, and a spool that answers."""

    inside: int
    hung: str
    fine: str

    def argv(self, words: str) -> list[str]:
        words = words.replace(HUNG, self.hung).replace(FINE, self.fine)
        return ["nsenter", "-m", "-t", str(self.inside), f"--wd={Path.cwd()}", *SPOOLTOP, *shlex.split(words)]

    def run(self, words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.argv(words), input="x", capture_output=True, text=True, timeout=120)

    def run_all(self, commands: list[str]) -> dict[str, subprocess.CompletedProcess[str]]:
        """They wait most of the time, so they do it together."""
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(commands, pool.map(self.run, commands), strict=True))


@pytest.fixture(scope="module", params=["--silent", "--silent-lists"])
def mount(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    folder = tmp_path_factory.mktemp("hung")
    for name in ("backing", "fine"):
        with Spool.create(str(folder / name), durable=False) as spool:
            spool.put_many([b"x"] * 3)
    hung = folder / "hung"
    hung.mkdir()
    server = [sys.executable, "-m", "tests.e2e.fusefs", request.param, str(folder / "backing"), str(hung)]
    ready = "echo ready; exec cat"
    with subprocess.Popen(
        ["unshare", "--mount", *server, "sh", "-c", ready], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as inside:
        assert inside.stdin is not None and inside.stdout is not None
        assert inside.stdout.readline() == b"ready\n"
        yield Mount(inside.pid, str(hung), str(folder / "fine"))
        inside.stdin.close()  # it ends, and with it the program behind the mount


answering_nothing = pytest.mark.parametrize("mount", ["--silent"], indirect=True, scope="module")


def test_each_command_is_here() -> None:
    assert ONE.keys() | WITHOUT_A_TARGET == {*commands()}


@answering_nothing
def test_each_command_says_that_it_does_not_answer_and_ends(mount: Mount) -> None:
    done = mount.run_all([*(f"{name} {words}" for name, words in ONE.items()), *FURTHER])
    for words, one in done.items():
        assert re.search(r"does not answer: |no answer within 3s", one.stdout + one.stderr), (words, one)
        assert one.returncode == (3 if words.startswith("check") else 1 if words.startswith("put FINE") else 5), (words, one)
        assert "Traceback" not in one.stderr, (words, one)


def test_a_look_that_hangs_is_left_behind_too(mount: Mount) -> None:
    for words, one in mount.run_all(list(READING)).items():
        assert "does not answer: " in one.stdout + one.stderr or "no answer within 3s" in one.stdout, (words, one)
        assert one.returncode == (3 if words.startswith("check") else 5), (words, one)
        assert 'box="new"' in one.stdout or not words.startswith("metrics"), (words, one)


@pytest.mark.parametrize("words", ["events FINE HUNG", "metrics --listen 0 FINE HUNG"])
def test_what_watches_goes_on_and_ends_on_a_signal(mount: Mount, words: str) -> None:
    argv = mount.argv(words)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watching:
        assert watching.stdout is not None
        awaited = "does not answer: " if words.startswith("events") else "serving "
        assert any(awaited in line for line in watching.stdout)
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(60) == 0


@pytest.mark.parametrize("words", ["HUNG", "FINE HUNG"])
def test_the_dashboard_is_drawn_and_its_keys_answer(mount: Mount, words: str) -> None:
    with Terminal(mount.argv(words)) as screen:
        person = Person(screen)
        person.sees("does not answer")
        person.press("?", "to the first line")
        person.press(ESC, lambda text: "to the first line" not in text and "does not answer" in text)
        assert person.leaves() == 0


@answering_nothing
def test_ctrl_c_ends_what_waits(mount: Mount) -> None:
    with Terminal(mount.argv("status HUNG")) as screen:
        screen.wait_for("opening")
        screen.type("\x03")
        assert screen.wait_exit() == 130
