"""An operator on a spool whose file operations can be cut off, recorded or made to fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spooltop.backends.directory.judges import JudgedClaim
from spooltop.backends.directory.operator.operator import OperatorChain, SpoolOpener
from spooltop.backends.directory.storage import System
from spooltop.backends.log_store import LogFiles
from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import BATCH
from spooltop.model.vocabulary import Box, Verdict
from spooltop.operate.operations import Operations

__all__ = ["Desk"]


@dataclass
class DeskNames:
    """Names of a box as listed, each judged when it is asked for."""

    listed: list[str]
    judged: Callable[[str], tuple[Verdict | None, str]]

    def __len__(self) -> int:
        return len(self.listed)

    def __iter__(self) -> Iterator[list[str]]:
        return (self.listed[start : start + BATCH] for start in range(0, len(self.listed), BATCH))

    def unordered(self) -> Iterator[list[str]]:
        return iter(self)

    def judge(self, names: Sequence[str], tails: Sequence[str]) -> list[JudgedClaim]:
        return [JudgedClaim(*self.judged(name), None) for name in names]


@dataclass
class Desk:
    """Operator at a spool. ``looking`` are the file operations of the look."""

    path: Path
    looking: LogFiles | None = None

    def again(self, box: Box, asked: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        there = set(self.look(box).listed)
        return {name: self._judged(box, name)[:2] for name in asked if name in there}

    def look(self, box: Box) -> DeskNames:
        with SpoolDirs(self.path, self.looking) as dirs:
            names = sorted(name for name in dirs.files.list(dirs.box(box)) if not name.startswith("."))
        return DeskNames(names, lambda name: self._judged(box, name))

    def _judged(self, box: Box, name: str) -> tuple[Verdict | None, str]:
        parsed = names.parse(name, claimed=box is Box.CUR)
        if parsed.token is not None:
            with SpoolDirs(self.path, self.looking) as dirs:
                return presence.judge(presence.look(dirs, parsed.token), presence.HostView.of(dirs))
        return (None, "") if box is Box.NEW else (Verdict.UNKNOWN, "its name has no token")

    def operations(self, files: LogFiles | None) -> Operations:
        world = System(clock=time.time) if files is None else System(files, clock=time.time)
        spool = SpoolOpener(
            path=str(self.path), world=world, look=lambda box, _: self.look(box), again=self.again,
            state_dir=f"{self.path}.state", user="proof",
        )  # fmt: skip
        return Operations(OperatorChain(spool.opened), str(self.path), time.time)
