"""``bench``: what this file system does a second, with files, locks and the engine, in tables.

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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from filelock import FileLock
from msgspec import field

from spooltop.backends.directory.storage import mount_of
from spooltop.backends.directory.trials import ScratchDir, remove_tree, sweep, trial_parent
from spooltop.engine import Spool
from spooltop.engine.syscalls import end_with_parent, rename_noreplace
from spooltop.model import Frozen, NotASpool, Refused, SpooltopError, UsageError, count, escape, fit, has_scheme, size
from spooltop.model.target import without_secrets

from ..context import Arguments, ProgressLine, Terminal, here_or, interrupted_by_signals
from ..render.as_json import members

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


class Answer(Frozen):
    """Measurements of one process in one run: how long each step took, and the seconds that they took together. ``delivered`` are
    the times from the put of a message to its claim."""

    seconds: float
    times: Counter[int]
    delivered: Counter[int] = field(default_factory=Counter[int])


_Steps = tuple[Callable[[], object], Callable[[int], object]]


def _repeat(steps: _Steps, until: int) -> Answer:
    """Does steps in batches until ``until`` (ns of the monotonic clock), and later by the time that the first batch takes to
    prepare: on a slow file system that may be all there is."""
    prepare, step = steps
    clock, times, seconds = time.monotonic_ns, array("Q"), 0.0
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
        seconds += (clock() - began) / 1e9
    return Answer(seconds, Counter(map(rounded, times)))


class _Files:
    """Two directories, and the files in them, of which there is never more than a batch."""

    def __init__(self, folder: str) -> None:
        self.names = [f"{number:016}.bench" for number in range(BATCH)]
        self.fds = []
        for path in (os.path.join(folder, "a"), os.path.join(folder, "b")):
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
    "open(2), O_EXCL": partial(
        _polled, lambda path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)), os.unlink,
    ),
}  # fmt: skip
"""Locks by name. Each gives what takes it, waiting if necessary, and what releases it."""


class BenchRun(Frozen):
    """A measurement. For the engine, ``writers`` of the processes put messages, and the others read them, ``durable`` or not."""

    section: str
    name: str
    processes: int = 1
    writers: int = 0
    durable: bool | None = None


def _steps(run: BenchRun, folder: str) -> _Steps:
    """Returns what prepares a batch of files, or nothing for a lock, and the step. Several processes that hold a lock in turn add
    to a counter that all share, in two steps: without a lock, updates are lost."""
    if run.section == "files":
        files = _Files(folder)
        full, do = FILES[run.name]
        return partial(files.prepare, full), partial(do, files)
    take, release = LOCKS[run.name](os.path.join(folder, "lock"))
    counter = os.open(os.path.join(folder, "counter"), os.O_RDWR | os.O_CREAT, 0o600)

    def step(number: int) -> None:
        take()
        try:
            if run.processes > 1:
                value = int.from_bytes(os.pread(counter, 8, 0), "little")
                os.pwrite(counter, (value + 1).to_bytes(8, "little"), 0)
        finally:
            release()

    return lambda: None, step


def _use_engine(spool: Spool, until: int, *, writes: bool) -> Answer:
    """Claims and acks messages. ``writes``: puts them instead, each begins with the moment of its put, and waits while too many
    of them wait."""
    clock, times, delivered = time.monotonic_ns, array("Q"), array("Q")
    began = clock()
    while (before := clock()) < until and len(times) < _MOST:
        if writes:
            spool.put(before.to_bytes(8, "little") + _DATA[8:])
        else:
            claim = spool.claim(timeout=0)
            if claim is None:
                claim = spool.claim(timeout=max(0.0, min(0.05, (until - clock()) / 1e9)))
                if claim is None:
                    continue
                before = clock()  # the wait for a message is no work
            delivered.append(clock() - int.from_bytes(claim.data[:8], "little"))
            claim.ack()
        times.append(clock() - before)
        while writes and len(times) % _EVERY == 0 and clock() < until and spool.depth() > _BACKLOG:
            time.sleep(_POLL)
    return Answer((clock() - began) / 1e9, Counter(map(rounded, times)), Counter(map(rounded, delivered)))


# The worker processes, and runs in which several of them begin at the same moment.

_PATIENCE = 60.0
"""Seconds that a worker may take longer than its run."""
_LEAD = 0.05
"""Seconds from the start of the first process to the moment at which all begin."""
_TICK = 0.1
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Job = Callable[[int], Answer]
"""Work of one process in a run, until a moment (ns of the monotonic clock)."""


def _do(run: BenchRun, folder: str, number: int, end: int) -> Answer:
    """Does the work of process ``number`` in a run until ``end`` (ns of the monotonic clock)."""
    if run.section != "engine":
        return _repeat(_steps(run, folder), end)
    with Spool(folder, durable=bool(run.durable)) as spool:
        return _use_engine(spool, end, writes=number < run.writers)


def work(pipe: Connection, parent: int, job: Job, begin: int, end: int) -> None:
    """Does a job from ``begin`` to ``end`` (ns of the monotonic clock), and sends its ``Answer``, or in words why there is none.
    Ends with its parent."""
    if not end_with_parent(signal.SIGKILL, parent):
        return
    try:
        time.sleep(max(0.0, (begin - time.monotonic_ns()) / 1e9))
        pipe.send(job(end))
    except Exception as error:  # noqa: BLE001  the parent reports it, with the name of the run
        pipe.send(f"{type(error).__name__}: {error}")


class BenchFailed(SpooltopError):
    """A worker process ended, or did not answer."""


def run_all(jobs: Iterable[Job], seconds: float, tick: Callable[[], object]) -> list[Answer]:
    """Has a process of its own do each of the jobs, all from the same moment on for ``seconds``. ``tick`` is called at least ten
    times a second meanwhile. Raises ``BenchFailed``."""
    context = get_context("fork")
    begin = time.monotonic_ns() + int(_LEAD * 1e9)
    end, parent = begin + int(seconds * 1e9), os.getpid()
    workers: list[tuple[BaseProcess, Connection]] = []
    try:
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # inherited: Ctrl-C is not meant for them
        try:
            for job in jobs:
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=work, args=(theirs, parent, job, begin, end))
                process.start()
                theirs.close()
                workers.append((process, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        return [_answer(process, pipe, end / 1e9 + _PATIENCE, tick) for process, pipe in workers]
    finally:
        for worker, _ in workers:
            worker.kill()
        for worker, pipe in workers:
            worker.join()
            pipe.close()


def _answer(process: BaseProcess, pipe: Connection, end: float, tick: Callable[[], object]) -> Answer:
    try:
        while not pipe.poll(_TICK):
            tick()
            if time.monotonic() > end:
                raise BenchFailed(f"a worker process has not answered for {_PATIENCE:g}s", "the file system may hang: see dmesg")
        answer: Answer | str = pipe.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise BenchFailed(
            f"a worker process ended with {process.exitcode}", "run it again; was it killed for want of memory?"
        ) from None
    if isinstance(answer, str):
        raise SpooltopError(answer)
    return answer


FILES_AT_MOST = 4_000
"""Number of files and directories at a time, at most: a batch in two directories, or the backlog of the engine with its
claims and its staging directories."""
BYTES_AT_MOST = 50_000_000
_ENGINES = ((1, 1), (1, 4), (4, 4))
_WEIGHTS = {"files": 1.0, "locks": 1.0, "engine": 3.0}


class Figure(Frozen):
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
            "bench: too little room",
            f"it needs {2 * BYTES_AT_MOST // 1_000_000} MB and {2 * FILES_AT_MOST:,} inodes free",
            path=folder,
        )  # fmt: skip


def measure(parent: str, seconds: float, tell: Callable[[float, str], object]) -> Generator[Figure, None, None]:
    """Measures in the directory ``parent`` for about ``seconds``, and yields the results. ``tell`` is called with the share that
    is done and the present measurement, ten times a second. Closing the iterator ends all processes and removes the directory.
    Raises ``OSError`` if the directory cannot be made."""
    plan = list(runs())
    total = sum(_WEIGHTS[run.section] for run in plan)
    done = 0.0
    sweep(parent)
    with ScratchDir(parent) as scratch:
        for number, run in enumerate(plan):
            now, weight = f"{run.section}: {run.name}", _WEIGHTS[run.section]
            folder = f"run-{number}"
            os.mkdir(folder, 0o700, dir_fd=scratch.fd)
            tick = partial(tell, done / total, now)
            yield from _figures(run, os.path.join(os.path.abspath(scratch.path), folder), seconds * weight / total, tick)
            remove_tree(folder, scratch.fd)
            done += weight


def _figures(run: BenchRun, folder: str, seconds: float, tick: Callable[[], object]) -> Sequence[Figure]:
    try:
        if run.section == "engine":
            Spool.create(folder, durable=bool(run.durable)).close()
        answers = run_all([partial(_do, run, folder, number) for number in range(run.processes)], seconds, tick)
        if run.section == "engine":
            return _of_engine(run, folder, answers)
        if run.processes == 1:
            return [_figure(run, answers)]
        with open(os.path.join(folder, "counter"), "rb") as file:
            total = int.from_bytes(file.read(8), "little")
        return [_figure(run, answers, exclusive=total == sum(answer.times.total() for answer in answers))]
    except BenchFailed:
        raise
    except (SpooltopError, OSError) as error:
        what = error.what if isinstance(error, SpooltopError) else error.strerror or str(error)
        return [Figure(run, error=what)]


def _of_engine(run: BenchRun, folder: str, answers: Sequence[Answer]) -> Sequence[Figure]:
    put = _figure(run, answers[: run.writers], part="put")
    acked = _figure(run, answers[run.writers :], part="claim, ack")
    left = sum(not name.startswith(".") for box in ("new", "cur") for name in os.listdir(os.path.join(folder, box)))
    if put.operations != acked.operations + left:
        raise SpooltopError(f"{put.operations} messages were put, but {acked.operations} acked and {left} left")
    return [put, acked, _figure(run, answers, part="put to claim", delivered=True)]


def _figure(
    run: BenchRun, answers: Sequence[Answer], *, delivered: bool = False, part: str = "", exclusive: bool | None = None
) -> Figure:
    times = sum((answer.delivered if delivered else answer.times for answer in answers), Counter[int]())
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    return Figure(run, times.total(), max(answer.seconds for answer in answers), p50, p99, part, exclusive)


# The command.

_SHORTEST, _LONGEST = 2.0, 3600.0
_RATE, _TIME, _SAMPLES = 10, 8, 10
_HEADS = {
    "files": ("files of 1 kB, 1 process", 32, "", 0),
    "locks": ("take and release", 18, "processes", 11),
    "engine": ("engine, 1 kB", 29, "operation", 13),
}
"""Heads of the first two columns of each section, and their widths: no table is wider than 80 cells."""
_NOTES = {
    "locks": (
        "exclusive: a counter that the 4 processes add to while they hold it came out",
        "right. mkdir and O_EXCL are tried every 1 ms, filelock every 50 ms.",
    ),
    "engine": ("put to claim: how long a message waits. Writers wait while 1,000 messages do.",),
}


def bench(args: Arguments) -> int:
    """Prints a table for each section as soon as it is measured. 1 if something could not be measured or a lock failed."""
    terminal = args.terminal
    seconds: float = args.seconds
    if not _SHORTEST <= seconds <= _LONGEST:
        raise UsageError(f"--seconds {seconds:g} is not between 2 and 3600", "as in --seconds 20")
    path = args.path = here_or(args)
    if has_scheme(path):
        raise Refused("bench: measures a file system", "name a directory", path=without_secrets(path))
    busy = _others(args)
    parent = trial_parent(path)
    if not os.access(parent, os.W_OK | os.X_OK, effective_ids=True):
        raise Refused("bench: it cannot be written by you", f"ls -ld {escape(parent)}", path=parent)
    check_room(parent)
    if busy:
        terminal.err(f"spooltop: {busy}: they make the figures lower, and the bench slows them down")
    _announce(path, parent, seconds, terminal)
    failed = False
    section: list[Figure] = []
    line = ProgressLine(terminal, "bench", hint="Ctrl-C stops and cleans up")

    def show() -> None:
        line.close()
        terminal.show(map(_json, section), _table(section))
        terminal.flush()
        section.clear()

    with interrupted_by_signals():
        try:
            with line, closing(measure(parent, seconds, line.share)) as figures:
                for figure in figures:
                    failed = failed or bool(figure.error) or figure.exclusive is False
                    if section and figure.run.section != section[-1].run.section:
                        show()
                    section.append(figure)
                    if terminal.json:
                        show()
        except KeyboardInterrupt:
            show()
            raise
    show()
    return 1 if failed else 0


def _others(args: Arguments) -> str:
    """Says who works here now; empty if nobody does, and for a directory that is no target. Raises ``Refused`` for one that is
    read-only."""
    try:
        with args.control(owners=False) as control:
            if why := control.why_read_only:
                raise Refused(f"bench: {why}", "name a directory beside it", path=args.path)
            observation = control.look().observation
    except NotASpool:
        if not os.path.isdir(args.path):
            raise
        return ""
    found = []
    if observation.consumers:
        found.append(f"{count(observation.consumers)} consumer{'s' * (observation.consumers > 1)}")
    if observation.counts.alive and not observation.consumers:
        found.append(f"holders of {count(observation.counts.alive)} claims")
    if observation.counts.writing:
        found.append(f"{count(observation.counts.writing)} writers in tmp")
    return f"{' and '.join(found)} at work here now" if found else ""


def _announce(path: str, parent: str, seconds: float, terminal: Terminal) -> None:
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount = mount_of(fd)
    finally:
        os.close(fd)
    kind = "?" if mount is None else mount.fs_type
    system = os.uname()
    about = {
        "section": "bench", "target": escape(os.path.abspath(path)), "folder": escape(parent),
        "file_system": kind, "kernel": system.release, "cpus": os.cpu_count(), "seconds": seconds,
        "files_at_most": FILES_AT_MOST, "bytes_at_most": BYTES_AT_MOST,
    }  # fmt: skip
    lines = (
        f"spooltop bench {escape(path)}: {kind}, Linux {system.release}, {os.cpu_count()} CPUs",
        f"about {seconds:g} s; at most {count(FILES_AT_MOST)} files and {size(BYTES_AT_MOST)}, removed at the end,",
        f"in a hidden directory in {escape(parent)}",
    )
    terminal.show([about], lines)
    terminal.flush()


def _table(figures: Sequence[Figure]) -> Iterator[str]:
    """Lines of a section: a head, a row for each figure, a note on how it was measured."""
    if not figures:
        return
    section = figures[0].run.section
    title, width, second, part = _HEADS[section]
    last = "  exclusive" if section == "locks" else ""
    yield ""
    yield (
        f"{title:<{width}}{second:>{part}}{'a second':>{_RATE}}{'p50':>{_TIME}}{'p99':>{_TIME}}{'samples':>{_SAMPLES}}{last}"
    )
    for figure in figures:
        run = figure.run
        name = f"{run.name}, durable" if run.durable else run.name
        beside = figure.part if section == "engine" else str(run.processes)
        head = f"{fit(name, width, cut='right')}{beside if second else '':>{part}}"
        if figure.error:
            yield f"{head}  failed: {escape(figure.error)}"
            continue
        rate = "—" if figure.per_second is None else count(round(figure.per_second))
        numbers = f"{rate:>{_RATE}}{shown(figure.p50):>{_TIME}}{shown(figure.p99):>{_TIME}}{count(figure.operations):>{_SAMPLES}}"
        exclusive = {None: "", True: "  yes", False: "  NO: two held it at a time"}[figure.exclusive]
        yield f"{head}{numbers}{exclusive}"
    yield from _NOTES.get(section, ())


def _json(figure: Figure) -> dict[str, Any]:
    run = figure.run
    return {
        **members(run, "section", "name"), "part": figure.part or None, **members(run, "durable", "processes"),
        **members(figure, "operations", "seconds", "per_second"), "p50_seconds": figure.p50, "p99_seconds": figure.p99,
        "exclusive": figure.exclusive, "error": figure.error or None,
    }  # fmt: skip
