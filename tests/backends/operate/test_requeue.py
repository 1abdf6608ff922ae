"""Requeue and undo: which claims go back, under which names, and what keeps a message where it is."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from spooltop.engine import Spool
from spooltop.model.plan import Outcome, Result, Selection
from spooltop.model.vocabulary import Action, Box, Verdict, escape
from tests.backends.conftest import Interpose
from tests.builders import ALL, SpoolWorld, message_id

DEAD = Selection(box=Box.CUR, verdict=Verdict.DEAD)
NEW, TRASH = (Selection(box=box, everything=True) for box in (Box.NEW, Box.TRASH))
CLAIMS = Selection(box=Box.CUR, everything=True)
TOKEN = "0123456789abcdef" * 2
LIMIT = "rejected instead: 10 attempts, the limit is 10"


def test_claims_of_a_dead_consumer_go_back_with_their_attempt_counted_up_to_the_limit(world: SpoolWorld) -> None:
    ids = [message_id(number) for number in (1, 2, 3)]
    for name in (ids[0], f"{ids[1]},s=imessage,n=2", f"{ids[2]},n=9"):
        world.put(name)
    claims = world.claim_dead(3)
    plan, result = world.do(Action.REQUEUE, DEAD)
    assert [item.warning for item in plan.items] == ["", "3 consumers died while processing it", LIMIT]
    assert any(note.startswith("1 rejected instead of requeued") for note in plan.notes)
    assert [(one.outcome, one.reason) for one in result.items] == [(Outcome.DONE, reason) for reason in ("", "", LIMIT)]
    assert world.names(Box.NEW) == [f"{ids[0]},n=1,e=died", f"{ids[1]},s=imessage,n=3,e=died"]
    assert (world.names(Box.CUR), world.names(Box.REJECTED)) == ([], [claims[2]])
    assert world.undo(plan.operation)[1].count(Outcome.DONE) == 3
    assert world.names(Box.CUR) == claims


def test_only_force_takes_the_claim_of_a_living_consumer_and_does_not_lift_the_limit(world: SpoolWorld) -> None:
    for name in (message_id(1), f"{message_id(2)},n=9"):
        world.put(name)
    _, claims = world.claim_living(2)
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, CLAIMS)
        forced = control.plan(Action.REQUEUE, CLAIMS, force=True)
        assert (plan.count, forced.count) == (0, 2)
        assert forced.items[1].warning == f"{LIMIT}; taken from a running consumer, whose ack will fail with ClaimLost"
        unforced = control.apply(replace(plan, items=forced.items))  # its lock is tested just before the move
        assert [one.outcome for one in unforced.items] == [Outcome.SKIPPED] * 2 and world.names(Box.CUR) == claims
        assert control.apply(forced).count(Outcome.DONE) == 2
    assert world.names(Box.NEW) == [f"{message_id(1)},n=1"] and len(world.names(Box.REJECTED)) == 1


def test_a_claim_without_a_presence_file_whose_pid_runs_here_wants_force(world: SpoolWorld) -> None:
    """A pid that another process had when the claim was made is no reason."""
    times = {"mine": (time.time(), os.getpid()), "nobody": (time.time(), 4_194_303), "before": (1795222800.0 - 3e8, os.getpid())}
    claims = {id: f"{id},n=0,c={TOKEN}.{int(at * 1e6)}:2,P{pid}" for id, (at, pid) in times.items()}
    for claim in claims.values():
        world.put(claim, box=Box.CUR)
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, CLAIMS)
        assert sorted(item.row.id for item in plan.items) == ["before", "nobody"]
        [refusal] = plan.refused
        assert (refusal.row.name, refusal.forceable) == (claims["mine"], True)
        words = rf"pid {os.getpid()} \(.+\) is running here and may be its holder: its presence file is missing"
        assert re.fullmatch(words, refusal.reason)
        assert control.plan(Action.REQUEUE, CLAIMS, force=True).count == 3


def test_a_holder_that_is_no_longer_known_to_be_gone_keeps_its_claim(world: SpoolWorld) -> None:
    world.put(message_id(1))
    claims = world.claim_dead()
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, ALL)
        for presence in (world.path / ".spooltop" / "consumers").iterdir():
            presence.unlink()
        [result] = control.apply(plan).items
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, "its holder may be running: its presence file is missing")
    assert world.names(Box.CUR) == claims


HOSTILE = [
    "[red]x[@click=app.quit]y", "\x1b[31mred\x1b[0m", "two\nlines", "not utf-8 \udcff\udcfe", "2026-11-21T02:41:09.json", "-rf",
    "ALL", "a" * 244, "x,c=nothing", "back\\slash", "\u202eevil", "x:2,S", "1795220920443125.9155.vm",
]  # fmt: skip
TAIL = f",c={'a' * 32}.1795222800000000:2,P4194303"
CLAIM_NAMES = [
    *((f"{name}:2,P4194303", name) for name in HOSTILE), ("1795220920443125.9155.vm:P4194303", "1795220920443125.9155.vm"),
    ("no tail", "no tail"), ("b" * 255, "b" * 255), (f"order,n=0{TAIL}", "order,n=1"),
    (f"late,n=3,t=1795222800000000{TAIL}", "late,n=4"), (f"late,n=3,e=exit-1{TAIL}", "late,n=4"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "waiting"), CLAIM_NAMES, ids=[escape(claim)[:40] for claim, _ in CLAIM_NAMES])
def test_a_claim_goes_back_to_this_name_and_by_undo_to_its_own(world: SpoolWorld, claim: str, waiting: str) -> None:
    """The claim of a consumer without a presence file has nobody to go back to."""
    world.put(claim, "content", Box.CUR)
    plan, result = world.do(Action.REQUEUE, ALL, force=True)
    assert result.count(Outcome.DONE) == 1 and all(line.isprintable() for line in (*plan.notes, *plan.command))
    assert world.census() == {"content": [f"new/{waiting}"]}
    back, _ = world.undo(plan.operation)
    without = ["its consumer has exited and left no presence file: it stays in new"] if TAIL in claim else []
    assert [refusal.reason for refusal in back.refused] == without
    assert world.census() == {"content": [f"new/{waiting}" if without else f"cur/{claim}"]}


# Between the plan and the move


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Makes another thing in the place of a file, whose inode stays in use."""

    def change(path: Path) -> None:
        path.rename(path.with_name(f".kept-{path.name}"))
        make(path)

    return change


CHANGES: list[Callable[[Path], object]] = [
    lambda path: path.write_text("longer than it was in the plan"), lambda path: path.chmod(0o600),
    replaced(lambda path: path.write_bytes(path.with_name(f".kept-{path.name}").read_bytes())),
    lambda path: os.link(path, path.parents[1] / "second name"), replaced(Path.mkdir), replaced(os.mkfifo),
    replaced(lambda path: path.symlink_to("nowhere")),
]  # fmt: skip


@pytest.mark.parametrize("count", [16, 80])
@pytest.mark.parametrize(("action", "box"), [(Action.REQUEUE, Box.CUR), (Action.PURGE, Box.NEW), (Action.HOLD, Box.CUR)])
def test_each_message_that_changed_since_the_plan_stays_and_all_others_go(
    world: SpoolWorld, before_call: Interpose, action: Action, box: Box, count: int
) -> None:
    for number in range(count):
        world.put(message_id(number))
    if box is Box.CUR:
        world.claim_dead(count)
    with world.control() as control:
        plan = control.plan(action, Selection(box=box, everything=True))
        assert plan.count == count
        paths = [world.path / box / item.name for item in plan.items]
        paths[1].unlink()
        for change, path in zip(CHANGES, paths[2:], strict=False):
            change(path)
        failing = len(CHANGES) + 2

        def fail(*_: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        before_call("move", fail, paths[failing].name)
        result = control.apply(plan)
        reasons = {one.name: one.reason for one in result.items if one.outcome is not Outcome.DONE}
        assert list(reasons) == [path.name for path in paths[1 : failing + 1]]
        gone, *changed, failed = reasons.values()
        assert gone.endswith("or moved meanwhile") and set(changed) == {"changed since the plan"} and "Input/output" in failed
        assert result.count(Outcome.DONE) == count - len(reasons)
        back = control.plan(Action.UNDO, Selection(), options={"undoes": plan.operation})
        assert control.apply(back).count(Outcome.DONE) == count - len(reasons)
    assert all(path.exists() for path in (paths[0], *paths[failing:]))


def test_a_move_that_another_operator_made_meanwhile_is_not_taken_for_our_own(world: SpoolWorld, before_call: Interpose) -> None:
    world.put(message_id(1))
    [claim] = world.claim_dead()
    with world.control() as quicker, world.control() as late:
        theirs, mine = quicker.plan(Action.REQUEUE, DEAD), late.plan(Action.REQUEUE, DEAD)
        before_call("rename_noreplace", lambda *_: quicker.apply(theirs), claim)
        [item] = late.apply(mine).items
    assert (item.outcome, item.reason) == (Outcome.SKIPPED, "acknowledged or moved meanwhile")
    assert world.names(Box.NEW) == [f"{message_id(1)},n=1,e=died"]


@pytest.mark.parametrize("count", [1, 5])
def test_what_was_moved_and_may_not_last_is_no_success(world: SpoolWorld, before_call: Interpose, count: int) -> None:
    for number in range(count):
        world.put(message_id(number))

    def fail(fd: int) -> None:
        if "/held/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, "Input/output error")

    before_call("sync_dir", fail)
    _, result = world.do(Action.HOLD, Selection(box=Box.NEW, everything=True))
    assert [one.outcome for one in result.items] == [Outcome.FAILED] * count
    assert all(one.reason.startswith("moved, but a power failure may undo the move") for one in result.items)
    assert len(world.names(Box.HELD)) == count


def test_two_operators_and_a_recovering_consumer_take_no_claim_twice(world: SpoolWorld) -> None:
    with Spool(world.path) as spool, world.control() as one, world.control() as two:
        ids = {spool.put(b"%d" % number) for number in range(60)}
        world.claim_dead(60)
        plans = [(control, control.plan(Action.REQUEUE, DEAD)) for control in (one, two)]
        results: list[Result] = []
        threads = [threading.Thread(target=lambda who=who, plan=plan: results.append(who.apply(plan))) for who, plan in plans]
        for thread in threads:
            thread.start()
        recovered = spool.recover()
        for thread in threads:
            thread.join()
        done = [item.id for result in results for item in result.items if item.outcome is Outcome.DONE]
        assert len(done) == len(set(done)) and {*done, *recovered} == ids
        assert [(result.count(Outcome.FAILED), len(result.items)) for result in results] == [(0, 60)] * 2
        assert sorted(claim.id for claim in iter(spool.claim, None) if claim.ack() is None) == sorted(ids)


# Undo


def test_a_requeue_goes_back_as_far_as_no_consumer_was_quicker(world: SpoolWorld) -> None:
    for number in (1, 2, 3):
        world.put(message_id(number))
    claims = world.claim_dead(3)
    done, _ = world.do(Action.REQUEUE, DEAD)
    process, _ = world.claim_living()
    (world.path / "new" / f"{message_id(2)},n=1,e=died").unlink()
    plan, _ = world.undo(done.operation[:6])
    assert [item.row.id for item in plan.items] == [message_id(3)] and claims[2] in world.names(Box.CUR)
    assert [refusal.reason for refusal in plan.refused] == [
        f"already claimed by a consumer, pid {process.pid}", "too late: already claimed by a consumer",
    ]  # fmt: skip


def test_no_claim_goes_back_to_a_consumer_whose_presence_file_went_since_the_plan(world: SpoolWorld) -> None:
    """In ``cur`` its holder would be unknown for ever."""
    world.put(message_id(1))
    world.claim_dead()
    done, _ = world.do(Action.REQUEUE, DEAD)
    with world.control() as control:
        plan = control.plan(Action.UNDO, Selection(), options={"undoes": done.operation})
        with Spool(world.path, False) as spool:
            assert spool.recover() == []  # it holds nothing, so its file goes
        [item] = control.apply(plan).items
    reason = "its consumer has exited and left no presence file: it stays in new"
    assert (item.outcome, item.reason, world.names(Box.CUR)) == (Outcome.SKIPPED, reason, [])


def file_for_folder(path: Path) -> None:
    path.parent.rename(path.parents[1] / ".elsewhere")
    path.parent.write_text("a file in its place")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: (path.parents[3] / "new" / path.name).touch(), "new has another file of that name now"),
        (Path.unlink, "no longer in trash"), (replaced(Path.touch), "trash has another file of that name now"),
        (replaced(Path.mkdir), "trash has another file of that name now"),
        (lambda path: os.link(path, path.parents[3] / "linked"), "has another hard link"),
        (file_for_folder, os.strerror(errno.ENOTDIR)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 1201])
def test_what_changed_since_is_refused_with_the_reason_and_all_others_go_back(
    world: SpoolWorld, change: Callable[[Path], object], reason: str, count: int
) -> None:
    for number in range(count):
        world.put(message_id(number))
    done, result = world.do(Action.PURGE, NEW)
    assert result.count(Outcome.DONE) == count
    change(world.path / ".spooltop" / "trash" / done.operation / message_id(count // 2))
    plan, result = world.undo(done.operation)
    lost = count if change is file_for_folder else 1
    assert [reason in refusal.reason for refusal in plan.refused] == [True] * lost
    assert lost > 1 or plan.refused[0].row.id == message_id(count // 2)
    assert result.count(Outcome.DONE) == count - lost
    if 1 < count != lost:
        again, _ = world.undo(done.operation)
        assert again.notes[0] == f"{count - 1} of {count} undone already." and len(again.refused) == 1


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_undo_into_the_folder_of_another_operation_replaces_nothing_there(world: SpoolWorld, is_taken: bool) -> None:
    world.put("a")
    purged, _ = world.do(Action.PURGE, NEW)
    restored, _ = world.do(Action.RESTORE, TRASH)
    there = world.path / ".spooltop" / "trash" / purged.operation / "a"
    if is_taken:
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text("somebody else's")
    assert world.undo(restored.operation)[1].count(Outcome.DONE) == (not is_taken)
    assert there.read_text() == ("somebody else's" if is_taken else "a") and world.names(Box.NEW) == ["a"] * is_taken
