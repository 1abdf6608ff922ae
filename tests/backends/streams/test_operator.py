"""Operations on a group of a stream, on Redis and on Valkey: how each goes, what it refuses, and what an undo gives back."""

from __future__ import annotations

import json
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control
from spooltop.errors import SpoolFull
from spooltop.model.plan import Confirm, Outcome, Plan, Result, Selection
from spooltop.model.vocabulary import Action, Box, Json
from tests.builders import ROOT_STATE
from tests.stream_builders import StreamWorld


def plan(control: Control, action: Action, box: Box | None = None, *, force: bool = False, **options: Json) -> Plan:
    """Plans ``action`` on all messages of ``box``."""
    return control.plan(action, Selection(box=box, everything=True), force=force, options=options)


def done(control: Control, action: Action, box: Box | None = None, *, force: bool = False, **options: Json) -> Result:
    """Plans and applies; every message of the plan must be done."""
    result = control.apply(plan(control, action, box, force=force, **options))
    assert result.count(Outcome.DONE) == len(result.items) > 0, result
    return result


def undone(control: Control, operation: str) -> Result:
    return done(control, Action.UNDO, undoes=operation)


def journal_of(world: StreamWorld) -> tuple[Path, list[dict[str, Any]]]:
    """The journal of the group, and its lines."""
    # Folders of other tests go meanwhile: glob passes over them.
    (journal,) = (Path(file) for root in (world.state, ROOT_STATE)
                  for file in glob(f"{root}/**/*{world.group}*/messages.jsonl", recursive=True))  # noqa: PTH207
    return journal, [json.loads(line) for line in journal.read_text().replace("\0", "").splitlines()]


def requeue_one(control: Control, id: str) -> Plan:
    return control.plan(Action.REQUEUE, Selection(ids=(id,)))


def data(world: StreamWorld, box: str = "") -> list[str]:
    """Contents of the entries of the stream, or of what was set aside in ``box``."""
    return [fields["data"] for _, fields in world.client.xrange(world.key(box) if box else world.stream)]


def only_plain_consumers(world: StreamWorld) -> None:
    """Makes a group in which no worker of spooltop has ever been."""
    world.client.config_resetstat()
    world.client.delete(world.key("consumers"), *world.client.keys("*lease*"))


def autoclaim(world: StreamWorld) -> None:
    """Has somebody ask for what others left, and get nothing."""
    world.client.xautoclaim(world.stream, world.group, "thief", 1 << 40, "0")
    world.client.xgroup_delconsumer(world.stream, world.group, "thief")


def test_a_claim_of_the_dead_is_handed_over_and_given_back(world: StreamWorld, control: Control) -> None:
    world.put_many(3)
    first, second = world.claim_dead(2)
    found = plan(control, Action.REQUEUE)
    assert [item.id for item in found.items] == [first, second] and found.confirm is Confirm.SMALL
    assert "workers of spooltop take it first" in found.notes[0] and "same ids; claimed next" in found.effect
    result = control.apply(found)
    assert result.count(Outcome.DONE) == 2 and result.undo == ("spooltop", "undo", found.target, result.operation)
    assert world.pending() == {first: ("~spooltop", 1), second: ("~spooltop", 1)}
    world.take("alive", second)
    assert [item.row.key for item in plan(control, Action.UNDO, undoes=result.operation).items] == [("new", first)]
    back = undone(control, result.operation)
    assert [item.id for item in back.items] == [first]
    assert world.pending() == {first: ("dead", 1), second: ("alive", 2)}
    undone(control, back.operation)
    assert world.pending()[first] == ("~spooltop", 1)
    lines = [fields for _, fields in world.client.xrange("{jobs}:spooltop:audit")]
    assert (lines[0]["operation"], lines[0]["done"], lines[0]["ids"]) == (result.operation, "2", f"{first} {second}")


def test_an_undo_gives_no_claim_to_a_consumer_that_has_left(world: StreamWorld, control: Control) -> None:
    """Nobody could ever tell that its holder is dead."""
    world.put("m1")
    (id,) = world.claim_dead()
    result = done(control, Action.REQUEUE)
    kept = plan(control, Action.UNDO, undoes=result.operation)
    with world.queue() as queue:
        assert queue.recover() == []  # and the consumer, which holds nothing, is removed from the group
    back = plan(control, Action.UNDO, undoes=result.operation)
    reason = "its consumer has left the group: it stays handed back"
    assert ([refusal.reason for refusal in back.refused], back.count, kept.count) == ([reason], 0, 1)
    assert [(item.outcome, item.reason) for item in control.apply(kept).items] == [(Outcome.SKIPPED, reason)]
    assert world.pending() == {id: ("~spooltop", 1)}


def test_consumers_that_only_read_new_entries_get_copies(world: StreamWorld, control: Control) -> None:
    only_plain_consumers(world)
    world.put_many(3)
    first, held, waits = world.deliver("bob", 3)
    hold = control.apply(control.plan(Action.HOLD, Selection(ids=(held,)), force=True))
    back = plan(control, Action.UNDO, undoes=hold.operation)
    assert back.notes == ("1 of 1: a copy, last in order, as its consumers only read new entries.",)
    assert "as a new entry" in back.effect and control.apply(back).count(Outcome.DONE) == 1
    undone(control, back.operation)
    assert data(world, "held") == ["m2"] and data(world) == ["m1", "m3"]
    for found in (plan(control, Action.RELEASE), requeue_one(control, first)):
        final = found.action is Action.REQUEUE  # what was held is found again by the undo of its release
        assert "nobody was seen to use XAUTOCLAIM" in found.notes[0] and ("has no undo" in found.notes[0]) is final
        assert "as a new entry" in found.effect
        result = control.apply(found)
        assert result.count(Outcome.DONE) == 1 and (result.undo == ()) is final
    again = world.deliver("bob", 9)
    assert data(world) == ["m3", "m2", "m1"] and world.pending().keys() == {waits, *again}


def test_the_way_is_what_consumers_did_with_what_was_handed_over_before(world: StreamWorld, control: Control) -> None:
    world.put_many(4)
    first, second = world.deliver("bob", 2)
    control.apply(requeue_one(control, first))
    only_plain_consumers(world)
    autoclaim(world)  # of another group, it may be
    unknown = plan(control, Action.REQUEUE).notes[0]
    assert "whether from a consumer of this group is not known. If it still waits later, --box new --copy puts" in unknown
    world.put("m5")
    world.deliver("eve", 9)
    waiting = requeue_one(control, second).notes[0]
    assert "still waits while newer entries were delivered, so its consumers only read new" in waiting
    world.take("eve", first)
    assert "its consumers took what was handed over before" in requeue_one(control, second).notes[0]


def test_what_happened_since_is_skipped(world: StreamWorld, control: Control) -> None:
    world.put_many(4)
    acked, taken, again, same = world.claim_dead(4)
    found = plan(control, Action.PURGE, Box.CUR)
    world.client.xack(world.stream, world.group, acked)
    world.take("alive", taken)
    world.take("dead", again)
    result = control.apply(found)
    assert [item.outcome for item in result.items] == [Outcome.SKIPPED] * 3 + [Outcome.DONE]
    assert [item.reason for item in result.items[:3]] == ["done or gone since", "claimed since by alive", "claimed since by dead"]
    assert [fields["~id"] for _, fields in world.client.xrange(world.key("trash"))] == [same]


@pytest.mark.parametrize("others", [(), ("others",)])
def test_what_is_deleted_leaves_its_entry_to_other_groups_only(
    world: StreamWorld, control: Control, others: tuple[str, ...]
) -> None:
    world.put_many(2)
    for name in others:
        world.client.xgroup_create(world.stream, name, "0")
    world.claim_dead(2)
    done(control, Action.HOLD, Box.CUR)
    done(control, Action.PURGE, Box.HELD)
    assert data(world) == ["m1", "m2"]
    done(control, Action.EMPTY)
    assert data(world) == ["m1", "m2"] * len(others) and world.census() == {}


@pytest.mark.parametrize("gone", [False, True])
def test_what_was_rejected_keeps_its_tries_and_its_reason_when_undone(world: StreamWorld, control: Control, gone: bool) -> None:
    """Also where its entry is ``gone``, and it was put again."""
    world.put("m1")
    (id,) = world.claim_dead()
    for _ in range(9):
        world.take("dead", id)
    done(control, Action.REQUEUE)
    if gone:
        world.client.xdel(world.stream, id)
    operation = done(control, Action.REQUEUE, Box.REJECTED).operation
    for kept in (["10", "10 attempts, the limit is 10"], [], ["10", "10 attempts, the limit is 10"]):
        operation = undone(control, operation).operation
        rejected = [fields for _, fields in world.client.xrange(world.key("rejected"))]
        assert [fields[name] for fields in rejected for name in ("~tries", "~why")] == kept
    _, lines = journal_of(world)  # as all versions write and read it
    redriven, *undos = [line for line in lines if line["line"] == "intent"][1:]
    assert redriven["changes"][0]["notes"] == "10 10 attempts, the limit is 10" and redriven["reverses"] == []
    assert [line["reverses"] for line in undos] == [[[0, 0]]] * 3 and "reverses" not in undos[0]["changes"][0]


def test_a_cursor_that_moved_since_is_not_set_back(world: StreamWorld, control: Control) -> None:
    ids = world.put_many(30)
    world.deliver("bob", 30)
    result = done(control, Action.SET_CURSOR, source=world.group, value=ids[9])
    assert world.deliver("bob", 100) == ids[10:]
    late = plan(control, Action.UNDO, undoes=result.operation)
    assert not late.items and "too late" in late.refused[0].reason
    assert (late.refused[0].row.id, late.refused[0].row.box) == (ids[9], Box.NEW)


def test_a_full_server_changes_nothing_but_can_be_emptied(world: StreamWorld, control: Control) -> None:
    world.put_many(4)
    world.claim_dead(2)
    done(control, Action.PURGE, Box.CUR)
    plans = [plan(control, Action.INJECT, count=250, text="hello"), plan(control, Action.PURGE, Box.NEW)]
    before = world.census()
    world.client.config_set("maxmemory", 1)
    for each in plans:
        with pytest.raises(SpoolFull, match="the memory of the server is full; free memory, or raise its maxmemory"):
            control.apply(each)
    done(control, Action.EMPTY)
    assert data(world, "trash") == []
    world.client.config_set("maxmemory", 0)
    assert world.census() == {content: places for content, places in before.items() if places != ["trash"]}


@pytest.mark.parametrize("changes", [None, {}, "x", [5], [[]], [["eat", "5-1"]], "notes"])
def test_a_record_whose_changes_are_forged_is_none(world: StreamWorld, changes: object) -> None:
    world.put_many(2)
    with world.control() as control:
        done(control, Action.HOLD, Box.NEW)
        journal, lines = journal_of(world)
        for line in lines:
            if "changes" in line:
                line["changes"] = [[*change, "x"] for change in line["changes"]] if changes == "notes" else changes
        journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with world.control() as control:
        assert control.operations() == []
