"""The checks of the proof on other sources notice what they are for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from .history import body
from .sources import Cursors, DirqSimple, Locks


@pytest.mark.parametrize(
    ("steps", "end", "wrong"),
    [
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 6", "T! chat 5 6"], 6, []),
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 6"], 6, []),  # killed after the write
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 6"], 5, []),  # killed before it
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 6", "T- chat 5 6"], 5, []),
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 0", "T! chat 5 0"], 0, []),  # an undo
        (["T? chat 0 5", "T! chat 0 5", "T? chat 5 6", "T! chat 5 6"], 5, ["chat: 5", "chat: 6"]),  # put back by nobody
        (["T? chat 0 5", "T! chat 0 5", "T? chat 0 6", "T! chat 0 6"], 6, ["chat: 0", "chat: 5"]),  # two of one value
    ],
)
def test_a_value_that_a_stale_write_put_back_is_noticed(tmp_path: Path, steps: Sequence[str], end: int, wrong: list[str]) -> None:
    scene = Cursors(tmp_path)
    (scene.world.path / "cursors.json").write_text(json.dumps(dict.fromkeys(Cursors.SOURCES, 0) | {"chat": end}))
    found = scene.check([line.split() for line in steps])
    assert sorted(line.partition(" was")[0] for line in found) == wrong


@pytest.mark.parametrize(
    ("steps", "standing", "wrong"),
    [
        (["P? 1.0", "P! 1.0"], 1, False), (["P? 1.0", "P! 1.0"], 0, True), (["P? 1.0", "P! 1.0"], 2, True),
        (["P? 1.0"], 0, False), (["P? 1.0"], 1, False), (["P? 1.0", "P! 1.0", "A? 1.0"], 0, False),
        (["P? 1.0", "P! 1.0", "A? 1.0", "A! 1.0"], 0, False), (["P? 1.0", "P! 1.0", "A? 1.0", "A! 1.0"], 1, True),
        (["P? 1.0", "P! 1.0", "A? 1.0", "A! 1.0", "A? 1.0", "A! 1.0"], 0, True),
    ],
)  # fmt: skip
def test_a_message_that_is_lost_or_doubled_is_noticed(tmp_path: Path, steps: Sequence[str], standing: int, wrong: bool) -> None:
    scene = DirqSimple(tmp_path)
    for _ in range(standing):
        scene.put(body("1.0"))
    assert bool(list(scene.check([line.split() for line in steps]))) == wrong


def test_a_torn_message_and_a_lock_of_a_living_holder_are_noticed(tmp_path: Path) -> None:
    scene = DirqSimple(tmp_path / "a")
    scene.put(body("1.0")[:-1])
    assert len(list(scene.check([]))) == 1
    assert list(Locks(tmp_path / "b").check([["LOST", "a.lock"]])) == ["a.lock was taken from a living holder"]
