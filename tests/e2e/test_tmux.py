"""The dashboard inside of tmux with 16 colours at 80×23."""

from __future__ import annotations

import re
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


def test_a_dead_claim_is_requeued_in_sixteen_colours_and_the_shell_comes_back(tmux: Tmux, spool_path: Path) -> None:
    victim = Consumer.claim(spool_path)
    victim.kill()
    tmux.type("echo before $TERM", "Enter")
    tmux.wait_for("before screen")
    assert (tmux.value("pane_width"), tmux.value("pane_height")) == ("80", "23")
    tmux.type(shlex.join([*SPOOLTOP, str(spool_path)]), "Enter")
    text = tmux.wait_for("1 claim of a dead consumer")
    assert tmux.value("alternate_on") == "1" and "before screen" not in text
    coloured = tmux.screen("-e")
    assert re.search(r"\x1b\[(?:[\d;]*;)?(?:31|91)m", coloured)  # the red of the terminal's own palette
    tmux.type("r")
    tmux.wait_for("y requeue 1")
    tmux.type("y")
    tmux.wait_for(lambda text: "done 1 · skipped 0" in text and "1 waits in new" in text)
    for screen in (coloured, tmux.screen("-e")):
        assert "\x1b[38;2;" not in screen and "\x1b[38;5;" not in screen
    tmux.type("", "Escape")
    tmux.wait_for("no problems detected")
    tmux.type("q")
    text = tmux.wait_for("requeued 1; undo: spooltop undo")
    assert "before screen" in text and "no problems detected" not in text
    assert (tmux.value("alternate_on"), tmux.value("cursor_flag")) == ("0", "1")
    again = Consumer.claim(spool_path)
    assert again.got["id"] == victim.got["id"] and again.end() == 0
