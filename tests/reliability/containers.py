"""Two containers on one spool: each has its own pid 1, both have one host name, and neither sees the other's processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from spooltop.engine import Spool
from tests.scratch import scratch

from .figures import Figure
from .history import Found, History, check
from .storm import Shared, Troupe, consume, drained, figured, operate, produce, standing

__all__ = ["BAR", "NAME", "containers", "run"]

NAME = "two containers, one spool: same pid 1, same host name"
BAR = "0 lost, no claim taken from a living holder in the other one"

HOST = "box"
BOXES, PRODUCERS, CONSUMERS = 2, 2, 3
UNSHARE = ("unshare", "--fork", "--pid", "--mount", "--uts", "--mount-proc")
DRAIN = 120
"""Seconds for the rest to come out when no more is put."""


def inside(folder: Path, box: int, born: int, quota: int, step: int) -> None:
    """Runs as pid 1 of a container: it starts producers and consumers, consumes too, and at every ``step`` messages kills one of
    its children."""
    socket.sethostname(HOST)
    if os.getpid() != 1:
        raise SystemExit("this is no container of its own")
    path, prefix = folder / "spool", f"box{box}-{born}."
    shared = open_shared(folder)
    troupe = Troupe(folder / "history", prefix)
    for number in range(PRODUCERS):
        writer = box * PRODUCERS + number
        troupe.start(f"producer{number}", partial(produce, path, shared=shared, writer=writer, quota=quota))
    for number in range(CONSUMERS):
        troupe.start(f"consumer{number}", partial(consume, path, over=shared.over, recover=True))
    whole = quota * BOXES * PRODUCERS
    mark = shared.total + step

    def between() -> None:
        nonlocal mark
        if mark <= (total := shared.total) < whole:
            mark = total + step
            troupe.kill(random.choice(troupe.living()))

    History(folder / "history", f"{prefix}first").follow(
        partial(consume, path, over=shared.over, recover=True, between=between)
    )
    troupe.end(DRAIN)


def open_shared(folder: Path) -> Shared:
    fd = os.open(folder / "counters", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return Shared(BOXES * PRODUCERS, fd)
    finally:
        os.close(fd)  # the mapping stays


class Container:
    """Container that is started again each time it is killed."""

    def __init__(self, folder: Path, box: int, quota: int, step: int) -> None:
        self._folder, self._box, self._quota, self._step = folder, box, quota, step
        self._born = 0
        self.start()

    def start(self) -> None:
        self._born += 1
        numbers = map(str, (self._box, self._born, self._quota, self._step))
        with (self._folder / "stderr").open("ab") as stderr:  # unshare grumbles when its child was killed
            command = [*UNSHARE, sys.executable, "-m", __spec__.name, str(self._folder), *numbers]
            self._process = subprocess.Popen(command, stderr=stderr)

    def kill(self, history: History) -> bool:
        """Ends its pid 1 and by that all in it; they are gone when this returns. False where it had not begun yet."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if len(children) != 1 or not (self._folder / "history" / f"box{self._box}-{self._born}.first").exists():
            return False
        alive = time.monotonic_ns()
        os.kill(int(children[0]), signal.SIGKILL)
        self._process.wait()
        history.tell("K", f"box{self._box}-{self._born}.", alive)
        self.start()
        return True

    def ended(self, seconds: float) -> bool:
        try:
            return self._process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False


def containers(folder: Path, messages: int, kills: int, whole_kills: int) -> Found:
    """``kills`` of single processes, ``whole_kills`` of containers. In a process without threads: it forks."""
    path, histories = folder / "spool", folder / "history"
    histories.mkdir()
    Spool.create(path, durable=False).close()
    shared = open_shared(folder)
    quota = messages // (BOXES * PRODUCERS)
    whole = quota * BOXES * PRODUCERS
    troupe = Troupe(histories, "host.")
    boxes = [Container(folder, box, quota, max(1, whole * BOXES // kills)) for box in range(BOXES)]
    troupe.start("operator", partial(operate, path, over=shared.over, forces=0))
    killed = 0
    while (total := shared.total) < whole:
        if killed * whole <= total * whole_kills and total:
            killed += random.choice(boxes).kill(troupe.history)
        time.sleep(0.01)
    drained(path, DRAIN)  # what is left over then is found by the check
    shared.end()
    ended = [box.ended(DRAIN) for box in boxes]
    troupe.end(DRAIN)
    found = check(histories, standing(path))
    errors = (folder / "stderr").read_text().splitlines()[-3:]
    found.wrong += [f"container {box} did not end well: {errors}" for box, well in enumerate(ended) if not well]
    return found


def alone(folder: str, messages: int, kills: int, whole_kills: int) -> Found:
    return containers(Path(folder), messages, kills, whole_kills)


def possible() -> bool:
    """True where this user may make namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode == 0


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    messages, kills, whole_kills = (6_000, 60, 4) if quick else (100_000, 1_000, 40)
    if not possible():
        say("unshare is missing, or is not permitted to this user")
        return Figure(NAME, BAR, 0, 0, skipped=messages)
    folder = tempfile.mkdtemp(prefix="spooltop-containers-", dir=scratch())
    return figured(NAME, BAR, folder, alone, (folder, messages, kills, whole_kills), say)


if __name__ == "__main__":
    inside(Path(sys.argv[1]), *map(int, sys.argv[2:]))
