"""A terminal in memory: a program runs on a real pty, its bytes are drawn by pyte, keys are typed, conditions awaited; and a
person before it, who presses keys one by one, looks before the next, and counts them."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyte

SPOOLTOP = (sys.executable, "-m", "spooltop")
ESC = "\x1b"
ENTER = "\r"
DOWN = "\x1b[B"

Condition = str | Callable[[str], bool]
_OF_OUR_OWN = ("NO_COLOR", "COLORTERM", "TMUX", "LINES", "COLUMNS")
"""Environment variables that describe the surrounding terminal, or the test runner's width."""


class Terminal:
    """Runs ``argv`` on a pty of ``cols`` × ``rows``. ``raw`` collects every byte that the program wrote."""

    def __init__(
        self, argv: Sequence[str], *, cols: int = 80, rows: int = 23, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> None:
        self.screen = pyte.Screen(cols, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self._master, slave = os.openpty()
        self.resize(cols, rows)
        self.before = termios.tcgetattr(slave)
        base = {k: v for k, v in os.environ.items() if k not in _OF_OUR_OWN}
        base |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})}
        self.process = subprocess.Popen(
            list(argv), stdin=slave, stdout=slave, stderr=slave, env=base, cwd=cwd, close_fds=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip
        self.slave = slave
        self.closed = False
        self._readable = select.poll()
        self._readable.register(self._master, select.POLLIN)

    def resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if hasattr(self, "process"):
            self.screen.resize(rows, cols)
            self.process.send_signal(signal.SIGWINCH)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def unread(self) -> int:
        """Bytes typed that the program has not read."""
        return int.from_bytes(fcntl.ioctl(self.slave, termios.FIONREAD, bytes(4)), sys.byteorder)

    def pump(self, seconds: float) -> int:
        """Draws what the program writes within ``seconds``; returns as soon as something came. The number of bytes."""
        if not self._readable.poll(max(0.0, seconds) * 1000):
            return 0
        try:
            data = os.read(self._master, 65536)
        except OSError:  # EIO: the program closed its side
            self.closed = True
            return 0
        self.raw += data
        self._stream.feed(data)
        return len(data)

    def collect(self, seconds: float) -> int:
        """All bytes written within ``seconds``."""
        before, end = len(self.raw), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.closed:
            self.pump(left)
        return len(self.raw) - before

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, what: str | Callable[[str], bool], seconds: float = 30.0) -> str:
        """Waits until ``what`` stands on the screen (or holds of its text), and returns the text."""
        holds = (lambda text: what in text) if isinstance(what, str) else what
        end = time.monotonic() + seconds
        while not holds(self.text):
            left = end - time.monotonic()
            if left <= 0 or self.closed:
                raise AssertionError(f"waited {seconds}s for {what!r}; the screen is:\n{self.text}")
            self.pump(left)
        return self.text

    def wait_exit(self, seconds: float = 20.0) -> int:
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError(f"it did not end within {seconds}s; the screen is:\n{self.text}")
            self.pump(0.05)
        while self.pump(0.05):
            continue
        return self.process.returncode

    def hang_up(self) -> None:
        """The terminal goes away, as where a connection is lost."""
        self._readable.unregister(self._master)
        os.close(self._master)
        os.close(self.slave)
        self._master = self.slave = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            self.hang_up()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _own_terminal() -> None:
    """The pty becomes the controlling terminal, as under a login: signals and job control reach the program."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


Dashboard = Callable[..., Terminal]
"""Opens the dashboard on a pty; the fixture ``dashboard``."""


class Person:
    """Plays on ``screen``. ``keys`` is the number of keys pressed so far."""

    def __init__(self, screen: Terminal) -> None:
        self.screen = screen
        self.keys = 0

    def sees(self, what: Condition) -> str:
        """Waits until it stands there; the text of the screen."""
        return self.screen.wait_for(what)

    def press(self, key: str, then: Condition) -> str:
        """One key, and the look that follows it: waits for ``then``."""
        self.screen.type(key)
        self.keys += 1
        return self.sees(then)

    def leaves(self, key: str = "q") -> int:
        """The last key; the exit code."""
        self.screen.type(key)
        self.keys += 1
        return self.screen.wait_exit()


def all_of(*words: str) -> Callable[[str], bool]:
    """True of a screen that has all of these words."""
    return lambda text: all(word in text for word in words)


def in_one_line(words: str) -> Callable[[str], bool]:
    """True of a screen that has these words, wherever its lines are broken."""
    return lambda text: words in " ".join(text.split())
