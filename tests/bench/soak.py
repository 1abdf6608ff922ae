"""Growth of the dashboard: memory, descriptors and threads while messages stream and views are switched, a day in fast motion.

    python -m tests.bench.soak [seconds, default 600] [--rate MESSAGES_A_SECOND, default 2000] [--dir PATH]

At 2,000 messages a second, 12 hours of an ordinary spool (one message each half a second) go through it in 45 seconds. The first
half is not counted, because the records of the last five minutes have to fill up. Ends with 1 where the last quarter needs more
than the third did, beyond what may vary.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.e2e.terminal import SPOOLTOP, Terminal

from .directories import arguments, filled
from .screen import STANDING, stream

KEYS = ("2", "j", "/standing\r", "\x7f", "3", "4", "5", "6", "7", "?", "q", "2", "\r", "\x7f", "a", "U", "1", "R")
"""Turned over one at a time: every view, a filter, a message, marks, help, a look at everything."""
MAY_VARY = 2 << 20
"""Bytes of resident memory that go up and down by themselves."""


class Needs(NamedTuple):
    """Resources that the process holds at one moment."""

    memory: int
    fds: int
    threads: int


def soak(path: Path, seconds: float, rate: float) -> list[Needs]:
    """Samples the resources in use about once a second."""
    found: list[Needs] = []
    with Terminal((*SPOOLTOP, str(path)), cols=80, rows=24) as screen:
        screen.wait_for("live · as of")
        process = psutil.Process(screen.process.pid)
        with stream(path, rate):
            began, turn = time.monotonic(), 0
            while time.monotonic() - began < seconds:
                for _ in range(4):
                    screen.type(KEYS[turn % len(KEYS)])
                    turn += 1
                    screen.collect(0.25)
                found.append(Needs(process.memory_info().rss, process.num_fds(), process.num_threads()))
        screen.raw.clear()
    return found


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=2000.0)
    args = parser.parse_args()
    with filled(args.dir, {"standing": STANDING}) as path:
        found = soak(path, args.seconds, args.rate)
    quarter = max(1, len(found) // 4)
    grown = False
    print(f"{args.seconds:g} s at {args.rate:,.0f} messages a second; medians of the third and of the last quarter")
    print("| | third | last | |")
    print("|---|---|---|---|")
    for name, unit, vary in (("memory", 1 << 20, MAY_VARY), ("fds", 1, 1), ("threads", 1, 1)):
        early = statistics.median(getattr(one, name) for one in found[2 * quarter : 3 * quarter] or found)
        late = statistics.median(getattr(one, name) for one in found[-quarter:])
        more = late - early > vary
        grown = grown or more
        said = f"{early / unit:.1f} | {late / unit:.1f} | {'GROWS' if more else 'steady'}"
        print(f"| {name}{', MB' if unit > 1 else ''} | {said} |")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
