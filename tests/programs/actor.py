"""A process of another program that does what a test asks of it: put, take, lock, count, or be killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from .installed import PACKAGES, job_queue_home, python_with

__all__ = ["DRIVERS", "Actor", "is_running", "job_queue", "library", "nq", "parent_of", "wait_for"]

DRIVERS = Path(__file__).parent / "drivers"


class Actor:
    """A driver that runs. ``ask`` waits for its answer; ``kill`` is SIGKILL."""

    def __init__(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
        )
        self.pid = self._process.pid

    def tell(self, act: str, **args: Any) -> None:
        """Asks without waiting for the answer; ``heard`` reads it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": act, **args}) + "\n")
        self._process.stdin.flush()

    def heard(self) -> Any:
        """The next line that it says. Raises ``EOFError`` where it ended before."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"it ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, act: str, **args: Any) -> Any:
        self.tell(act, **args)
        return self.heard()

    def dies(self, act: str, **args: Any) -> None:
        """Asks for something that ends the process, and waits for that."""
        self.tell(act, **args)
        assert self._process.wait(60) == 9

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)

    def __enter__(self) -> Actor:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def library(driver: str, spool: Path, packages: tuple[str, ...] = PACKAGES, **env: str) -> Actor:
    """Runs a Python driver on ``spool``."""
    return Actor([str(python_with(*packages)), str(DRIVERS / f"{driver}.py"), str(spool)], env)


def job_queue(spool: Path, worker: str, **env: str) -> Actor:
    """Runs an instance of job-queue; it watches its queue from here on."""
    actor = Actor(["node", str(DRIVERS / "job_queue.mjs"), str(spool), worker], {"JOB_QUEUE_HOME": str(job_queue_home()), **env})
    assert actor.heard() == {"started": worker}
    return actor


def nq(spool: Path, *command: str) -> str:
    """Queues a command with nq; returns the name of its file."""
    spool.mkdir(exist_ok=True)
    found = subprocess.run(["nq", *command], env={**os.environ, "NQDIR": str(spool)}, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def _status(pid: int) -> list[str]:
    """The fields of its line in /proc after its name: state, parent, … Empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def parent_of(pid: int) -> int:
    return int(_status(pid)[1])


def is_running(pid: int) -> bool:
    return _status(pid)[:1] not in ([], ["Z"], ["X"])


def wait_for(what: Callable[[], object]) -> None:
    """Waits until it is true; the test's own time limit ends it."""
    while not what():
        threading.Event().wait(0.02)
