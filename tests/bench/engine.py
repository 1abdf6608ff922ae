"""Cost of the engine beside the bare system calls, and the effect of depth on it.

    python -m tests.bench.engine [--quick] [--growth] [--dir PATH]

A ratio is the floor's time by ours, of two blocks of one turn; blocks take turns in the order floor, ours, ours, floor. The
result is the median of the turns, with the lower and upper quartiles in brackets.

Run by root, it measures on a new ext4 that nobody else writes to: a group commit waits for everything that was written on its
file system, and ext4 takes ten times as long to find a free inode if thousands of files were deleted within the last minute.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from spooltop.engine import Spool

from ..reliability.disks import Disk
from .directories import kind
from .engine_floor import BareLoop, CompiledLoop
from .engine_growth import grow

SIZE = 1024
GROUP = 1000


@dataclass(frozen=True)
class Bounds:
    """``turns`` of blocks of ``count`` messages, ``durable`` in a block with syncs; ``depth`` and ``moved`` of growth."""

    turns: int
    count: int
    durable: int
    depth: int
    moved: int


QUICK = Bounds(15, 500, 50, 100_000, 20_000)
FULL = Bounds(31, 500, 100, 1_000_000, 200_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller blocks, a tenth of the depth")
    parser.add_argument("--growth", action="store_true", help="only what depth costs")
    parser.add_argument("--dir", action="append", help="where to measure, more than one allowed (/dev/shm and a new ext4)")
    asked = parser.parse_args()
    bounds = QUICK if asked.quick else FULL
    print(f"{SIZE:,} bytes a message; medians, quarters in brackets; a ratio over 1 is faster than the floor.\n")
    with ExitStack() as stack:
        places = [(kind(one), Path(one)) for one in asked.dir or ("/dev/shm",)]
        if not asked.dir:
            own = _own_disk(stack)
            places.append((kind("."), Path(".")) if own is None else ("ext4, new and of its own", own))
        if not asked.growth:
            for words, place in places:
                _costs(place, bounds, words)
        words, place = places[0]
        print(f"From 1,000 to {bounds.depth:,} deep, over {bounds.moved:,} messages, on {words}:\n")
        grow(place, bounds.depth, bounds.moved)


def _own_disk(stack: ExitStack) -> Path | None:
    """A new ext4 that nobody else writes to; None where it cannot be mounted."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-bench-", dir=".")))
    try:
        disk = Disk("ext4", folder, size=2 << 30)
        disk.mount()
    except OSError as error:
        print(f"skipped, an ext4 of its own: {error}\n")
        return None
    stack.callback(disk.unmount)
    return disk.at


def _costs(place: Path, bounds: Bounds, words: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=place))
    try:
        floor = BareLoop(folder / "bare", SIZE)
        compiled = CompiledLoop(folder, folder / "c")
        with Spool.create(folder / "spool", durable=False) as spool:
            data = b"x" * SIZE

            def put() -> float:
                began = perf_counter()
                for _ in range(bounds.count):
                    spool.put(data)
                return perf_counter() - began

            def take() -> float:
                began = perf_counter()
                for claim in spool.claims():
                    _ = claim.data
                    claim.ack()
                return perf_counter() - began

            def put_durable() -> float:
                began = perf_counter()
                for _ in range(bounds.durable):
                    spool.put(data, durable=True)
                return perf_counter() - began

            def put_group() -> float:
                began = perf_counter()
                spool.put_many([data] * GROUP, durable=True)
                return (perf_counter() - began) * bounds.durable / GROUP

            print(f"On {words}:\n\n| | bar | ratio | µs a message | floor |\n|---|---|---|---|---|")
            puts, takes, in_c = [], [], []
            for turn in range(bounds.turns + 1):
                mine: list[tuple[float, float]] = []
                bare: list[tuple[float, float]] = []
                for ours in (False, True, True, False):
                    if ours:
                        mine.append((put(), take()))
                    else:
                        bare.append((floor.put(bounds.count), floor.take()))
                if turn:  # the first warms up
                    puts.append((sum(one for one, _ in bare) / 2, sum(one for one, _ in mine) / 2))
                    takes.append((sum(one for _, one in bare) / 2, sum(one for _, one in mine) / 2))
                    if compiled.program is not None:
                        in_c.append(compiled.run(bounds.count, SIZE))
            _row("put, not durable", 0.6, puts, bounds.count)
            _row("claim, read and ack", 0.55, takes, bounds.count)
            if compiled.program is not None:
                _row("put, beside C", None, [(c, ours) for (c, _), (_, ours) in zip(in_c, puts, strict=True)], bounds.count)
                pairs = [(c, ours) for (_, c), (_, ours) in zip(in_c, takes, strict=True)]
                _row("claim, read, ack, beside C", None, pairs, bounds.count)
            else:
                print("| beside C | | skipped: no compiler | | |")
            if kind(folder) not in ("tmpfs", "ramfs"):
                few = max(5, bounds.turns // 3)
                tidy = lambda: (floor.take(), take())  # noqa: E731
                singles = _pairs(few, lambda: floor.put(bounds.durable, durable=True), put_durable, tidy)
                _row("put, durable", 0.9, singles, bounds.durable)
                groups = _pairs(few, put_durable, put_group, take)
                _row("put_many of 1,000 beside the single put, durable", 8.0, groups, bounds.durable)
            else:
                print("| durable | | skipped: nothing to sync on this file system | | |")
            print()
        floor.close()
    finally:
        shutil.rmtree(folder)


def _pairs(
    turns: int, floor: Callable[[], float], ours: Callable[[], float], tidy: Callable[[], object]
) -> list[tuple[float, float]]:
    out = []
    for _ in range(turns):
        times = [floor(), ours(), ours(), floor()]
        tidy()
        out.append(((times[0] + times[3]) / 2, (times[1] + times[2]) / 2))
    return out


def _row(what: str, bar: float | None, pairs: Sequence[tuple[float, float]], count: int) -> None:
    ratios = sorted(floor / ours for floor, ours in pairs)
    low, middle, high = statistics.quantiles(ratios, n=4)
    floor, ours = (statistics.median(side) * 1e6 / count for side in zip(*pairs, strict=True))
    said = "" if bar is None else f"≥ {bar:g}"
    verdict = "" if bar is None or middle >= bar else " **below**"
    print(f"| {what} | {said} | {middle:.2f} ({low:.2f}–{high:.2f}){verdict} | {ours:.1f} | {floor:.1f} |")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
