"""Processes that have a file open, hold a lock of the kernel on it, or wait for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

__all__ = ["holder", "opener"]

HOLDER = """
import fcntl, os, sys
how, path = sys.argv[1:3]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
if how == "wait":
    print("waits", flush=True)
{"flock": lambda: fcntl.flock(fd, fcntl.LOCK_EX), "wait": lambda: fcntl.flock(fd, fcntl.LOCK_EX),
 "posix": lambda: fcntl.lockf(fd, fcntl.LOCK_EX),
 "ofd": lambda: fcntl.fcntl(fd, 37, __import__("struct").pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))}[how]()
if how == "flock" and len(sys.argv) > 3 and os.fork():
    os._exit(0)
print("has it", os.getpid(), flush=True)
sys.stdin.read()
"""
OPENER = """
import os, sys
fds = [os.open(sys.argv[2], {"r": os.O_RDONLY, "w": os.O_WRONLY, "a": os.O_RDWR | os.O_APPEND}[how]) for how in sys.argv[1]]
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(how: str, path: Path, *more: str, code: str = HOLDER) -> Iterator[int]:
    """A process that holds the lock (or waits for it); its pid, or that of its child."""
    with subprocess.Popen(
        [sys.executable, "-c", code, how, str(path), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        said = process.stdout.readline().split()
        if "fork" in more:
            process.wait()  # what it started is alone with the lock
        try:
            yield int(said[2]) if len(said) > 2 else process.pid
        finally:
            process.stdin.close()
            if how == "wait":
                process.kill()


def opener(path: Path, modes: str) -> AbstractContextManager[int]:
    """A process that has the file open once for each letter: to read, to write, to append."""
    return holder(modes, path, code=OPENER)
