"""Retention of the trash: older messages are shown as expired and offered for deletion, and deleted only on request."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.snapshot import expired_words, kept_words
from spooltop.model.vocabulary import Action, Box
from tests.builders import SpoolWorld

DAY = 86400.0


class DaysAhead:
    """The machine's own time, set forward by some days."""

    days = 0.0

    def __call__(self) -> float:
        return time.time() + self.days * DAY


def purge(control, *ids: str) -> str:
    plan = control.plan(Action.PURGE, Selection(ids=ids, box=Box.NEW))
    control.apply(plan)
    return plan.operation


def trashed(path: Path) -> list[str]:
    return sorted(found.name for found in path.glob(".spooltop/trash/*/[!.]*"))


@pytest.fixture
def spool(world: SpoolWorld) -> Path:
    for name in ("a", "b", "c"):
        world.put(name)
    return world.path


def test_what_is_over_its_retention_is_shown_and_only_that_is_offered(spool: Path) -> None:
    clock = DaysAhead()
    with open_control(str(spool), watch=False, settings={}, clock=clock) as control:
        plan = control.plan(Action.PURGE, Selection(ids=("a",), box=Box.NEW))
        assert any("The trash keeps messages for 30d" in note for note in plan.notes)
        control.apply(plan)
        trash = control.look().observation.boxes[Box.TRASH]
        assert (trash.count, trash.retention, trash.expired, expired_words(trash)) == (1, 30 * DAY, 0, "")
        clock.days = 29
        assert control.look().observation.boxes[Box.TRASH].expired == 0
        clock.days = 31
        trash = control.look().observation.boxes[Box.TRASH]
        assert (trash.expired, expired_words(trash)) == (1, "1 expired, kept 30d")
        row = control.listing(ListQuery(Box.TRASH)).window(0, 9)[0]
        assert row.expired(clock()) and not row.expired(clock() - 2 * DAY)
        assert kept_words(row, clock()) == "expired 24h ago"
        assert trashed(spool) == ["a"]  # watching deletes nothing
        purge(control, "b")
        plan = control.plan(Action.EMPTY, Selection(box=Box.TRASH, older_than=control.trash_retention))
        assert [item.name for item in plan.items] == ["a"] and plan.deletes
        control.apply(plan)
        assert trashed(spool) == ["b"]
        assert control.look().observation.boxes[Box.TRASH].expired == 0


def test_of_one_folder_only_what_was_set_aside_long_enough_ago_counts(spool: Path) -> None:
    """A purge at a slow rate fills its folder over days; what is restored or copied has a new ctime and stays as old."""
    clock = DaysAhead()

    def expired() -> list[int]:
        counts = []
        with open_control(str(spool), watch=False, settings={}, clock=clock) as control:
            for clock.days in (29.9, 30.1, 32.1):
                counts.append(control.look().observation.boxes[Box.TRASH].expired)
        return counts

    with open_control(str(spool), watch=False, settings={}) as control:
        folder = spool / ".spooltop" / "trash" / purge(control, "a", "b", "c")
    at = json.loads((folder / ".b.meta").read_text())["at"]
    (folder / ".b.meta").unlink()
    (folder / ".b.meta").write_text(json.dumps({"at": at + 2 * DAY}))
    (folder / ".c.meta").unlink()
    (folder / ".c.meta").write_text('{"at": "long ago"}')  # then its ctime, which is today
    assert expired() == [0, 2, 3]
    (folder / "b").chmod(0o600)
    os.utime(folder)
    assert expired() == [0, 2, 3]


def test_a_look_does_not_read_a_file_for_each_message_in_the_trash(spool: Path) -> None:
    """The owner of the spool could delay every look with them."""
    folder = spool / ".spooltop" / "trash" / "op"
    folder.mkdir(parents=True)
    for number in range(600):
        (folder / f"m{number}").touch()
        (folder / f".m{number}.meta").write_text('{"at": 1.0}')
    with open_control(str(spool), watch=False, settings={}) as control:
        state = control.look().observation.boxes[Box.TRASH]
        assert state.count == 600
        assert 200 <= state.expired <= 300  # the others are as old as their ctime, which nobody can set
