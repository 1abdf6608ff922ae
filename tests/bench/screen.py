"""The dashboard while messages stream through the spool: bytes to the terminal, processor, and how long a key takes to be seen.

    python -m tests.bench.screen [messages a second, default 5000] [seconds a measurement, default 10] [--dir PATH]

The floor is a bare Textual app on which the same keys move a mark; the same messages stream past it.
"""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.e2e.terminal import SPOOLTOP, Terminal
from tests.e2e.views import switches, whole_spool

from .directories import arguments, filled

FLOOR = """
import os
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.setdefault("TEXTUAL_FPS", "60")
from textual.app import App, ComposeResult
from textual.widgets import Static
class Bare(App):
    at = 0
    def compose(self) -> ComposeResult:
        yield Static(self.lines())
    def lines(self) -> str:
        return "\\n".join(("▌" if at == self.at else " ") + f" READY {at}" for at in range(20))
    def on_key(self, event) -> None:
        self.at += {"j": 1, "k": -1}.get(event.key, 0)
        self.query_one(Static).update(self.lines())
Bare().run(mouse=False)
"""
STREAM = """
import os, sys, time
from spooltop.engine import Spool
path, rate, batch = sys.argv[1], float(sys.argv[2]), 50
with Spool(path, durable=False) as spool:
    done, began = 0, time.monotonic()
    while True:
        names = [f"{id},s=stream" for id in spool.put_many([b"x" * 200] * batch, source="stream")]
        for name in names:
            os.rename(f"{path}/new/{name}", f"{path}/cur/{name}:2,P{os.getpid()}")
        for name in names:
            os.unlink(f"{path}/cur/{name}:2,P{os.getpid()}")
        done += batch
        print(done, time.monotonic() - began, flush=True)
        time.sleep(max(0.0, began + done / rate - time.monotonic()))
"""
STANDING = 100
"""Messages that nobody takes: a list that stands still at its top, for the mark to move on."""
MARK = "▌"
TOLD = re.compile(r" in +([\d,.]+)/s +done +([\d,.]+)/s")
"""Matches the rates that the Overview shows for the last minute, or since it was opened, once they are no lower bounds
(``≥``)."""


@contextmanager
def stream(spool: Path, rate: float) -> Iterator[list[float]]:
    """Messages are put, claimed and acked at ``rate`` a second. The list holds the true rate once the block is over."""
    got: list[float] = []
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen([sys.executable, "-c", STREAM, str(spool), str(rate)], stdout=output) as process:
            try:
                yield got
            finally:
                process.kill()
        output.seek(0)
        done, seconds = output.read().split("\n")[-2].split()
        got.append(float(done) / float(seconds))


def latencies(screen: Terminal, presses: int) -> list[float]:
    """Milliseconds from a key until the mark stands on another line."""
    found: list[float] = []
    for press in range(presses):
        before = _marked(screen)
        began = time.monotonic()
        screen.type("j" if before < 6 else "k")
        while _marked(screen) == before and time.monotonic() - began < 5.0:
            screen.pump(0.5)
        found.append(1000 * (time.monotonic() - began))
        screen.collect(0.02 + 0.007 * (press % 10))
    return sorted(found)


def arrivals(screen: Terminal, spool: Path, number: int = 100) -> list[float]:
    """Milliseconds from the rename into ``new`` until the message stands on the screen, in order."""
    found: list[float] = []
    for at in range(number):
        name = f"{time.time_ns() // 1000}.P1R{at:016x}.arrival"
        (spool / "tmp" / name).write_bytes(b"x")
        (spool / "tmp" / name).rename(spool / "new" / name)
        began = time.monotonic()
        while f"R{at:016x}.arrival"[-12:] not in screen.text and time.monotonic() - began < 5.0:
            screen.pump(0.5)
        found.append(1000 * (time.monotonic() - began))
        screen.collect(0.4 + 0.013 * (at % 10))
        (spool / "new" / name).unlink()
        screen.collect(0.6)
    return sorted(found)


def _marked(screen: Terminal) -> int:
    return next((row for row, line in enumerate(screen.screen.display) if line.startswith(MARK)), -1)


def flow(screen: Terminal, seconds: float) -> tuple[float, float]:
    """(bytes a second, per cent of a core)."""
    screen.collect(2.0)
    process = psutil.Process(screen.process.pid)
    before, began = process.cpu_times(), time.monotonic()
    written = screen.collect(seconds)
    after, took = process.cpu_times(), time.monotonic() - began
    return written / took, 100 * (after.user + after.system - before.user - before.system) / took


def switched(folder: Path, messages: int) -> str:
    """The median and the most of the bytes that a switch from one view to another takes."""
    whole_spool(folder, messages)
    with Terminal((*SPOOLTOP, str(folder)), cols=80, rows=24) as screen:
        screen.wait_for("live · as of", 120.0)
        screen.collect(12.0)  # until then ages are shown by the second
        found = sorted(switches(screen, 0.25).values())
    return f"{statistics.median(found):,.0f} B, at most {found[-1]:,} B, of {len(found)} with {messages:,} messages"


def rates_told(argv: Sequence[str], spool: Path, rate: float, seconds: float) -> tuple[float, float, float]:
    """(in, done, what was really done), messages a second: of an Overview that was opened while they streamed."""
    with stream(spool, rate) as got, Terminal(argv, cols=80, rows=24) as screen:
        screen.wait_for("live · as of")
        screen.collect(seconds)
        found = TOLD.search(screen.wait_for(lambda text: TOLD.search(text) is not None, 60.0))
    if found is None:
        raise AssertionError(f"no rates; the screen is:\n{screen.text}")
    arrived, finished = (float(figure.replace(",", "")) for figure in found.groups())
    return arrived, finished, got[0]


def measured(
    argv: Sequence[str], word: str, keys: str, spool: Path, rate: float, seconds: float, *, mark: bool
) -> tuple[str, list[float]]:
    """The cells of one row, and the times of its keys, milliseconds in order."""
    with Terminal(argv, cols=80, rows=24) as screen:
        screen.wait_for(word)
        screen.type(keys)
        with stream(spool, rate) as got:
            written, cpu = flow(screen, seconds)
            times = latencies(screen, round(seconds * 30)) if mark else []
    said = spread_of(times) if times else "—"
    return f"{got[0]:,.0f}/s, {2 * got[0]:,.0f} renames | {written:,.0f} B/s | {cpu:.1f} % | {said} |", times


def _at(times: list[float], part: float) -> float:
    """The nearest rank."""
    return times[math.ceil(part * len(times)) - 1]


def spread_of(times: list[float]) -> str:
    """p50 / p99 / most of milliseconds that are in order."""
    return f"{_at(times, 0.5):.0f} / {_at(times, 0.99):.0f} / {times[-1]:.0f} ms of {len(times)}"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("rate", nargs="?", type=float, default=5000.0)
    parser.add_argument("seconds", nargs="?", type=float, default=10.0)
    args = parser.parse_args()
    with filled(args.dir, {"standing": STANDING}) as path:
        print("| 80×24 | messages | to the terminal | of a core | key seen, p50 / p99 / most | of the bare app's p50 / p99 |")
        print("|---|---|---|---|---|---|")
        floor: list[float] = []
        bare = (sys.executable, "-c", FLOOR)
        ours = (*SPOOLTOP, str(path))
        for name, argv, word, keys, rate, mark in (
            ("bare Textual", bare, "READY", "", args.rate, True),
            ("Overview", ours, "live · as of", "1", args.rate, False),
            ("New", ours, "live · as of", "2", args.rate, True),
            ("New, at a tenth", ours, "live · as of", "2", args.rate / 10, True),
        ):
            cells, times = measured(argv, word, keys, path, rate, args.seconds, mark=mark)
            floor = floor or times
            ratio = " / ".join(f"{_at(times, part) / _at(floor, part):.2f}" for part in (0.5, 0.99)) if times else "—"
            print(f"| {name} | {cells} {ratio} |", flush=True)
        with Terminal(ours, cols=120, rows=24) as screen:
            screen.wait_for("live · as of")
            screen.type("2/arrival\r")
            screen.wait_for("nothing matches arrival")
            times = arrivals(screen, path)
        arrived, finished, really = rates_told(ours, path, args.rate, max(15.0, args.seconds))
        print(f"\nRates on the Overview: in {arrived:,.0f}/s, done {finished:,.0f}/s; really {really:,.0f}/s", end="")
        print(f" ({100 * (arrived / really - 1):+.1f} %, {100 * (finished / really - 1):+.1f} %)")
        print(f"\nA switch of view, to the terminal: {switched(path.parent / 'views', 1000)}")
        print(f"\nA rename to its place on the screen, without a storm, p50 / p99 / most: {spread_of(times)}")


if __name__ == "__main__":
    main()
