"""Worker processes of ``bench``, and runs in which several of them begin at the same moment."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import spooltop
from spooltop.errors import SpooltopError
from spooltop.records import dataclass

from ..latency import Latencies

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Answer", "BenchFailed", "Pool"]

_PATIENCE = 60.0
"""Seconds that a worker may take longer than its run."""
_LEAD = 0.02
"""Seconds from the last ``ready`` to the moment at which all begin."""
_TICK = 0.1


class BenchFailed(SpooltopError):
    """A worker process failed, or did not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Measurements of one worker in one run."""

    seconds: float
    times: Latencies
    delivered: Latencies


class Pool:
    """``size`` worker processes, from the start until ``close``. ``tick`` is called at least ten times a second meanwhile."""

    def __init__(self, size: int, tick: Callable[[], object]) -> None:
        self._tick = tick
        self._workers: list[subprocess.Popen[bytes]] = []
        package = os.path.dirname(os.path.dirname(os.path.abspath(spooltop.__file__)))
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            for _ in range(size):
                self._workers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "spooltop.monitor.bench.worker", str(os.getpid())], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ, cwd="/", start_new_session=True,
                    )
                )  # fmt: skip
            for worker in self._workers:
                self._expect(worker, "started", time.monotonic() + _PATIENCE)
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Sequence[Mapping[str, Any]], seconds: float) -> list[Answer]:
        """Has a worker do each of the jobs, all from the same moment on for ``seconds``. Raises ``BenchFailed``."""
        workers = self._workers[: len(jobs)]
        for worker, job in zip(workers, jobs, strict=True):
            self._send(worker, json.dumps({**job, "seconds": seconds}))
        for worker in workers:
            self._expect(worker, "ready", time.monotonic() + _PATIENCE)
        begin = time.monotonic_ns() + int(_LEAD * 1e9)
        for worker in workers:
            self._send(worker, str(begin))
        end = time.monotonic() + seconds + _PATIENCE
        return [_answer(self._line(worker, end)) for worker in workers]

    def _send(self, worker: subprocess.Popen[bytes], line: str) -> None:
        assert worker.stdin is not None
        try:
            worker.stdin.write(f"{line}\n".encode())
            worker.stdin.flush()
        except BrokenPipeError:
            raise _ended(worker) from None

    def _expect(self, worker: subprocess.Popen[bytes], wanted: str, end: float) -> None:
        line = self._line(worker, end)
        if line != wanted:
            raise BenchFailed(f"a worker process said {line[:80]!r} in place of {wanted!r}")

    def _line(self, worker: subprocess.Popen[bytes], end: float) -> str:
        """Returns the next line of a worker. Each writes whole lines, one at a time."""
        assert worker.stdout is not None
        while not select.select([worker.stdout], [], [], _TICK)[0]:
            self._tick()
            if time.monotonic() > end:
                raise BenchFailed(
                    f"a worker process has not answered for {_PATIENCE:g}s", advice="the file system may hang: see dmesg"
                )
        line = worker.stdout.readline()
        if not line:
            raise _ended(worker)
        return line.decode().strip()

    def close(self) -> None:
        """Kills all workers and waits for them."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()
            for stream in (worker.stdin, worker.stdout):
                if stream is not None:
                    try:
                        stream.close()
                    except BrokenPipeError:
                        continue  # what was not read any more
        self._workers = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _ended(worker: subprocess.Popen[bytes]) -> BenchFailed:
    return BenchFailed(f"a worker process ended with {worker.wait()}", advice="run it again; was it killed for want of memory?")


def _answer(line: str) -> Answer:
    found = json.loads(line)
    if "error" in found:
        raise BenchFailed(found["error"])
    return Answer(found["seconds"], Latencies(dict(found["times"])), Latencies(dict(found["delivered"])))
