"""Users: whoever may not change a spool is told whose it is, and root leaves all but its logs to the owner."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator

import pytest

from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import LIVE, Action, Box
from tests.builders import SpoolWorld
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


def as_nobody(act: Callable[[], str]) -> str:
    """Returns what ``act`` returns in a child that has given up being root."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = "the child failed"
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = act()
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


def why_not(world: SpoolWorld, action: Action) -> str:
    with world.control() as control:
        return control.look().observation.capabilities.why_not(action) or ""


@needs("root")
def test_who_may_not_write_is_told_whose_it_is_and_what_helps(open_world: SpoolWorld) -> None:
    path = open_world.path

    def why(action: Action) -> str:
        return as_nobody(lambda: why_not(open_world, action))

    for action in (Action.REQUEUE, Action.PURGE, Action.INJECT, Action.UNDO):
        assert why(action) == f"you are nobody, new belongs to root 0755. {ADVICE} root spooltop {path}"
    os.chown(path / "new", 424242, -1)
    assert why(Action.PURGE).endswith(f"belongs to 424242 0755. {ADVICE} '#424242' spooltop {path}")
    for box in LIVE:
        os.chmod(path / box, 0o777)
    assert ".spooltop, which holds the journal, cannot be made" in why(Action.REQUEUE)
    (path / ".spooltop").mkdir()
    os.chmod(path / ".spooltop", 0o777)
    assert why(Action.REQUEUE) == ""
    os.chmod(path / "tmp", 0o755)
    assert why(Action.REQUEUE) == "" and "tmp belongs to root" in why(Action.INJECT)


def test_a_missing_box_or_a_planted_file_is_named(world: SpoolWorld) -> None:
    (world.path / ".spooltop").write_text("planted")
    assert ".spooltop is not a directory" in why_not(world, Action.INJECT)
    (world.path / "cur").rmdir()
    assert why_not(world, Action.REQUEUE) == "cur is missing"


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
    assert sorted(path.name for path in logs.iterdir()) == ["audit.jsonl", "journal.jsonl"]
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
    operation = as_nobody(lambda: open_world.do(Action.PURGE, NEW)[0].operation)
    assert open_world.undo(operation)[1].count(Outcome.DONE) == 1
    assert open_world.names(Box.NEW) == ["one"]
    assert {path.stat().st_uid for path in open_world.path.rglob("*")} == {NOBODY}
    again = as_nobody(lambda: ", ".join(refusal.reason for refusal in open_world.undo(operation)[0].refused))
    assert again == "no longer in trash"
