"""The demo's tour as its last line names it, typed on a real terminal by somebody who looks before each key.

``python -m tests.e2e.tour 20`` plays it in as many demos, each begun some seconds later than the one before, and says how
often every step worked. ``python -m tests.e2e.tour 1 COMMAND`` plays it in the demo that a shell's COMMAND ends in, such as the
README's first, which installs spooltop before.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from .terminal import ENTER, ESC, SPOOLTOP, Person, Terminal, all_of

__all__ = ["play"]

_BANNER = "DEMO, deleted on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
_STEP = 3.0
"""Seconds between the beginnings of the tours of two demos."""
_INSTALLED = 300.0
"""Seconds after which the demo must run, whatever was installed before."""


def _chosen(word: str) -> Callable[[str], bool]:
    """True of a screen whose chosen line has this word."""
    return lambda text: any(line.startswith("▌") and word in line for line in text.split("\n"))


def play(person: Person) -> None:
    """Every step; raises ``AssertionError`` with the screen where one does not come to what it should."""
    person.sees(lambda text: _BANNER in text and all(re.search(f"[1-9] {word}", text) for word in ("abandoned", "DEAD")))
    person.press("4", _chosen("abandoned"))
    person.press("d", "y purge 1")
    person.press("y", all_of("Purged 1", "done 1 · skipped 0"))
    person.press("z", all_of("Undo purge of 1 message", "y undo 1"))
    person.press("y", all_of("Undone 1", "done 1 · skipped 0"))
    person.press(ESC, all_of(" Tmp ", "abandoned"))
    person.press("3", _chosen("DEAD"))
    person.press("r", "y requeue 1")
    person.press("y", all_of("Requeued 1", "done 1 · skipped 0"))
    person.press(ESC, " Claims ")
    person.press("5", all_of(" Cursors 5", "imessage"))
    person.press(ENTER, lambda text: " Cursors › " in text and " Cursors 5" not in text)
    person.press(ESC, " Cursors 5")
    person.press("1", all_of("PROBLEM", _BANNER))


def main(times: int, command: Sequence[str]) -> int:
    worked = 0
    for turn in range(times):
        with tempfile.TemporaryDirectory() as temp, Terminal(command, rows=24, env={"TMPDIR": temp}) as screen:
            person = Person(screen)
            screen.wait_for("live · as of", _INSTALLED)
            end = time.monotonic() + turn * _STEP
            while (left := end - time.monotonic()) > 0:
                screen.pump(left)
            try:
                play(person)
                worked += 1
            except AssertionError as error:
                print(f"tour {turn + 1}, begun after {turn * _STEP:.0f} s: {error}", file=sys.stderr)
            person.leaves("\x03")
    print(f"the tour worked in {worked} of {times} demos")
    return int(worked != times)


if __name__ == "__main__":
    shell = ["bash", "-euo", "pipefail", "-c", *sys.argv[2:]]
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, shell if sys.argv[2:] else [*SPOOLTOP, "demo"]))
