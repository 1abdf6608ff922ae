"""Pausing a spool and resuming it: one file, who made it, and its way back."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from spooltop.engine import Spool
from spooltop.errors import AuditFailed, Unreadable, UsageError
from spooltop.model.plan import Outcome, Plan, Result, Selection
from spooltop.model.snapshot import Pause
from spooltop.model.vocabulary import LIVE, Action
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld
from tests.clock import NOW, Clock

NONE = Selection()
def plan_of(world: SpoolWorld, action: Action, **options: str | int) -> Plan:
    with world.control(clock=Clock()) as control:
        return control.plan(action, NONE, options=options)


def do(world: SpoolWorld, action: Action, **options: str) -> Result:
    return world.do(action, NONE, **options)[1]


def paused(world: SpoolWorld) -> Pause | None:
    with Spool(world.path) as spool:
        return spool.paused


def test_what_anybody_wrote_is_resumed_too_but_a_directory_is_not(world: SpoolWorld) -> None:
    file = world.write(".spooltop/paused", "{")
    os.utime(file, (NOW - 600, NOW - 600))
    assert plan_of(world, Action.RESUME).items[0].words == "Consumers claim messages again. Paused for 10m"
    resumed = do(world, Action.RESUME)
    assert paused(world) is None
    world.undo(resumed.operation)
    assert paused(world) == Pause(None, NOW - 600)
    file.unlink()
    file.symlink_to("/nowhere")
    do(world, Action.RESUME)
    assert not file.is_symlink()
    file.mkdir()
    with pytest.raises(Unreadable, match="paused is a directory"):
        plan_of(world, Action.RESUME)


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o1777])
def test_the_file_has_owner_group_and_mode_of_the_boxes(world: SpoolWorld, mode: int) -> None:
    for box in LIVE:
        (world.path / box).chmod(mode)
        if os.geteuid() == 0:
            os.chown(world.path / box, 4242, 4343)
    do(world, Action.PAUSE)
    file, cur = (world.path / ".spooltop/paused").stat(), (world.path / "cur").stat()
    assert (file.st_uid, file.st_gid, stat.S_IMODE(file.st_mode)) == (cur.st_uid, cur.st_gid, mode & 0o666)


def test_a_reason_is_a_text(world: SpoolWorld) -> None:
    with pytest.raises(UsageError, match="more than"):
        do(world, Action.PAUSE, reason=7)


@pytest.mark.parametrize("action", [Action.RESUME, Action.UNDO])
def test_on_a_full_disk_a_pause_is_refused_and_a_resume_goes_on(
    world: SpoolWorld, before_call: Interpose, action: Action
) -> None:
    done = do(world, Action.PAUSE, reason="why")

    def fail(fd: int, *_: object) -> None:
        if "/pauses.jsonl" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.ENOSPC, "No space left on device")

    for operation in ("write", "reserve"):
        before_call(operation, fail)
    result = do(world, Action.RESUME) if action is Action.RESUME else world.undo(done.operation)[1]
    assert result.count(Outcome.DONE) == 1 and paused(world) is None
    assert any("No space left on device" in note for note in result.notes)
    assert not result.undo
    with pytest.raises(AuditFailed):
        do(world, Action.PAUSE)
    assert paused(world) is None


@pytest.mark.parametrize(
    ("old", "new"), [('"before":null', '"before":7'), ('"reason":""', '"reason":7'), ('"at":', '"at":-'), ('"pause"', '"purge"')]
)
def test_a_forged_journal_changes_nothing(world: SpoolWorld, old: str, new: str) -> None:
    do(world, Action.PAUSE)
    log = world.path / ".spooltop/pauses.jsonl"
    text = log.read_text()
    log.write_text(text.replace(old, new))
    with world.control() as control:
        assert old in text and control.operations() == []
