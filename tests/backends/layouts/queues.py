"""Queues of other programs in every state that an operation begins with, and an operator on each."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Plan, Result
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import Operations
from tests.backends.layouts.test_reader import Around
from tests.scratch import extract

DATA = Path(__file__).parents[2] / "data" / "spools.tar.gz"
ID = "0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e"


def stored(path: Path, name: str) -> None:
    """Makes a queue that its own program wrote, with the files that have several names."""
    copies: dict[int, str] = {}

    def copied(source: str, to: str) -> None:
        first = copies.setdefault(os.lstat(source).st_ino, to)
        if first != to:
            os.link(first, to)
        else:
            shutil.copy2(source, to, follow_symlinks=False)

    shutil.copytree(_unpacked(name) / name, path, symlinks=True, copy_function=copied)


@cache
def _unpacked(name: str) -> Path:
    """Unpacks a queue, once in each process: the sweeps want it hundreds of times."""
    folder = TemporaryDirectory(prefix="stored.")
    atexit.register(folder.cleanup)
    with tarfile.open(DATA) as archive:
        members = [one for one in archive.getmembers() if one.name.partition("/")[0] == name]
        extract(archive, folder.name, members)
    return Path(folder.name)


_layout = cache(read_layout)


def job_queue(path: Path) -> None:
    stored(path, "jobqueue_filestorage")


def dirq_simple(path: Path) -> None:
    stored(path, "dirq_simple")


def dirq_normal(path: Path) -> None:
    """Two elements as the library writes them, one of them locked."""
    for name in ("temporary", "obsolete"):
        (path / name).mkdir(parents=True)
    for name in ("6b00e5b7c2149f", "6b00e5b7c2217f", "6b00e5b7c22b9f"):
        element = path / "6b00e590" / name
        element.mkdir(parents=True)
        (element / "body").write_text(f"body of {name}")
    (path / "6b00e590/6b00e5b7c2149f/locked").mkdir()


def huey(path: Path) -> None:
    """A queue with a task whose dequeue died after it had renamed it."""
    stored(path, "huey_filestorage")
    task = path / "queue/ffff-01a1fb81560d"
    task.rename(path / "queue/ffff-01a1fb81560d.tmp")


def kombu(path: Path, folder: str = "in") -> None:
    for place, name in ((1, folder), (2, folder), (3, "processed")):
        (path / name).mkdir(parents=True, exist_ok=True)
        (path / name / f"{place}_{ID[:-1]}{place}.celery.msg").write_text(json.dumps({"body": place}))
    (path / "control").mkdir()


def kombu_out(path: Path) -> None:
    kombu(path, "out")


def mailman(path: Path) -> None:
    """One file in each state: begun, waiting, claimed, shunted, and one that could not be read."""
    for name in ("in", "out", "pipeline", "shunt", "bad"):
        (path / name).mkdir(parents=True)
    for place, name in enumerate(("in/{}.pck.tmp", "in/{}.pck", "out/{}.bak", "shunt/{}.pck", "bad/{}.psv")):
        (path / name.format(f"1795220920.{place}+{place:040x}")).write_text(f"message {place}")


def nq(path: Path) -> None:
    path.mkdir(parents=True)
    (path / ",1a1fb81560d.4000077").write_text("exec nq true\n\n[exited with status 3.]\n")
    (path / ",1a1fb81560d.4000077").chmod(0o600)
    (path / ",1a1fb81560e.4000078").write_text("exec nq never\n")


def nullmailer(path: Path) -> None:
    for name in ("queue", "failed", "tmp"):
        (path / name).mkdir(parents=True)
    os.mkfifo(path / "trigger", 0o600)
    (path / "queue/1795220920.77").write_text("to be sent")
    (path / "failed/1795220921.78").write_text("not sent")


QUEUES: Mapping[str, Callable[[Path], None]] = {
    "job-queue": job_queue, "dirq-simple": dirq_simple, "dirq-normal": dirq_normal, "huey": huey, "kombu": kombu,
    "kombu-out": kombu_out, "mailman": mailman, "nq": nq, "nullmailer": nullmailer,
}  # fmt: skip

ACTIONS: Sequence[tuple[str, Action, Box, bool]] = (
    ("job-queue", Action.REQUEUE, Box.CUR, False),
    ("job-queue", Action.PURGE, Box.NEW, False),
    ("job-queue", Action.PURGE, Box.CUR, False),
    ("job-queue", Action.PURGE, Box.REJECTED, False),
    ("job-queue", Action.PURGE, Box.TMP, False),
    ("job-queue", Action.HOLD, Box.NEW, False),
    ("dirq-simple", Action.REQUEUE, Box.CUR, True),
    ("dirq-simple", Action.PURGE, Box.NEW, False),
    ("dirq-simple", Action.PURGE, Box.TMP, True),
    ("dirq-simple", Action.HOLD, Box.NEW, False),
    ("dirq-normal", Action.REQUEUE, Box.CUR, True),
    ("dirq-normal", Action.PURGE, Box.NEW, False),
    ("dirq-normal", Action.HOLD, Box.NEW, False),
    ("huey", Action.REQUEUE, Box.TMP, False),
    ("huey", Action.PURGE, Box.NEW, False),
    ("huey", Action.PURGE, Box.TMP, False),
    ("huey", Action.HOLD, Box.NEW, False),
    ("kombu", Action.REQUEUE, Box.DELIVERED, True),
    ("kombu", Action.PURGE, Box.NEW, False),
    ("kombu", Action.PURGE, Box.DELIVERED, False),
    ("kombu", Action.HOLD, Box.NEW, False),
    ("kombu-out", Action.REQUEUE, Box.DELIVERED, True),
    ("kombu-out", Action.PURGE, Box.NEW, False),
    ("kombu-out", Action.PURGE, Box.DELIVERED, False),
    ("kombu-out", Action.HOLD, Box.NEW, False),
    ("mailman", Action.REQUEUE, Box.CUR, True),
    ("mailman", Action.PURGE, Box.NEW, False),
    ("mailman", Action.PURGE, Box.REJECTED, False),
    ("mailman", Action.HOLD, Box.NEW, False),
    ("nq", Action.PURGE, Box.DELIVERED, False),
    ("nq", Action.PURGE, Box.CUR, False),
    ("nullmailer", Action.REQUEUE, Box.REJECTED, False),
    ("nullmailer", Action.PURGE, Box.NEW, False),
    ("nullmailer", Action.PURGE, Box.REJECTED, False),
    ("nullmailer", Action.HOLD, Box.NEW, False),
)
"""Every action of the layouts that ship: the layout, the action, the box, and whether it needs force."""


def operator(path: Path, layout: str, files: LogFiles | None = None, around: Around | None = None, **more: Any) -> LayoutOperator:
    found = _layout(os.path.join(SHIPPED, f"{layout}.toml"))
    more = {"user": "ann", "wait": lambda seconds: None, "state_dir": str(path.parent / "state"), **more}
    return LayoutOperator(str(path), found, around or Around(), files, **more)


def operations(
    path: Path, layout: str, files: LogFiles | None = None, around: Around | None = None, *, now: float | None = None, **more: Any
) -> Operations:
    """The operations on a queue; ``now`` stops the clock."""
    clock = time.time if now is None else lambda: now
    return Operations(operator(path, layout, files, around, clock=clock, **more), str(path), clock, syslog=lambda words: None)


def planned(ops: Operations, action: Action, *, box: Box | None = None, force: bool = False, **options: Any) -> Plan:
    return ops.plan(action, Selection(box=box, everything=True), force, options)


def undone(ops: Operations, result: Result) -> Result:
    return ops.apply(ops.plan(Action.UNDO, Selection(), options={"undoes": result.operation}))


def outcomes(result: Result) -> list[tuple[str, str]]:
    return [(one.outcome.value, one.reason) for one in result.items]


def contents(path: Path) -> dict[str, str]:
    """The texts of all files of a queue by path, "/" for directories without one, and the number of names of each file; without
    what is spooltop's own."""
    found = {}
    for one in sorted(path.rglob("*")):
        name = str(one.relative_to(path))
        if name.partition("/")[0] == ".spooltop":
            continue
        if one.is_dir():
            found[name] = "/"
        elif one.is_file():
            found[name] = f"{one.stat().st_nlink} {one.read_bytes()!r}"
    return found


def aside(path: Path) -> dict[str, str]:
    """The texts of all files that were set aside, by path."""
    own = path / ".spooltop" if (path / ".spooltop").exists() else path.parent / f".{path.name}.spooltop"
    return {
        str(one.relative_to(own)): one.read_text()
        for box in ("held", "trash")
        for one in sorted((own / box).rglob("*"))
        if one.is_file() and ".meta" not in one.name
    }
