"""A terminal inside of tmux, as a person has it over SSH."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Tmux"]

PATIENCE = 60.0


class Tmux:
    """A server of its own on ``socket``, one window of 80×23."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR", "COLORTERM")}
        self._env = {**env, "TERM": "xterm", "LANG": "C.UTF-8", "PS1": "$ "}
        self.run("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", "80", "-y", "23", "sh")
        self.run("set", "-g", "default-terminal", "screen")
        self.run("respawn-window", "-k", "-t", "t", "TERM=screen exec sh")

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._env, check=True, capture_output=True, text=True, timeout=PATIENCE
        )
        return done.stdout

    def type(self, text: str, *keys: str) -> None:
        if text:
            self.run("send-keys", "-t", "t", "-l", text)
        if keys:
            self.run("send-keys", "-t", "t", *keys)

    def screen(self, *how: str) -> str:
        return self.run("capture-pane", "-p", "-t", "t", *how)

    def wait_for(self, holds: str | Callable[[str], bool]) -> str:
        """The screen as soon as it has these words; each look at it is a process, which is pause enough."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = self.screen()
            if holds in text if isinstance(holds, str) else holds(text):
                return text
        raise AssertionError(f"waited for {holds!r}; the screen is:\n{self.screen()}")

    def value(self, name: str) -> str:
        return self.run("display-message", "-p", "-t", "t", f"#{{{name}}}").strip()
