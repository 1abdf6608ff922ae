"""Every sequence of up to two operations, a power cut after every change that it makes, by the model of ``pagecache``."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from pathlib import Path

from spooltop.errors import SpooltopError
from spooltop.model.vocabulary import Action
from tests.scratch import scratch

from .crash import sequences
from .figures import Figure
from .operatorcut import WORK, operator_cuts
from .pagecache import Disk, RecordingFiles
from .world import Expected, World, after, build

__all__ = ["BAR", "NAME", "cuts", "run"]

NAME = "power cut after every change, in a model of what the disk holds"
BAR = "0 confirmed lost, 0 acked come back, 0 incomplete"


def recorded(
    root: Path, sequence: Sequence[str], *, old: bool, fail_sync: int, kind: type[RecordingFiles]
) -> tuple[RecordingFiles, int]:
    """Records the events of the sequence. Returns the file operations and the number of the event at which the last operation
    began."""
    files = kind(fail_sync=fail_sync, old=old)
    world = World(root, files, True, files.tell)
    began = 0
    try:
        for operation in sequence:
            began = len(files.events)
            world.do(operation)
    except (OSError, SpooltopError):
        if not fail_sync:
            raise
    finally:
        event_count = len(files.events)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # what is held goes back, which is told to nobody here
            world.spool.close()
        del files.events[event_count:]
    return files, began


def cuts(
    base: Path,
    sequence: Sequence[str],
    *,
    old: bool,
    fail_sync: int = 0,
    kind: type[RecordingFiles] = RecordingFiles,
) -> Iterator[tuple[int, list[str]]]:
    """(number of the event, what was wrong) for each tree that a power cut after a change of the last operation can leave.
    ``fail_sync``: the sync of that number fails; nothing is tried where there are not so many.
    ``kind`` is what does the file operations."""
    template = base / "template"
    if not template.exists():
        build(template, False, aside=True)
    world = base / "world"
    shutil.copytree(template, world)
    disk = Disk(world)
    try:
        files, began = recorded(world, sequence, old=old, fail_sync=fail_sync, kind=kind)
        if fail_sync > files.syncs:
            return
        lines: list[str] = []
        fresh = True
        for number, event in enumerate(files.events):
            if event[0] == "line":
                lines.append(str(event[1]))
                fresh = fresh or str(event[1]).partition(" ")[0].endswith("!")
            if disk.apply(event):
                fresh = True
            after_all = number + 1 == len(files.events)
            if number < began or not (fresh or after_all):
                continue
            fresh = False
            for cut in disk.cuts(number):
                root = base / "cut"
                disk.lay_out(cut, root)
                yield number, after(root, Expected(lines, aside=True))
                shutil.rmtree(root)
    finally:
        shutil.rmtree(world)
        shutil.rmtree(f"{world}.state", ignore_errors=True)


def tried(task: tuple[tuple[str, ...], bool, int]) -> tuple[int, int, list[str]]:
    """(trees, trees after a failed sync, what was wrong) of one sequence; ``task`` ends in the number of the sync that fails."""
    sequence, old, fail_sync = task
    count, wrong = 0, []
    how = f"{' without renameat2' if old else ''}{f', sync {fail_sync} failed' if fail_sync else ''}"
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        for number, found in cuts(Path(folder), sequence, old=old, fail_sync=fail_sync):
            count += 1
            wrong += [f"{' '.join(sequence)}{how}, cut after {number}: {words}" for words in found]
    return count, count if fail_sync else 0, wrong


def operated(task: tuple[tuple[Action, ...], bool, bool, bool]) -> tuple[int, int, list[str]]:
    """The same of what an operator does; no sync fails."""
    work, old, keeps_order, in_common = task
    count, wrong = 0, []
    how = f"{' without renameat2' if old else ''}{' where order is kept' if keeps_order else ''}"
    how += ", metadata in common" if in_common else ""
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        for number, found in operator_cuts(
            Path(folder), work, old=old, keeps_order=keeps_order, in_common=in_common
        ):
            count += 1
            wrong += [f"{' '.join(work)}{how}, cut after {number}: {words}" for words in found]
    return count, 0, wrong


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    chosen = sequences(1) if quick else sequences(2)
    tasks = [(sequence, old, 0) for sequence in chosen for old in (False, True)]
    tasks += [((operation,), False, number) for operation in ("put", "cursor", "release", "ack") for number in (1, 2, 3)]
    works = [(work, *how) for work in (WORK[:1] if quick else WORK) for how in product((False, True), repeat=3)]
    count = failed = violations = 0
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for trees, after_failure, wrong in chain(pool.map(tried, tasks), pool.map(operated, works)):
            count += trees
            failed += after_failure
            violations += len(wrong)
            for words in wrong:
                say(words)
    explained = f"{len(chosen)} sequences, with and without `renameat2`; {failed:,} of them after a sync that failed; "
    explained += f"{len(works) // 8} of an operator, also where the order of changes is kept, and with metadata in common"
    return Figure(NAME, BAR, count, violations, explained=explained)
