"""Cost of depth: the same work on a shallow and on a deep spool, in turns, and a consumer of its own for its memory."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic, perf_counter

from spooltop.engine import Spool

__all__ = ["grow"]

SHALLOW = 1000
BLOCK = 1000
OLD = 1_500_000_000_000_000
"""µs since the epoch of the oldest of those that fill a spool."""


def fill(folder: Path, depth: int) -> None:
    """``depth`` empty messages, older than any that will be put."""
    new = os.open(folder / "new", os.O_RDONLY)
    for number in range(depth):
        os.close(os.open(_name(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=new))
    os.close(new)


def _name(number: int) -> str:
    return f"{OLD + number:016d}.P4242R{number * 7919:016x}.bench"


def grow(place: Path, depth: int, moved: int) -> None:
    """Prints how much more a message costs when the spool is ``depth`` deep, over ``moved`` messages."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=place))
    try:
        spools = []
        for name, filled in (("shallow", SHALLOW), ("deep", depth)):
            Spool.create(folder / name, durable=False).close()
            fill(folder / name, filled)
            spools.append(Spool(folder / name, durable=False))
        spent = {step: [0.0, 0.0] for step in ("put", "claim", "ack")}
        for _ in range(moved // BLOCK):
            for which, spool in enumerate(spools):
                began = perf_counter()
                for _ in range(BLOCK):
                    spool.put(b"")
                put = perf_counter()
                claims = [spool.claim() for _ in range(BLOCK)]
                claimed = perf_counter()
                for claim in claims:
                    assert claim is not None
                    claim.ack()
                ended = perf_counter()
                for step, seconds in (("put", put - began), ("claim", claimed - put), ("ack", ended - claimed)):
                    spent[step][which] += seconds
        for spool in spools:
            spool.close()
        print("| | bar | deep by shallow | µs a message, deep | shallow |\n|---|---|---|---|---|")
        for step, (shallow, deep) in spent.items():
            verdict = "" if deep <= 2 * shallow else " **above**"
            print(f"| {step} | ≤ 2 | {deep / shallow:.2f}{verdict} | {deep / moved * 1e6:.1f} | {shallow / moved * 1e6:.1f} |")
        output = subprocess.run(
            [sys.executable, "-m", __name__, folder / "deep", str(moved)], check=True, capture_output=True, text=True
        ).stdout.split()
        memory, scan, seen = int(output[0]), float(output[1]), float(output[2])
        bound = max(1.0, 20 * scan)
        print(f"| memory of a consumer | < 80 MB | {memory >> 10} MB{'' if memory < 80 << 10 else ' **above**'} | | |")
        print(
            f"| a requeued old message is seen | < {bound:.1f} s | {seen:.2f} s{'' if seen < bound else ' **above**'} "
            f"| a scan takes {scan:.2f} s | |"
        )
    finally:
        shutil.rmtree(folder)


def consume(folder: str, count: int) -> None:
    """Prints kB of resident memory at most, seconds of a scan, seconds until a message older than all is claimed."""
    with Spool(folder, durable=False) as spool:
        began = perf_counter()
        first = spool.claim()
        scan = perf_counter() - began
        assert first is not None
        first.ack()
        old = f"{OLD - 1:016d}.P1R0123456789abcdef.bench"
        seen: float | None = None
        added = monotonic()
        os.close(os.open(os.path.join(folder, "new", old), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        taken = 0
        while seen is None or taken < count:
            with spool.claim() or spool.claim(timeout=1) as claim:  # type: ignore[union-attr]  # there are more than it takes
                taken += 1
                if claim.id == old:
                    seen = monotonic() - added
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, scan, seen)


if __name__ == "__main__":
    consume(sys.argv[1], int(sys.argv[2]))
