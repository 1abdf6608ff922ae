"""The claim as a model, every state of it looked at; and two faulty variants, of which the error must be found."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.scratch import scratch

from .figures import Figure

__all__ = ["BAR", "NAME", "explore", "run"]

NAME = "model of claim, requeue and crash, 3 consumers and 2 operators (Spin)"
BAR = "0 errors; both faulty variants found"

MODEL = Path(__file__).with_name("claim.pml")
FAULTY = {"BY_AGE": "requeue by age", "LOCKS_FIRST": "a scan after the look at the locks"}
TWO_HOLDERS = "assertion violated (at_work==1)"
MEGABYTES = 3500
SECONDS = 110


@dataclass(frozen=True)
class Explored:
    """``error`` is empty where all states were seen and none was wrong."""

    states: int
    error: str


def explore(folder: Path, *defines: str, dead_ends: bool = True) -> Explored:
    """Makes the verifier of the model with ``defines`` (``-DNAME``) and runs it. ``dead_ends`` are errors too."""
    subprocess.run(["spin", "-a", *defines, MODEL], cwd=folder, check=True, capture_output=True)
    make = ["gcc", "-O2", "-w", "-DSAFETY", f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    words = ["./pan", "-m100000", *([] if dead_ends else ["-E"])]
    output = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS).stdout
    states = re.search(r"(\d+) states, stored", output)
    errors = re.search(r"errors: (\d+)", output)
    error = re.search(r"^pan:\d+: (.*?)(?: \(at depth.*)?$", output, re.MULTILINE)
    if states is None or errors is None or ("not completed" in output and error is None) or "too small" in output:
        return Explored(0, output[-500:] or "the verifier said nothing")
    return Explored(int(states[1]), error[1] if error else "" if errors[1] == "0" else output[-500:])


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    lacking = [program for program in ("spin", "gcc") if shutil.which(program) is None]
    if lacking:
        say(f"{' and '.join(lacking)} missing")
        return Figure(NAME, BAR, 0, 0, skipped=1 + len(FAULTY))
    violations = 0
    with tempfile.TemporaryDirectory(prefix="spooltop-spin-", dir=scratch()) as name:
        folder = Path(name)
        good = explore(folder, *(["-DCONSUMERS=2"] if quick else []))
        if good.error:
            violations += 1
            say(good.error)
        for define, words in FAULTY.items():
            bad = explore(folder, f"-D{define}", dead_ends=False)
            if bad.error != TWO_HOLDERS:
                violations += 1
                say(f"{words} was not found: {bad.error or f'{bad.states:,} states'}")
            else:
                say(f"{words}: found among {bad.states:,} states")
    return Figure(NAME, BAR, good.states, violations, explained=f"states; found: {', '.join(FAULTY.values())}")
