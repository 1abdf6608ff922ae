"""Real producers in processes of their own: one puts a message whenever it is told, one is slow in ``tmp``, one dies there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PRODUCER = """
import sys
from spooltop.engine import Spool
with Spool(sys.argv[1], durable=False) as spool:
    for line in sys.stdin:
        spool.put_many([line.encode()] * int(line), source="email")
        print("put", flush=True)
"""
_WRITER = """
import os, signal, sys
from spooltop.engine import Spool
class Pieces:
    left = 2
    def read(self, size=-1):
        self.left -= 1
        if self.left:
            return b"x" * 1000
        print("writing", flush=True)
        if sys.argv[2] == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdin.readline()
        return b""
with Spool(sys.argv[1], durable=False) as spool:
    spool.put(Pieces(), source="email")
"""


@contextmanager
def _started(script: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class Producer:
    """Puts what it is told to put."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def put(self, count: int) -> None:
        """Returns once ``count`` more messages are in ``new``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "put\n"


@contextmanager
def producer(spool: Path) -> Iterator[Producer]:
    with _started(_PRODUCER, str(spool)) as process:
        yield Producer(process)


@contextmanager
def slow_writer(spool: Path) -> Iterator[int]:
    """A writer in the middle of its message, for as long as the block lasts. Its pid."""
    with _started(_WRITER, str(spool), "lives") as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        yield process.pid


def dying_writer(spool: Path) -> None:
    """Leaves the beginning of a message in ``tmp``."""
    with _started(_WRITER, str(spool), "dies") as process:
        process.wait(30)
