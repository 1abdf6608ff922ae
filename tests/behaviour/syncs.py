"""The record of what each operation writes, moves and syncs, and in which order, as strace sees it from outside.

    python -m tests.behaviour.syncs [--write]

A census cannot see a sync that is left out: only a power cut would show it. Ids, tokens and descriptors are replaced.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from spooltop.engine import Spool
from tests.scratch import scratch

__all__ = ["RECORD", "difference", "record"]

RECORD = Path(__file__).parent / "recorded" / "syncs.txt"
_COMMANDS = (
    "hold a", "release a", "purge --box new a", "restore a", "purge --box new b --now", "requeue --box rejected c",
    "pause", "resume",
)  # fmt: skip
_CALLS = "fsync,fdatasync,syncfs,rename,renameat,renameat2,link,linkat,unlink,unlinkat,write,pwrite64,mkdir,mkdirat"
"""Calls that change or sync something."""
_NAMES = (
    (r"\b[0-9a-f]{32}\b", "TOKEN"), (r"\b[0-9a-f]{16}\b", "RANDOM"), (r"\b[0-9a-f]{10}\b", "OPERATION"), (r":2,P\d+", ":2,PID"),
)  # fmt: skip


def record() -> str:
    """The calls of each command on one spool with the messages a, b and c, of which c is rejected."""
    with tempfile.TemporaryDirectory(prefix="spooltop-syncs-", dir=scratch()) as folder:
        path = Path(folder) / "spool"
        with Spool.create(str(path)) as spool:
            spool.put(b"c", id="c")
            claim = spool.claim()
            assert claim is not None
            claim.reject("exit-1")
            for id in ("a", "b"):
                spool.put(id.encode(), id=id)
        return "\n".join(f"$ {command}\n{_traced(path, command)}" for command in _COMMANDS)


def _traced(path: Path, command: str) -> str:
    """The calls of one command that name something in the spool, a line each: ``fsync new``."""
    action, *words = command.split()
    log = path.parent / "strace"
    strace = ["strace", "-f", "-y", "-s", "0", "-qq", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(log)]
    env = {**os.environ, "XDG_STATE_HOME": str(path.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [*strace, sys.executable, "-m", "spooltop", action, str(path), *words, "--yes"]
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
    lines = []
    for line in log.read_text().splitlines():
        if f"{path}/" in line or f"{path}>" in line:
            call, _, arguments = line.partition(" ")[2].strip().partition("(")
            arguments = re.sub(rf"\d+<{re.escape(str(path))}/?([^>]*)>", r"\1", arguments.rpartition(") =")[0])
            arguments = re.sub(r', ""\.\.\., \d+', "", arguments).replace(".spooltop/", "")
            for pattern, name in _NAMES:
                arguments = re.sub(pattern, name, arguments)
            lines.append(f"  {call} {arguments}\n")
    return "".join(lines)


def difference() -> list[str]:
    """The lines of the difference between what is recorded and what happens now."""
    before, after = RECORD.read_text(encoding="utf-8").splitlines(), record().splitlines()
    return list(difflib.unified_diff(before, after, RECORD.name, "now", lineterm="", n=6))


def main() -> int:
    if "--write" in sys.argv:
        RECORD.write_text(record(), encoding="utf-8")
        return 0
    lines = difference()
    print("\n".join(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
