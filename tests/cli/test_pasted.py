"""Copied commands work when pasted, and no text advises force; errors break between words."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.cli.main import Terminal
from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import MOST_IDS, MOST_LINES, shell_lines

from .streams import ROOT, Stream, commands, spooltop


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


def spelled(node: ast.AST) -> str:
    """The text of a literal, of an f-string or of a list of words, with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(spelled, node.values))
    if isinstance(node, (ast.List, ast.Tuple)):
        return " ".join(map(spelled, node.elts))
    return "…"


UNASKED = re.compile(rf"\bspooltop ({'|'.join(commands())})\b[^\n;]*\s--(force|yes)\b")


def test_no_command_in_any_text_forces_or_confirms() -> None:
    nodes = [node for path in (ROOT / "spooltop").rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))]
    texts = {text for text in map(spelled, nodes) if re.search(r"\bspooltop \w", text)}
    assert len(texts) > 100, "nothing was searched"
    assert {text for text in texts if UNASKED.search(text)} == set()
    assert UNASKED.search("after that: spooltop requeue … --verdict unknown --force")
    examples = [spooltop(*words, "-h").out.partition("example:\n")[2] for words in ((), *zip(commands(), strict=True))]
    assert all(examples) and not re.search("--(yes|force)", "\n".join(examples))


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_an_error_breaks_between_words_on_a_terminal_only(columns: int, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS says the width where it is set, else the terminal does."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(Terminal, "width", lambda terminal, stream: 1000 if asked else columns)
    if not asked:
        monkeypatch.delenv("COLUMNS")
    text = "the spool is not there, and /a/rather/long/path/that-has-dashes/in/it is not a spool either; " * 2
    narrow = Stream(tty=True)
    Terminal(Stream(), Stream(), narrow, {"TERM": "xterm"}).error(text)
    lines = narrow.written.splitlines()
    assert len(lines) > 1 and " ".join(lines) == f"spooltop: {text}".strip()
    assert all(len(line) <= max(columns, 45) for line in lines)
    piped = Stream()
    Terminal(Stream(), Stream(), piped, {"TERM": "xterm"}).error(text)
    assert piped.written == f"spooltop: {text}\n"
