"""The README is true: its commands and recipes run here as written, its tables match the code, its links lead to files."""

from __future__ import annotations

import configparser
import json
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spooltop.engine import CursorFile, Spool
from tests.keys import KEYS, README, TWELVE, keys_page, with_keys

from ..cli.streams import spooltop
from .consumers import Consumer, dying_writer
from .terminal import Terminal

TEXT = README.read_text(encoding="utf-8")
ROOT = README.parent
BLOCK = re.compile(r"(?:<!-- (?P<mark>[a-z -]+) -->\n)?```(?P<language>sh|python|toml|ini)\n(?P<code>.*?)```\n", re.DOTALL)
PLACES = ("/var/spool", "/opt/memex", "/srv", "/etc")
"""Directories of the README's examples; here each lies below the test's own."""


@dataclass(frozen=True)
class Block:
    """One fenced block of the README: the mark in the comment before it ("" without one), its language and its code."""

    mark: str
    language: str
    code: str


BLOCKS = [Block(found["mark"] or "", found["language"], found["code"]) for found in BLOCK.finditer(TEXT)]


class Machine:
    """A machine with the directories of the README's examples, and ``spooltop`` on its path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("var/spool", "opt/memex", "srv", "etc", "bin", "home"):
            (root / name).mkdir(parents=True)
        shim = root / "bin" / "spooltop"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spooltop "$@"\n')
        shim.chmod(0o755)
        (root / "handle").write_text("#!/bin/sh\ncat >/dev/null\n")
        (root / "handle").chmod(0o755)
        path = f"{root / 'bin'}:{os.environ['PATH']}"
        self.env = {
            **os.environ, "PATH": path, "HOME": str(root / "home"), "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1",
            "XDG_CONFIG_HOME": str(root / "home" / ".config"), "XDG_STATE_HOME": str(root / "home" / ".state"),
        }  # fmt: skip

    @property
    def spool(self) -> Path:
        return self.root / "var" / "spool" / "x"

    def here(self, code: str) -> str:
        """``code`` with the directories of the README replaced by those of this machine."""
        for place in PLACES:
            code = re.sub(rf"(?<![\w.]){re.escape(place)}\b", f"{self.root}{place}", code)
        return code

    def run(self, code: str, *codes: int) -> subprocess.CompletedProcess[str]:
        """Runs a line in a shell; it ends with one of the exit ``codes``, by default 0."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.here(code)], cwd=self.root, env=self.env, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode in (codes or (0,)), f"{code}\n{done.stdout}{done.stderr}"
        return done

    def terminal(self, code: str) -> Terminal:
        return Terminal(["bash", "-c", self.here(code)], cols=100, rows=30, env=self.env, cwd=str(self.root))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def recipe(mark: str) -> str:
    return next(block.code for block in BLOCKS if block.mark == f"recipe {mark}")


def test_every_block_is_run_by_a_test() -> None:
    recipes = {block.mark.partition(" ")[2] for block in BLOCKS if block.mark.startswith("recipe ")}
    assert recipes == set(RECIPES)
    others = [(block.mark, block.language) for block in BLOCKS if not block.mark.startswith("recipe ")]
    assert others == [("try-command", "sh"), ("test-command", "sh"), ("", "sh"), ("", "toml"), ("", "python")]


def test_it_has_the_size_for_a_newcomer() -> None:
    assert 12_000 <= len(TEXT.encode()) <= 14_000


def test_its_keys_and_the_page_of_all_keys_are_those_of_the_code() -> None:
    assert len(set(TWELVE)) == 12
    assert with_keys(TEXT) == TEXT, "run python -m tests.keys"
    assert KEYS.read_text(encoding="utf-8") == keys_page(), "run python -m tests.keys"


def test_it_names_every_program_whose_queues_open() -> None:
    (names,) = re.findall(r"\*\*Directories of other programs\*\*: ([^.]+)\.", TEXT)
    named = {name.lower() for name in names.split(", ")}
    shipped = {Path(json.loads(line)["file"]).stem for line in spooltop("layouts", "--json", environ={}).out.splitlines()}
    assert named == {stem if stem in named else stem.rpartition("-")[0] for stem in shipped}


def test_its_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert "tests/keys.md" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def answer(machine: Machine, line: str) -> None:
    """Runs a command that asks, on a terminal, and says yes."""
    with machine.terminal(line) as screen:
        screen.wait_for("Type y")
        screen.type("y\r")
        assert screen.wait_exit() == 0, screen.text


@pytest.mark.early
def test_the_commands_run_one_after_the_other(machine: Machine) -> None:
    lines = next(block.code for block in BLOCKS if (block.mark, block.language) == ("", "sh")).splitlines()
    (machine.root / "opt/memex/cursors.json").write_text('{"imessage": 89632}')
    for line in lines:
        if line.split()[1].startswith("/var"):
            with machine.terminal(line) as screen:
                screen.wait_for("1Over")
                screen.type("q")
                assert screen.wait_exit() == 0
        elif " requeue " in line:
            machine.run("echo once more | spooltop put /var/spool/x")
            Consumer.claim(machine.spool).kill()
            answer(machine, line)
        elif " inject " in line:
            answer(machine, line)
        elif " pause " in line:
            answer(machine, line)
            answer(machine, "spooltop resume /var/spool/x")
        else:
            machine.run(line, 0, *[1] * (" doctor " in line))
    with Spool(str(machine.spool)) as spool:
        assert spool.depth() == 6  # the requeued message and five test messages; the worker had drained the first


def with_messages(machine: Machine, count: int = 3) -> list[str]:
    with Spool.create(str(machine.spool), durable=False) as spool:
        return [str(spool.put(b"%d" % number, source="bot")) for number in range(count)]


def names(machine: Machine, box: str) -> list[str]:
    return sorted(os.listdir(machine.spool / box))


def dead_consumer(machine: Machine) -> None:
    with_messages(machine)
    Consumer.claim(machine.spool).kill()
    living = Consumer.claim(machine.spool)
    try:
        machine.run(recipe("dead-consumer"))
        assert len(names(machine, "new")) == 2
        assert len(names(machine, "cur")) == 1
    finally:
        living.end()


def failing_handler(machine: Machine) -> None:
    ids = with_messages(machine)
    for _ in range(3):
        assert Consumer.claim(machine.spool).end("release") == 0
    hold, release = recipe("failing-handler").splitlines()
    machine.run(hold)
    assert len(names(machine, "new")) == len(ids) - 1
    machine.run(release)
    assert len(names(machine, "new")) == len(ids)


def reverted_cursor(machine: Machine) -> None:
    file = machine.root / "opt/memex/cursors.json"
    file.write_text('{"imessage": 89632, "email": 7}')
    done = machine.run(recipe("reverted-cursor"))
    assert json.loads(file.read_text()) == {"imessage": 89640, "email": 7}
    assert "imessage" in done.stdout


def left_over(machine: Machine) -> None:
    with_messages(machine)
    dying_writer(machine.spool)
    code = recipe("litter")
    machine.run(code, 4)  # it is not 10 minutes old
    machine.run(code.replace("10m", "0"))
    assert names(machine, "tmp") == []
    assert len(names(machine, "new")) == 3


def full_disk(machine: Machine) -> None:
    with_messages(machine)
    machine.run("spooltop purge /var/spool/x --box new ALL --yes")
    code = recipe("full-disk")
    machine.run(code, 4)  # nothing is that old yet
    machine.run(code.replace("7d", "0"))
    assert [name for name in (machine.spool / ".spooltop/trash").rglob("*") if name.is_file()] == []


def alert(machine: Machine) -> None:
    with_messages(machine)
    assert machine.run(recipe("alert")).stdout.startswith("SPOOL OK - ")
    Consumer.claim(machine.spool).kill()
    loud = machine.run(recipe("alert"), 2).stdout
    assert loud.startswith("SPOOL CRITICAL - ") and "dead consumer" in loud


def read_only(machine: Machine) -> None:
    with_messages(machine)
    machine.run(recipe("read-only"))
    assert (machine.spool / "new").stat().st_mode & 0o007 == 0o005
    assert all(path.stat().st_mode & 0o004 for path in (machine.spool / "new").iterdir())
    machine.run("spooltop --read-only purge /var/spool/x --box new ALL --yes", 3)
    assert len(names(machine, "new")) == 3


def move(machine: Machine) -> None:
    with_messages(machine)
    machine.run(recipe("move"))
    got: list[bytes] = []
    with Spool(str(machine.root / "srv/x")) as spool:
        spool.consume(lambda claim: got.append(claim.data))
    assert sorted(got) == [b"0", b"1", b"2"] and names(machine, "new") == []


def service(machine: Machine) -> None:
    with_messages(machine)
    unit = configparser.ConfigParser()
    unit.read_string(recipe("service"))
    assert {key for section in unit.values() for key in section} == {"type", "execstart", "restart", "wantedby"}
    words = shlex.split(machine.here(unit["Service"]["ExecStart"].replace("/usr/local/bin/", "")))
    with subprocess.Popen([*words, "--json"], env=machine.env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            machine.run("spooltop inject /var/spool/x --text x --yes")
            while not select.select([process.stdout], [], [], 0.5)[0]:  # it may not have begun to watch
                machine.run("spooltop inject /var/spool/x --text x --yes")
            assert json.loads(process.stdout.readline())["event"] == "operation"
            process.terminate()  # as systemd stops it
            assert process.wait(30) == 0
        finally:
            process.kill()


RECIPES: dict[str, Callable[[Machine], None]] = {
    "dead-consumer": dead_consumer, "failing-handler": failing_handler, "reverted-cursor": reverted_cursor, "litter": left_over,
    "full-disk": full_disk, "alert": alert, "service": service, "read-only": read_only, "move": move,
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_solves_its_trouble(name: str, machine: Machine) -> None:
    RECIPES[name](machine)


def test_the_settings_are_settings(machine: Machine) -> None:
    with_messages(machine)
    folder = machine.root / "home/.config/spooltop"
    folder.mkdir(parents=True)
    code = next(block.code for block in BLOCKS if block.language == "toml")
    (folder / "config.toml").write_text(machine.here(code))
    assert machine.run("spooltop status /var/spool/x").stderr == ""
    (folder / "config.toml").write_text("no_such_setting = 1\n")
    assert "no_such_setting" in machine.run("spooltop status /var/spool/x", 2).stderr


def test_the_engine_in_fifteen_lines(machine: Machine) -> None:
    code = next(block.code for block in BLOCKS if block.language == "python")
    assert len(code.splitlines()) <= 15
    CursorFile(str(machine.root / "opt/memex/cursors.json")).advance("email", 7)
    code = machine.here(code).replace("timeout=5)", "timeout=0)")
    words = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(words, cwd=machine.root, env=machine.env, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "89633" in done.stdout
    assert json.loads((machine.root / "opt/memex/cursors.json").read_text()) == {"email": 7, "imessage": 89636}
    assert names(machine, "new") == names(machine, "cur") == []


def test_the_first_screen_has_a_picture_and_two_commands() -> None:
    head = TEXT.partition("\n## ")[0]
    assert head.count("![") == 1
    assert [block.mark for block in BLOCKS if f"```{block.language}\n{block.code}```" in head] == ["try-command", "test-command"]
    assert shutil.which("bash") is not None
