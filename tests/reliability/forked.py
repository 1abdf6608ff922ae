"""Processes that begin at the call to be tried: all is loaded, what they do is the command from its first system call on.

A parent that has loaded everything waits on a socket. strace(1) is attached to it, with what it is to do to the N-th call of one
name; then the parent forks a child for each command. A child is a process of its own, and strace counts its calls from one on:
no call of a start of Python is among them. What the parent itself does, no rule of strace names.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import spooltop
from spooltop.cli.context import Terminal
from spooltop.cli.main import run

__all__ = ["Ended", "Forked", "NotTraced", "Threads", "command"]

PR_SET_PTRACER = 0x59616D61
LATE = ("encodings.idna", *(f"encodings.utf_{size}_{end}" for size in (16, 32) for end in ("be", "le")), "syslog", "pwd")
_CLONED = re.compile(r"\bclone3?\b.*= (\d+)$")
PATIENCE = 60
"""Seconds that a command may take, at the slowest call by call."""


Threads = list[list[str]]
"""What strace wrote of the calls of each thread of a process."""


class NotTraced(OSError):
    """Nobody may trace here."""


@dataclass(frozen=True)
class Ended:
    """Ended command: ``code`` is negative where a signal ended it, as in ``subprocess``."""

    pid: int
    code: int
    out: str
    err: str


def command(words: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the command line in this process and returns its exit code."""
    return run(words, Terminal(io.StringIO(), out, err, {}), dashboard=_no_dashboard)


def _no_dashboard(*_: object) -> int:
    raise AssertionError("a command opens no dashboard")


def load_all() -> None:
    """Loads what is loaded late, but for the dashboard."""
    for found in pkgutil.walk_packages(spooltop.__path__, "spooltop."):
        if not found.name.startswith(("spooltop.tui", "spooltop.cli.demo")) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in LATE:
        importlib.import_module(name)


class Forked:
    """A parent of ``places`` commands at a time, each with streams of its own, as ``with`` opens and ends it.

    ``do`` is what a child does with the words it is given and its streams: the exit code."""

    def __init__(self, folder: Path, places: int, do: Callable[[Sequence[str], TextIO, TextIO], int] = command) -> None:
        load_all()
        self._streams = [(folder / f"{place}.out", folder / f"{place}.err") for place in range(places)]
        self._trace = folder / "trace"
        self._line, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._line.close()
            code = 1
            try:
                _parent(theirs, self._streams, do)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self._answer()  # it has its streams, and may be traced

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        os.waitpid(self.pid, 0)

    def run(self, commands: Sequence[Sequence[str]]) -> list[Ended]:
        """Runs the commands one after the other, each in a process of its own."""
        for paths in self._streams:
            for path in paths:
                os.truncate(path, 0)
        self._line.sendall(json.dumps(commands).encode() + b"\n")
        ended = json.loads(self._answer())
        return [
            Ended(pid, code, out.read_text(), err.read_text())
            for (pid, code), (out, err) in zip(ended, self._streams, strict=False)
        ]

    def _answer(self) -> bytes:
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._line.recv(65536)
            if not part:
                raise AssertionError("the parent of the commands ended")
            answer += part
        return answer

    def traced(self, commands: Sequence[Sequence[str]], traced: str, *options: str) -> tuple[list[Ended], dict[int, Threads]]:
        """The same under strace, of the calls ``traced``, with ``options``: how they ended, and what strace wrote of each
        process, thread by thread. Raises ``NotTraced``."""
        self._trace.unlink(missing_ok=True)
        rules = ["-e", f"trace={traced},clone,clone3", *options]
        strace = ["strace", "-f", "-y", "-s", "200", "-o", str(self._trace), *rules, "-p", str(self.pid)]
        with subprocess.Popen(strace, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            said = b""
            while b"attached" not in said:
                line = tracer.stderr.readline()
                said += line
                if not line or b"ptrace(" in line:
                    tracer.kill()
                    raise NotTraced(said.decode(errors="replace").strip())
            try:
                ended = self.run(commands)
            finally:
                tracer.send_signal(signal.SIGINT)
                tracer.stderr.read()
        lines: dict[int, list[str]] = {}
        begun_by: dict[int, int] = {}
        with self._trace.open(errors="replace") as trace:
            for line in trace:
                pid, _, rest = line.partition(" ")
                lines.setdefault(int(pid), []).append(rest.strip())
                if (begun := _CLONED.search(rest)) is not None:
                    begun_by[int(begun[1])] = int(pid)
        threads: dict[int, Threads] = {one.pid: [] for one in ended}
        for thread, calls in lines.items():
            pid = thread
            while pid not in threads and pid in begun_by:
                pid = begun_by[pid]
            if pid in threads:
                threads[pid].append(calls)
        return ended, threads


def _parent(
    line: socket.socket, streams: Sequence[tuple[Path, Path]], do: Callable[[Sequence[str], TextIO, TextIO], int]
) -> None:
    with suppress(OSError, AttributeError):  # where it is not there, nobody asks for it either
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1))
    opened = [(out.open("a"), err.open("a")) for out, err in streams]
    gc.collect()
    gc.freeze()
    gc.disable()  # else the calls of a command come now before, now after a descriptor that the collector closes
    line.sendall(b"ready\n")
    asked = b""
    while part := line.recv(65536):
        asked += part
        if not asked.endswith(b"\n"):
            continue
        ended = []
        for words, (out, err) in zip(json.loads(asked), opened, strict=False):
            pid = os.fork()
            if pid == 0:
                _child(words, out, err, do)
            status = os.waitpid(pid, 0)[1]
            ended.append((pid, os.waitstatus_to_exitcode(status)))
        line.sendall(json.dumps(ended).encode() + b"\n")
        asked = b""


def _child(words: Sequence[str], out: TextIO, err: TextIO, do: Callable[[Sequence[str], TextIO, TextIO], int]) -> None:
    code = 70
    try:
        signal.alarm(PATIENCE)
        sys.stdout, sys.stderr = out, err
        code = do(words, out, err)
        out.flush()
    except BaseException as error:  # noqa: BLE001  a child never runs on in its parent's place
        with suppress(OSError, ValueError):
            err.write(f"Traceback: {type(error).__name__}: {error}\n")
    finally:
        with suppress(OSError, ValueError):
            err.flush()
        os._exit(cast("int", code))
