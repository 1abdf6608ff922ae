"""The dashboard by a clock that can be set:

    python -m tests.e2e.clocked FILE PATH

opens it on PATH; FILE holds how many seconds the clock differs from that of the machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from spooltop.control import open_control
from spooltop.tui import run


def main(setting: str, path: str) -> int:
    def clock() -> float:
        return time.time() + float(Path(setting).read_text() or 0)

    with open_control(path, clock=clock) as control:
        return run(control)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
