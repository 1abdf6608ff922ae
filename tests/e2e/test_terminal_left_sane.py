"""However the dashboard ends or is stopped, the terminal is as it was: the screen, the cursor, the keyboard, the line modes."""

from __future__ import annotations

import os
import signal
import sys
import termios
from pathlib import Path

import pytest

from .terminal import Dashboard, Terminal

pytestmark = pytest.mark.long

ALTERNATE = b"\x1b[?1049h"
LEAVE_ALTERNATE, SHOW_CURSOR, POP_KEYBOARD = b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[<u"


def assert_sane(screen: Terminal) -> None:
    raw = bytes(screen.raw)
    assert raw.rfind(LEAVE_ALTERNATE) > raw.rfind(ALTERNATE)
    assert raw.rfind(SHOW_CURSOR) > raw.rfind(b"\x1b[?25l")
    assert raw.count(POP_KEYBOARD) >= raw.count(b"\x1b[>")
    assert termios.tcgetattr(screen.slave)[:4] == screen.before[:4]


@pytest.mark.parametrize(
    ("how", "code"),
    [("q", 0), ("\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0)],
    ids=["q", "ctrl-c", "SIGTERM", "SIGHUP", "SIGINT"],
)
def test_it_leaves_a_sane_terminal(spool_path: Path, dashboard: Dashboard, how: str | signal.Signals, code: int) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    if isinstance(how, str):
        screen.type(how)
    else:
        screen.process.send_signal(how)
    assert screen.wait_exit() in ((code, 130) if how is signal.SIGINT else (code,))
    assert_sane(screen)


def test_stopped_and_continued_from_outside_it_leaves_a_sane_terminal(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    for view, shown in (("2", "New 3 ·"), ("4", "Tmp 0 ·"), ("1", "no problems detected")):
        begun = screen.raw.count(ALTERNATE)
        screen.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, screen.process.pid, os.WSTOPPED)
        screen.process.send_signal(signal.SIGCONT)
        screen.wait_for(lambda _, begun=begun: screen.raw.count(ALTERNATE) > begun)
        screen.type(view)
        screen.wait_for(shown)
    screen.type("q")
    assert screen.wait_exit() == 0
    assert_sane(screen)


def test_ctrl_z_gives_the_shell_back_and_fg_paints_again(spool_path: Path) -> None:
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "ready> "}) as shell:
        shell.wait_for("ready>")
        shell.type(f"{sys.executable} -m spooltop {spool_path}\n")
        shell.wait_for("live · as of")
        shell.type("\x1a")
        shell.wait_for("Stopped")
        shell.type("echo six times seven is $((6*7))\n")
        shell.wait_for("seven is 42")
        shell.screen.reset()  # pyte knows no alternate screen: what stands there now is old
        shell.type("fg\n")
        shell.wait_for("live · as of")
        shell.type("2")
        shell.wait_for("New 3 ·")
        left = len(shell.raw)
        shell.type("\x03")
        # Not before its prompt: keys that came while the dashboard ended are thrown away.
        shell.wait_for(lambda _: b"ready> " in shell.raw[left:])
        assert LEAVE_ALTERNATE in shell.raw[left:]
        shell.type("echo back in the shell: $((6*8))\n")
        shell.wait_for("back in the shell: 48")
        shell.type("exit\n")
        shell.wait_exit()


@pytest.mark.parametrize("keys", ["?qqqq", "z?qqqq", "zzzz?qqqq", "3?qqqqqq", ":qqq"])
def test_keys_typed_ahead_of_the_screens_break_nothing(spool_path: Path, dashboard: Dashboard, keys: str) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for("live · as of")
    for key in keys:
        screen.type(key)
    screen.type("\x03")
    assert screen.wait_exit() in (0, 130)  # 130: a q has left the dashboard already, and the end of the program takes the Ctrl-C
    assert "Traceback" not in screen.text
