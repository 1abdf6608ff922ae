"""Puts in the long run: messages put and drained in phases, beside a bare loop that makes its drafts in one ``tmp``.

    python -m tests.bench.sustained [--phases 8] [--count 5000] [--dir PATH]

An ext4 without a journal takes the longer to find a free inode the more files were deleted within the last minutes, so that the
bare loop slows down from phase to phase; the floor is its first phase. Without ``--dir``, run by root, it measures on two new
ext4 of its own, one with a journal and one without. The bare loop and spooltop each get a file system of their own; with
``--dir`` they share one, and the pause between them (``--pause``) has to let the deleted files get old.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from spooltop.engine import Spool

from ..reliability.disks import Disk
from .directories import arguments, kind
from .engine_floor import BareLoop

SIZE = 1024
BAR = 0.5
DISK = 256 << 30
"""Size of each file system, in a sparse file. ext4 spreads directories over its flex groups, of which a small one has few."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--phases", type=int, default=8)
    parser.add_argument("--count", type=int, default=5000, help="messages in each phase")
    parser.add_argument("--pause", type=float, default=75.0, help="seconds between the bare loop and spooltop on one file system")
    asked = parser.parse_args()
    print(f"{SIZE:,} bytes a message, {asked.count:,} put and drained in each phase, not durable; put/s by phase.\n")
    if asked.dir:
        bare = bare_loop(Path(asked.dir), asked.phases, asked.count)
        time.sleep(asked.pause)
        report(f"{kind(asked.dir)}, in use", bare, spool(Path(asked.dir), asked.phases, asked.count))
        return
    for words, features in (("ext4 without a journal", ("-O", "^has_journal")), ("ext4 with a journal", ())):
        found = []
        for measure in (bare_loop, spool):
            with tempfile.TemporaryDirectory(prefix="spooltop-bench-", dir=".") as folder:
                disk = Disk("ext4", Path(folder), size=DISK, options=features)
                try:
                    disk.mount()
                except OSError as error:
                    print(f"skipped, an ext4 of its own: {error}\n")
                    return
                try:
                    found.append(measure(disk.at, asked.phases, asked.count))
                finally:
                    disk.unmount()
        report(f"{words}, new and of its own", *found)


def bare_loop(place: Path, phases: int, count: int) -> list[float]:
    """Returns messages put a second by the bare loop, by phase."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=place))
    loop = BareLoop(folder, SIZE)
    try:
        out = []
        for _ in range(phases):
            out.append(count / loop.put(count))
            loop.take()
        return out
    finally:
        loop.close()
        shutil.rmtree(folder)


def spool(place: Path, phases: int, count: int) -> list[float]:
    """Returns messages put a second by spooltop, by phase."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=place))
    data = b"x" * SIZE
    try:
        out = []
        with Spool.create(folder / "spool", durable=False) as opened:
            for _ in range(phases):
                began = perf_counter()
                for _ in range(count):
                    opened.put(data)
                out.append(count / (perf_counter() - began))
                for claim in opened.claims():
                    _ = claim.data
                    claim.ack()
        return out
    finally:
        shutil.rmtree(folder)


def report(words: str, bare: Sequence[float], ours: Sequence[float]) -> None:
    floor = bare[0]
    worst = min(ours) / floor
    print(f"On {words}:\n\n| phase | bare loop | spooltop | by the first phase of the bare loop, ≥ {BAR:g} |\n|---|---|---|---|")
    for phase, (theirs, mine) in enumerate(zip(bare, ours, strict=True), 1):
        print(f"| {phase} | {theirs:,.0f} | {mine:,.0f} | {mine / floor:.2f}{'' if mine >= BAR * floor else ' **below**'} |")
    print(f"\nWorst phase: {worst:.2f}\n", flush=True)


if __name__ == "__main__":
    main()
