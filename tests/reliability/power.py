"""A real power cut at every change that a sequence of up to two operations makes, on ext4, xfs and btrfs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from tests.matrix.cuts import LASTING
from tests.scratch import scratch

from .disks import Disk, missing
from .figures import Figure
from .seam import Tripwire
from .world import OPERATIONS, Expected, World, after, body, build, killed_in_child

__all__ = ["BAR", "NAME", "cuts", "run"]

NAME = "power cut at every change of every sequence of up to two operations"
BAR = "0 confirmed messages lost, 0 incomplete ones visible"

KINDS = ("ext4", "xfs", "btrfs")
POINTS = {1: 180, 2: 2_700}
"""About so many cuts have all sequences up to each length: what is skipped where a file system is not to be had."""


class Group(World):
    """World with the group commit as one more operation."""

    def _put_many(self) -> None:
        labels = [f"p{self.made + number}" for number in (1, 2, 3)]
        self.made += 3
        for label in labels:
            self.tell(f"put? {label}")
        self.spool.put_many([body(label) for label in labels])
        for label in labels:
            self.tell(f"put! {label}")


def sequences(longest: int) -> list[tuple[str, ...]]:
    return [found for length in range(1, longest + 1) for found in product((*OPERATIONS, "put_many"), repeat=length)]


def cuts(
    template: Disk, folder: Path, sequence: Sequence[str], *, commit: bool, trap: type[Tripwire] = Tripwire
) -> Iterator[tuple[int, list[str]]]:
    """(k, what was wrong after the process was killed instead of the k-th change and the power was cut), until the sequence
    passes. ``commit``: the journal is committed by somebody else before the cut."""
    k = 0
    passed = False
    while not passed:
        k += 1
        disk = Disk(template.kind, folder, like=template)
        disk.mount()
        try:
            root = disk.at / "spool"
            reading, writing = os.pipe()

            def work(root: Path = root, k: int = k, writing: int = writing) -> None:
                files = trap(k, lambda: os.kill(os.getpid(), signal.SIGKILL), seen=LASTING)
                world = Group(root, files, True, lambda line: os.write(writing, f"{line}\n".encode()))
                files.armed = True
                for operation in sequence:
                    world.do(operation)

            passed = not killed_in_child(work)
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                expected = Expected(pipe.read().decode().splitlines(), aside=True)
            if commit:
                disk.commit()
            disk.cut()
            wrong = after(root, expected)
        finally:
            disk.unmount()
        yield k, wrong


def tried(task: tuple[str, str, tuple[str, ...]]) -> tuple[int, list[str]]:
    """(points, what was wrong) of one sequence on one kind of file system."""
    folder, kind, sequence = task
    count, wrong = 0, []
    template = prepared(Path(folder), kind)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for commit in (False, True):
            for k, found in cuts(template, Path(own), sequence, commit=commit):
                count += 1
                when = "after a commit" if commit else "at once"
                wrong += [f"{kind}, {' '.join(sequence)}, cut at change {k} {when}: {words}" for words in found]
    return count, wrong


_prepared: dict[str, Disk] = {}


def prepared(folder: Path, kind: str) -> Disk:
    """A spool at rest on a disk that is not mounted; one in each process that asks."""
    if kind not in _prepared:
        disk = Disk(kind, folder / f"{kind}-{os.getpid()}")
        disk.mount()
        try:
            build(disk.at / "spool", True, aside=True)
        finally:
            disk.unmount()
        _prepared[kind] = disk
    return _prepared[kind]


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    longest, kinds = (1, KINDS[:1]) if quick else (2, KINDS)
    count = violations = skipped = 0
    points: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="spooltop-power-", dir=scratch()) as folder:
        tasks = []
        for kind in kinds:
            if why := missing(kind, Path(folder)):
                say(f"{kind}: {why}")
                skipped += POINTS[longest]
            else:
                tasks += [(folder, kind, sequence) for sequence in sequences(longest)]
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
            for number, ((_, kind, _), (tried_points, wrong)) in enumerate(zip(tasks, pool.map(tried, tasks), strict=True), 1):
                count += tried_points
                points[kind] += tried_points
                violations += len(wrong)
                for words in wrong:
                    say(words)
                if number % 14 == 0:
                    say(f"{number} of {len(tasks)}, {count:,} power cuts")
    explained = f"{len(sequences(longest))} sequences, cut at once and after a commit; "
    explained += ", ".join(f"{kind} {number:,}" for kind, number in points.items())
    return Figure(NAME, BAR, count, violations, skipped, explained)
