"""Real consumers and producers in processes of their own: they say what they hold, put a message whenever they are told, are slow
in ``tmp``, end when told, or are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_CONSUMER = """
import json, sys
from spooltop.engine import Spool
spool = Spool(sys.argv[1])
claim = spool.claim(timeout=float(sys.argv[2]))
record = claim and {"id": claim.id, "attempt": claim.attempt, "data": claim.data.decode("latin1")}
print(json.dumps(record), flush=True)
word = sys.stdin.readline().strip()
if claim is not None:
    getattr(claim, word or "ack")()
spool.close()
"""

_HOLDER = """
import sys
from spooltop.engine import Spool
spool = Spool(sys.argv[1])
claims = [spool.claim(timeout=10) for _ in range(int(sys.argv[2]))]
print("holds", flush=True)
sys.stdin.read()
for claim in claims:
    claim.release()
"""


def hold(spool: Path, many: int) -> subprocess.Popen[str]:
    """A consumer that holds ``many`` claims until its stdin ends, then gives them back."""
    words = [sys.executable, "-c", _HOLDER, str(spool), str(many)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "holds\n"
    return process


@dataclass
class Consumer:
    """One process that claimed one message; ``got`` is what it says of it, None where there was none."""

    process: subprocess.Popen[str]
    got: dict[str, object] | None

    @classmethod
    def claim(cls, spool: Path, timeout: float = 10.0) -> Consumer:
        process = subprocess.Popen(
            [sys.executable, "-c", _CONSUMER, str(spool), str(timeout)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        return cls(process, json.loads(process.stdout.readline()))

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and waits until the kernel has let go of everything it held."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def end(self, word: str = "ack") -> int:
        """Lets it ack, release or reject, and waits for its end."""
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
        return self._reap()

    def _reap(self) -> int:
        code = self.process.wait(30)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:  # it died with our word unread
                    continue
        return code


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
