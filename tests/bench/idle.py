"""What the dashboard costs: processor and bytes to the terminal at rest, time to the first truth, beside a bare Textual app.

    python -m tests.bench.idle [messages in new, default 1000] [seconds a measurement, default 20]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from spooltop.engine import Spool
from tests.whole.terminal import SPOOLTOP, Terminal

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
        screen.collect(4.0)
        process = psutil.Process(screen.process.pid)
        before = process.cpu_times()
        written = screen.collect(seconds)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return 100 * used / seconds, written / seconds, process.memory_info().rss


def main(messages: int = 1000, seconds: float = 20.0) -> None:
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-"))
    try:
        with Spool.create(str(folder / "spool"), durable=False) as spool:
            spool.put_many((b"%d" % number for number in range(messages)), source="bench")
        bare = (sys.executable, "-c", FLOOR)
        ours = (*SPOOLTOP, str(folder / "spool"))
        new = str(folder / "spool" / "new")
        empty = (*SPOOLTOP, str(folder / "empty"))
        Spool.create(str(folder / "empty"), durable=False).close()
        painted = [(first_anything(bare), first_anything(ours)) for _ in range(10)]
        runs = [
            (first_truth(bare, "READY") + listed(new), first_truth(ours, f"new {messages:,} "), first_truth(ours, "live · as of"))
            for _ in range(5)
        ]
        print(f"{messages:,} messages in new; {seconds:g} s a measurement; medians of 5 pairs, spread in brackets")
        print("| | bare Textual | spooltop | ratio |")
        print("|---|---|---|---|")
        floor_first, first = (statistics.median(one[place] for one in painted) * 1000 for place in (0, 1))
        print(f"| anything on the screen | {floor_first:.0f} ms | {first:.0f} ms | {first / floor_first:.2f} |")
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
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:2]), *(float(word) for word in sys.argv[2:3]))
