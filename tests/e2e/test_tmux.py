"""The dashboard inside of tmux with 16 colours at 80×23: a claim is looked at, and the shell's screen comes back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needs

from .consumers import Consumer
from .terminal import SPOOLTOP
from .tmux import Tmux

pytestmark = needs("tmux")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path / "tmux.socket")
    yield server
    server.run("kill-server")


def test_a_claim_is_looked_at_in_tmux_and_the_shell_comes_back(tmux: Tmux, spool_path: Path) -> None:
    victim = Consumer.claim(spool_path)
    victim.kill()
    tmux.type("echo before $TERM", "Enter")
    tmux.wait_for("before screen")
    assert (tmux.value("pane_width"), tmux.value("pane_height")) == ("80", "23")
    tmux.type(shlex.join([*SPOOLTOP, str(spool_path)]), "Enter")
    text = tmux.wait_for("1 claim of a dead consumer")
    assert tmux.value("alternate_on") == "1" and "before screen" not in text
    tmux.type("3")
    tmux.wait_for(lambda text: "Claims 1" in text and "DEAD" in text)
    tmux.type("", "Enter")
    tmux.wait_for('"rowid"')
    coloured = tmux.screen("-e")
    assert "\x1b[38;2;" not in coloured and "\x1b[38;5;" not in coloured
    tmux.type("qqq")
    tmux.wait_for("before screen")
    tmux.type("echo after", "Enter")
    text = tmux.wait_for(lambda text: text.count("after") > 1)
    assert "Claims" not in text
    assert (tmux.value("alternate_on"), tmux.value("cursor_flag")) == ("0", "1")


def test_a_dead_claim_is_requeued_in_sixteen_colours_by_four_keys(tmux: Tmux, spool_path: Path) -> None:
    victim = Consumer.claim(spool_path)
    victim.kill()
    tmux.type(shlex.join([*SPOOLTOP, str(spool_path)]), "Enter")
    tmux.wait_for("1 claim of a dead consumer")
    coloured = tmux.screen("-e")
    assert "\x1b[31m" in coloured or "\x1b[91m" in coloured or ";31m" in coloured  # the red of the terminal's own palette
    tmux.type("r")
    tmux.wait_for("y requeue 1")
    tmux.type("y")
    tmux.wait_for(lambda text: "done 1 · skipped 0" in text and "1 waits in new" in text)
    assert "\x1b[38;2;" not in tmux.screen("-e") and "\x1b[38;5;" not in tmux.screen("-e")
    tmux.type("", "Escape")
    tmux.wait_for("no problems detected")
    tmux.type("q")
    tmux.wait_for("requeued 1; undo: spooltop undo")
    assert tmux.value("alternate_on") == "0"
    second = Consumer.claim(spool_path)
    assert second.got is not None and victim.got is not None and second.got["id"] == victim.got["id"]
    assert second.end("ack") == 0
