"""Cost of whole commands that change many messages, beside a bare loop of lstat(2) and rename(2) over as many.

    python -m tests.bench.operate [messages, default 100000] [rounds, default 3] [--consumers N] [--dir PATH] [--only COMMAND …]
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from spooltop.engine import Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.names import in_cur
from spooltop.engine.presence import PresenceLock

from .directories import arguments, kind

COMMANDS = {
    "requeue": ("requeue", "--verdict", "dead"),
    "hold": ("hold", "--box", "new"),
    "release": ("release",),
    "purge": ("purge", "--box", "new"),
    "restore": ("restore", "--box", "trash"),
    "undo": ("undo",),
}
"""Commands applied to the messages of one spool, one after the other: each moves all of them, or takes back the one before."""
AROUND = {"release": "hold", "restore": "purge", "undo": "requeue"}
"""The command that has to come before another."""
AGAIN = ", once more"
"""Marks the second run of a command over the same messages: their names have attempts, and the journal has parts to check."""
BATCH = 1000
"""Messages after which the floor of what comes out of a folder reads metadata once."""


class Run(NamedTuple):
    """A whole command: seconds, the most bytes that it had in memory, and the seconds that it kept a processor busy."""

    seconds: float
    most: int
    processor: float


def fill(path: Path, count: int) -> None:
    with Spool.create(str(path), durable=False):
        pass
    new = os.open(path / "new", os.O_RDONLY)
    for number in range(count):
        name = f"{1795222800000000 + number:016d}.P4290R{number:016x}.bench"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=new))
    os.close(new)


def claim_all(path: Path, consumers: int = 1) -> None:
    """Claims everything, like consumers that die with all of it."""
    pid = os.fork()
    if pid == 0:
        with SpoolDirs(path) as dirs:
            token, new, cur = "", *(os.open(path / box, os.O_RDONLY) for box in ("new", "cur"))
            waiting = sorted(os.listdir(new))
            share = -(-len(waiting) // consumers)
            for place, name in enumerate(waiting):
                if place % share == 0:
                    presence = PresenceLock.take(dirs, now=float(place))
                    token = presence.token
                    if consumers > 1:
                        os.close(presence.fd)
                os.rename(name, in_cur(name, token, 1795222800000000 + place, 4290), src_dir_fd=new, dst_dir_fd=cur)
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status


def floor(path: Path, count: int, *, reads_metadata: bool = False) -> float:
    """Seconds of a loop that lists ``count`` files, looks at each, moves it there, and nothing else."""
    bare = Path(tempfile.mkdtemp(dir=path.parent))
    try:
        fill(bare / "s", count)
        metadata = bare / "meta"
        metadata.write_text('{"origin":"new"}')
        source, target = (os.open(bare / "s" / box, os.O_RDONLY) for box in ("new", "cur"))
        began = time.perf_counter()
        for place, name in enumerate(os.listdir(source)):
            if reads_metadata and place % BATCH == 0:
                metadata.read_text()
            os.lstat(name, dir_fd=source)
            os.rename(name, f"{name}:2,P4290", src_dir_fd=source, dst_dir_fd=target)
        took = time.perf_counter() - began
        os.close(source)
        os.close(target)
        return took
    finally:
        shutil.rmtree(bare)


def looked_at(path: Path) -> float:
    """Seconds that it takes to list the claims and to look at each."""
    began = time.perf_counter()
    cur = os.open(path / "cur", os.O_RDONLY)
    with os.scandir(cur) as entries:
        for entry in entries:
            os.lstat(entry.name, dir_fd=cur)
    os.close(cur)
    return time.perf_counter() - began


def ended(path: Path, words: tuple[str, ...]) -> Run:
    """Runs ``spooltop`` with ``words`` to its end."""
    command = (sys.executable, "-m", "spooltop", words[0], str(path), *words[1:])
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - began
    wanted = 3 if "--dry-run" not in words and "--yes" not in words else 0
    assert process.returncode == wanted, printed[-2000:]
    return Run(took, used.ru_maxrss << 10, used.ru_utime + used.ru_stime)


def words_of(name: str, path: Path) -> tuple[str, ...]:
    """The words of the command ``name``, but for the path."""
    if name != "undo":
        return (*COMMANDS[name], "ALL") if name != "requeue" else COMMANDS[name]
    command = (sys.executable, "-m", "spooltop", "ops", "--json", str(path))
    newest = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.partition(b"\n")[0]
    return "undo", str(json.loads(newest)["operation"])


def order(only: list[str] | None) -> list[str]:
    """The commands that are run, in their order: those of ``only`` and those that have to come before them."""
    if only is None:
        return ["requeue", "hold", "release", "purge", "restore", "requeue", "undo"]
    found: list[str] = []
    for name in only:
        found += [AROUND[name], name] if name in AROUND and AROUND[name] not in found else [name]
    return found


def boxes_of(path: Path) -> dict[str, int]:
    return {box: len(os.listdir(path / box)) for box in ("new", "cur")}


def measured(path: Path, count: int, consumers: int, only: list[str] | None) -> dict[str, tuple[float, Run, Run]]:
    """The floor, the plan alone and the whole of each command, over the messages of one spool."""
    found: dict[str, tuple[float, Run, Run]] = {}
    fill(path, count)
    for name in order(only):
        if name == "requeue":
            claim_all(path, consumers)
        words = words_of(name, path)
        planned = ended(path, (*words, "--dry-run"))
        reads = name in ("release", "restore", "undo")
        before = floor(path, count, reads_metadata=reads)
        done = ended(path, (*words, "--yes"))
        found[name + AGAIN if name in found else name] = ((before + floor(path, count, reads_metadata=reads)) / 2, planned, done)
        left = boxes_of(path)
        expected = {"hold": (0, 0), "purge": (0, 0), "undo": (0, count)}.get(name, (count, 0))
        assert (left["new"], left["cur"]) == expected, (name, left)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    parser.add_argument("--consumers", type=int, default=1, help="how many dead consumers hold the claims")
    parser.add_argument("--only", nargs="+", choices=tuple(COMMANDS), metavar="COMMAND")
    args = parser.parse_args()
    count = args.count
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    times: dict[str, list[tuple[float, Run, Run]]] = {}
    try:
        for turn in range(args.rounds):
            for name, one in measured(folder / str(turn), count, args.consumers, args.only).items():
                times.setdefault(name, []).append(one)
            shutil.rmtree(folder / str(turn))
        held = f" of {args.consumers:,} dead consumers" if args.consumers > 1 else ""
        print(f"{count:,} messages{held}, rounds: {args.rounds}, on {kind(folder)}; medians, the ratio's spread in brackets")
        print("| whole command | lstat and rename | the command | ratio | the plan alone | most memory |")
        print("|---|---|---|---|---|---|")
        for name, taken in times.items():
            ratios = sorted(bare / done.seconds for bare, _, done in taken)
            bare, plan, whole = (
                statistics.median(column)
                for column in zip(*((bare, planned.seconds, done.seconds) for bare, planned, done in taken), strict=True)
            )
            most = max(max(planned.most, done.most) for _, planned, done in taken)
            command, again, _ = name.partition(AGAIN)
            print(
                f"| `{' '.join(COMMANDS[command])}`{again} | {bare:.2f} s | {whole:.2f} s | {statistics.median(ratios):.2f} "
                f"({ratios[0]:.2f}–{ratios[-1]:.2f}) | {plan:.2f} s | {most / 1e6:.0f} MB |"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
