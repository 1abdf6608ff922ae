"""Queues of other programs in every state that an operation begins with, and an operator on each."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Plan, Result
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import Operations
from tests.backends.layouts.test_reader import Around

_layout = cache(read_layout)

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
