"""``python -m tests.behaviour [NAME …] [--write]``: the difference between what is recorded and what commands do now.

NAME is a world, with a part of a heading behind a colon: ``waiting``, ``waiting:--json``. ``--users plain`` leaves out what needs
root, ``--users root`` all else. ``--write`` renews the record; a heading is added to a file by hand.
``screens`` and ``syncs`` are the records of these modules, which are compared too where nothing is named.
``-`` takes lines ``WORLD USERS`` from stdin and answers each with the lines of its difference, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext

from . import stopped_clock  # noqa: F401  before all that keeps a reference to the clock
from .record import RECORDED, Case, cases_in, difference, missing, preload, record, recorded_worlds, stream_server
from .worlds import WORLDS

OTHERS = ("screens", "syncs")
"""Modules with a record of their own."""


def run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviour")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--users", choices=("plain", "root"))
    args = parser.parse_args()
    preload()
    if args.names == ["-"]:
        for line in sys.stdin:
            print(json.dumps(list(differences(*line.split()))), flush=True)
        return 0
    named = dict(name.partition(":")[::2] for name in args.names if name not in OTHERS)
    wanted = named if args.names else dict.fromkeys(recorded_worlds(), "")
    if unknown := wanted.keys() - WORLDS.keys():
        parser.error(f"no such world: {', '.join(sorted(unknown))}; there are: {', '.join(WORLDS)}")
    differs = False
    for world, part in wanted.items():
        for line in differences(world, args.users, part, write=args.write):
            differs = True
            print(line)
    for name in OTHERS:  # each in a process of its own: it has threads, and this one forks
        if not args.names or name in args.names:
            words = [sys.executable, "-m", f"tests.behaviour.{name}", *(["--write"] if args.write else [])]
            differs |= subprocess.run(words, check=False).returncode != 0
    return 1 if differs else 0


def differences(world: str, users: str | None, part: str = "", *, write: bool = False) -> Iterator[str]:
    """Yields what differs in the cases of a world that ``users`` (plain, root; None: both) can run and whose headings contain
    ``part``; or writes down anew what they do. Says on stderr what is left out."""
    cases = cases_in(world)
    left_out = 0
    with stream_server() if world.startswith("stream") and missing(world) is None else nullcontext():
        for place, case in enumerate(cases):
            if part not in case.heading or (users is not None and case.needs_root != (users == "root")):
                continue
            if missing(world) or (case.needs_root and os.geteuid() != 0):
                left_out += 1
            elif write:
                cases[place] = Case(case.heading, record(world, case))
            else:
                yield from difference(world, case)
    if write:
        text = "\n".join(f"{case.heading}\n{case.text}".strip() + "\n" for case in cases)
        (RECORDED / f"{world}.txt").write_text(text, encoding="utf-8")
    if left_out:
        print(f"{world}: {left_out} cases left out, which need {missing(world) or 'root'}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run())
