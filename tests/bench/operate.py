"""Cost of an operation beside a bare loop of rename(2) over as many messages, and the memory that a plan takes.

    python -m tests.bench.operate [messages, default 20000] [rounds, default 5] [--dir PATH] [--only ACTION …]
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.names import in_cur
from spooltop.engine.presence import PresenceLock
from spooltop.model.plan import Outcome
from spooltop.model.selection import Selection
from spooltop.model.vocabulary import Action, Box

from .directories import arguments, kind

CIRCLES = (
    ((Action.REQUEUE, Box.CUR),),
    ((Action.PURGE, Box.NEW), (Action.EMPTY, Box.TRASH)),
    ((Action.HOLD, Box.NEW), (Action.RELEASE, Box.HELD), (Action.PURGE, Box.NEW), (Action.RESTORE, Box.TRASH)),
)
"""Actions applied to the messages of one spool, one after the other."""
WEIGHED = 20_000
"""Messages of which a plan is weighed at most: to count every byte takes many times as long."""


def fill(path: Path, count: int) -> None:
    with Spool.create(str(path), durable=False):
        pass
    new = path / "new"
    for number in range(count):
        (new / f"{1795222800000000 + number:016d}.P4290R{number:016x}.bench").write_bytes(b"")


def claim_all(path: Path) -> None:
    """Claims everything, like a consumer that dies with all of it."""
    pid = os.fork()
    if pid == 0:
        with SpoolDirs(path) as dirs:
            token = PresenceLock.take(dirs, now=1.0).token
            for place, name in enumerate(sorted(os.listdir(path / "new"))):
                os.rename(path / "new" / name, path / "cur" / in_cur(name, token, 1795222800000000 + place, 4290))
            os._exit(0)
    os.waitpid(pid, 0)


def floor(path: Path, count: int) -> float:
    """Seconds of a loop that moves ``count`` files there and nothing else."""
    bare = Path(tempfile.mkdtemp(dir=path.parent))
    try:
        fill(bare / "s", count)
        source, target = (os.open(bare / "s" / box, os.O_RDONLY) for box in ("new", "cur"))
        names = os.listdir(source)
        began = time.perf_counter()
        for name in names:
            os.rename(name, f"{name}:2,P4290", src_dir_fd=source, dst_dir_fd=target)
        took = time.perf_counter() - began
        os.close(source)
        os.close(target)
        return took
    finally:
        shutil.rmtree(bare)


def applied(control: Control, path: Path, action: Action, box: Box, count: int) -> tuple[float, float, float]:
    """Seconds of the floor, which is taken just before and just after, to plan and to do it."""
    began = time.perf_counter()
    plan = control.plan(action, Selection(box=box, everything=True))
    planned = time.perf_counter() - began
    bare = floor(path, count)
    began = time.perf_counter()
    result = control.apply(plan)
    took = time.perf_counter() - began
    assert result.count(Outcome.DONE) == count, result.items[:3]
    return (bare + floor(path, count)) / 2, planned, took


def weight(control: Control) -> tuple[int, int]:
    """(bytes that a plan keeps, most bytes while it is made)."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    plan = control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
    assert plan.count
    gc.collect()
    kept, most = tracemalloc.get_traced_memory()
    del plan
    gc.collect()
    without, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept - without, most - before


def wanted(circle: tuple[tuple[Action, Box], ...], only: set[Action] | None) -> tuple[tuple[Action, Box], ...]:
    """Returns the part of ``circle`` to be done: the actions in ``only``, and those that come before them."""
    if only is None:
        return circle
    return circle[: 1 + max((place for place, (action, _) in enumerate(circle) if action in only), default=-1)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--only", nargs="+", type=Action, metavar="ACTION")
    args = parser.parse_args()
    count, rounds = args.count, args.rounds
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    times: dict[Action, list[tuple[float, float, float]]] = {}
    try:
        for turn in range(rounds):
            left = None if args.only is None else set(args.only)
            for number, circle in enumerate(CIRCLES):
                actions = wanted(circle, left)
                if not actions:
                    continue
                path = folder / f"{turn}.{number}"
                fill(path, count)
                with open_control(str(path), watch=False) as control:
                    for action, box in actions:
                        if action is Action.REQUEUE:
                            claim_all(path)
                        times.setdefault(action, []).append(applied(control, path, action, box, count))
                    left = None if left is None else left - {action for action, _ in actions}
                shutil.rmtree(path)
        print(f"{count:,} messages, rounds: {rounds}, on {kind(folder)}; medians, the ratio's spread in brackets")
        print("| | bare rename loop | to do it | ratio | to plan it |")
        print("|---|---|---|---|---|")
        for action, taken in times.items():
            bare, planned, took = (statistics.median(column) for column in zip(*taken, strict=True))
            ratios = sorted(one / done for one, _, done in taken)
            print(
                f"| {action} | {bare:.3f} s | {took:.3f} s | {statistics.median(ratios):.2f} "
                f"({ratios[0]:.2f}–{ratios[-1]:.2f}) | {planned:.3f} s |"
            )
        path = folder / "weight"
        count = min(count, WEIGHED)
        fill(path, count)
        claim_all(path)
        with open_control(str(path), watch=False) as control:
            kept, most = weight(control)
        print(f"of {count:,} a plan keeps {kept / count:.0f} bytes an item, at most {most / count:.0f} while it is made")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
