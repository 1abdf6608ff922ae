"""``python -m tests.bench``: runs measurements, each in a process of its own; ``--write`` puts what they print into RESULTS.md.

Nothing else may run on the machine meanwhile. All together take about an hour.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

from ..reliability.figures import machine

RESULTS = Path(__file__).parent / "RESULTS.md"

RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "engine": (("engine",), ("sustained",)),
    "peers": (("peers", "--dir", "/dev/shm"),),
    "idle": (
        ("start", "--dir", "/dev/shm"), ("idle", "1000"), ("idle", "100000"), ("idle", "1000000", "20", "--dir", "/dev/shm"),
    ),
    "screen": (("screen", "5000"),),
    "spools": (("spools", "--dir", "/dev/shm"),),
    "list": (("list", "1000000", "--dir", "/dev/shm"),),
    "operate": (
        ("operate", "100000", "3", "--dir", "/dev/shm"), ("operate", "100000", "1", "--dir", "."),
        ("operate", "1000000", "1", "--dir", "/dev/shm", "--only", "requeue", "purge"),
        ("operate", "300000", "1", "--consumers", "50000", "--dir", "/dev/shm", "--only", "requeue"),
        ("planning", "300000", "50000", "3", "--dir", "/dev/shm"),
        ("operations", "200", "--dir", "/dev/shm"), ("answering", "1000000", "--dir", "/dev/shm"),
    ),
    "tickets": (("tickets", "--dir", "/dev/shm"),),
    "cursors": (("cursors", "--dir", "/dev/shm"), ("cursor_files", "20", "--dir", "/dev/shm")),
    "streams": (("streams", "--dir", "/dev/shm"),),
    "soak": (("soak", "600"),),
    "payloads": (("payloads",),),
}
"""Runs for each section of RESULTS.md."""


def place(name: str) -> re.Pattern[str]:
    """Matches the section of RESULTS.md with the figures of one measurement."""
    return re.compile(rf"(<!-- bench {name} -->\n)(.*?)(<!-- /bench -->)", re.DOTALL)


def measured(name: str) -> tuple[str, float]:
    """Returns the output of the runs of ``name``, and the share of the processors' time that a host took meanwhile, per cent."""
    outputs = []
    before = psutil.cpu_times()
    for run in RUNS[name]:
        command = (sys.executable, "-m", f"tests.bench.{run[0]}", *run[1:])
        print(f"{name}: {' '.join(run)}", file=sys.stderr, flush=True)
        run_through = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run_through.returncode:
            sys.exit(f"{run_through.stdout}{' '.join(run)} ended with {run_through.returncode}")
        outputs.append(run_through.stdout.strip())
    after = psutil.cpu_times()
    return "\n\n".join(outputs), 100 * (_stolen(after) - _stolen(before)) / max(0.01, sum(after) - sum(before))


def _stolen(times: object) -> float:
    return float(getattr(times, "steal", 0.0))


def renewed(text: str, name: str, report: str, stolen: float = 0.0) -> str:
    """The ``text`` of RESULTS.md with what ``name`` printed in its place."""
    spaced = re.sub(r"(?m)^([^|\n].*)\n(?=\|)", r"\1\n\n", report)
    share = f"; {stolen:.1f} % of its time was taken by the host" if stolen >= 0.05 else ""
    when = f"\nMeasured on {machine()}, {time.strftime('%Y-%m-%d')}, by `python -m tests.bench {name}`{share}.\n"
    return place(name).sub(lambda found: f"{found[1]}\n{spaced}\n{when}{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(RUNS)}; all without one")
    parser.add_argument("--write", action="store_true", help="renew RESULTS.md")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in RUNS]:
        parser.error(f"no measurement {', '.join(unknown)}; there are {', '.join(RUNS)}")
    for name in args.names or RUNS:
        report, stolen = measured(name)
        print(report, flush=True)
        if args.write:
            RESULTS.write_text(renewed(RESULTS.read_text(), name, report, stolen))


if __name__ == "__main__":
    main()
