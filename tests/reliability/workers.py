"""Workers on a Redis stream under kill -9: ``spooltop work`` with several commands at once, killed and started again."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .figures import Figure
from .tickets import redis_server

__all__ = ["BAR", "NAME", "run"]

NAME = "workers on a Redis stream: killed while they work"
BAR = "every message done, and every further delivery is one of a message that a killed worker held"

WORKERS = 4
PATIENCE = 120.0
"""Seconds without any message done after which messages count as lost."""


class Workers:
    """``WORKERS`` processes of ``spooltop work`` on the stream at ``address``; ``folder`` holds the lines of their commands."""

    def __init__(self, address: str, server: Any, folder: Path) -> None:
        self._address = address
        self._server = server
        self._lines = folder / "done"
        self._running: list[subprocess.Popen[bytes]] = []
        self.held: Counter[str] = Counter()
        """How often a message was held by a worker that was killed."""

    def start(self) -> None:
        """Starts as many as are missing."""
        command = f'printf "%s %s\\n" "$SPOOLTOP_ID" "$SPOOLTOP_ATTEMPT" >> {self._lines}'
        words = [sys.executable, "-m", "spooltop", "work", self._address, "--quiet", "--jobs", "2", "--", "sh", "-c", command]
        while len(self._running) < WORKERS:
            self._running.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))

    def kill_one(self, dice: random.Random) -> None:
        """Kills one with SIGKILL and notes what it held."""
        victim = self._running.pop(dice.randrange(len(self._running)))
        victim.kill()
        victim.wait()
        self._server.ping()  # by its answer the server has read all that the victim had sent
        prefix = f"{socket.gethostname()}-{victim.pid}-".encode()
        for consumer in self._server.xinfo_consumers("jobs", "work"):
            if consumer["name"].startswith(prefix):
                found = self._server.xpending_range("jobs", "work", "-", "+", 100, consumername=consumer["name"])
                self.held.update(entry["message_id"].decode() for entry in found)

    def done(self) -> list[tuple[str, int]]:
        """Lists (id, attempt) of each command that ran."""
        if not self._lines.exists():
            return []
        return [(id, int(attempt)) for id, attempt in map(str.split, self._lines.read_text().splitlines())]

    def stop(self) -> None:
        """Ends all of them."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait()


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Runs the proof on a server of its own."""
    import redis

    whole, kills = (300, 4) if quick else (50_000, 200)
    dice = random.Random(19)
    with ExitStack() as stack:
        path = stack.enter_context(redis_server())
        if path is None:
            return Figure(NAME, BAR, 0, 0, whole, "", "no redis-server here")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-workers-")))
        server: Any = stack.enter_context(redis.Redis(unix_socket_path=path, protocol=2))
        server.xgroup_create("jobs", "work", "0", mkstream=True)
        ids = [server.xadd("jobs", {"data": b"%d" % number}).decode() for number in range(whole)]
        workers = Workers(f"unix://{path}#jobs/work", server, folder)
        workers.start()
        stack.callback(workers.stop)
        killed = _kill_while_they_work(workers, server, whole, kills, dice)
        found = workers.done()
    attempts = Counter(id for id, _ in found)
    lost = set(ids) - set(attempts)
    unexplained = [id for id, attempt in found if attempt - 1 > workers.held[id]]
    unexplained += [id for id, count in attempts.items() if count - 1 > workers.held[id]]
    again = sum(attempts.values()) - len(attempts)
    say(f"{len(attempts):,} done, {again} again, {killed} workers killed, {len(lost)} lost, {len(unexplained)} unexplained")
    return Figure(NAME, BAR, whole, len(lost) + len(unexplained), 0, f"{killed} workers killed; {again} commands ran again")


def _kill_while_they_work(workers: Workers, server: Any, whole: int, kills: int, dice: random.Random) -> int:
    """Kills ``kills`` of them, spread over the work, and returns when nothing is left to do."""
    killed, before, since = 0, -1, time.monotonic()
    while True:
        left = server.xlen("jobs")
        done = whole - left
        if killed < kills and done >= whole * (killed + 1) // (kills + 2):
            workers.kill_one(dice)
            workers.start()
            killed += 1
        if left == 0:
            return killed
        if done != before:
            before, since = done, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            return killed
        time.sleep(0.01)
