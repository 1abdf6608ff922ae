"""Cost of the plan of a requeue whose claims many dead consumers hold, beside the bare system calls for the same claims.

    python -m tests.bench.planning [claims, default 300000] [consumers, default 50000] [rounds, default 3] [--dir PATH]
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from spooltop.engine.files import Files

from .directories import arguments, kind
from .operate import Run, claim_all, ended, fill, looked_at


def tested(path: Path) -> float:
    """Seconds that it takes to open, check, read and query each presence file, and to do nothing with the answers."""
    folder, files = os.open(path / ".spooltop" / "consumers", os.O_RDONLY), Files()
    began = time.perf_counter()
    for token in os.listdir(folder):
        fd = files.open_read(token, folder)
        os.read(fd, os.fstat(fd).st_size)
        files.write_locked(fd)
        os.close(fd)
    took = time.perf_counter() - began
    os.close(folder)
    return took


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("claims", nargs="?", type=int, default=300_000)
    parser.add_argument("consumers", nargs="?", type=int, default=50_000)
    parser.add_argument("rounds", nargs="?", type=int, default=3)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    runs: list[tuple[float, float, Run]] = []
    try:
        path = folder / "spool"
        fill(path, args.claims)
        claim_all(path, args.consumers)
        for _ in range(args.rounds):
            planned = ended(path, ("requeue", "--verdict", "dead", "--dry-run"))
            runs.append((looked_at(path), tested(path), planned))
        where = kind(path)
    finally:
        shutil.rmtree(folder)
    listed, asked, seconds = (
        statistics.median(column) for column in zip(*((listed, asked, plan.seconds) for listed, asked, plan in runs), strict=True)
    )
    processor = statistics.median(plan.processor for _, _, plan in runs)
    print(f"{args.claims:,} claims of {args.consumers:,} dead consumers, rounds: {args.rounds}, on {where}; medians")
    print("| scandir and lstat of the claims | open, read and query of the presence files | the plan | its processor time "
          "| times scandir and lstat | times both | most memory |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {listed:.2f} s | {asked:.2f} s | {seconds:.2f} s | {processor:.2f} s | {seconds / listed:.1f} "
        f"| {seconds / (listed + asked):.1f} | {max(plan.most for _, _, plan in runs) / 1e6:.0f} MB |"
    )


if __name__ == "__main__":
    main()
