"""The one object of file operations misses no system call: each step once under strace(1), call by call.

A child marks the begin and the end of each operation by a question for a path that is nowhere. What it asks of the file system
between two operations did not go through the object.

    python -m tests.reliability.calls STEP ROOT WARM      one step, marked; how many operations it had, as JSON
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.scratch import scratch

from .errors import STEPS, Steps, tried
from .figures import Figure
from .seam import Seam
from .world import build, requeue_dead

__all__ = ["BAR", "NAME", "compared", "run"]

NAME = "every system call of each step goes through the one object (strace)"
BAR = "0 calls beside it, 0 operations that do another call"

MARK = "/.spooltop-proof"
STAT = {"stat", "lstat", "fstat", "newfstatat", "statx"}
LISTING = {"openat", "close", "getdents64", "lseek", "fcntl", "dup", "fstatfs"} | STAT
DOES: dict[str, set[str]] = {
    **{key: {"openat"} for key in ("open_dir", "create", "open_read", "open_lasting", "reopen")},
    **dict.fromkeys(("list", "scan", "inodes", "regular"), LISTING),
    **{key: {"fsync"} for key in ("sync", "sync_dir")},
    **dict.fromkeys(("stat", "fstat", "is_linked"), STAT),
    **{key: {"rename", "renameat", "renameat2"} for key in ("rename", "replace")},
    **{key: {"unlinkat"} for key in ("unlink", "rmdir")},
    **{key: {"flock"} for key in ("lock", "lock_coarse")},
    **{key: {"fcntl"} for key in ("lock_write", "write_locked")},
    "close": {"close"}, "write": {"write"}, "pwrite": {"pwrite64"}, "read": {"read"}, "read_at": {"pread64"},
    "content": {"lseek", "pread64"} | STAT, "truncate": {"ftruncate"}, "sync_fs": {"syncfs"}, "link": {"linkat"},
    "rename_noreplace": {"renameat2"}, "swap": {"renameat2"}, "symlink": {"symlinkat"},
    "mkdir": {"mkdirat"}, "copy_owner": {"fchown", "fchmod"} | STAT, "reserve": {"fallocate"},
    "keep_times": {"utimensat"}, "set_mtime": {"utimensat"},
}  # fmt: skip
"""The system calls that each operation is made of."""
CHANGES = {
    "write", "writev", "pwrite64", "pwritev", "fsync", "fdatasync", "syncfs", "sync", "rename", "renameat", "renameat2", "link",
    "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "truncate", "ftruncate", "fallocate",
    "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "flock", "mknod", "mknodat", "creat", "utimensat",
}  # fmt: skip
"""Calls that change what is there."""
LOOKS = {
    "requeue": "an operator asks for rights, owners and mounts by itself; what changes anything is looked at",
    "read": "the file that `open` gives is read by its user",
    "create": "the directory that a person names is made by its path",
}
"""Steps of which only the changing calls are compared, and why; `create` may make the directory itself."""
LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")
MARKED = re.compile(rf'"{re.escape(MARK)}/(\w+)/(\w+)"')
OPENED = re.compile(r"= (\d+)(?:<.*>)?$")
ANONYMOUS = {"mmap", "munmap", "mprotect", "brk"}


class Marked(Seam):
    """Marks each operation, from the first to the last. What comes bit by bit is fetched at once, between its marks."""

    def __init__(self) -> None:
        super().__init__(self.marked)
        self.armed = True

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, True if name == "armed" else value)

    def marked(self, _number: int, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        os.access(f"{MARK}/begin/{name}", 0)
        try:
            result = do(*arguments)
            return (one for one in list(result)) if name in ("scan", "inodes", "regular") else result
        finally:
            os.access(f"{MARK}/end/{name}", 0)


class Operator(Steps):
    """A requeue in which the look goes through the object as well."""

    def requeue(self) -> int:
        return requeue_dead(self.root, self.files, self.files)


def one(step: str, root: Path, files: Seam) -> Exception | None:
    if step != "requeue":
        return tried(root, step, files)
    Operator(root, files).requeue()
    return None


def compared(lines: Iterator[str], step: str) -> tuple[int, list[str]]:
    """(system calls between the first and the last mark, what is wrong) of the output of strace."""
    count, operations = 0, 0
    wrong: list[str] = []
    inside: list[tuple[str, int]] = []
    running = False
    apart: set[str] = set()
    for line in lines:
        found = LINE.match(line)
        if found is None:
            continue
        call, rest = found[1], found[2].rstrip()
        mark = MARKED.search(rest)
        if mark is not None:
            kind, name = mark[1], mark[2]
            if kind == "step":
                running = name == "begin"
            elif kind == "begin":
                operations += 1
                inside.append((name, 0))
            else:
                begun, calls = inside.pop()
                if begun != name or calls == 0:
                    wrong.append(f"{name} made no system call")
                if inside:  # what it did, the operation that it is part of did
                    inside[-1] = (inside[-1][0], inside[-1][1] + calls)
            continue
        if not running or call in ANONYMOUS:
            continue
        count += 1
        if inside:
            name, calls = inside[-1]
            inside[-1] = (name, calls + 1)
            if call not in DOES[name]:
                wrong.append(f"{name} did {call}({rest[:120]}")
            continue
        # The kernel's own tables are no files that anybody could lose.
        fd = rest.partition(",")[0].partition(")")[0].strip()
        if call in ("openat", "readlink", "readlinkat") and '"/proc/' in rest:
            if (opened := OPENED.search(rest)) is not None and call == "openat":
                apart.add(opened[1])
            continue
        if fd in apart:
            if call == "close":
                apart.discard(fd)
            continue
        if step in LOOKS and call not in CHANGES and not re.search(r"O_CREAT|O_WRONLY|O_RDWR", rest):
            continue
        if step == "create" and call == "mkdir":
            continue
        wrong.append(f"beside the object: {call}({rest[:120]}")
    if not operations:
        wrong.append("no operation was marked")
    return count, wrong


def traced(step: str) -> tuple[int, int, list[str]]:
    """(system calls, operations, what is wrong) of one step. Raises ``OSError`` where nothing can be traced."""
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        base = Path(folder)
        build(base / "warm", False)
        shutil.copytree(base / "warm", base / "root")
        program = [sys.executable, "-m", __name__, step, str(base / "root"), str(base / "warm")]
        ran = subprocess.run(
            ["strace", "-f", "-qq", "-s", "200", "-e", "trace=%file,%desc", "-o", str(base / "trace"), *program],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            if "PTRACE" in ran.stderr or "ptrace" in ran.stderr:
                raise OSError(ran.stderr)
            return 0, 0, [f"{step} failed under strace: {ran.stderr[-500:]}"]
        with (base / "trace").open(errors="replace") as trace:
            lines = trace.read().splitlines()
        count, wrong = compared(iter(lines), step)
        operations = json.loads(ran.stdout)["operations"]
        begun = sum(1 for line in lines if f'"{MARK}/begin/' in line)
        if begun != operations:
            wrong.append(f"{begun} operations in the trace, {operations} counted")
        return count, operations, [f"{step}: {words}" for words in wrong]


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Quick and whole are the same."""
    count = operations = violations = skipped = 0
    if shutil.which("strace") is None:
        return Figure(NAME, BAR, 0, 0, skipped=len(STEPS), explained="no strace here")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for step, pending in [(step, pool.submit(traced, step)) for step in STEPS]:
            try:
                calls, reports, wrong = pending.result()
            except OSError as error:
                skipped += 1
                say(f"{step}: not to be traced here: {error}")
                continue
            count += calls
            operations += reports
            violations += len(wrong)
            for words in wrong:
                say(words)
    return Figure(NAME, BAR, count, violations, skipped, f"{len(STEPS) - skipped} steps, {operations:,} operations")


def main(step: str, root: str, warm: str) -> None:
    if (error := one(step, Path(warm), Seam())) is not None:  # what is loaded and remembered at the first time is, then
        raise error
    gc.collect()
    gc.disable()
    files = Marked()
    os.access(f"{MARK}/step/begin", 0)
    error = one(step, Path(root), files)
    os.access(f"{MARK}/step/end", 0)
    if error is not None:
        raise error
    print(json.dumps({"operations": len(files.calls)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
