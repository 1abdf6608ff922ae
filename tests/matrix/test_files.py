"""Each action on each kind of queue on files, cut off and failing at each of its calls."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .cuts import LASTING, Mode
from .scenes import DIRECTORY, SCENES, Scene
from .sweeps import sweep_cuts, sweep_errors

FIRST = frozenset({
    "requeue", "hold", "release", "restore", "purge now", "empty", "inject", "pause", "undo of purge", "undo of requeue",
    "unlock", "set a cursor", "job-queue requeue cur", "job-queue purge new", "dirq-simple purge new", "dirq-normal hold new",
    "huey requeue tmp", "job-queue release", "undo of dirq-normal purge new", "dirq-simple unlock",
})  # fmt: skip
"""Scenes of a plain run: each kind of step once."""
FULL = Mode(errno.ENOSPC, LASTING)
CUTS, OLD, EIO, EACCES = Mode(), Mode(old=True), Mode(errno.EIO, LASTING), Mode(errno.EACCES, LASTING)
LASTING_EIO = Mode(errno.EIO, LASTING, lasting=True)
STAGED = Mode(errno.EIO, LASTING, staged=True)
"""Changes of one message are synced one by one: their order does not last by itself."""
PARTS = [Mode(parts=True), Mode(parts=True, old=True)]
APART = [Mode(errno.EROFS, LASTING, lasting=True), Mode(errno.EDQUOT, LASTING, lasting=True), Mode(errno.ESTALE, LASTING)]
"""Errors that are handled apart: where space is freed, and where a server has another directory."""


LONG = frozenset(name for scene in DIRECTORY if scene.each is None for name in (scene.name, f"undo of {scene.name}"))
"""Scenes of the long run besides; ``python -m tests.matrix`` takes all, with each error."""


def rows(kind: Callable[[str, Scene], Iterator[tuple[Any, ...]]], *, whole: bool = False) -> list[Any]:
    """Makes the parameters of a sweep; what the plain run leaves out is long. ``kind`` yields (usual, parameters)."""
    return [
        pytest.param(scene, *row, id="-".join([name, *map(str, row)]), marks=() if usual and name in FIRST else pytest.mark.long)
        for name, scene in SCENES.items()
        for usual, *row in kind(name, scene)
        if whole or name in FIRST or (name in LONG and row[0] in (CUTS, FULL))
    ]  # fmt: skip


def of_cuts(name: str, scene: Scene) -> Iterator[tuple[Any, ...]]:
    if not scene.adds:
        yield True, CUTS, "rerun"
    if scene.is_reversible and name != "undo of requeue by force":  # its holder runs: nothing takes the claim back
        yield name in ("job-queue requeue cur", "inject"), CUTS, "undo"
    if name in FIRST and not scene.undone and not scene.adds:
        yield False, EIO, "rerun"
    if name == "undo of hold":
        yield from ((False, mode, "rerun") for mode in PARTS)
    # A second name that is gone counts as a change of a requeued message: without renameat2 it stays in new, and nothing is lost.
    if scene.each is None and not scene.cut_at and (scene.undone is False or name in FIRST) and name != "undo of requeue":
        yield name in ("requeue", "hold"), OLD, "undo" if scene.adds else "rerun"


def of_errors(name: str, scene: Scene) -> Iterator[tuple[Any, ...]]:
    yield name in ("requeue", "hold", "purge now", "unlock", "set a cursor", "dirq-simple purge new"), FULL
    if name in FIRST and not scene.undone:
        yield False, EIO
        yield False, LASTING_EIO
    if name in ("dirq-simple purge new", "job-queue requeue cur"):
        yield name == "dirq-simple purge new", STAGED
    if name == "undo of hold":
        yield False, PARTS[0]._replace(error=errno.EIO, seen=LASTING)
    if name in ("dirq-normal hold new", "hold"):
        yield False, PARTS[1]._replace(error=errno.EIO, seen=frozenset({"rename"}))
    for mode in {"requeue": [EACCES, APART[2]], "purge now": APART[:2], "hold": [EACCES]}.get(name, ()):
        yield False, mode


@pytest.mark.parametrize(("scene", "mode", "repair"), rows(of_cuts))
def test_cut_at_each_change(memory: Path, scene: Scene, mode: Mode, repair: str) -> None:
    assert sweep_cuts(scene, mode, memory, repair) > 3


@pytest.mark.parametrize(("scene", "mode"), rows(of_errors))
def test_an_error_at_each_call(memory: Path, scene: Scene, mode: Mode) -> None:
    assert sweep_errors(scene, mode, memory) > 2
