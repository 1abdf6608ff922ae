"""Runs a machine by its seed: ``python -m tests.machines --seed 7 --steps 2000 --source directory`` prints the rare states."""

from __future__ import annotations

import argparse
from random import SystemRandom

from . import MACHINES
from .machine import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--source", choices=sorted(MACHINES), default="directory")
    arguments = parser.parse_args()
    print(f"{arguments.source}: seed {arguments.seed}, {arguments.steps} steps")
    kind = MACHINES[arguments.source]
    rare = run(kind, arguments.seed, arguments.steps)
    for state in kind.RARE:
        print(f"{rare[state]:6}  {state}")
