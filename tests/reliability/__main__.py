"""``python -m tests.reliability``: runs proofs, prints their table; ``--write`` keeps the figures and renews RESULTS.md."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from . import PROOFS, moving, operators, proof, race, sources
from .figures import Figure, renew, store, table


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(PROOFS)}; all without one")
    parser.add_argument("--quick", action="store_true", help="the part that the test suite runs")
    parser.add_argument("--write", action="store_true", help="keep the figures, renew RESULTS.md")
    parser.add_argument("--seconds", type=float, metavar="N", help="how long operators, sources, moving or race last")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in PROOFS]:
        parser.error(f"no proof {', '.join(unknown)}; there are {', '.join(PROOFS)}")
    if args.write and args.quick:
        parser.error("RESULTS.md shows whole proofs: --write without --quick")
    lasting = {"operators": operators.last, "sources": sources.last, "moving": moving.last, "race": race.last}
    if args.seconds is not None and (args.quick or len(args.names) != 1 or args.names[0] not in lasting):
        parser.error("--seconds goes with operators, sources, moving or race alone, and without --quick")
    figures: dict[str, Figure] = {}
    for name in args.names or PROOFS:
        began = time.monotonic()
        print(name, file=sys.stderr, flush=True)
        found = proof(name).run(args.quick, say) if args.seconds is None else lasting[name](args.seconds, say)
        figures[name] = replace(found, seconds=round(time.monotonic() - began, 1))
        say(f"{figures[name].seconds:.0f} s, {found.trials:,} trials, {found.violations} violations")
        if args.write:
            store(figures)
            renew(PROOFS)
    print(table(figures.values()), end="")
    return 1 if any(figure.violations for figure in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
