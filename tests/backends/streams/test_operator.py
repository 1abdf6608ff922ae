"""Operations on a group of a stream, on Redis and on Valkey: how each goes, what it refuses, and what an undo gives back."""

from __future__ import annotations

import pytest

from spooltop.control import Control
from spooltop.errors import SpoolFull
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome, Plan, Result
from spooltop.model.vocabulary import Action, Box, Json
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


def test_only_workers_that_run_take_what_is_handed_over(world: StreamWorld, control: Control) -> None:
    world.end_leases()
    world.put("m1")
    world.claim_dead()
    assert "no worker of spooltop is running in the group" in plan(control, Action.REQUEUE).notes[0]


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


def test_what_was_handed_over_and_nobody_takes_is_put_again(world: StreamWorld, control: Control) -> None:
    world.put_many(3)
    first, delayed = world.claim_dead(2)
    control.apply(requeue_one(control, first))
    world.take("~later", delayed)
    found = plan(control, Action.REQUEUE, Box.NEW)
    assert [item.id for item in found.items] == [first] and found.command[-4:] == ("--box", "new", "--copy", first)
    assert sorted(refusal.reason for refusal in found.refused) == [
        "it waits for the end of its delay", "it was never delivered: it waits already",
    ]  # fmt: skip
    assert control.apply(found).count(Outcome.DONE) == 1 and world.client.xrange(world.stream)[-1][1]["~id"] == first
    assert data(world) == ["m2", "m3", "m1"] and world.pending().keys() == {delayed}
    assert plan(control, Action.REQUEUE).items == []  # what waits is no claim


def test_other_groups_and_consumers_that_steal_get_no_copies(world: StreamWorld, control: Control) -> None:
    only_plain_consumers(world)
    world.put("m1")
    (claimed,) = world.deliver("bob")
    world.client.xgroup_create(world.stream, "others", "0")
    assert "the other groups get too" in plan(control, Action.REQUEUE).notes[0]
    world.client.xgroup_destroy(world.stream, "others")
    autoclaim(world)
    assert "consumers that use XAUTOCLAIM take it" in plan(control, Action.REQUEUE).notes[0]
    done(control, Action.REQUEUE)
    assert world.pending() == {claimed: ("~spooltop", 1)}


def test_the_living_are_refused_and_the_unknown_need_the_number(world: StreamWorld, control: Control) -> None:
    world.put_many(2)
    (living,) = world.claim_living()
    (unknown,) = world.deliver("somebody")
    found = plan(control, Action.REQUEUE)
    assert [item.id for item in found.items] == [unknown] and found.confirm is Confirm.NUMBER
    assert [(refusal.row.id, refusal.forceable) for refusal in found.refused] == [(living, True)]
    forced = plan(control, Action.REQUEUE, force=True)
    assert len(forced.items) == 2 and all(item.warning for item in forced.items)
    assert not plan(control, Action.PURGE, Box.CUR, force=True).refused[0].forceable


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


def test_purge_and_undo_restore_a_copy_where_the_group_is_alone(world: StreamWorld, control: Control) -> None:
    claimed, _ = world.put("m1", "s"), world.put("m2", "s")
    world.claim_dead()
    first, second = done(control, Action.PURGE, Box.CUR), done(control, Action.PURGE, Box.NEW)
    assert data(world) == [] and data(world, "trash") == ["m1", "m2"] and world.pending() == {}
    assert world.client.xrange(world.key("trash"))[0][1]["~id"] == claimed
    back = plan(control, Action.UNDO, undoes=first.operation)
    assert "copy" in back.notes[0] and back.items[0].id == claimed
    control.apply(back)
    undone(control, second.operation)
    assert world.census() == {"m1": ["new"], "m2": ["new"]}
    assert [fields["source"] for _, fields in world.client.xrange(world.stream)] == ["s", "s"]


def test_with_other_groups_the_entry_stays_and_comes_back_as_itself(world: StreamWorld, control: Control) -> None:
    world.put_many(2)
    world.client.xgroup_create(world.stream, "others", "0")
    (claimed,) = world.claim_dead()
    gone = done(control, Action.PURGE, Box.CUR)
    assert data(world) == ["m1", "m2"] and world.pending() == {}
    undone(control, gone.operation)
    assert world.pending() == {claimed: ("~spooltop", 1)}
    assert "1 other group" in plan(control, Action.PURGE, Box.NEW, older_than=0).refused[-1].reason
    world.take("dead", claimed)
    assert plan(control, Action.REQUEUE, copy=True).refused[0].forceable
    done(control, Action.REQUEUE, copy=True, force=True)
    assert data(world) == ["m1", "m2", "m1"] and world.pending() == {}


def test_restore_goes_where_it_came_from_and_emptying_is_for_good(world: StreamWorld, control: Control) -> None:
    world.put_many(2)
    first, _ = world.claim_dead(2)
    control.apply(control.plan(Action.HOLD, Selection(ids=(first,))))
    done(control, Action.PURGE, Box.HELD)
    done(control, Action.PURGE, Box.CUR)
    assert data(world, "trash") == ["m1", "m2"]
    done(control, Action.RESTORE, Box.TRASH)
    assert data(world, "held") == ["m1"] and data(world, "trash") == [] and data(world)[-1] == "m2"
    done(control, Action.PURGE, Box.HELD)
    emptied = done(control, Action.EMPTY)
    assert data(world, "trash") == [] and emptied.undo == ()
    (record,) = [record for record in control.operations() if record.operation == emptied.operation]
    assert record.why_not_undo == "nothing of it can be reversed"


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


def test_poison_is_held_and_the_limit_rejects(world: StreamWorld, control: Control) -> None:
    world.put_many(2)
    three, ten = world.claim_dead(2)
    for id, times in ((three, 2), (ten, 9)):
        for _ in range(times):
            world.take("dead", id)
    found = plan(control, Action.REQUEUE, hold_poison=True)
    assert found.poison == 2 and len(found.items) == 2
    rejected = done(control, Action.REQUEUE)
    assert world.pending() == {three: ("~spooltop", 3)} and data(world, "rejected") == ["m2"]
    assert "limit is 10" in world.client.xrange(world.key("rejected"))[0][1]["~why"]
    undone(control, rejected.operation)
    assert world.pending()[ten] == ("~spooltop", 10)


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


def test_an_undo_of_inject_leaves_what_was_claimed_since(world: StreamWorld, control: Control) -> None:
    put = done(control, Action.INJECT, count=250, text="hello {n}", source="me")
    assert len(put.items) == 250 and data(world)[249] == "hello 250"
    world.deliver("bob", 10)
    back = control.apply(plan(control, Action.UNDO, undoes=put.operation))
    assert len(back.items) == 240 and len(data(world)) == 10 and len(data(world, "trash")) == 240


def test_a_cursor_is_set_by_plan(world: StreamWorld, control: Control) -> None:
    ids = world.put_many(30)
    world.deliver("bob", 30)
    found = plan(control, Action.SET_CURSOR, source=world.group, value=ids[9])
    assert "20 messages would be delivered again" in found.items[0].warning
    result = control.apply(found)
    assert world.deliver("bob", 100) == ids[10:]
    late = plan(control, Action.UNDO, undoes=result.operation)
    assert not late.items and "too late" in late.refused[0].reason
    undone(control, done(control, Action.SET_CURSOR, source=world.group, value="0").operation)
    assert world.client.xinfo_groups(world.stream)[0]["last-delivered-id"] == ids[-1]
    assert plan(control, Action.SET_CURSOR, source="none", value="0").refused


def test_a_full_server_changes_nothing_but_can_be_emptied(world: StreamWorld, control: Control) -> None:
    world.put_many(4)
    world.claim_dead(2)
    done(control, Action.PURGE, Box.CUR)
    world.claim_dead()
    inject = plan(control, Action.INJECT, count=250, text="hello")
    plans = [inject, plan(control, Action.HOLD, Box.CUR), plan(control, Action.PURGE, Box.NEW)]
    before = {key: world.client.execute_command("DUMP", key, NEVER_DECODE=[]) for key in world.client.scan_iter()}
    world.client.config_set("maxmemory", 1)
    for found in plans:
        with pytest.raises(SpoolFull, match="the memory of the server is full; free memory, or raise its maxmemory"):
            control.apply(found)
    assert {key: world.client.execute_command("DUMP", key, NEVER_DECODE=[]) for key in world.client.scan_iter()} == before
    done(control, Action.EMPTY)
    assert data(world, "trash") == []
    world.client.config_set("maxmemory", 0)
    done(control, Action.HOLD, Box.CUR)
