"""``python -m tests.matrix [WORD…]``: cuts off, or fails, one call of each call site in the sweeps whose names hold a word, with
all that the sweeps demand, and prints the sites that none reached. ``--all``: each call."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import spooltop
from tests.scratch import scratch

from .cuts import HITS
from .sites import UNREACHABLE, call_sites
from .streams import lua_sites
from .sweeps import sweep_cuts, sweep_errors, sweep_work
from .test_engine import MODES
from .test_files import of_cuts, of_errors, rows
from .works import WORKS


def sweeps(*, new: bool) -> Iterator[tuple[str, Callable[[Path], int]]]:
    """Yields the name of each sweep, and the sweep; ``new``: only of the sites that none before has reached."""
    for kind, sweep in ((of_cuts, sweep_cuts), (of_errors, sweep_errors)):
        for row in rows(kind, whole=True):
            scene, mode, *rest = row.values
            yield f"{sweep.__name__} {row.id}", lambda to, s=sweep, a=(scene, mode), r=rest: s(*a, to, *r, new=new)
    for name, work in WORKS.items():
        for mode in MODES:
            is_cut = mode.startswith("cut")
            yield f"{name} {mode}", lambda to, w=work, m=MODES[mode], c=is_cut: sweep_work(w, m, to, is_cut=c, new=new)


def main(words: list[str]) -> int:
    warnings.filterwarnings("ignore", "claim on")
    counts = Counter[str]()
    new, words = "--all" not in words, [word for word in words if word != "--all"]
    with tempfile.TemporaryDirectory(prefix="spooltop-matrix-", dir=scratch()) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        for number, (name, sweep) in enumerate(sweeps(new=new)):
            if not words or any(word in name for word in words):
                try:
                    counts["calls"] += sweep(Path(folder, str(number)))
                except (AssertionError, OSError) as error:
                    counts["failed sweeps"] += 1
                    print(f"{name}: {error}")
    hit, scripts = lua_sites() if not words else (set(), set())
    print(f"{dict(counts)}, {sum(os.times()[:4]):.0f} s of one core; sites of scripts: {len(hit)} of {len(scripts)}")
    top, missing = Path(spooltop.__file__).parent.parent, 0
    sites = {site: (f"{Path(site[0]).relative_to(top)}:{site[1]}", name) for site, name in call_sites().items()}
    print(f"of {len(sites)} call sites, " + ", ".join(f"{len(hits & sites.keys())} {what}" for what, hits in HITS.items()))
    for site, (place, name) in sorted(sites.items()):
        if never := [what for what, hits in HITS.items() if site not in hits]:
            reason = next((why for (file, call), why in UNREACHABLE.items() if file in place and call == name), "")
            missing += not reason
            print(f"  {place} {name}: never {' nor '.join(never)}{reason and ': '}{reason}")
    return int(bool(missing or counts["failed sweeps"] or hit != scripts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
