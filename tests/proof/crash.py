"""Every sequence of up to three operations, the process killed at every single file operation of it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from tests.backends.operating.tripwire import Tripwire

from .figures import Figure
from .world import OPERATIONS, Told, World, after, build, killed_in_child

__all__ = ["BAR", "NAME", "points", "run", "scratch", "sequences"]

NAME = "killed at every file operation of every sequence"
BAR = "0 lost, 0 doubled, 0 incomplete"


def sequences(longest: int) -> list[tuple[str, ...]]:
    return [found for length in range(1, longest + 1) for found in product(OPERATIONS, repeat=length)]


def scratch() -> str | None:
    """Where the spools of a proof lie: in memory, where there is such a place."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def points(
    base: Path, sequence: Sequence[str], *, old: bool, kind: type[Tripwire] = Tripwire
) -> Iterator[tuple[int, list[str]]]:
    """(k, what was wrong after the kill at the k-th file operation of the last one), until the sequence passes. What comes before
    the last one is a sequence of its own, and killed there. ``old``: without renameat2.
    ``kind`` is what does the file operations."""
    template = base / "template"
    if not template.exists():
        build(template, False)
    k = 0
    passed = False
    while not passed:
        k += 1
        root = base / str(k)
        shutil.copytree(template, root)
        reading, writing = os.pipe()

        def work(root: Path = root, k: int = k, writing: int = writing) -> None:
            files = kind(k, lambda: os.kill(os.getpid(), signal.SIGKILL), old=old)
            world = World(root, files, False, lambda line: os.write(writing, f"{line}\n".encode()))
            for operation in sequence[:-1]:
                world.do(operation)
            files.armed = True
            world.do(sequence[-1])

        passed = not killed_in_child(work)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = Told(pipe.read().decode().splitlines())
        wrong = after(root, told)
        shutil.rmtree(root)
        yield k, wrong


def tried(task: tuple[tuple[str, ...], bool]) -> tuple[int, list[str]]:
    """(points, what was wrong) of one sequence."""
    sequence, old = task
    count, wrong = 0, []
    gc.freeze()  # else the collector of each child copies what it shares with its parent
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        for k, found in points(Path(folder), sequence, old=old):
            count += 1
            wrong += [f"{' '.join(sequence)}{' without renameat2' if old else ''}, killed at {k}: {words}" for words in found]
    return count, wrong


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    chosen = sequences(1) if quick else sequences(3)
    tasks = [(sequence, old) for sequence in chosen for old in (False, True)]
    count = violations = 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (points_tried, wrong) in enumerate(pool.map(tried, tasks, chunksize=4), 1):
            count += points_tried
            violations += len(wrong)
            for words in wrong:
                say(words)
            if number % 64 == 0:
                say(f"{number} of {len(tasks)}, {count:,} points")
    return Figure(NAME, BAR, count, violations, explained=f"{len(chosen)} sequences, with and without `renameat2`")
