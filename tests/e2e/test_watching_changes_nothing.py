"""Watching leaves no trace: strace sees every call of a dashboard and of the commands that only read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.needs import needs

from ..reliability.watched import LOOKING, changes, ended_well, filled, look_around, looked, state, traced
from .terminal import Terminal

pytestmark = [pytest.mark.long, needs("strace")]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return filled(tmp_path / "watched")


def test_the_eye_of_this_test_sees_a_change(spool: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run([*traced(log), "hold", str(spool), "ALL", "--box", "new", "--yes"], check=True, capture_output=True)
    changed = "\n".join(changes(log, spool))
    assert "renameat2" in changed and "O_CREAT" in changed and "mkdir" in changed and re.search(r"write\w*\(\d+<", changed)


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_command_that_looks_changes_nothing(spool: Path, tmp_path: Path, words: Sequence[str]) -> None:
    log = tmp_path / "log"
    before = state(spool)
    done = looked(log, spool, words)
    assert ended_well(words, done.returncode), done.stderr
    assert "O_RDONLY" in log.read_text() and changes(log, spool) == []
    assert state(spool) == before


@pytest.mark.early
def test_a_dashboard_that_is_only_watched_changes_nothing(spool: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = state(spool)
    screen = Terminal([*traced(log), str(spool)], cols=160, rows=50)
    try:
        look_around(screen, 5)
    finally:
        screen.close()
    assert str(spool) in log.read_text()
    assert changes(log, spool) == []
    assert state(spool) == before
