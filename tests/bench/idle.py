"""Cost of the dashboard: processor and bytes to the terminal at rest, time to the first true depth, beside a bare Textual app.

    python -m tests.bench.idle [messages in new, default 1000] [seconds a measurement, default 20] [--dir PATH]
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

import spooltop
from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments, filled

PAGE_DOWN = "\x1b[6~"
SETTLED = 15.0
"""Seconds after which nothing is news any more: ages are painted every ten seconds, and looks are rarer."""

FLOOR = """
import os
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["TEXTUAL_FPS"] = "60"
from textual.app import App, ComposeResult
from textual.widgets import Static
class Hello(App):
    def compose(self) -> ComposeResult:
        yield Static("READY")
Hello().run(mouse=False)
"""


def first_truth(argv: Sequence[str], word: str) -> float:
    """Seconds from the start of the process until ``word`` stands on the screen."""
    began = time.monotonic()
    with Terminal(argv) as screen:
        screen.wait_for(word)
        return time.monotonic() - began


def first_anything(argv: Sequence[str]) -> float:
    """Seconds from the start of the process until anything can be read on the screen."""
    began = time.monotonic()
    with Terminal(argv) as screen:
        screen.wait_for(lambda text: bool(text.strip()))
        return time.monotonic() - began


def listed(folder: str) -> float:
    """Seconds that ``ls -f`` takes."""
    began = time.monotonic()
    subprocess.run(["ls", "-f", folder], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def at_rest(argv: Sequence[str], word: str, seconds: float) -> tuple[float, float, int]:
    """(per cent of a core, bytes a second, resident bytes) once it has settled."""
    with Terminal(argv) as screen:
        screen.wait_for(word)
        screen.collect(SETTLED)
        process = psutil.Process(screen.process.pid)
        before = process.cpu_times()
        written = screen.collect(seconds)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return 100 * used / seconds, written / seconds, process.memory_info().rss


def paged(argv: Sequence[str], messages: int) -> int:
    """Bytes that a page down in the list takes, 80×24; the most of ten."""
    with Terminal(argv, cols=80, rows=24) as screen:
        screen.wait_for(f"{messages:,} ", 120)
        screen.type("2")
        screen.wait_for("sorted by age", 120)
        screen.collect(3.0)
        pages = []
        for _ in range(10):
            screen.type(PAGE_DOWN)
            pages.append(screen.collect(1.0))
        return max(pages)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=1000)
    parser.add_argument("seconds", nargs="?", type=float, default=20.0)
    args = parser.parse_args()
    compileall.compile_dir(str(Path(spooltop.__file__).parent), quiet=1)  # as what is installed is: a start does not compile
    messages, seconds = args.messages, args.seconds
    with filled(args.dir, {"bench": messages}) as path, filled(args.dir, {"bench": 0}) as nothing:
        bare = (sys.executable, "-c", FLOOR)
        ours = (*SPOOLTOP, str(path))
        new = str(path / "new")
        empty = (*SPOOLTOP, str(nothing))
        python = (sys.executable, "-c", "print('READY')")
        painted = [(first_anything(bare), first_anything(ours), first_anything(python)) for _ in range(10)]
        runs = [
            (first_truth(bare, "READY") + listed(new), first_truth(ours, f" {messages:,} "), first_truth(ours, "live · as of"))
            for _ in range(5)
        ]
        print(f"{messages:,} messages in new; {seconds:g} s a measurement; medians of 5 pairs, spread in brackets")
        print("| | bare Textual | spooltop | ratio |")
        print("|---|---|---|---|")
        floor_first, first, python_first = (statistics.median(column) * 1000 for column in zip(*painted, strict=True))
        print(f"| anything on the screen | {floor_first:.0f} ms | {first:.0f} ms | {first / floor_first:.2f} |")
        print(f"| the same, beside a Python that prints | {python_first:.0f} ms | {first:.0f} ms | {first / python_first:.2f} |")
        for place, what in ((1, "true depth on the screen"), (2, "first look on the screen")):
            ratios = sorted(run[place] / run[0] for run in runs)
            print(
                f"| {what} | {statistics.median(run[0] for run in runs):.2f} s with `ls -f` of `new` "
                f"| {statistics.median(run[place] for run in runs):.2f} s "
                f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f}) |"
            )
        floor_cpu, floor_bytes, floor_memory = at_rest(bare, "READY", seconds)
        cpu, written, memory = at_rest(ours, f"{messages:,}", seconds)
        print(f"| at rest, of a core | {floor_cpu:.2f} % | {cpu:.2f} % | |")
        print(f"| at rest, to the terminal | {floor_bytes:.0f} B/s | {written:.0f} B/s | |")
        *_, memory_empty = at_rest(empty, "live · as of", 1.0)
        more = f"{(memory - memory_empty) >> 20} MB more than on an empty spool"
        print(f"| resident memory | {floor_memory >> 20} MB | {memory >> 20} MB, {more} | {memory / floor_memory:.2f} |")
        print(f"| a page down in New, 80×24 | | {paged(ours, messages):,} B | |")


if __name__ == "__main__":
    main()
