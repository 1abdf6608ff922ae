"""``bench``: what this file system does a second, with files, locks and the engine.

Everything happens in a hidden directory in ``tmp`` of the target, or in the target if it has none: the same file system, and
nothing that a consumer or a look takes for a message. Each worker is a process of its own.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import time
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from filelock import FileLock
from msgspec import Struct, field

from spooltop.backends.directory.trials import ScratchDir, remove_tree, sweep
from spooltop.engine import Spool
from spooltop.engine.system.syscalls import end_with_parent, rename_noreplace
from spooltop.errors import Refused, SpooltopError

# Times of operations, gathered from several processes and boiled down to percentiles: counts of nanoseconds, each with its first
# bits only, which are small enough to be sent, and to be added up.

_BITS = 7
"""Significant bits that are kept of each time, so that a percentile is at most 1.6 % too low."""
_FEW = 20
"""Number of samples below which a percentile means nothing."""


def percentile(times: Counter[int], share: float) -> float | None:
    """Returns the time, in seconds, within which ``share`` (0 to 1) of the operations ended; None of too few samples.

    >>> percentile(Counter(map(rounded, range(0, 100_000, 1000))), 0.5)
    4.9664e-05
    """
    left = share * times.total()
    for duration in sorted(times) if times.total() >= _FEW else ():
        left -= times[duration]
        if left < 0:
            return duration / 1e9
    return None


def rounded(time: int) -> int:
    """Keeps the first bits of a number.

    >>> [rounded(n) for n in (5, 127, 129, 1_000_000)]
    [5, 127, 128, 999424]
    """
    cut = max(0, time.bit_length() - _BITS)
    return time >> cut << cut


def shown(seconds: float | None) -> str:
    """Formats a time with three digits at most and its unit, ``—`` for None.

    >>> [shown(s) for s in (8.2e-7, 1.24e-5, 0.000345, 0.0123, 2.0, None)]
    ['0.8 µs', '12 µs', '345 µs', '12 ms', '2.0 s', '—']
    """
    if seconds is None:
        return "—"
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        value = seconds * factor
        if value < 9.95:
            return f"{value:.1f} {unit}"
        if value < 999.5:
            return f"{value:.0f} {unit}"
    return f"{seconds:.1f} s"


# Operations that are measured, as a worker process does them. A task prepares a batch, which is not timed, and then does one
# timed step after the other.

PAYLOAD = 1024
"""Bytes of a file or a message."""
BATCH = 200
"""Number of files that a task has at a time, twice that while it moves them."""
CONTENDERS = 4
_POLL = 0.001
"""Seconds between two tries of a lock that cannot be waited for."""
_BACKLOG = 1000
"""Number of waiting messages from which writers wait."""
_EVERY = 64
_MOST = 2_000_000
"""Number of steps after which a run ends, so that their times fit into memory."""
_DATA = b"x" * PAYLOAD


class Answer(Struct, frozen=True):
    """Measurements of one worker in one run."""

    seconds: float
    times: Counter[int]
    delivered: Counter[int]


class Measured(Struct):
    """Times of all steps in nanoseconds, and the seconds that they took together. ``delivered`` are the times from the put of a
    message to its claim."""

    seconds: float = 0.0
    times: array[int] = field(default_factory=lambda: array("Q"))
    delivered: array[int] = field(default_factory=lambda: array("Q"))


def _timed(prepare: Callable[[], None], step: Callable[[int], None], until: int) -> Measured:
    """Does steps in batches until ``until`` (ns of the monotonic clock), and later by the time that the first batch takes to
    prepare: on a slow file system that may be all there is."""
    found = Measured()
    clock, times = time.monotonic_ns, found.times
    began = clock()
    prepare()
    until += clock() - began
    while not times or (clock() < until and len(times) < _MOST):
        if times:
            prepare()
        began = clock()
        for number in range(BATCH):
            before = clock()
            if before >= until and times:
                break
            step(number)
            times.append(clock() - before)
        found.seconds += (clock() - began) / 1e9
    return found


class _Files:
    """Two directories, and the files in them, of which there is never more than a batch."""

    def __init__(self, folder: str) -> None:
        self.names = [f"{number:016}.bench" for number in range(BATCH)]
        self.fds = []
        for name in ("a", "b"):
            path = os.path.join(folder, name)
            with suppress(FileExistsError):
                os.mkdir(path)
            self.fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def prepare(self, full: bool) -> None:
        """Leaves all files in the first directory, or none; those that were moved serve again."""
        if full and os.listdir(self.fds[1]):
            self.fds.reverse()
        for fd in self.fds[full:]:
            for name in os.listdir(fd):
                os.unlink(name, dir_fd=fd)
        for number in range(BATCH if full else 0):
            with suppress(FileExistsError):
                self.write(number)

    def write(self, number: int, *, sync: bool = False) -> None:
        fd = os.open(self.names[number], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.fds[0])
        os.write(fd, _DATA)
        if sync:
            os.fsync(fd)
        os.close(fd)

    def write_durably(self, number: int) -> None:
        """Does what a durable put has to: write, sync, rename, sync the directory."""
        self.write(number, sync=True)
        self.rename(number)
        os.fsync(self.fds[1])

    def rename(self, number: int) -> None:
        rename_noreplace(self.names[number], self.fds[0], self.names[number], self.fds[1])

    def replace(self, number: int) -> None:
        os.rename(self.names[number], self.names[number], src_dir_fd=self.fds[0], dst_dir_fd=self.fds[1])

    def read(self, number: int) -> None:
        fd = os.open(self.names[number], os.O_RDONLY, dir_fd=self.fds[0])
        os.read(fd, PAYLOAD)
        os.close(fd)

    def unlink(self, number: int) -> None:
        os.unlink(self.names[number], dir_fd=self.fds[0])


FILES: Mapping[str, tuple[bool, Callable[[_Files, int], None]]] = {
    "write": (False, _Files.write), "write, fsync": (False, partial(_Files.write, sync=True)),
    "write, fsync, rename, fsync dir": (False, _Files.write_durably), "rename": (True, _Files.replace),
    "rename, RENAME_NOREPLACE": (True, _Files.rename), "read (cached)": (True, _Files.read), "unlink": (True, _Files.unlink),
}  # fmt: skip
"""Operations with files: True if they need all files, and the step."""


def run_files(name: str, folder: str, until: int) -> Measured:
    """Does one thing with files again and again."""
    files = _Files(folder)
    full, step = FILES[name]
    return _timed(partial(files.prepare, full), partial(step, files), until)


_Calls = tuple[Callable[[], object], Callable[[], object]]
_OFD = struct.Struct("hhqqi0q")


def _on_descriptor(call: Callable[..., object], take: tuple[object, ...], release: tuple[object, ...], path: str) -> _Calls:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    return partial(call, fd, *take), partial(call, fd, *release)


def _filelock(path: str) -> _Calls:
    lock = FileLock(path, fallback_to_soft=False)
    return lock.acquire, lock.release


def _polled(make: Callable[[str], object], remove: Callable[[str], object], path: str) -> _Calls:
    def take() -> None:
        while True:
            with suppress(FileExistsError):
                make(path)
                return
            time.sleep(_POLL)

    return take, partial(remove, path)


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


LOCKS: Mapping[str, Callable[[str], _Calls]] = {
    "flock(2)": partial(_on_descriptor, fcntl.flock, (fcntl.LOCK_EX,), (fcntl.LOCK_UN,)),
    "fcntl(2), POSIX": partial(_on_descriptor, fcntl.lockf, (fcntl.LOCK_EX,), (fcntl.LOCK_UN,)),
    "fcntl(2), OFD": partial(
        _on_descriptor, fcntl.fcntl,
        (getattr(fcntl, "F_OFD_SETLKW", 0), _OFD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)),
        (getattr(fcntl, "F_OFD_SETLK", 0), _OFD.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)),
    ),
    "filelock": _filelock,
    "mkdir(2)": partial(_polled, os.mkdir, os.rmdir),
    "open(2), O_EXCL": partial(_polled, _create, os.unlink),
}  # fmt: skip
"""Locks by name. Each gives what takes it, waiting if necessary, and what releases it."""


def run_lock(name: str, folder: str, until: int, *, counted: bool) -> Measured:
    """Takes and releases a lock again and again. ``counted``: holding it, adds to a counter that all share, in two steps: without
    a lock, updates are lost."""
    take, release = LOCKS[name](os.path.join(folder, "lock"))
    counter = os.open(os.path.join(folder, "counter"), os.O_RDWR | os.O_CREAT, 0o600)

    def step(number: int) -> None:
        take()
        try:
            if counted:
                value = int.from_bytes(os.pread(counter, 8, 0), "little")
                os.pwrite(counter, (value + 1).to_bytes(8, "little"), 0)
        finally:
            release()

    return _timed(lambda: None, step, until)


def _moments(found: Measured, until: int) -> Iterator[int]:
    """Yields the moment before each step, until ``until``, and measures how long they took together."""
    began = time.monotonic_ns()
    while (before := time.monotonic_ns()) < until and len(found.times) < _MOST:
        yield before
    found.seconds = (time.monotonic_ns() - began) / 1e9


def run_writer(folder: str, durable: bool, until: int) -> Measured:
    """Puts messages, and waits while too many of them wait. Each begins with the moment of its put."""
    found = Measured()
    clock = time.monotonic_ns
    with Spool(folder, durable=durable) as spool:
        for before in _moments(found, until):
            spool.put(before.to_bytes(8, "little") + _DATA[8:])
            found.times.append(clock() - before)
            while len(found.times) % _EVERY == 0 and clock() < until and spool.depth() > _BACKLOG:
                time.sleep(_POLL)
    return found


def run_reader(folder: str, durable: bool, until: int) -> Measured:
    """Claims and acks messages."""
    found = Measured()
    clock = time.monotonic_ns
    with Spool(folder, durable=durable) as spool:
        for before in _moments(found, until):
            claim = spool.claim(timeout=0)
            if claim is None:
                claim = spool.claim(timeout=max(0.0, min(0.05, (until - clock()) / 1e9)))
                if claim is None:
                    continue
                before = clock()  # the wait for a message is no work
            found.delivered.append(clock() - int.from_bytes(claim.data[:8], "little"))
            claim.ack()
            found.times.append(clock() - before)
    return found


# The worker processes, and runs in which several of them begin at the same moment.

_PATIENCE = 60.0
"""Seconds that a worker may take longer than its run."""
_LEAD = 0.02
"""Seconds from when the first hears of its job to the moment at which all begin."""
_TICK = 0.1

Job = Callable[[int], Measured]
"""Work of one process in a run, until a moment (ns of the monotonic clock); it can be sent."""


def work(pipe: Connection, parent: int) -> None:
    """Says that it is there, then does the jobs that arrive on ``pipe`` with the moments of their begin and end (ns of the
    monotonic clock): for each it sends an ``Answer``, or in words why there is none. Ends with its parent."""
    if not end_with_parent(signal.SIGKILL, parent):
        return
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            job, begin, end = pipe.recv()
            try:
                time.sleep(max(0.0, (begin - time.monotonic_ns()) / 1e9))
                done = job(end)
                times, delivered = (Counter(map(rounded, part)) for part in (done.times, done.delivered))
                pipe.send(Answer(done.seconds, times, delivered))
            except Exception as error:  # noqa: BLE001  the parent reports it, with the name of the run
                pipe.send(f"{type(error).__name__}: {error}")


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
            try:
                for _ in range(size):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=work, args=(theirs, os.getpid()), daemon=True)
                    process.start()
                    theirs.close()
                    self._workers.append((process, ours))
            finally:
                signal.signal(signal.SIGINT, heard)
            for worker in self._workers:
                self._answer(worker, _PATIENCE)
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Sequence[Job], seconds: float) -> list[Answer]:
        """Has a worker do each of the jobs, all from the same moment on for ``seconds``. Raises ``BenchFailed``."""
        begin = time.monotonic_ns() + int(_LEAD * 1e9)
        for (_, pipe), job in zip(self._workers, jobs, strict=False):
            with suppress(ConnectionError):  # it ended, as its answer will show
                pipe.send((job, begin, begin + int(seconds * 1e9)))
        answers = [self._answer(worker, seconds + _PATIENCE) for worker in self._workers[: len(jobs)]]
        if failed := [answer for answer in answers if isinstance(answer, str)]:
            raise BenchFailed(failed[0])
        return answers

    def _answer(self, worker: tuple[BaseProcess, Connection], patience: float) -> Any:
        process, pipe = worker
        end = time.monotonic() + patience
        try:
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
    """A measurement. For the engine, ``writers`` of the processes put messages, and the others read them, ``durable`` or not."""

    section: str
    name: str
    processes: int = 1
    writers: int = 0
    durable: bool | None = None


class Figure(Struct, frozen=True):
    """Result of a run. ``part`` says which operation of the engine it is about (put, claim and ack, delivery). ``exclusive``
    is False if two processes held a lock at a time, None if that was not tried; ``error`` says why there is no result."""

    run: BenchRun
    operations: int = 0
    seconds: float = 0.0
    p50: float | None = None
    p99: float | None = None
    part: str = ""
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
            name = f"{writers} writer{'s' * (writers > 1)}, {readers} reader{'s' * (readers > 1)}"
            yield BenchRun("engine", name, writers + readers, writers, durable)


def check_room(folder: str) -> None:
    """Raises ``Refused`` if there is no room for what is measured, with some to spare."""
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < 2 * BYTES_AT_MOST or (room.f_files and room.f_favail < 2 * FILES_AT_MOST):
        raise Refused(
            "bench: too little room", path=folder,
            advice=f"it needs {2 * BYTES_AT_MOST // 1_000_000} MB and {2 * FILES_AT_MOST:,} inodes free",
        )  # fmt: skip


def measure(parent: str, seconds: float, tell: Callable[[float, str], object]) -> Generator[Figure, None, None]:
    """Measures in the directory ``parent`` for about ``seconds``, and yields the results. ``tell`` is called with the share that
    is done and the present measurement, ten times a second. Closing the iterator ends all processes and removes the directory.
    Raises ``OSError`` if the directory cannot be made."""
    plan = list(runs())
    total = sum(_WEIGHTS[run.section] for run in plan)
    done, now = 0.0, "starting processes"
    sweep(parent)
    size = max(run.processes for run in plan)
    with ScratchDir(parent) as scratch, closing(Pool(size, lambda: tell(done / total, now))) as pool:
        for number, run in enumerate(plan):
            now, weight = f"{run.section}: {run.name}", _WEIGHTS[run.section]
            folder = f"run-{number}"
            os.mkdir(folder, 0o700, dir_fd=scratch.fd)
            yield from _figures(run, os.path.join(os.path.abspath(scratch.path), folder), pool, seconds * weight / total)
            remove_tree(folder, scratch.fd)  # after an error, workers may still write: all of it is removed after them
            done += weight


def _figures(run: BenchRun, folder: str, pool: Pool, seconds: float) -> Sequence[Figure]:
    try:
        if run.section == "files":
            return [_figure(run, pool.run([partial(run_files, run.name, folder)], seconds))]
        if run.section == "locks":
            return [_lock(run, folder, pool, seconds)]
        return _engine(run, os.path.join(folder, "spool"), pool, seconds)
    except (BenchFailed, OSError) as error:
        if isinstance(error, BenchFailed) and "process" in error.what:
            raise
        what = error.what if isinstance(error, SpooltopError) else error.strerror or str(error)
        return [Figure(run, error=what)]


def _figure(
    run: BenchRun, answers: Sequence[Answer], *, delivered: bool = False, part: str = "", exclusive: bool | None = None
) -> Figure:
    times = Counter[int]()
    for answer in answers:
        times.update(answer.delivered if delivered else answer.times)
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    return Figure(run, times.total(), max(answer.seconds for answer in answers), p50, p99, part, exclusive)


def _lock(run: BenchRun, folder: str, pool: Pool, seconds: float) -> Figure:
    counted = run.processes > 1
    answers = pool.run([partial(run_lock, run.name, folder, counted=counted)] * run.processes, seconds)
    if not counted:
        return _figure(run, answers)
    with open(os.path.join(folder, "counter"), "rb") as file:
        total = int.from_bytes(file.read(8), "little")
    return _figure(run, answers, exclusive=total == sum(answer.times.total() for answer in answers))


def _engine(run: BenchRun, path: str, pool: Pool, seconds: float) -> list[Figure]:
    durable = bool(run.durable)
    Spool.create(path, durable=durable).close()
    write, read = partial(run_writer, path, durable), partial(run_reader, path, durable)
    answers = pool.run([write] * run.writers + [read] * (run.processes - run.writers), seconds)
    writers, readers = answers[: run.writers], answers[run.writers :]
    put, acked = (sum(answer.times.total() for answer in part) for part in (writers, readers))
    left = sum(not name.startswith(".") for box in ("new", "cur") for name in os.listdir(os.path.join(path, box)))
    if put != acked + left:
        raise BenchFailed(f"{put} messages were put, but {acked} acked and {left} left")
    parts = [_figure(run, writers, part="put"), _figure(run, readers, part="claim, ack")]
    return [*parts, _figure(run, answers, delivered=True, part="put to claim")]
