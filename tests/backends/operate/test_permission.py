"""Users: whoever may not change a spool is told whose it is, and root leaves all but its logs to the owner."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from spooltop.control import open_control
from spooltop.errors import AuditFailed
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import LIVE, Action, Box
from tests.builders import LockWorld, SpoolWorld
from tests.clock import Clock
from tests.needs import needs

NOBODY = 65534
NEW, CUR = Selection(box=Box.NEW, everything=True), Selection(box=Box.CUR, everything=True)
ADVICE = "Try: sudo -u"


@pytest.fixture
def open_world() -> Iterator[SpoolWorld]:
    """World that other users reach: the directories of pytest are closed to them."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        with SpoolWorld(folder) as world:
            yield world


def give(world: SpoolWorld, mode: int) -> None:
    for path in (world.path, *(world.path / box for box in LIVE)):
        os.chown(path, NOBODY, NOBODY)
        os.chmod(path, mode)


@contextmanager
def nobody() -> Iterator[None]:
    """Acts as another user, who is not root."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def why_not(world: SpoolWorld, *actions: Action) -> list[str]:
    with world.control() as control:
        capabilities = control.look().observation.capabilities
    return [capabilities.why_not(action) or "" for action in actions]


@needs("root")
def test_who_may_not_write_is_told_whose_it_is_and_what_helps(open_world: SpoolWorld) -> None:
    path = open_world.path

    def why(*actions: Action) -> list[str]:
        with nobody():
            return why_not(open_world, *actions)

    changes = (Action.REQUEUE, Action.PURGE, Action.INJECT, Action.UNDO)
    assert why(*changes) == [f"you are nobody, new belongs to root 0755. {ADVICE} root spooltop {path}"] * 4
    os.chown(path / "new", 424242, -1)
    assert why(Action.PURGE)[0].endswith(f"belongs to 424242 0755. {ADVICE} '#424242' spooltop {path}")
    for box in LIVE:
        os.chmod(path / box, 0o777)
    assert ".spooltop, which holds the journal, cannot be made" in why(Action.REQUEUE)[0]
    (path / ".spooltop").mkdir()
    os.chmod(path / ".spooltop", 0o777)
    assert why(Action.REQUEUE) == [""]
    os.chmod(path / "tmp", 0o755)
    requeue, inject = why(Action.REQUEUE, Action.INJECT)
    assert requeue == "" and "tmp belongs to root" in inject


@needs("root")
def test_who_may_not_remove_the_pause_is_told_why(open_world: SpoolWorld) -> None:
    def why() -> list[str]:
        with nobody():
            return why_not(open_world, Action.PAUSE, Action.RESUME)

    for box in LIVE:
        (open_world.path / box).chmod(0o1777)
    open_world.do(Action.PAUSE, Selection())
    advice = f"{ADVICE} root spooltop {open_world.path}"
    sticky = ".spooltop is sticky, so that only its owner removes the files of others"
    assert why() == ["", f"you are nobody, {sticky}; paused belongs to root 0666. {advice}"]
    os.chown(open_world.path / ".spooltop/paused", NOBODY, -1)
    assert why() == ["", ""]
    (open_world.path / ".spooltop").chmod(0o755)
    assert why() == [f"you are nobody, .spooltop belongs to root 0755. {advice}"] * 2


@needs("root")
@pytest.mark.parametrize(
    ("path", "modes", "may"),
    [
        ("locks", (0o755, 0o755), False), ("locks", (0o777, 0o755), False), ("locks", (0o755, 0o777), True),
        # Beside a directory of tickets stands the lock that they are for.
        ("job.lock.queue", (0o755, 0o755), False), ("job.lock.queue", (0o777, 0o755), True),
        ("job.lock.queue", (0o755, 0o777), True),
        ("cursors.json", (0o755, 0o644), False), ("cursors.json", (0o755, 0o666), False), ("cursors.json", (0o777, 0o666), True),
    ],
)  # fmt: skip
def test_where_a_directory_is_closed_view_and_plan_say_whose_it_is(path: str, modes: Sequence[int], may: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="spooltop-permission-") as folder, LockWorld(folder) as world:
        os.chmod(folder, 0o755)
        world.cursors()
        world.ticket(1)
        world.soft_lock("job.lock")
        world.soft_lock("locks/a.lock")
        target, action = world.path / path, Action.SET_CURSOR if path == "cursors.json" else Action.UNLOCK
        with open_control(str(target), settings=world.settings, watch=False, clock=Clock()) as control:
            assert control.look().observation.capabilities.why_not(action) is None
            world.path.chmod(modes[0])
            target.chmod(modes[1])
            with nobody():
                capabilities = control.look().observation.capabilities
                plan = control.plan(Action.UNLOCK, Selection(ids=("a.lock",))) if path == "locks" else None
    for change in (action, Action.UNDO):
        why = capabilities.why_not(change) or ""
        assert (why == "") is may and ("belongs to root 0" in why and f"{ADVICE} root spooltop" in why) is not may
    assert plan is None or ["sudo -u root spooltop unlock" in refusal.reason for refusal in plan.refused] == [True] * (not may)


def test_a_missing_box_or_a_planted_file_is_named(world: SpoolWorld) -> None:
    (world.path / ".spooltop").write_text("planted")
    assert ".spooltop is not a directory" in why_not(world, Action.INJECT)[0]
    (world.path / "cur").rmdir()
    assert why_not(world, Action.REQUEUE) == ["cur is missing"]


@needs("root")
@pytest.mark.parametrize("umask", [0, 0o077])
def test_root_leaves_everything_to_whom_the_spool_belongs(world: SpoolWorld, umask: int) -> None:
    give(world, 0o2770)
    for number in range(3):
        os.chown(world.path / "cur" / world.claim_foreign(f"job{number}"), NOBODY, NOBODY)
    before = os.umask(umask)
    try:
        _, result = world.do(Action.PURGE, CUR)
        assert result.count(Outcome.DONE) == 3
        world.do(Action.INJECT, Selection(), count=2)
    finally:
        os.umask(before)
    status = {path: path.stat() for path in world.path.rglob("*")}
    assert any(path.name.endswith(".meta") for path in status)
    assert {(one.st_uid, one.st_gid) for one in status.values()} == {(NOBODY, NOBODY)}
    made = {path: stat.S_IMODE(one.st_mode) for path, one in status.items() if not path.name.startswith("job")}
    assert {mode for path, mode in made.items() if path.is_dir()} == {0o2770}
    assert {mode for path, mode in made.items() if path.is_file()} == {0o660}


@needs("root")
def test_the_logs_of_root_lie_where_nobody_else_writes(world: SpoolWorld) -> None:
    give(world, 0o755)
    world.put("one")
    world.do(Action.PURGE, NEW)
    [logs] = world.logs_of_root()
    assert sorted(path.name for path in logs.iterdir()) == ["journal.jsonl"]
    assert stat.S_IMODE(logs.parent.stat().st_mode) == stat.S_IMODE(logs.stat().st_mode) == 0o700
    assert not list((world.path / ".spooltop").glob("*.jsonl"))
    os.chmod(logs, 0o777)
    world.put("two")
    with pytest.raises(AuditFailed, match="others may write"):
        world.do(Action.PURGE, NEW)
    assert world.names(Box.NEW) == ["two"]


@needs("root")
def test_root_undoes_what_the_owner_of_the_spool_did_and_the_owner_is_told_it_is_gone(open_world: SpoolWorld) -> None:
    give(open_world, 0o755)
    open_world.state.mkdir()
    os.chown(open_world.state, NOBODY, NOBODY)
    os.chown(open_world.path / "new" / open_world.put("one"), NOBODY, NOBODY)
    with nobody():
        operation = open_world.do(Action.PURGE, NEW)[0].operation
    assert open_world.undo(operation)[1].count(Outcome.DONE) == 1
    assert open_world.names(Box.NEW) == ["one"]
    assert {path.stat().st_uid for path in open_world.path.rglob("*")} == {NOBODY}
    with nobody():
        again, _ = open_world.undo(operation)
    assert [refusal.reason for refusal in again.refused] == ["no longer in trash"]
