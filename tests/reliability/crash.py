"""Every sequence of up to three operations, the process killed before each file operation of it that changes anything.

A kill before a call that only looks leaves what a kill before the next change leaves: the time goes into more sequences instead.
"""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from tests.matrix.cuts import CHANGES
from tests.scratch import scratch

from .figures import Figure
from .seam import Tripwire
from .world import OPERATIONS, Expected, World, after, build, killed_in_child

__all__ = ["BAR", "NAME", "points", "run", "sequences"]

NAME = "killed before every change of a file or a name, in every sequence"
BAR = "0 lost, 0 doubled, 0 incomplete"

QUICK = (("unlock",), ("put", "cursor"), ("claim", "recover"), ("reject", "requeue"), ("release_held", "restore"))
"""Sequences of the quick part. The tests of the engine and of operators kill the other operations one by one."""
CHANCE = re.compile(r"[0-9a-f]{6,}")
"""Matches the parts that differ each time: ids, tokens, times, pids."""


def sequences(longest: int) -> list[tuple[str, ...]]:
    return [found for length in range(1, longest + 1) for found in product(OPERATIONS, repeat=length)]


def shape(root: Path) -> str:
    """A digest of what a kill has left: each name, without what is different each time, and how many its file has, with what
    that says."""
    found = set()
    for path in root.rglob("*"):
        at = path.lstat()
        said = "" if path.is_dir() else path.read_bytes()[:40].decode(errors="replace").partition(":")[0]
        found.add((CHANCE.sub("#", str(path.relative_to(root))), 0 if path.is_dir() else at.st_nlink, CHANCE.sub("#", said)))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def points(
    base: Path, sequence: Sequence[str], *, old: bool, kind: type[Tripwire] = Tripwire, shapes: set[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """(k, what was wrong after the kill before the k-th change of the last one), until the sequence passes. What comes before
    the last one is a sequence of its own, and killed there. ``old``: without renameat2. ``kind`` is what does the file
    operations. ``shapes`` gets the ``shape`` of what each kill left."""
    template = base / "template"
    if not template.exists():
        build(template, False, aside=True)
    k = 0
    passed = False
    while not passed:
        k += 1
        root = base / str(k)
        shutil.copytree(template, root)
        reading, writing = os.pipe()

        def work(root: Path = root, k: int = k, writing: int = writing) -> None:
            files = kind(k, lambda: os.kill(os.getpid(), signal.SIGKILL), old=old, seen=CHANGES)
            world = World(root, files, False, lambda line: os.write(writing, f"{line}\n".encode()))
            for operation in sequence[:-1]:
                world.do(operation)
            files.armed = True
            world.do(sequence[-1])

        passed = not killed_in_child(work)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            expected = Expected(pipe.read().decode().splitlines(), aside=True)
        if shapes is not None:
            shapes.add(shape(root))
        wrong = after(root, expected)
        shutil.rmtree(root)
        shutil.rmtree(f"{root}.state", ignore_errors=True)
        yield k, wrong


def tried(task: tuple[tuple[str, ...], bool]) -> tuple[int, set[str], list[str]]:
    """(points, the shapes of what the kills left, what was wrong) of one sequence."""
    sequence, old = task
    count, wrong = 0, []
    shapes: set[str] = set()
    gc.freeze()  # else the collector of each child copies what it shares with its parent
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        for k, found in points(Path(folder), sequence, old=old, shapes=shapes):
            count += 1
            wrong += [f"{' '.join(sequence)}{' without renameat2' if old else ''}, killed at {k}: {words}" for words in found]
    return count, shapes, wrong


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    chosen = QUICK if quick else sequences(3)
    tasks = [(sequence, old) for sequence in chosen for old in (False, True)]
    count = violations = 0
    shapes: set[str] = set()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, (points_tried, left, wrong) in enumerate(pool.map(tried, tasks, chunksize=4), 1):
            count += points_tried
            shapes |= left
            violations += len(wrong)
            for words in wrong:
                say(words)
            if number % 64 == 0:
                say(f"{number} of {len(tasks)}, {count:,} points")
    explained = f"{len(chosen)} sequences of {len(OPERATIONS)} operations, with and without `renameat2`; "
    return Figure(NAME, BAR, count, violations, explained=f"{explained}{len(shapes):,} different spools left behind")
