"""Cost of large and hostile cursor files: memory and time of one ``status``, beside a Python that reads the file as JSON.

    python -m tests.bench.cursor_files [seconds of rewriting, default 20] [--dir PATH]

Then the same file is rewritten five times a second while the dashboard runs: its memory before and after is measured, and the
time from Ctrl-C to its end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments

MEASURED = """
import resource, subprocess, sys, time
began = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
FLOOR = "import json, sys; json.load(open(sys.argv[1]))"
TURNS = 5


def cost(*command: str) -> tuple[float, int]:
    """(seconds, most resident MB) of a command."""
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True)
    seconds, kilobytes = done.stdout.split()
    return float(seconds), int(kilobytes) >> 10


def large(turn: int) -> str:
    """A few sources with very large sections, just below 4 MB."""
    return json.dumps({f"s{n}": {"cursor": turn, "seen": f"{turn}" * 390_000} for n in range(10)})


def many(turn: int) -> str:
    """150,000 sources that all change."""
    return json.dumps({f"source-{n}": turn for n in range(150_000)})


def plain(turn: int) -> str:
    """50,000 sources of which one changes."""
    return json.dumps({f"source-{n}": n + (turn if n == 7 else 0) for n in range(50_000)})


def nested(turn: int) -> str:
    """Section of very many small values, just below 4 MB."""
    return json.dumps({"one": {"cursor": turn, "seen": [[n % 10] for n in range(700_000)]}})


def rewritten(folder: Path, text: Callable[[int], str], seconds: float) -> tuple[int, int, float]:
    """(resident MB of the dashboard at first, at most, seconds from Ctrl-C to its end)."""
    texts = [text(turn) for turn in range(2)]
    with Terminal((*SPOOLTOP, str(folder)), cols=100, rows=30) as screen:
        screen.wait_for("imessage", 60)
        process = psutil.Process(screen.process.pid)
        first = most = process.memory_info().rss
        end, turn = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            draft = folder / "draft"
            draft.write_text(texts[turn % 2])
            draft.replace(folder / "cursors.json")
            turn += 1
            screen.collect(1 / TURNS)
            most = max(most, process.memory_info().rss)
        began = time.monotonic()
        screen.type("\x03")
        screen.wait_exit(60)
        return first >> 20, most >> 20, time.monotonic() - began


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=20.0)
    args = parser.parse_args()
    print(f"Large cursor files; rewritten {TURNS} times a second for {args.seconds:g} s; the floor is json.load")
    print("| | size | floor | `status` | ratio | memory: floor | `status` | dashboard at first | rewritten | Ctrl-C ends it |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for text in (large, many, plain, nested):
        folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
        try:
            path = folder / "cursors.json"
            path.write_text(text(0))
            floor, floor_memory = cost(sys.executable, "-c", FLOOR, str(path))
            status, memory = cost(*SPOOLTOP, "status", str(folder), "--json")
            size = path.stat().st_size
            path.write_text('{"imessage": 1}')
            first, most, left = rewritten(folder, text, args.seconds)
            print(
                f"| {text.__name__} | {size / 1e6:.1f} MB | {floor:.2f} s | {status:.2f} s | {status / floor:.1f} "
                f"| {floor_memory} MB | {memory} MB | {first} MB | {most} MB | {left:.2f} s |",
                flush=True,
            )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
