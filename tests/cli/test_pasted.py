"""Copied commands work when pasted; waiting commands say for what they wait; errors break between words."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.cli.parser import COMMANDS, overview
from spooltop.cli.terminal import Terminal
from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.shell_command import MOST_IDS, MOST_LINES, id_word, shell_lines

from .streams import ROOT, Stream, spooltop


def pasted(lines: list[str], where: Path) -> None:
    """Runs ``lines`` in a shell in another directory, with ``--yes`` in place of a person."""
    launcher = where / "spooltop"
    launcher.write_text(f'#!/bin/sh\ncase $1 in ls) exec {sys.executable} -m spooltop "$@";; esac\n'
                        f'exec {sys.executable} -m spooltop "$@" --yes\n')  # fmt: skip
    launcher.chmod(0o755)
    environ = {**os.environ, "PATH": f"{where}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-c", "\n".join(lines)], cwd=where, env=environ, check=True, capture_output=True, timeout=100)


@pytest.mark.parametrize("many", [2, MOST_IDS + 1, MOST_LINES + 1])
def test_a_copied_command_works_in_another_directory(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Spool.create("here", durable=False) as box:
        for number in range(many - 2):
            box.put(b"x", id=f"{number:04}")
        for odd in ("END OF IDS", "-n \\ 'x' $HOME"):
            (tmp_path / "here" / "new" / odd).write_bytes(b"x")
    with open_control("here", watch=False) as control:
        plan = control.plan(Action.PURGE, Selection(box=Box.NEW, older_than=0.0))
    assert plan.count == many
    lines = shell_lines(plan)
    assert str(tmp_path / "here") in lines[0]
    assert len(lines) == (1 if many == 2 or many > MOST_LINES else many + 2)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pasted(lines, elsewhere)
    assert os.listdir("here/new") == []


ODD_IDS = ["orders/17", "../../x", "/etc/passwd", "a\0b", ".", "ALL", "-", "-x", "a b\\", "\udcff\n", "caf\u00e9,n=3"]


@pytest.mark.parametrize("id", ODD_IDS, ids=ascii)
def test_every_command_takes_an_id_as_it_was_listed(id: str, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Spool.create(path, durable=False) as box:
        box.put(b"mine", id=id)
        box.put(b"another", id="another")
    listed = [json.loads(line) for line in spooltop("ls", path, "--box", "new", "--json").out.splitlines()]
    [shown] = [row["id"] for row in listed if row["id"] != "another"]
    assert shown == escape(id)
    word = id_word(id)
    assert spooltop("show", path, "--raw", "--", word).out == "mine"
    for command, box in (("hold", ["--box", "new"]), ("release", []), ("hold", []), ("release", []), ("purge", ["--box", "new"])):
        done = spooltop(command, path, *box, "--yes", "--", word)
        assert done.code == 0, done.err
    assert spooltop("restore", path, "--yes", "-", stdin=f"{shown}\n".encode(errors="surrogateescape")).code == 0
    done = spooltop("put", path, "--no-durable", f"--id={word}", stdin=b"again")
    assert (done.code == 0 and "there already" in done.out + done.err) or len(os.listdir(path / "new")) == 2, done
    assert sorted(os.listdir(path / "new"))[0] != "" and os.listdir(tmp_path) == ["s"]


def spelled(node: ast.AST) -> str:
    """The text of a literal, of an f-string or of a list of words, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(spelled, node.values))
    if isinstance(node, (ast.List, ast.Tuple)):
        return " ".join(map(spelled, node.elts))
    return "…"


UNASKED = re.compile(rf"\bspooltop ({'|'.join(COMMANDS)})\b[^\n;]*\s--(force|yes)\b")


def test_no_command_in_any_text_forces_or_confirms() -> None:
    nodes = [node for path in (ROOT / "spooltop").rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    commands = {text for text in map(spelled, nodes) if re.search(r"\bspooltop \w", text)}
    assert len(commands) > 100, "nothing was searched"
    assert {text for text in commands if UNASKED.search(text)} == set()
    assert UNASKED.search("after that: spooltop requeue … --verdict unknown --force")
    assert not re.search("--(yes|force)", "\n".join([overview(), *(one.example for one in COMMANDS.values())]))


def test_ids_from_a_terminal_are_asked_for(tmp_path: Path) -> None:
    Spool.create(tmp_path / "s", durable=False).put(b"x", id="one")
    done = spooltop("purge", tmp_path / "s", "--box", "new", "-", "--dry-run", stdin=b"one\n", tty=True)
    assert done.code == 0
    assert "reading ids from the terminal, one a line; Ctrl-D ends" in done.err
    assert "reading ids" not in spooltop("purge", tmp_path / "s", "--box", "new", "-", "--dry-run", stdin=b"one\n").err


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_an_error_breaks_between_words_on_a_terminal_only(columns: int) -> None:
    text = "the spool is not there, and /a/rather/long/path/that-has-dashes/in/it is not a spool either; " * 2
    narrow = Stream(tty=True)
    Terminal(Stream(), Stream(), narrow, {"TERM": "xterm"}, columns=columns).error(text)
    lines = narrow.written.splitlines()
    assert len(lines) > 1 and " ".join(lines) == f"spooltop: {text}".strip()
    assert all(len(line) <= max(columns, 45) for line in lines)
    piped = Stream()
    Terminal(Stream(), Stream(), piped, {"TERM": "xterm"}, columns=columns).error(text)
    assert piped.written == f"spooltop: {text}\n"
