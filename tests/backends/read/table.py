"""What a Control looks with, in place of the system: a process table that says what a test wants, presences of consumers, clocks.

Here alone the tests of what is read replace something within spooltop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.backends.directory import backend, storage
from spooltop.backends.directory.processes import Descriptor, Descriptors, Process, Processes, ProcessUse, ProcOwner
from spooltop.control import Control
from spooltop.engine import presence as taking
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.host import Machine
from spooltop.engine.presence import PresenceLock
from spooltop.model.snapshot import Observation

__all__ = ["FakeProcesses", "ProcOwner", "Process", "ProcessUse", "presence", "see", "see_until", "surround"]


def surround(monkeypatch: pytest.MonkeyPatch, around: Mapping[str, Any], **limits: float) -> None:
    """Has directories that are opened from now on look at ``around``, a process table and clocks, within ``limits``."""
    monkeypatch.setattr(backend, "System", partial(storage.System, **around))
    monkeypatch.setattr(backend, "OpenOptions", partial(storage.OpenOptions, **limits))


@contextmanager
def presence(spool: Path, **elsewhere: str) -> Iterator[str]:
    """A consumer holds its presence file, whose token is returned; at the end it has exited and left the file. ``elsewhere`` is
    what its machine has of another one: ``boot_id``, ``machine_id``, ``host``."""
    with SpoolDirs(spool) as dirs, pytest.MonkeyPatch.context() as patch:
        patch.setattr(taking, "command_line", lambda: "work")
        if elsewhere:
            patch.setattr(taking, "this_machine", lambda: replace(FakeProcesses().machine(), **elsewhere))
        lock = PresenceLock.take(dirs, now=7.0)
        try:
            yield lock.token
        finally:
            lock.drop(dirs, remove=False)


class FakeProcesses(Processes):
    """``pids`` live here; ``hidden`` live and are not shown; ``contained`` are numbers inside containers → process."""

    def __init__(self, **state: Any) -> None:
        super().__init__()
        self.pids: dict[int, Process] = {}
        self.hidden: Iterable[int] = ()
        self.contained: dict[int, Process] = {}
        self.first = True
        self.boot = 1_000.0
        self.offset = 1_795_000_000.0
        self.open_files: dict[tuple[int, int], tuple[int, ...]] = {}
        self.only_read: set[int] = set()
        self.unread: tuple[ProcOwner, ...] | None = ()
        self.table: bytes | None = b""
        self.used: dict[int, float] = {}
        self.uses: dict[int, ProcessUse] = {}
        vars(self).update(state)

    def wall(self) -> float:
        return self.boot + self.offset

    def boottime(self) -> float:
        return self.boot

    def host(self) -> str:
        return "here"

    def machine(self) -> Machine:
        return replace(super().machine(), machine_id="0123456789abcdef" * 2)

    def in_first_namespace(self) -> bool:
        return self.first

    def exists(self, pid: int) -> bool | None:
        return pid in self.pids or pid in self.hidden if pid > 0 else None

    def namesakes(self, pids: Iterable[int]) -> dict[int, list[Process]] | None:
        if self.hidden:
            return None
        tables = (self.pids, self.contained)
        return {pid: [table[pid] for table in tables if pid in table] for pid in pids}

    def process(self, pid: int, *, described: bool = False) -> Process | None:
        return self.pids.get(pid)

    def cpu(self, pid: int) -> tuple[tuple[int, float, float], ...] | None:
        return ((pid, 0.0, self.used[pid]),) if pid in self.used else None

    def use(self, pid: int) -> ProcessUse | None:
        return self.uses.get(pid)

    def command_line(self, pid: int) -> str:
        return f"python3 /srv/worker.py --of {pid}"

    def descriptors(self, files: set[tuple[int, int]]) -> Descriptors:
        opened = {key: pids for key, pids in self.open_files.items() if key in files}
        found = {key: tuple(Descriptor(pid, 3, pid not in self.only_read) for pid in pids) for key, pids in opened.items()}
        return Descriptors(found, self.unread)

    def files_of(self, pid: int) -> set[tuple[int, int]] | None:
        return set()

    def locks(self) -> bytes | None:
        return self.table


def see(control: Control) -> Observation:
    """Looks again at everything."""
    return control.look(rescan=True).observation


def see_until(control: Control, condition: Callable[[Observation], bool], looks: int = 100) -> Observation:
    """Looks whenever something changed, or a tenth of a second passed, until ``condition`` holds."""
    for _ in range(looks):
        observation = control.look().observation
        if condition(observation):
            return observation
        control.changes(0.1)
    raise AssertionError(f"not seen in {looks} looks: {control.look()}")
