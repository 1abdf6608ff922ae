"""The whole cycle (put, claim, read, ack) of processes that share a queue, beside every other queue of the same durability.

    python -m tests.bench.peers [--quick] [--dir PATH]

The others are no dependency. What is not installed is skipped: pip install dirq persist-queue litequeue diskcache huey

A queue is filled to its depth first; then as many are taken as are put, so that the depth stays. The first of those at a depth
have the size of what is put, the rest is short. Readers have looked once before a block begins.
Blocks of all queues take turns; a ratio is one of two blocks of the same turn.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .directories import kind
from .peers_block import Block, payload, run
from .peers_queues import PEERS, Peer

WORKERS = ((1, 1), (1, 4), (4, 4))


@dataclass
class Row:
    """Measurements of one peer in one cell."""

    peer: Peer
    count: int = 0
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Cell:
    """Measurements at a depth with messages of ``size`` bytes by ``workers`` ("writers·readers")."""

    workers: str
    size: int
    depth: int
    rows: list[Row]


@dataclass(frozen=True)
class Bounds:
    """``seconds`` a block is meant to take, ``turns`` of all queues, the most readers take in a block."""

    seconds: float
    turns: int
    sizes: tuple[int, ...]
    depths: tuple[int, ...]
    most: int = 4000


QUICK = Bounds(0.12, 3, (1024,), (1000,))
FULL = Bounds(0.35, 5, (1024, 65536), (1000, 100_000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1 KB at depth 1,000 only, under a minute")
    parser.add_argument("--dir", help="where the queues are made: the file system that is measured")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    bounds = QUICK if args.quick else FULL
    began = time.monotonic()
    here = [peer for peer in PEERS if not peer.package or importlib.util.find_spec(peer.package)]
    root = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    try:
        print(f"On {kind(root)}; a cell is spooltop by the queue of that line; medians of {bounds.turns} turns.\n")
        cells = []
        for depth in bounds.depths:
            for size in bounds.sizes:
                cells += _cell(root, here, size, depth, bounds)
        _sum(here, cells)
    finally:
        shutil.rmtree(root)
    for peer in PEERS:
        if peer not in here:
            print(f"skipped, not installed: {peer.name} (pip install {peer.package.replace('persistqueue', 'persist-queue')})")
    print(f"took {time.monotonic() - began:.0f} s")


def _cell(root: Path, peers: list[Peer], size: int, depth: int, bounds: Bounds) -> list[Cell]:
    paths = {peer: root / f"q{number}" for number, peer in enumerate(peers)}
    for peer, path in paths.items():
        _filled(peer, path, size, depth)
    cells = []
    for writers, readers in WORKERS:
        rows = [Row(peer) for peer in peers]
        for row in rows:
            tag = f"c{writers}{readers}"
            probe = run(row.peer, paths[row.peer], writers, readers, 20, size, tag)
            row.count = int(max(5, min(bounds.most, probe.rate * bounds.seconds / readers)))
        for turn in range(bounds.turns):
            for row in rows:
                tag = f"{turn}{writers}{readers}"
                row.blocks.append(run(row.peer, paths[row.peer], writers, readers, row.count, size, tag))
        cells.append(Cell(f"{writers}·{readers}", size, depth, rows))
        print(f"{writers} and {readers}, {size >> 10} KB, depth {depth:,}", file=sys.stderr, flush=True)
    for path in paths.values():
        for one in path.parent.glob(path.name + "*"):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    return cells


def _filled(peer: Peer, path: Path, size: int, depth: int) -> None:
    full = min(depth, 8000 if size <= 1024 else 3000)

    def messages() -> Iterator[bytes]:
        for number in range(depth):
            yield payload(f"fill.{number}", size if number < full else 32)

    pid = os.fork()  # nothing that a queue keeps open is inherited by those that are measured
    if pid == 0:
        code = 1
        try:
            peer.open(path).fill(messages())
            code = 0
        except BaseException as error:  # noqa: BLE001  it is said, and the parent goes on without
            print(f"{peer.name}: not filled: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    os.waitpid(pid, 0)


def _sum(peers: list[Peer], cells: Sequence[Cell]) -> None:
    """Prints a table for each durability: one line per queue, one column per cell."""
    head = [f"{cell.workers}, {cell.size >> 10} KB, {cell.depth:,}" for cell in cells]
    for power in (False, True):
        group = [peer for peer in peers if peer.power is power]
        print(f"A put survives {'a power cut' if power else 'SIGKILL'} (columns: writers·readers, size, depth):\n")
        print(f"| queue | {' | '.join(head)} | what it gives |")
        print(f"|---|{'---:|' * len(head)}---|")
        for peer in group:
            said = [_compared(peer, group[0], cell) for cell in cells]
            rows = [row for cell in cells for row in cell.rows if row.peer is peer]
            print(f"| {peer.name} | {' | '.join(said)} | {peer.gives}{_troubles(rows)} |")
        print()


def _compared(peer: Peer, own: Peer, cell: Cell) -> str:
    found = {row.peer: row.blocks for row in cell.rows}
    if peer is own:
        return f"{statistics.median(block.rate for block in found[own]):,.0f}/s"
    ratios = sorted(mine.rate / theirs.rate for mine, theirs in zip(found[own], found[peer], strict=True) if theirs.rate)
    if not ratios:
        return "none done"
    middle = statistics.median(ratios)
    words = f"{middle:.1f}× ({ratios[0]:.1f}–{ratios[-1]:.1f})"
    return words if middle >= 1 else f"**{words}**"


def _troubles(rows: Sequence[Row]) -> str:
    blocks = [block for row in rows for block in row.blocks]
    twice = sum(block.twice for block in blocks)
    taken = sum(block.taken for block in blocks)
    errors = [error for block in blocks for error in block.errors]
    said = f"; **{twice:,} of {taken:,} handed out twice**" if twice else ""
    if errors:
        said += f"; **{len(errors)} processes failed: {errors[0].replace('|', '/')}**"
    return said


if __name__ == "__main__":
    main()
