"""Queues of other programs on a machine that a test makes up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends import registry
from spooltop.backends.layouts.backend import LayoutsBackend
from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.backends.surroundings import Users
from spooltop.control import Control, open_control
from spooltop.model.backend import Capabilities, ListQuery
from spooltop.model.plan import Result
from spooltop.model.snapshot import Disk, Viewer
from spooltop.model.vocabulary import Box, Holders, Row, Verdict
from tests.scratch import own_state

NOW = 1795220990.0


class Around:
    """A machine on which ``watching`` processes watch, ``locking`` lock and ``alive`` live; ``seen``: all are visible, ``sure``:
    a pid that is gone here is gone everywhere. ``claims`` are those whose pids were asked for."""

    def __init__(
        self, *, watching: Sequence[int] = (), locking: Sequence[int] = (), opening: Sequence[int] = (),
        alive: Sequence[int] = (), seen: bool = True, local: bool = True, sure: bool = True,
    ) -> None:  # fmt: skip
        self.claims: list[tuple[int, float]] = []
        self.users = {"watching": tuple(watching), "locking": tuple(locking), "opening": tuple(opening)}
        self.alive, self.seen, self.is_local, self.sure = alive, seen, local, sure

    def _users(self, kind: str) -> Users:
        return Users(self.users[kind], self.seen, "" if self.seen else "the processes of other users cannot be seen")

    def local(self, root: int) -> bool:
        return self.is_local

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        self.claims += claims
        gone = (Verdict.DEAD, "exited") if self.sure else (Verdict.UNKNOWN, "no such pid here")
        return [(Verdict.ALIVE, "running") if pid in self.alive else gone for pid, _ in claims]

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        users = self._users("locking")
        return lambda file: users

    def opened(self, files: Sequence[os.stat_result]) -> list[Users]:
        return [self._users("opening") for _ in files]

    def watching(self, folder: os.stat_result, root: int) -> Users:
        return self._users("watching")

    def holders(self, shown: str, file: os.stat_result, folder: int) -> Holders:
        return Holders(shown)

    def disk(self, root: int) -> Disk:
        return Disk()

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        return Viewer("ann", 1000, read_only)


@contextmanager
def opened(path: Path, layout: str, around: Any = None, **options: Any) -> Iterator[Control]:
    """Opens a queue on the machine ``around``, on which nobody touches it unless that says so."""
    backend = LayoutsBackend(lambda pids: around or Around(), named=True)
    options = {"watch": False, "settings": own_state(), "clock": lambda: NOW, **options}
    registry.register(backend)
    try:
        with open_control(str(path), as_kind=layout, **options) as control:
            yield control
    finally:
        registry.unregister(backend)


def rows_of(control: Control, *boxes: Box) -> dict[str, Row]:
    """The messages in ``boxes``, or in any, by their ids, after a look."""
    control.look()
    return {row.id: row for box in boxes or Box for row in control.listing(ListQuery(box)).window(0, 999)}


def outcomes(result: Result) -> list[tuple[str, str]]:
    return [(item.outcome.value, item.reason) for item in result.items]


def use_own_layouts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the layouts in ``folder`` known, for root too."""
    monkeypatch.setattr("spooltop.backends.layouts.load.folders", lambda environ: (str(folder),))


def set_default(monkeypatch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Gives operators another default: the ``patience`` with locks."""
    defaults = LayoutOperator.__init__.__kwdefaults__
    assert name in defaults
    monkeypatch.setitem(defaults, name, value)
