"""``python -m tests.behaviour [NAME …] [--write]``: the difference between what is recorded and what commands do now.

NAME is a world, with a part of a heading behind a colon: ``waiting``, ``waiting:--json``. ``--users plain`` leaves out what needs
root, ``--users root`` all else. ``--write`` renews the record; a heading is added to a file by hand.
``screens`` and ``syncs`` are the records of these modules, which are compared too where nothing is named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack

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
    others = [name for name in OTHERS if not args.names or name in args.names]
    named = dict(name.partition(":")[::2] for name in args.names if name not in OTHERS)
    wanted = named if args.names else dict.fromkeys(recorded_worlds(), "")
    if unknown := wanted.keys() - WORLDS.keys():
        parser.error(f"no such world: {', '.join(sorted(unknown))}; there are: {', '.join(WORLDS)}")
    preload()
    differs, ran, skipped = False, 0, 0
    with ExitStack() as stack:
        if "stream" in wanted and missing("stream") is None:
            stack.enter_context(stream_server())
        for world, part in wanted.items():
            file = RECORDED / f"{world}.txt"
            cases = cases_in(world)
            for place, case in enumerate(cases):
                if not _is_chosen(case, part, args.users) or missing(world) or (case.needs_root and os.geteuid() != 0):
                    skipped += 1
                    continue
                ran += 1
                if args.write:
                    cases[place] = Case(case.heading, record(world, case))
                    continue
                for line in difference(world, case):
                    differs = True
                    print(line)
            if args.write:
                file.write_text("\n".join(f"{case.heading}\n{case.text}".strip() + "\n" for case in cases), encoding="utf-8")
    print(f"{ran} cases ran, {skipped} were left out", file=sys.stderr)
    for name in others:  # each in a process of its own: it has threads, and this one forks
        words = [sys.executable, "-m", f"tests.behaviour.{name}", *(["--write"] if args.write else [])]
        differs |= subprocess.run(words, check=False).returncode != 0
    return 1 if differs else 0


def _is_chosen(case: Case, part: str, users: str | None) -> bool:
    if users is not None and case.needs_root != (users == "root"):
        return False
    return part in case.heading


if __name__ == "__main__":
    sys.exit(run())
