"""Cost of one turn (register, be the head, leave; or lock, unlock) of one process alone, beside other locks in one run.

    python -m tests.bench.tickets [--quick] [--dir PATH]

The others are not dependencies. Those not installed are skipped: pip install stouputils portalocker. Blocks take turns; a ratio
is of two blocks of the same turn.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import filelock

from spooltop.engine.tickets import BaseTicketQueue, FileTicketQueue, RedisTicketQueue
from tests.reliability.tickets import redis_server

Turn = Callable[[], None]


def through(queue: Any) -> Turn:
    def turn() -> None:
        ticket, member = queue.register()
        if not queue.is_head(ticket):
            raise SystemExit(f"{type(queue).__name__}: alone in its queue and not the head")
        queue.remove(member)

    return turn


def locking(lock: Any) -> Turn:
    def turn() -> None:
        with lock:
            return

    return turn


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    parser.add_argument("--dir", help="where the queues are made: the file system that is measured")
    args = parser.parse_args()
    count, blocks = (100, 5) if args.quick else (1_000, 15)
    skipped: list[str] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-bench-", dir=args.dir))
        own: BaseTicketQueue = FileTicketQueue(f"{folder}/own")
        turns: dict[str, Turn] = {"FileTicketQueue": through(own)}
        others = _module("stouputils.lock.queue")
        if others is None:
            skipped.append("stouputils' ticket queues")
        else:
            turns["stouputils, FileTicketQueue"] = through(others.FileTicketQueue(f"{folder}/other"))
        turns["filelock, FileLock"] = locking(filelock.FileLock(f"{folder}/a.lock"))
        turns["filelock, SoftFileLock"] = locking(filelock.SoftFileLock(f"{folder}/b.lock"))
        port = _module("portalocker")
        if port is None:
            skipped.append("portalocker")
        else:
            turns["portalocker, Lock"] = locking(port.Lock(f"{folder}/c.lock"))
        socket = stack.enter_context(redis_server())
        if socket is None:
            skipped.append("Redis: no redis-server, or no redis for Python")
        else:
            client: Any = stack.enter_context(_module("redis").Redis(unix_socket_path=socket))
            turns["RedisTicketQueue"] = through(RedisTicketQueue("own", client))
            if others is not None:
                turns["stouputils, RedisTicketQueue"] = through(others.RedisTicketQueue("other", client))
        taken: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(blocks):
            for name, turn in turns.items():
                began = time.perf_counter()
                for _ in range(count):
                    turn()
                taken[name].append((time.perf_counter() - began) / count)
    print("| lock | µs a turn, median | FileTicketQueue costs |\n|---|---:|---|")
    for name, times in taken.items():
        ratios = sorted(mine / theirs for mine, theirs in zip(taken["FileTicketQueue"], times, strict=True))
        ratio = "" if name == "FileTicketQueue" else f"{statistics.median(ratios):.2f}× ({ratios[0]:.2f}–{ratios[-1]:.2f})"
        print(f"| {name} | {statistics.median(times) * 1e6:.0f} | {ratio} |")
    for name in skipped:
        print(f"skipped, not installed: {name}")


if __name__ == "__main__":
    main()
