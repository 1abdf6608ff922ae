"""Cost of the list of operations, and of a small change, after many operations, beside reading the journal without decoding it.

    python -m tests.bench.operations [megabytes, default 200] [messages of an operation …, default 20000 100] [--dir PATH]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spooltop.backends.directory.journal import MOVES, BatchOutcome, MoveIntent, MoveRun
from spooltop.backends.journal import RecordLog, encode_intent, encode_result
from spooltop.backends.log_store import LogFiles, LogStore
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import BATCH
from spooltop.model.vocabulary import Action

from .directories import arguments, kind
from .operate import Run, fill

READ = """
import sys
for path in sys.argv[1:]:
    with open(path, "rb", 0) as file:
        while file.read(1 << 20): pass
"""
"""Program that reads files and does nothing with them."""


def held(operation: str, count: int, numbers: range) -> MoveIntent:
    """The intent of a batch of messages that were held, which are claimed and gone since."""
    names = [f"{1795222800000000 + n:016d}.P4290R{n * 0x9E3779B97F4A7C15 % 2**64:016x}.bench" for n in numbers]
    inos = [7_000_000 + number for number in numbers]
    ctimes = [1795222800_000000000 + number * 31_337 for number in numbers]
    run = MoveRun("new", f"held/{operation}", names, inos, 1024, ctimes, None)
    return MoveIntent(
        [run], operation=operation, step=numbers.start, action=Action.HOLD, at=1.8e9, user="bench", count=count
    )


def write_journal(path: Path, size: int, messages: int) -> int:
    """Writes a journal of ``size`` bytes by the journal's own code, of operations on so many messages each; how many they are."""
    written = operations = 0
    with SpoolDirs(path) as dirs:
        logs = LogStore.beside(dirs, LogFiles())
        log = RecordLog(logs, MOVES)
        while written < size:
            operation = f"{operations:010x}"
            for start in range(0, messages, BATCH):
                part = range(start, min(start + BATCH, messages))
                intent = held(operation, messages, part)
                log.append(encode_intent(intent, MOVES), sync=False)
                log.append(encode_result(intent, BatchOutcome(tried=len(part), others=[]), MOVES, 1.8e9), sync=False)
            operations += 1
            if operations % 256 == 0 or messages >= BATCH:
                written = sum(file.stat().st_size for file in parts_of(path))
    return operations


def parts_of(path: Path) -> list[Path]:
    return sorted((path / ".spooltop").glob("journal*.jsonl"))


def ended(*words: str) -> Run:
    """Runs a command to its end."""
    began = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 3), words  # 3: the messages are gone, so that none is left to undo
    return Run(time.perf_counter() - began, used.ru_maxrss << 10, used.ru_utime + used.ru_stime)


def median(*words: str) -> Run:
    runs = sorted(ended(*words) for _ in range(3))
    return Run(runs[1].seconds, max(one.most for one in runs), runs[1].processor)


def measured(path: Path, size: int, messages: int) -> list[str]:
    """The cells of a line of the table."""
    fill(path, 1)
    operations = write_journal(path, size, messages)
    files = [str(part) for part in parts_of(path)]
    spooltop = (sys.executable, "-m", "spooltop")
    newest = f"{operations - 1:010x}"
    commands = [
        (sys.executable, "-c", READ, *files), ("wc", "-l", *files), (*spooltop, "ops", str(path)),
        (*spooltop, "ops", "--all", str(path)), (*spooltop, "ops", str(path), newest),
        (*spooltop, "undo", str(path), newest, "--dry-run"), (*spooltop, "hold", str(path), "--box", "new", "ALL", "--dry-run"),
    ]  # fmt: skip
    cells = [f"{run.seconds:.2f} s, {run.most / 1e6:.0f} MB" for run in (median(*command) for command in commands)]
    size = sum(map(os.path.getsize, files))
    return [f"{operations:,} operations of {messages:,}, {size / 1e6:.0f} MB in {len(files)} files", *cells]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("megabytes", nargs="?", type=int, default=200)
    parser.add_argument("messages", nargs="*", type=int, default=[20_000, 100])
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
    try:
        print(f"Whole commands on {kind(folder)}, medians of 3, with the most memory")
        print("| journal | read by Python | `wc -l` | `ops` | `ops --all` | `ops` of one | plan to undo it | plan to hold 1 |")
        print("|---|---|---|---|---|---|---|---|")
        for messages in args.messages:
            print(f"| {' | '.join(measured(folder / str(messages), args.megabytes * 1_000_000, messages))} |", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
