"""Faults put into the engine on purpose: the checks that hold for the real one find each of them.

A fault is either put over the file operations, or a change to the source of a copy of the package, which a child runs.

    python -m tests.reliability.faults CHECK      what is wrong with the package on the path, as JSON
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import spooltop
from tests.scratch import scratch

from .checks import (
    CHECKS,
    dead_beside_living,
    dribbled,
    killed_anywhere,
    living_holder,
    power_cut,
    power_cut_after_a_failed_sync,
    power_cut_of_a_group,
    power_cut_without_renameat2,
    taken_away,
    three_pollers,
    two_under_one_name,
)
from .figures import Figure

__all__ = ["BAR", "FAULTS", "NAME", "Fault", "run"]

NAME = "faults put in on purpose"
BAR = "each is caught by a named check, which the real code passes"


class NoFileSync:
    def sync(self, fd: int) -> None:
        return


class NoDirectorySync:
    def sync_dir(self, fd: int) -> None:
        return


class NoGroupSync:
    def sync_fs(self, fd: int) -> None:
        return


class PlainRename:
    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        self.rename(name, dir_fd, to, to_fd)  # type: ignore[attr-defined]


class UnlinkBeforeSync:
    def _link_over(self: Any, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        self.link(name, dir_fd, to, to_fd)
        self.unlink(name, dir_fd)
        self.sync_dir(dir_fd)
        self.sync_dir(to_fd)


class SyncAgain:
    def sync(self: Any, fd: int) -> None:
        try:
            super().sync(fd)  # type: ignore[misc]
        except OSError:
            super().sync(fd)  # type: ignore[misc]


class ShortWriteIgnored:
    def write_all(self: Any, fd: int, data: bytes) -> None:
        self.write(fd, data)


class PosixLock:
    def lock_write(self, fd: int, *, wait: bool = False) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except (BlockingIOError, PermissionError):
            return False
        return True


class NoLock:
    def lock_write(self, fd: int, *, wait: bool = False) -> bool:
        return True


class UnlinkBeforeWrite:
    def replace(self: Any, name: str, to: str, dir_fd: int) -> None:
        self.unlink(to, dir_fd)
        self.rename(name, dir_fd, to, dir_fd)


class MoveByCopy:
    def move(self: Any, name: str, dir_fd: int, to: str, to_fd: int, *_more: object, **_other: object) -> None:
        fd = self.open_read(name, dir_fd)
        data = self.content(fd)
        self.close(fd)
        self.unlink(name, dir_fd)
        fd = self.create(to, to_fd)
        self.write_all(fd, data)
        self.close(fd)


class MissingIsGone:
    def unlink(self, name: str, dir_fd: int) -> None:
        try:
            super().unlink(name, dir_fd)  # type: ignore[misc]
        except FileNotFoundError:
            return


@dataclass(frozen=True)
class Change:
    """``old`` becomes ``new`` in the source file ``path`` of the package; it stands there once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Fault:
    name: str
    seeded: type | Change
    check: Callable[..., list[str]]


FAULTS = (
    Fault("no file sync", NoFileSync, power_cut),
    Fault("no directory sync", NoDirectorySync, power_cut),
    Fault("no sync of a group", NoGroupSync, power_cut_of_a_group),
    Fault("plain rename in place of RENAME_NOREPLACE", PlainRename, two_under_one_name),
    Fault("unlink before the sync of the target, without renameat2", UnlinkBeforeSync, power_cut_without_renameat2),
    Fault("a sync that failed tried again", SyncAgain, power_cut_after_a_failed_sync),
    Fault("a short write ignored", ShortWriteIgnored, dribbled),
    Fault("the presence lock a POSIX one", PosixLock, living_holder),
    Fault("no presence lock", NoLock, living_holder),
    Fault("cursor: unlink before write", UnlinkBeforeWrite, killed_anywhere),
    Fault("a move as unlink and write", MoveByCopy, killed_anywhere),
    Fault("the ack of a claim that was taken away", MissingIsGone, taken_away),
    Fault(
        "the record of a key on the disk before its message",
        Change("engine/producer.py", "                self.sync_names()\n", "                pass\n"),
        power_cut,
    ),
    Fault(
        "a message set aside on the disk before its claim",
        Change("engine/set_aside.py", "        dirs.files.sync_dir(dirs.box(Box.NEW))\n", "        pass\n"),
        power_cut,
    ),
    Fault(
        "dead by age",
        Change(
            "engine/presence.py",
            '    if presence.state == "held":\n',
            '    import time\n    if presence.state == "held" and time.time() - (presence.since or 0) > 600:\n'
            '        return Verdict.DEAD, "too old"\n    if presence.state == "held":\n',
        ),
        living_holder,
    ),
    Fault(
        "a token used twice",
        Change("engine/presence.py", "        token = os.urandom(16).hex()  # never given twice\n", '        token = "0" * 32\n'),
        dead_beside_living,
    ),
    Fault(
        "the lock on cursors.json itself",
        Change(
            "engine/cursors.py",
            "return files.reopen(LOCK, folder)\n",
            "return files.reopen(self._name, folder)\n",
        ),
        three_pollers,
    ),
    Fault(
        "the lock file removed",
        Change(
            "engine/cursors.py",
            "            yield\n\n    def _open_lock",
            "            try:\n                yield\n            finally:\n"
            "                if os.path.exists(f'{self._folder}/{LOCK}'):\n"
            "                    files.unlink(LOCK, folder)\n\n    def _open_lock",
        ),
        three_pollers,
    ),
)


def in_process(check: str, seeded: type | None) -> list[str]:
    """Runs a check with the fault laid over its file operations, and returns its findings."""

    def made(kind: type) -> type:
        return kind if seeded is None else type(f"{seeded.__name__}{kind.__name__}", (seeded, kind), {})

    chosen = next(one for one in CHECKS if one.__name__ == check)
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        base = Path(folder) / "check"
        base.mkdir()
        return chosen(base, made)


def in_copy(check: str, change: Change | None) -> list[str]:
    """Runs a check in a child that uses a copy of the package with the change made to it, and returns its findings. Raises
    ``ValueError`` where that is impossible."""
    here = Path(spooltop.__file__).parent
    with tempfile.TemporaryDirectory(prefix="spooltop-fault-", dir=scratch()) as folder:
        copy = Path(folder) / "spooltop"
        shutil.copytree(here, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if change is not None:
            text = (copy / change.path).read_text()
            if text.count(change.old) != 1:
                raise ValueError(f"{change.path} has {text.count(change.old)} times: {change.old.strip()}")
            (copy / change.path).write_text(text.replace(change.old, change.new))
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{here.parent}", "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, "-m", __name__, check], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise ValueError(f"the child failed: {ran.stderr}")
        reply = json.loads(ran.stdout)
        if reply["package"] != str(copy):
            raise ValueError(f"the child ran {reply['package']}")
        return list(reply["wrong"])


def tried(task: tuple[str, str]) -> list[str]:
    """Returns the findings of a check with the fault of that name put in; "" for none, "copy" for none in a copy."""
    name, check = task
    fault = next((one for one in FAULTS if one.name == name), None)
    if fault is None:
        return in_copy(check, None) if name else in_process(check, None)
    return in_copy(check, fault.seeded) if isinstance(fault.seeded, Change) else in_process(check, fault.seeded)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Quick and whole are the same."""
    copied = sorted({fault.check.__name__ for fault in FAULTS if isinstance(fault.seeded, Change)})
    tasks = [(fault.name, fault.check.__name__) for fault in FAULTS]
    tasks += [("", check.__name__) for check in CHECKS] + [("copy", check) for check in copied]
    violations = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for (name, check), pending in [(task, pool.submit(tried, task)) for task in tasks]:
            seeded = name not in ("", "copy")
            try:
                wrong = pending.result()
            except Exception as error:  # noqa: BLE001  a check that cannot run has caught nothing
                violations += 1
                say(f"{name or 'the real code'}, {check}: {error!r}")
                continue
            if seeded != bool(wrong):
                violations += 1
                say(f"{name} is not caught by {check}" if seeded else f"{check} finds in the real code: {'; '.join(wrong[:3])}")
            elif seeded:
                say(f"{name}: caught by {check}: {wrong[0]}")
    explained = f"{len(FAULTS)} faults, {len(CHECKS)} checks"
    return Figure(NAME, BAR, len(tasks), violations, explained=explained)


if __name__ == "__main__":
    found = in_process(sys.argv[1], None)
    print(json.dumps({"package": str(Path(spooltop.__file__).parent), "wrong": found}))
