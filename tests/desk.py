"""A spool, an operator on it, real consumers, and the eyes to count where every message stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spooltop.backends.directory.operator.operator import DirectoryOperator
from spooltop.backends.directory.operator.planning.chunks import Judged
from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.operations.chunked import CHUNK
from spooltop.model.vocabulary import ASIDE, LIVE, Box, Verdict
from spooltop.operate.operations import Operations
from tests.clock import Clock
from tests.worlds import opening

__all__ = ["Desk", "new_desk"]

CONSUMER = """
import sys
from spooltop.engine import names
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import PresenceLock
with SpoolDirs(sys.argv[1]) as dirs:
    hold = PresenceLock.take(dirs, now=1.0)
    for us, name in enumerate(sys.argv[2:]):
        dirs.files.move(name, dirs.new, names.in_cur(name, hold.token, 1795222800000000 + us, 4312), dirs.cur)
    print("claimed", flush=True)
    sys.stdin.read()
"""


@dataclass
class DeskNames:
    """Names of a box as listed, each judged when it is asked for."""

    listed: list[str]
    judged: Callable[[str], tuple[Verdict | None, str]]

    def __len__(self) -> int:
        return len(self.listed)

    def __iter__(self) -> Iterator[list[str]]:
        return (self.listed[start : start + CHUNK] for start in range(0, len(self.listed), CHUNK))

    def unordered(self) -> Iterator[list[str]]:
        return iter(self)

    def judge(self, names: Sequence[str], tails: Sequence[str]) -> Judged:
        verdicts, evidence = zip(*map(self.judged, names), strict=True)
        return Judged([None if one is None else one.value for one in verdicts], list(evidence))


@dataclass
class Desk:
    """Operator at a spool. ``verdicts`` judges names that carry no token; names missing from it are unknown."""

    path: Path
    state: Path
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    clock: Callable[[], float] = field(default_factory=Clock)
    looking: LogFiles | None = None
    """File operations of the look."""

    # What a reader would do, in small

    def again(self, box: Box, asked: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        there = set(self.look(box).listed)
        found = [name for name in asked if name in there]
        return {name: self._judged(box, name)[:2] for name in found}

    def look(self, box: Box) -> DeskNames:
        with SpoolDirs(self.path, self.looking) as dirs:
            names = sorted(name for name in dirs.files.list(dirs.box(box)) if not name.startswith("."))
        return DeskNames(names, lambda name: self._judged(box, name))

    def _judged(self, box: Box, name: str) -> tuple[Verdict | None, str]:
        parsed = names.parse(name, claimed=box is Box.CUR)
        if parsed.token is not None:
            with SpoolDirs(self.path, self.looking) as dirs:
                return presence.judge(presence.look(dirs, parsed.token), presence.Vantage.of(dirs))
        return (None, "") if box is Box.NEW else (self.verdicts.get(name, Verdict.UNKNOWN), "as the test says")

    def operator(self, files: LogFiles | None = None, **more: Any) -> DirectoryOperator:
        options, world, rest = opening({"files": files, "clock": self.clock, **more})
        return DirectoryOperator(
            str(self.path), options, world, look=lambda box, _: self.look(box),
            **{"again": self.again, "state_dir": str(self.state), "user": "ann", "wait": lambda seconds: None, **rest},
        )  # fmt: skip

    def operations(self, files: LogFiles | None = None, **more: Any) -> Operations:
        return Operations(self.operator(files, **more), str(self.path), self.clock)

    # What others do

    @staticmethod
    def id(number: int) -> str:
        """An id of the protocol's own form."""
        return f"{1795222800000000 + number:016d}.P77R{number:016x}.vm"

    @staticmethod
    def kill(process: subprocess.Popen[str]) -> None:
        kill(process)

    def put(self, name: str, data: str = "", box: Box = Box.NEW) -> str:
        (self.path / box / name).write_text(data or f"payload of {name!r}\n", encoding="utf-8", errors="surrogateescape")
        return name

    def claim(self, *waiting: str) -> tuple[subprocess.Popen[str], list[str]]:
        """A living consumer that holds these names, and what they are called in ``cur``."""
        before = set(os.listdir(self.path / "cur"))
        consumer = subprocess.Popen(
            [sys.executable, "-c", CONSUMER, str(self.path), *waiting], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        self.processes.append(consumer)
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "claimed\n"
        return consumer, sorted(set(os.listdir(self.path / "cur")) - before)

    def claim_and_die(self, *waiting: str) -> list[str]:
        consumer, claims = self.claim(*waiting)
        kill(consumer)
        return claims

    def claim_and_die_here(self, waiting: str) -> None:
        """The same by a fork of this process, which is quicker and as dead."""
        pid = os.fork()
        if pid == 0:
            try:
                with SpoolDirs(self.path) as dirs:
                    hold = presence.PresenceLock.take(dirs, now=1.0)
                    assert dirs.new is not None and dirs.cur is not None
                    claim = names.in_cur(waiting, hold.token, 1795222800000000, 4312)
                    dirs.files.move(waiting, dirs.new, claim, dirs.cur)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)

    # What there is

    def names(self, box: Box) -> list[str]:
        if box in ASIDE:
            return sorted(
                path.name for path in (self.path / ".spooltop" / box).glob("*/*") if not path.name.startswith(".")
            )  # fmt: skip
        return sorted(os.listdir(self.path / box))

    def close(self) -> None:
        for process in self.processes:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def new_desk(root: Path) -> Desk:
    path = root / "spool"
    for box in LIVE:
        (path / box).mkdir(parents=True)
    return Desk(path, root / "state")
