"""Streams that keep what was written, and the command line run on them."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spooltop import open_queue
from spooltop.cli.main import Terminal, run

ROOT = Path(__file__).parents[2]


class Stream(io.TextIOWrapper):
    """Text over bytes in memory; ``tty`` is what ``isatty`` says."""

    def __init__(self, data: bytes = b"", *, tty: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", errors="surrogateescape", write_through=True)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    @property
    def written(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8", "surrogateescape")


@dataclass
class Done:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


def spooltop(
    *words: str | Path, stdin: bytes = b"", tty: bool = False, environ: dict[str, str] | None = None,
    opener: Callable[..., Any] | None = None,
) -> Done:  # fmt: skip
    """Runs the command line in this process. A dashboard that opens says so on stdout and returns 42."""
    out, err = Stream(tty=tty), Stream(tty=tty)
    terminal = Terminal(Stream(stdin, tty=tty), out, err, environ if environ is not None else {"TERM": "xterm"})

    def dashboard(control: object, options: Namespace) -> int:
        terminal.out("dashboard")
        return 42

    code = run([str(word) for word in words], terminal, dashboard=dashboard, open_control=opener)
    done = Done(code, out.written, err.written)
    assert "Traceback" not in done.err or "SPOOLTOP_DEBUG" in terminal.environ
    return done


def commands() -> list[str]:
    """Lists the names of all commands, as the help does."""
    listed = spooltop("-h").out.partition("commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+) ", listed, re.MULTILINE)


def start(*words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """The command line as a process; all streams are pipes unless ``options`` say otherwise."""
    for stream in ("stdin", "stdout", "stderr"):
        options.setdefault(stream, subprocess.PIPE)
    options.setdefault("cwd", ROOT)
    return subprocess.Popen([sys.executable, "-m", "spooltop", *map(str, words)], **options)


@contextmanager
def running(*words: str | Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command line as a process, which is killed at the end if it still runs."""
    with start(*words, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(words: Sequence[str | Path], stdin: bytes = b"", **options: Any) -> Done:
    """Runs the command line as a process to its end."""
    with start(*words, **options) as process:
        out, err = process.communicate(stdin)
    return Done(process.returncode, os.fsdecode(out or b""), os.fsdecode(err or b""))


def put(queue: Path | str, *contents: bytes) -> None:
    with open_queue(str(queue)) as opened:
        opened.put_many(contents)


def contents(queue: Path | str) -> list[bytes]:
    """Takes out all that waits, oldest first."""
    found = []
    with open_queue(str(queue)) as opened:
        for claim in opened.claims():
            with claim:
                found.append(claim.data)
    return found
