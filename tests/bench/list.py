"""A list of a million: how long until a key is answered, until the screen shows what it asked for, and until a key ends that.

    python -m tests.bench.list [messages in new, default 1000000] [--dir PATH]

The floor is a bare Textual app on which a key moves a mark, for what is seen first; ``find -printf`` of all sizes for all of it.
Memory is the most that was needed meanwhile, above that of the same dashboard on an empty spool on which the same keys are typed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments, filled
from .screen import FLOOR, latencies

TIMES = 3
"""Number of measurements of each."""
ESC = "\x1b"
SOURCES = 10
MOST = 120.0
"""Seconds that a list may take."""

Done = Callable[[str], bool]


def took(screen: Terminal, keys: str, done: Done, most: float = MOST) -> tuple[float, float]:
    """Seconds until anything changed on the screen, and until ``done`` holds of it, in which ``most`` may pass."""
    before, began = screen.text, time.monotonic()
    screen.type(keys)
    first: float | None = None
    while not done(screen.text) or screen.text == before:
        if time.monotonic() - began > most:
            raise AssertionError(f"{keys!r} did not come to its end; the screen is:\n{screen.text}")
        screen.pump(0.5)
        if first is None and screen.text != before:
            first = time.monotonic() - began
    whole = time.monotonic() - began
    return first if first is not None else whole, whole


def sorted_by(column: str) -> Done:
    """The list is there in the order of ``column``."""
    return lambda text: f"sorted by {column}" in text and _filled(text)


def matching(text: str) -> Done:
    """The list of all that matches is there, no more what matches so far."""
    return lambda shown: f"match {text}" in (head := shown.split("\n")[0]) and "sorted by" in head


def _filled(text: str) -> bool:
    return not any(line.strip(" ▌") == "…" for line in text.split("\n")[2:8])


def found_by(folder: Path) -> float:
    """Seconds that ``find -printf`` takes to tell the size of each."""
    began = time.monotonic()
    subprocess.run(["find", str(folder), "-printf", "%s %f\n"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def most(screen: Terminal) -> int:
    """The most bytes that were resident so far, proc(5)."""
    status = Path(f"/proc/{screen.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


class Floor(NamedTuple):
    """Seconds until a mark moved in a bare Textual app, and of ``find``."""

    key: float
    find: float

    def row(self, what: str, times: list[tuple[float, float]]) -> str:
        first, whole = (statistics.median(one[place] for one in times) for place in (0, 1))
        return f"| {what} | {first * 1000:.0f} ms | {first / self.key:.1f} | {whole:.2f} s | {whole / self.find:.2f} |"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=1_000_000)
    args = parser.parse_args()
    with filled(args.dir, {f"s{number}": args.messages // SOURCES for number in range(SOURCES)}) as path:
        with Terminal((sys.executable, "-c", FLOOR), cols=100, rows=24) as bare:
            bare.wait_for("READY")
            key = statistics.median(latencies(bare, 20)) / 1000
        floor = Floor(key, statistics.median(found_by(path / "new") for _ in range(TIMES)))
        print(f"{args.messages:,} messages of {SOURCES} sources in new; medians of {TIMES}")
        print("| New | something new on the screen | of the bare app's | all of it | of `find`'s |")
        print("|---|---|---|---|---|")
        print(f"| bare Textual: a mark moves; `find -printf` of all sizes | {key * 1000:.0f} ms | 1 | {floor.find:.2f} s | 1 |")
        with Terminal((*SPOOLTOP, str(path)), cols=100, rows=24) as screen:
            screen.wait_for("live · as of", 120)
            screen.type("2")
            screen.wait_for(sorted_by("age"), 120)
            listed = most(screen)
            walk(screen, floor)
            whole = most(screen)
    with filled(args.dir, {"s0": 0}) as path, Terminal((*SPOOLTOP, str(path)), cols=100, rows=24) as screen:
        screen.wait_for("live · as of", 120)
        for keys in ("2", "G", "g", *">>>>", "/tries:0\r", ESC):
            screen.type(keys)
            screen.collect(1.0)
        empty = most(screen)
    above, ever = (listed - empty) >> 20, (whole - empty) >> 20
    print(f"\nMemory above an empty spool's: {above} MB with the list open, at most {ever} MB in all this")


def walk(screen: Terminal, floor: Floor) -> None:
    """Prints the rows of what keys do in the list."""

    def each(what: str, keys: str, done: Done, back: str, back_done: Done) -> None:
        times = []
        for _ in range(TIMES):
            screen.collect(1.0)
            times.append(took(screen, keys, done))
            took(screen, back, back_done)
        print(floor.row(what, times), flush=True)

    by_age = sorted_by("age")
    top = screen.text.split("\n")[2][:5]
    each("jump to the end and back (`G`, `g`)", "G", lambda text: _filled(text) and text.split("\n")[2][:5] != top, "g", by_age)
    each("sort by age, the other way round", "I", sorted_by("age ↑"), "I", sorted_by("age ↓"))
    for column in ("size", "tries", "source", "message"):
        screen.collect(1.0)
        print(floor.row(f"sort by {column}", [took(screen, ">", sorted_by(column))]), flush=True)
    took(screen, "<" * 4, by_age)
    for text in ("R00ff", "src:s3", "age:>1s", "tries:0", "!tries:0"):
        each(f"filter `{text}`", f"/{text}\r", matching(text), ESC, lambda shown: "match" not in shown and by_age(shown))
    times = []
    for _ in range(TIMES):
        screen.collect(1.0)
        screen.type(">")
        screen.collect(0.3)
        times.append(took(screen, "<", by_age))
    print(floor.row("a sort by size, ended by the next key after 0.3 s: back by age", times), flush=True)


if __name__ == "__main__":
    main()
