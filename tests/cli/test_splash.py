"""The splash is on the terminal before anything is loaded, and gone before the first output."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.cli.parser import parser_of
from spooltop.cli.terminal import Terminal
from spooltop.startup.splash import Splash, targets, wanted

XTERM = {"TERM": "xterm-256color"}


@pytest.fixture
def spool(tmp_path: Path) -> str:
    for box in ("tmp", "new", "cur"):
        (tmp_path / box).mkdir()
    return str(tmp_path)


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Opens a pty: our end, and the one of the program."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_it_is_for_what_opens_the_dashboard_and_not_for_what_prints(spool: str, ends: tuple[int, int], tmp_path: Path) -> None:
    evil = Path(spool) / "\x1b[2J"
    (evil / "new").mkdir(parents=True)
    for words, shown in (
        ([spool], spool), (["--read-only", spool], spool), (["demo"], "demo"), ([str(evil)], ""),
        ([f"{spool}/cursors.json"], f"{spool}/cursors.json"), ([f"{spool}/nothing"], None),
        (["--json", spool], None), (["demo", "--headless=3"], None),
    ):  # fmt: skip
        assert wanted(words, XTERM) == shown, words
    assert wanted([spool], {"TERM": "dumb"}) is None
    with open(tmp_path / "out", "wb") as file:
        assert not Splash.show([spool], XTERM, (ends[1], file.fileno(), ends[1])).up


def test_every_option_of_the_dashboard_that_takes_a_value_is_skipped() -> None:
    for action in parser_of(None)._actions:
        if action.nargs is None:
            for option in action.option_strings:
                assert targets(["q", option, "x"]) == ["q"], option
    assert targets(["--view", "new"]) == ["."]


def test_an_error_stands_on_the_screen_that_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "spooltop", "--no-such-flag", str(tmp_path)],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **XTERM},
    ) as process:  # fmt: skip
        os.close(theirs)
        said = b""
        try:
            while data := os.read(ours, 4096):
                said += data
        except OSError:  # EIO: the other end is closed
            pass
        os.close(ours)
    assert process.returncode == 2
    before, _, after = said.partition(b"\x1b[?1049l")
    assert b"looking..." in before and b"spooltop:" not in before and b"spooltop: " in after


def test_no_thread_loads_what_python_replaces_while_it_is_loaded(spool: str, ends: tuple[int, int]) -> None:
    """Since Python 3.13 ``collections.abc`` is such a module: where two threads load it at once, one finds it empty."""
    program = """if True:
        import _thread, sys
        sys.path[0] = sys.argv[1]
        from spooltop.startup.splash import Splash
        print("before", "collections.abc" in sys.modules, file=sys.stderr)
        _thread.start_new_thread = lambda *_: print("thread", "collections.abc" in sys.modules, file=sys.stderr)
        fd = int(sys.argv[3])
        assert Splash.show([sys.argv[2]], {"TERM": "xterm"}, (fd, fd, fd), ask=False).up
    """
    words = [sys.executable, "-S", "-c", program, str(Path(__file__).parents[2]), spool, str(ends[1])]
    done = subprocess.run(words, capture_output=True, text=True, pass_fds=ends[1:], check=False)
    assert (done.returncode, done.stderr.splitlines()) == (0, ["before False", "thread True"])


def test_a_file_system_that_may_hang_is_not_asked(spool: str) -> None:
    assert wanted([f"{spool}/nothing"], XTERM, ask=False) == f"{spool}/nothing"


def test_bytes_are_output_too() -> None:
    calls: list[str] = []
    terminal = Terminal(stdout=io.TextIOWrapper(io.BytesIO()), environ={}, before_words=lambda: calls.append("hidden"))
    terminal.write_bytes(b"x")
    assert calls == ["hidden"]
