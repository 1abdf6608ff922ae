"""Time that the dashboard takes to answer a key while it makes the list of a million claims, and while it requeues them.

    python -m tests.bench.answering [claims, default 1000000] [--dir PATH]

The floor is a bare Textual app on which a key moves a mark, at rest and beside a thread that looks at the claims.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments, kind
from .list import Done, took
from .operate import claim_all, fill, floor, looked_at
from .screen import FLOOR, latencies, spread_of

BUSY = FLOOR.replace(
    "Bare().run",
    """
import sys, threading
def look() -> None:
    cur = os.open(sys.argv[1], os.O_RDONLY)
    names = os.listdir(cur)
    while True:
        for name in names:
            os.lstat(name, dir_fd=cur)
threading.Thread(target=look, daemon=True).start()
Bare().run""",
)
ESCAPES = 10
"""Number of times that the making of a list is ended."""
ESC = "\x1b"
ITEM = 4
"""A line of the screen that shows an item, of a plan that is being made too."""
MOST = 300.0
"""Seconds that anything may take."""


def until(screen: Terminal, keys: str, done: Done) -> float:
    """Seconds from ``keys`` until ``done`` holds of the screen."""
    return took(screen, keys, done, MOST)[1]


def scrolled(screen: Terminal, ended: Done) -> list[float]:
    """Seconds that each key took to scroll the list, until ``ended`` holds of the screen."""
    found: list[float] = []
    press = 0
    while True:
        screen.collect(0.1 + 0.013 * (press % 10))
        if ended(screen.text):
            return found
        took = until(screen, "j" if press % 2 == 0 else "k", partial(_moved_from, screen.text.split("\n")[ITEM], ended))
        if not ended(screen.text):
            found.append(took)
        press += 1


def _moved_from(before: str, ended: Done, text: str) -> bool:
    return text.split("\n")[ITEM] != before or ended(text)


def row(what: str, seconds: list[float]) -> str:
    return f"| {what} | {spread_of(sorted(1000 * one for one in seconds))} |"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("claims", nargs="?", type=int, default=1_000_000)
    args = parser.parse_args()
    count = args.claims
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    try:
        path = folder / "spool"
        fill(path, count)
        claim_all(path)
        bare, seen = floor(path, count), looked_at(path)
        print(f"{count:,} claims of a dead consumer, requeued from the dashboard, on {kind(folder)}")
        print("| a key is answered, p50 / p99 / most | |")
        print("|---|---|")
        for what, app in (("bare Textual: a mark moves", FLOOR), ("the same beside a thread that looks at the claims", BUSY)):
            with Terminal((sys.executable, "-c", app, str(path / "cur")), cols=80, rows=24) as screen:
                screen.wait_for("READY")
                screen.collect(2.0)
                print(row(what, [one / 1000 for one in latencies(screen, 100)]), flush=True)
        with Terminal((*SPOOLTOP, str(path)), cols=80, rows=24) as screen:
            screen.wait_for("claims of dead consumers", MOST)
            escapes = []
            for turn in range(ESCAPES):
                until(screen, "r", lambda text: "making the plan" in text)
                screen.collect(0.2 + 0.5 * turn)
                escapes.append(until(screen, ESC, lambda text: "PROBLEM" in text))
                screen.collect(1.0)
            print(row("Esc while the list is made: it is left", escapes), flush=True)
            began = time.monotonic()
            shown = [until(screen, "r", lambda text: "making the plan" in text)]
            print(row("the plan is asked for: its screen", shown), flush=True)
            until(screen, "", lambda text: "the first 1,000" in text)
            first = time.monotonic() - began
            keys = scrolled(screen, lambda text: f"type {count} to" in text)
            made = time.monotonic() - began
            print(row("a key while the list is made: its first items are scrolled", keys), flush=True)
            screen.collect(1.0)
            began = time.monotonic()
            until(screen, f"{count}\r", lambda text: "Esc stops" in text)
            keys = scrolled(screen, lambda text: "Esc stops" not in text)
            moved = time.monotonic() - began
            print(row("a key while they are moved: the list is scrolled", keys), flush=True)
            if f"done {count:,}" not in screen.text:
                raise AssertionError(f"not all is done; the screen is:\n{screen.text}")
        left = sum(1 for _ in (path / "cur").iterdir())
        print(
            f"\nThe first items were there after {first:.1f} s; "
            f"the list was made in {made:.1f} s, {made / seen:.1f} times a bare list and lstat of them ({seen:.1f} s); "
            f"all moved in {moved:.1f} s (bare lstat and rename {bare:.1f} s), {left} left"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
