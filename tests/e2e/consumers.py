"""Real consumers and writers in processes of their own: they say what they hold, end when told, or are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_CONSUMER = """
import json, sys
from spooltop.engine import Spool
spool = Spool(sys.argv[1])
claim = spool.claim(timeout=10)
print(json.dumps({"id": claim.id, "attempt": claim.attempt}), flush=True)
getattr(claim, sys.stdin.readline().strip() or "ack")()
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
_WRITER = """
import os, signal, sys
from spooltop.engine import Spool
class Pieces:
    pieces = [b"x" * 1000]
    def read(self, size=-1):
        return self.pieces.pop() if self.pieces else os.kill(os.getpid(), signal.SIGKILL)
with Spool(sys.argv[1], durable=False) as spool:
    spool.put(Pieces(), source="email")
"""


def _start(script: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def hold(spool: Path, many: int) -> subprocess.Popen[str]:
    """Starts a consumer that holds ``many`` claims until its stdin ends, then gives them back."""
    process = _start(_HOLDER, spool, many)
    assert _line(process) == "holds\n"
    return process


@dataclass
class Consumer:
    """Process that claimed one message; ``got`` is what it says of it."""

    process: subprocess.Popen[str]
    got: dict[str, object]

    @classmethod
    def claim(cls, spool: Path) -> Consumer:
        process = _start(_CONSUMER, spool)
        return cls(process, json.loads(_line(process)))

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and waits until the kernel has let go of everything it held."""
        self.process.kill()
        self.process.communicate()

    def end(self, word: str = "ack") -> int:
        """Lets it ack, release or reject, and waits for its end."""
        self.process.communicate(f"{word}\n", timeout=30)
        return self.process.returncode


def dying_writer(spool: Path) -> None:
    """Leaves the beginning of a message in ``tmp``."""
    with _start(_WRITER, spool) as process:
        process.wait(30)
