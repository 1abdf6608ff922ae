"""Cost of a command that looks once: its start beside an interpreter that does nothing, a large box beside ``ls -f``.

    python -m tests.bench.start [runs, default 20] [--large N, default 1000000] [--script PATH] [--dir PATH]

All commands of a table take turns. Processor time is user and system time of the process. ``--script`` is an installed
``spooltop``, whose interpreter stands beside it; without it ``python -m spooltop`` of this tree is measured.
"""

from __future__ import annotations

import compileall
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import spooltop
from spooltop.engine import CursorFile, Spool

from .directories import arguments, filled

WAITING = 1_000
CLAIMS = 3
HELD_SINCE = re.compile(r"(?<=\.)[0-9]{16}(?=:)")
"""The time in the name of a claim."""
HOUR = 3_600_000_000


def once(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of wall clock and of the processor for one run of ``command``."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime


def table(commands: Mapping[str, Sequence[str]], runs: int) -> None:
    """Prints the medians of ``runs`` turns. The first command is the floor."""
    floor, *_ = commands
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            one = once(command)
            if turn:  # the first fills the caches
                took[name].append(one)
    print(f"| median of {runs} | wall | ratio | processor | ratio |")
    print("|---|---|---|---|---|")
    medians = {name: [statistics.median(column) for column in zip(*those, strict=True)] for name, those in took.items()}
    for name, (wall, used) in medians.items():
        ratios = wall / medians[floor][0], used / medians[floor][1]
        print(f"| {name} | {1000 * wall:,.0f} ms | {ratios[0]:.1f} | {1000 * used:,.0f} ms | {ratios[1]:.1f} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("--large", type=int, default=1_000_000, metavar="N", help="messages in the large box")
    parser.add_argument("--script", type=Path, help="an installed spooltop")
    args = parser.parse_args()
    compileall.compile_dir(str(Path(spooltop.__file__).parent), quiet=1)  # as what is installed is: a start does not compile
    python = sys.executable if args.script is None else str(args.script.parent / "python")
    command = (python, "-m", "spooltop") if args.script is None else (str(args.script),)
    with filled(args.dir, {"bench": WAITING}) as plain, filled(args.dir, {"bench": WAITING}) as own, \
            filled(args.dir, {"bench": WAITING}) as long, filled(args.dir, {"bench": WAITING}) as foreign:  # fmt: skip
        for path in (plain, own, long, foreign):
            CursorFile(str(path / "cursors.json")).advance("bench", 17)
        for number in range(CLAIMS):
            (foreign / "cur" / f"{1795222801446548 + number}.4290.vm:2,P{os.getpid()}").touch()
        with Spool(str(own)) as spool, Spool(str(long)) as other:
            held = [each.claim() for each in (spool, other) for _ in range(CLAIMS)]
            assert all(held)
            for claim in list((long / "cur").iterdir()):
                claim.rename(claim.with_name(HELD_SINCE.sub(lambda at: str(int(at[0]) - HOUR), claim.name)))
            print(f"{WAITING:,} messages in new, cursors.json; {CLAIMS} claims where named; psutil describes who holds them long")
            table(
                {
                    "`python -c pass`": (python, "-c", "pass"),
                    "`python -I -c pass`": (python, "-I", "-c", "pass"),
                    "`python -S -c pass`": (python, "-S", "-c", "pass"),
                    "`--help`": (*command, "--help"),
                    "`status`": (*command, "status", str(plain)),
                    "`status --json`": (*command, "status", str(plain), "--json"),
                    "`status`, own claims of a running consumer": (*command, "status", str(own)),
                    "`status`, own claims held for an hour": (*command, "status", str(long)),
                    "`status`, foreign claims of one": (*command, "status", str(foreign)),
                    "`check`": (*command, "check", str(plain), "-c", "claims-dead"),
                    "`ls -n 10`": (*command, "ls", str(plain), "-n", "10"),
                },
                args.runs,
            )
    with filled(args.dir, {"bench": args.large}) as large:
        print(f"\n{args.large:,} messages in new")
        new, runs = str(large / "new"), max(3, args.runs // 4)
        table({"`ls -f` of `new`": ("ls", "-f", new), "`status`": (*command, "status", str(large))}, runs)


if __name__ == "__main__":
    main()
