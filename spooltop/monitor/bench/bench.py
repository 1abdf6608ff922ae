"""``bench``: what this file system does a second, with files, locks and the engine.

Everything happens in a hidden directory in ``tmp`` of the target, or in the target if it has none: the same file system, and
nothing that a consumer or a look takes for a message. Each worker is a process of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from msgspec import Struct

from spooltop.backends.directory.trials import ScratchDir, remove_tree, sweep
from spooltop.engine import Spool
from spooltop.errors import Refused, SpooltopError

from ..watching import Latencies
from .tasks import CONTENDERS, FILES, LOCKS, Answer, work

# Worker processes of ``bench``, and runs in which several of them begin at the same moment.

_PATIENCE = 60.0
"""Seconds that a worker may take longer than its run."""
_LEAD = 0.02
"""Seconds from the last ``ready`` to the moment at which all begin."""
_TICK = 0.1


class BenchFailed(SpooltopError):
    """A worker process failed, or did not answer."""


class Pool:
    """``size`` worker processes, from the start until ``close``. ``tick`` is called at least ten times a second meanwhile."""

    def __init__(self, size: int, tick: Callable[[], object]) -> None:
        self._tick = tick
        self._workers: list[tuple[BaseProcess, Connection]] = []
        context = get_context("spawn")
        heard = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is not meant for them
        try:
            for _ in range(size):
                ours, theirs = context.Pipe()
                process = context.Process(target=work, args=(theirs, os.getpid()), daemon=True)
                process.start()
                theirs.close()
                self._workers.append((process, ours))
        except BaseException:
            self.close()
            raise
        finally:
            signal.signal(signal.SIGINT, heard)

    def run(self, jobs: Sequence[Mapping[str, Any]], seconds: float) -> list[Answer]:
        """Has a worker do each of the jobs, all from the same moment on for ``seconds``. Raises ``BenchFailed``."""
        workers = self._workers[: len(jobs)]
        for worker, job in zip(workers, jobs, strict=True):
            self._exchange(worker, _PATIENCE, {**job, "seconds": seconds})
        begin = time.monotonic_ns() + int(_LEAD * 1e9)
        for _, pipe in workers:
            pipe.send(begin)
        answers = [self._exchange(worker, seconds + _PATIENCE) for worker in workers]
        if failed := [answer for answer in answers if isinstance(answer, str)]:
            raise BenchFailed(failed[0])
        return answers

    def _exchange(self, worker: tuple[BaseProcess, Connection], patience: float, word: object = None) -> Any:
        """Sends a worker ``word``, unless that is None, and returns its answer."""
        process, pipe = worker
        end = time.monotonic() + patience
        try:
            if word is not None:
                pipe.send(word)
            while not pipe.poll(_TICK):
                self._tick()
                if time.monotonic() > end:
                    raise BenchFailed(
                        f"a worker process has not answered for {_PATIENCE:g}s", advice="the file system may hang: see dmesg"
                    )
            return pipe.recv()
        except (EOFError, ConnectionError):
            process.join()
            raise BenchFailed(
                f"a worker process ended with {process.exitcode}", advice="run it again; was it killed for want of memory?"
            ) from None

    def close(self) -> None:
        """Kills all workers and waits for them."""
        for process, _ in self._workers:
            process.kill()
        for process, pipe in self._workers:
            process.join()
            pipe.close()
        self._workers = []


FILES_AT_MOST = 4_000
"""Number of files and directories at a time, at most: a batch in two directories, or the backlog of the engine with its
claims and its staging directories."""
BYTES_AT_MOST = 50_000_000
_ENGINES = ((1, 1), (1, 4), (4, 4))
_WEIGHTS = {"files": 1.0, "locks": 1.0, "engine": 3.0}


class BenchRun(Struct, frozen=True):
    """A measurement. ``writers`` and ``readers`` are for the engine, ``processes`` for locks."""

    section: str
    name: str
    processes: int = 1
    writers: int = 0
    readers: int = 0
    durable: bool = False


class Figure(Struct, frozen=True):
    """Result of a run. ``part`` says which operation of the engine it is about (put, claim and ack, delivery). ``exclusive``
    is False if two processes held a lock at a time, None if that was not tried; ``error`` says why there is no result."""

    section: str
    name: str
    processes: int
    operations: int = 0
    seconds: float = 0.0
    p50: float | None = None
    p99: float | None = None
    part: str = ""
    durable: bool | None = None
    exclusive: bool | None = None
    error: str = ""

    @property
    def per_second(self) -> float | None:
        return self.operations / self.seconds if self.seconds > 0 and not self.error else None


def runs() -> Iterator[BenchRun]:
    """Yields all measurements in their order."""
    yield from (BenchRun("files", name) for name in FILES)
    for name in LOCKS:
        yield BenchRun("locks", name)
        yield BenchRun("locks", name, CONTENDERS)
    for durable in (True, False):
        for writers, readers in _ENGINES:
            yield BenchRun("engine", _engine_name(writers, readers), writers + readers, writers, readers, durable)


def _engine_name(writers: int, readers: int) -> str:
    return f"{writers} writer{'s' * (writers > 1)}, {readers} reader{'s' * (readers > 1)}"


def check_room(folder: str) -> None:
    """Raises ``Refused`` if there is no room for what is measured, with some to spare."""
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < 2 * BYTES_AT_MOST or (room.f_files and room.f_favail < 2 * FILES_AT_MOST):
        raise Refused(
            "bench: too little room", path=folder,
            advice=f"it needs {2 * BYTES_AT_MOST // 1_000_000} MB and {2 * FILES_AT_MOST:,} inodes free",
        )  # fmt: skip


class Bench:
    """A bench in the directory ``parent`` that takes about ``seconds``. ``tell`` is called with the share that is done and the
    present measurement, ten times a second."""

    def __init__(self, parent: str, seconds: float, tell: Callable[[float, str], object]) -> None:
        self._parent = parent
        self._tell = tell
        self._plan = list(runs())
        self._unit = seconds / sum(_WEIGHTS[run.section] for run in self._plan)
        self._share = 0.0
        self._now = "starting processes"

    def measure(self) -> Generator[Figure, None, None]:
        """Yields the results. Closing the iterator ends all processes and removes the directory. Raises ``OSError`` if the
        directory cannot be made."""
        sweep(self._parent)
        size = max(run.processes for run in self._plan)
        with ScratchDir(self._parent) as scratch, closing(Pool(size, self._tick)) as pool:
            done, total = 0.0, sum(_WEIGHTS[run.section] for run in self._plan)
            for number, run in enumerate(self._plan):
                self._share, self._now = done / total, f"{run.section}: {run.name}"
                folder = f"run-{number}"
                os.mkdir(folder, 0o700, dir_fd=scratch.fd)
                yield from self._run(run, os.path.join(os.path.abspath(scratch.path), folder), pool)
                remove_tree(folder, scratch.fd)  # after an error, workers may still write: all of it is removed after them
                done += _WEIGHTS[run.section]

    def _tick(self) -> None:
        self._tell(self._share, self._now)

    def _run(self, run: BenchRun, folder: str, pool: Pool) -> Sequence[Figure]:
        seconds = self._unit * _WEIGHTS[run.section]
        try:
            if run.section == "files":
                return [_figure(run, pool.run([{"task": "files", "name": run.name, "folder": folder}], seconds))]
            if run.section == "locks":
                return [_lock(run, folder, pool, seconds)]
            return _engine(run, os.path.join(folder, "spool"), pool, seconds)
        except (BenchFailed, OSError) as error:
            if isinstance(error, BenchFailed) and "process" in error.what:
                raise
            what = error.what if isinstance(error, SpooltopError) else error.strerror or str(error)
            return [Figure(run.section, run.name, run.processes, durable=run.durable or None, error=what)]


def _figure(run: BenchRun, answers: Sequence[Answer], *, exclusive: bool | None = None, part: str = "") -> Figure:
    times = Latencies()
    for answer in answers:
        times.add(answer.times)
    return _of(run, times, max(answer.seconds for answer in answers), part=part, exclusive=exclusive)


def _of(run: BenchRun, times: Latencies, seconds: float, *, part: str = "", exclusive: bool | None = None) -> Figure:
    durable = run.durable if run.section == "engine" else None
    return Figure(
        run.section, run.name, run.processes, len(times), seconds, times.percentile(0.5), times.percentile(0.99), part, durable,
        exclusive,
    )  # fmt: skip


def _lock(run: BenchRun, folder: str, pool: Pool, seconds: float) -> Figure:
    counted = run.processes > 1
    job: dict[str, Any] = {"task": "lock", "name": run.name, "folder": folder, "counted": counted}
    answers = pool.run([job] * run.processes, seconds)
    if not counted:
        return _figure(run, answers)
    with open(os.path.join(folder, "counter"), "rb") as file:
        total = int.from_bytes(file.read(8), "little")
    return _figure(run, answers, exclusive=total == sum(len(answer.times) for answer in answers))


def _engine(run: BenchRun, path: str, pool: Pool, seconds: float) -> list[Figure]:
    Spool.create(path, durable=run.durable).close()
    job: dict[str, Any] = {"folder": path, "durable": run.durable}
    roles = ["writer"] * run.writers + ["reader"] * run.readers
    answers = pool.run([{**job, "task": role} for role in roles], seconds)
    writers, readers = answers[: run.writers], answers[run.writers :]
    delivered = Latencies()
    for answer in readers:
        delivered.add(answer.delivered)
    put, acked = (sum(len(answer.times) for answer in part) for part in (writers, readers))
    left = sum(not name.startswith(".") for box in ("new", "cur") for name in os.listdir(os.path.join(path, box)))
    if put != acked + left:
        raise BenchFailed(f"{put} messages were put, but {acked} acked and {left} left")
    took = max(answer.seconds for answer in answers)
    parts = (_figure(run, writers, part="put"), _figure(run, readers, part="claim, ack"))
    return [*parts, _of(run, delivered, took, part="put to claim")]
