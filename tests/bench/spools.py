"""Cost of the Spools view: at rest beside a bare Textual app, and the time to the depth of all spools beside ``ls -f``.

    python -m tests.bench.spools [spools, default 200] [messages in each, default 1000] [seconds, default 30] [--dir PATH]
"""

from __future__ import annotations

import compileall
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import spooltop
from spooltop.engine import Spool
from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments
from .idle import FLOOR, at_rest


@contextmanager
def several(where: str | None, spools: int, messages: int) -> Iterator[Path]:
    """A directory of ``spools`` with so many messages each, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=where))
    try:
        for number in range(spools):
            with Spool.create(str(folder / f"q{number:04}"), durable=False) as spool:
                spool.put_many(b"x" for _ in range(messages))
        yield folder
    finally:
        shutil.rmtree(folder)


def all_depths(folder: Path, spools: int, depth: str) -> float:
    """Seconds from the start of the process until each line shows its depth, in a window that has room for all."""
    began = time.monotonic()
    with Terminal([*SPOOLTOP, str(folder)], cols=80, rows=spools + 5) as screen:
        screen.wait_for(lambda text: sum(f" {depth} " in line for line in text.splitlines() if " q" in line[:5]) == spools, 120)
        return time.monotonic() - began


def listed(folder: Path) -> float:
    """Seconds that ``ls -f`` takes of all boxes."""
    began = time.monotonic()
    subprocess.run(["sh", "-c", 'ls -f "$1"/*/*', "sh", str(folder)], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("spools", nargs="?", type=int, default=200)
    parser.add_argument("messages", nargs="?", type=int, default=1000)
    parser.add_argument("seconds", nargs="?", type=float, default=30.0)
    args = parser.parse_args()
    compileall.compile_dir(str(Path(spooltop.__file__).parent), quiet=1)
    bare = (sys.executable, "-c", FLOOR)
    with several(args.dir, args.spools, args.messages) as folder, several(args.dir, args.spools, 0) as empty:
        depth = f"{args.messages:,}"
        runs = [(listed(folder), all_depths(empty, args.spools, "0"), all_depths(folder, args.spools, depth)) for _ in range(5)]
        ls, start, shown = (statistics.median(column) for column in zip(*runs, strict=True))
        ratios = sorted((run[2] - run[1]) / run[0] for run in runs)
        floor_cpu, floor_bytes, _ = at_rest(bare, "READY", args.seconds)
        cpu, written, memory = at_rest((*SPOOLTOP, str(folder)), f"{args.spools} spools", args.seconds)
    print(f"{args.spools} spools of {args.messages:,} messages; {args.seconds:g} s a measurement; medians of 5 runs")
    print("| | floor | spooltop | ratio |")
    print("|---|---|---|---|")
    print(
        f"| all depths on the screen, beyond the same with empty spools ({start:.2f} s) | {ls:.2f} s, `ls -f` of all boxes "
        f"| {shown - start:.2f} s | {statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) |"
    )
    print(f"| at rest, of a core | {floor_cpu:.2f} %, bare Textual | {cpu:.2f} % | |")
    print(f"| at rest, to the terminal | {floor_bytes:.0f} B/s | {written:.0f} B/s | |")
    print(f"| resident memory | | {memory >> 20} MB | |")


if __name__ == "__main__":
    main()
