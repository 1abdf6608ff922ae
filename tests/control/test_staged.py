"""Files in staging directories are files of ``tmp``: seen, judged, listed, read, followed, purged and brought back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.control import Control
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import SpoolWorld

HOST = os.uname().nodename
with subprocess.Popen(["true"]) as exited:
    LEFT = f"1795222000000000.P{exited.pid}R0123456789abcdef.{HOST}"
    ALSO = f"1795222000000002.P{exited.pid}R0123456789abcdef.{HOST}"
OPEN = f"1795222000000001.P{os.getpid()}R0123456789abcdef.{HOST}"
DONE = {Outcome.DONE}


@pytest.fixture
def stage(world: SpoolWorld) -> Path:
    for folder in ("00", "1f"):
        (world.path / ".spooltop" / "stage" / folder).mkdir(parents=True)
    return world.path / ".spooltop" / "stage"


@pytest.fixture
def control(world: SpoolWorld) -> Iterator[Control]:
    with world.control() as opened:
        yield opened


def undo(control: Control, operation: str) -> set[Outcome]:
    plan = control.plan(Action.UNDO, Selection(), options={"undoes": operation})
    return {one.outcome for one in control.apply(plan).items}


def test_each_is_counted_and_judged_beside_those_in_tmp(control: Control, world: SpoolWorld, stage: Path) -> None:
    (world.path / "tmp" / ALSO).write_bytes(b"1")
    (stage / "00" / LEFT).write_bytes(b"22")
    with (stage / "1f" / OPEN).open("wb") as draft:
        draft.write(b"333")
        draft.flush()
        seen = control.look().observation
        assert (seen.boxes[Box.TMP].count, seen.boxes[Box.TMP].bytes, seen.complete) == (3, 6, True)
        assert {row.key: row.verdict for row in seen.tmp} == {
            ("tmp", ALSO): Verdict.ABANDONED, ("tmp", f"00/{LEFT}"): Verdict.ABANDONED,
            ("tmp", f"1f/{OPEN}"): Verdict.WRITING,
        }  # fmt: skip
        assert {row.id for row in control.listing(ListQuery(Box.TMP)).window(0, 9)} == {ALSO, LEFT, OPEN}
        assert control.read(("tmp", f"1f/{OPEN}"), 9).data == b"333"
        assert [one.pid for one in control.holders(("tmp", f"1f/{OPEN}")).processes] == [os.getpid()]


def test_a_change_in_a_staging_directory_makes_a_look_due(control: Control, stage: Path) -> None:
    (stage / "00" / LEFT).touch()
    assert [control.look().observation.boxes[Box.TMP].count for _ in range(2)] == [1, 1]

    def changed() -> bool:
        (stage / "00" / ALSO).touch()
        (stage / "00" / ALSO).unlink()
        return control.changes(0.0)

    assert any(changed() for _ in range(10_000))  # the clock of a file system may stand still for milliseconds


def test_a_purge_takes_what_is_abandoned_and_brings_it_back(control: Control, world: SpoolWorld, stage: Path) -> None:
    (stage / "00" / LEFT).write_bytes(b"staged")
    (world.path / "tmp" / LEFT).write_bytes(b"in tmp")
    (stage / "1f" / OPEN).touch()
    with (stage / "1f" / OPEN).open("wb"):
        control.look()
        plan = control.plan(Action.PURGE, Selection(box=Box.TMP, verdict=Verdict.ABANDONED, everything=True))
        assert sorted(item.row.key for item in plan.items) == [("tmp", f"00/{LEFT}"), ("tmp", LEFT)]
        # Of equal names one goes to the trash; the other stays where it is, as nothing is ever replaced.
        assert sorted(one.outcome for one in control.apply(plan).items) == [Outcome.DONE, Outcome.FAILED]
    [gone] = [one for one in (stage / "00" / LEFT, world.path / "tmp" / LEFT) if not one.exists()]
    assert (world.path / ".spooltop" / "trash" / plan.operation / LEFT).read_bytes() in (b"staged", b"in tmp")
    assert undo(control, plan.operation) == DONE
    assert gone.exists()
    assert sorted(found.name for found in (stage / "00").iterdir()) == [LEFT]


def test_it_comes_back_where_its_directory_was_removed_meanwhile(control: Control, world: SpoolWorld, stage: Path) -> None:
    (stage / "00" / LEFT).write_bytes(b"staged")
    control.look()
    plan = control.plan(Action.PURGE, Selection(box=Box.TMP, everything=True))
    assert {one.outcome for one in control.apply(plan).items} == DONE
    (stage / "00").rmdir()
    assert undo(control, plan.operation) == DONE
    assert (stage / "00" / LEFT).read_bytes() == b"staged"
    assert list((stage / "00").iterdir()) == [stage / "00" / LEFT]


@pytest.mark.parametrize("where", ["stage", "folder"])
def test_a_link_is_not_followed(
    control: Control, world: SpoolWorld, stage: Path, tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    """Whoever may write ``.spooltop`` could lead a purge by root to files outside the spool."""
    precious = tmp_path_factory.mktemp("precious")
    (precious / "00").mkdir()
    (precious / LEFT).touch()
    (precious / "00" / LEFT).touch()
    if where == "stage":
        stage.rename(world.path / "old")
        stage.symlink_to(precious)
    else:
        (stage / "66").symlink_to(precious)
    seen = control.look().observation
    assert seen.boxes[Box.TMP].count == 0
    assert control.plan(Action.PURGE, Selection(box=Box.TMP, everything=True)).count == 0
    assert (precious / LEFT).exists() and (precious / "00" / LEFT).exists()


def test_a_directory_that_is_exchanged_after_the_plan_is_left_alone(control: Control, stage: Path) -> None:
    (stage / "00" / LEFT).touch()
    control.look()
    plan = control.plan(Action.PURGE, Selection(box=Box.TMP, everything=True))
    (stage / "00").rename(stage / "old")
    (stage / "00").mkdir()
    (stage / "00" / LEFT).touch()
    assert [one.outcome for one in control.apply(plan).items] == [Outcome.SKIPPED]
    assert (stage / "00" / LEFT).exists()


def test_what_is_no_staging_directory_is_passed_over(control: Control, stage: Path) -> None:
    (stage / "a file").touch()
    (stage / "66").symlink_to(stage / "00")
    (stage / ".00.0123456789abcdef").mkdir()
    (stage / ".00.0123456789abcdef" / LEFT).touch()
    (stage / "00" / "inner").mkdir()
    (stage / "00" / ".hidden").touch()
    observation = control.look().observation
    assert [(row.key, row.note) for row in observation.irregular] == [(("tmp", "00/inner"), "a directory, not a message")]
    assert (observation.tmp, observation.complete) == ((), True)
