"""``python -m tests.matrix [WORD…]``: runs the sweeps whose names hold a word, and prints the call sites that they reached."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import spooltop
from tests.scratch import scratch

from .cuts import HITS
from .sites import call_sites
from .sweeps import sweep_cuts, sweep_errors
from .test_files import of_cuts, of_errors, rows


def main(words: list[str]) -> None:
    began, counts = time.process_time(), {"cuts": 0, "errors": 0}
    with tempfile.TemporaryDirectory(prefix="spooltop-matrix-", dir=scratch()) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        for kind, what, sweep in ((of_cuts, "cuts", sweep_cuts), (of_errors, "errors", sweep_errors)):
            for row in rows(kind):
                if not words or any(word in str(row.id) for word in words):
                    scene, mode, *rest = row.values
                    counts[what] += sweep(scene, mode, Path(folder, f"{what} {row.id}"), *rest)
    children = os.times()
    print(f"{counts['cuts']} cuts, {counts['errors']} errors, "
          f"{time.process_time() - began + children.children_user + children.children_system:.0f} s of one core")
    sites, top = call_sites(), Path(spooltop.__file__).parent.parent
    print(f"of {len(sites)} call sites, " + ", ".join(f"{len(hits & sites.keys())} {what}" for what, hits in HITS.items()))
    for site, name in sorted(sites.items()):
        if missing := [what for what, hits in HITS.items() if site not in hits]:
            print(f"  {Path(site[0]).relative_to(top)}:{site[1]} {name}: never {' nor '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
