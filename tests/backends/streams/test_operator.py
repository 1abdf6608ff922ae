"""Operations on a group of a stream, on Redis and on Valkey."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.errors import Refused, SpoolFull
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.vocabulary import Action, Box

from .group import NAMES, Group, done, plan, undone


@pytest.fixture
def group(socket: str, tmp_path: Path) -> Iterator[Group]:
    made = Group(socket, tmp_path)
    yield made
    made.close()


def test_a_claim_of_the_dead_is_handed_over_and_given_back(group: Group) -> None:
    group.put(3)
    first, second = group.claim("dead", 2)
    ops = group.operations()
    found = plan(ops, Action.REQUEUE)
    assert [item.id for item in found.items] == [first, second] and found.confirm is Confirm.SMALL
    assert "workers of spooltop take it first" in found.notes[0] and "same ids; claimed next" in found.effect
    result = ops.apply(found)
    assert result.count(Outcome.DONE) == 2 and result.undo == ("spooltop", "undo", found.target, result.operation)
    assert group.pending() == {first: ("~spooltop", 1), second: ("~spooltop", 1)}
    group.take("alive", second)
    back = ops.apply(plan(ops, Action.UNDO, undoes=result.operation))
    assert [one.id for one in back.items] == [first]
    assert group.pending() == {first: ("dead", 1), second: ("alive", 2)}
    again = undone(ops, back.operation)
    assert group.pending()[first] == ("~spooltop", 1) and again.items[0].id == first


def test_consumers_that_only_read_new_entries_get_copies(group: Group) -> None:
    group.only_plain_consumers()
    group.put(3)
    first, held, waits = group.claim("dead", 3)
    ops = group.operations()
    hold = ops.apply(ops.plan(Action.HOLD, Selection(ids=(held,))))
    back = plan(ops, Action.UNDO, undoes=hold.operation)
    assert back.notes == ("1 of 1: a copy, last in order, as its consumers only read new entries.",)
    assert "as a new entry" in back.effect and ops.apply(back).count(Outcome.DONE) == 1
    undone(ops, back.operation)
    assert group.data(NAMES.held) == ["m2"] and group.data() == ["m1", "m3"]
    for found in (plan(ops, Action.RELEASE), ops.plan(Action.REQUEUE, Selection(ids=(first,)))):
        final = found.action is Action.REQUEUE  # what was held is found again by the undo of its release
        assert "nobody was seen to use XAUTOCLAIM" in found.notes[0] and ("has no undo" in found.notes[0]) is final
        assert "as a new entry" in found.effect
        result = ops.apply(found)
        assert result.count(Outcome.DONE) == 1 and (result.undo == ()) is final
    assert [group.entries()[id]["data"] for id in group.claim("alive", 9)] == ["m2", "m1"]
    assert set(group.data()) == {"m1", "m2", "m3"} and group.pending().keys() == {waits, *list(group.entries())[1:]}


def test_only_workers_that_run_take_what_is_handed_over(group: Group) -> None:
    group.ask("DEL", NAMES.lease("worker"))
    group.put(1)
    group.claim("dead")
    assert "no worker of spooltop is running in the group" in plan(group.operations(), Action.REQUEUE).notes[0]


def test_the_way_is_what_consumers_did_with_what_was_handed_over_before(group: Group) -> None:
    group.put(4)
    first, second, *_ = group.claim("dead", 2)
    ops = group.operations()
    ops.apply(ops.plan(Action.REQUEUE, Selection(ids=(first,))))
    group.only_plain_consumers()
    group.ask("XAUTOCLAIM", NAMES.stream, NAMES.group, "dead", 1 << 40, "0")  # of another group, it may be
    unknown = plan(ops, Action.REQUEUE).notes[0]
    assert "whether from a consumer of this group is not known. If it still waits later, --box new --copy puts" in unknown
    group.put(1)
    group.claim("alive", 9)
    assert "still waits while newer entries were delivered, so its consumers only read new" in plan(ops, Action.REQUEUE).notes[0]
    group.take("alive", first)
    taken = plan(ops, Action.REQUEUE)
    assert "its consumers took what was handed over before" in taken.notes[0] and [one.id for one in taken.items] == [second]


def test_what_was_handed_over_and_nobody_takes_is_put_again(group: Group) -> None:
    group.put(3)
    first, delayed = group.claim("dead", 2)
    ops = group.operations()
    ops.apply(ops.plan(Action.REQUEUE, Selection(ids=(first,))))
    group.take("~later", delayed)
    found = plan(ops, Action.REQUEUE, Box.NEW)
    assert [item.id for item in found.items] == [first] and found.command[-4:] == ("--box", "new", "--copy", first)
    assert sorted(one.reason for one in found.refused) == [
        "it waits for the end of its delay", "it was never delivered: it waits already",
    ]  # fmt: skip
    assert ops.apply(found).count(Outcome.DONE) == 1 and list(group.entries().values())[-1]["~id"] == first
    assert group.data() == ["m2", "m3", "m1"] and group.pending().keys() == {delayed}
    assert plan(ops, Action.REQUEUE).items == []  # what waits is no claim


def test_other_groups_and_consumers_that_steal_get_no_copies(group: Group) -> None:
    group.only_plain_consumers()
    group.put(1)
    (claimed,) = group.claim("dead")
    ops = group.operations()
    group.ask("XGROUP", "CREATE", NAMES.stream, "others", "0")
    assert "the other groups get too" in plan(ops, Action.REQUEUE).notes[0]
    group.ask("XGROUP", "DESTROY", NAMES.stream, "others")
    group.ask("XAUTOCLAIM", NAMES.stream, NAMES.group, "dead", 3_600_000, "0")
    assert "consumers that use XAUTOCLAIM take it" in plan(ops, Action.REQUEUE).notes[0]
    done(ops, Action.REQUEUE)
    assert group.pending() == {claimed: ("~spooltop", 1)}


def test_the_living_are_refused_and_the_unknown_need_the_number(group: Group) -> None:
    group.put(2)
    (living,) = group.claim("alive")
    (unknown,) = group.claim("somebody")
    ops = group.operations()
    found = plan(ops, Action.REQUEUE)
    assert [item.id for item in found.items] == [unknown] and found.confirm is Confirm.NUMBER
    assert [(one.row.id, one.forceable) for one in found.refused] == [(living, True)]
    forced = plan(ops, Action.REQUEUE, force=True)
    assert len(forced.items) == 2 and all(item.warning for item in forced.items)
    assert not plan(ops, Action.PURGE, Box.CUR, force=True).refused[0].forceable


def test_what_happened_since_is_skipped(group: Group) -> None:
    group.put(4)
    acked, taken, again, same = group.claim("dead", 4)
    ops = group.operations()
    found = plan(ops, Action.PURGE, Box.CUR)
    group.ack(acked)
    group.take("alive", taken)
    group.take("dead", again)
    result = ops.apply(found)
    assert [one.outcome for one in result.items] == [Outcome.SKIPPED] * 3 + [Outcome.DONE]
    assert [one.reason for one in result.items[:3]] == ["done or gone since", "claimed since by alive", "claimed since by dead"]
    assert [one["~id"] for one in group.entries(NAMES.trash).values()] == [same]


def test_purge_and_undo_restore_a_copy_where_the_group_is_alone(group: Group) -> None:
    group.put(2, source="s")
    (claimed,) = group.claim("dead")
    ops = group.operations()
    first = done(ops, Action.PURGE, Box.CUR)
    second = done(ops, Action.PURGE, Box.NEW)
    assert group.data() == [] and group.data(NAMES.trash) == ["m1", "m2"] and group.pending() == {}
    assert next(iter(group.entries(NAMES.trash).values()))["~id"] == claimed
    back = plan(ops, Action.UNDO, undoes=first.operation)
    assert "copy" in back.notes[0] and back.items[0].id == claimed
    ops.apply(back)
    undone(ops, second.operation)
    assert group.data() == ["m1", "m2"] and group.data(NAMES.trash) == []
    assert [one["source"] for one in group.entries().values()] == ["s", "s"]
    assert len(group.claim("alive", 5)) == 2


def test_with_other_groups_the_entry_stays_and_comes_back_as_itself(group: Group) -> None:
    group.put(2)
    group.ask("XGROUP", "CREATE", NAMES.stream, "others", "0")
    (claimed,) = group.claim("dead")
    ops = group.operations()
    gone = done(ops, Action.PURGE, Box.CUR)
    assert group.data() == ["m1", "m2"] and group.pending() == {}
    undone(ops, gone.operation)
    assert group.pending() == {claimed: ("~spooltop", 1)}
    assert "1 other group" in plan(ops, Action.PURGE, Box.NEW, older_than=0).refused[-1].reason
    group.take("dead", claimed)
    assert plan(ops, Action.REQUEUE, copy=True).refused[0].forceable
    done(ops, Action.REQUEUE, copy=True, force=True)
    assert group.data() == ["m1", "m2", "m1"] and group.pending() == {}


def test_hold_release_and_undo(group: Group) -> None:
    group.put(3)
    first, second = group.claim("dead", 2)
    ops = group.operations()
    held = done(ops, Action.HOLD, Box.CUR)
    assert group.data(NAMES.held) == ["m1", "m2"] and group.pending() == {}
    released = done(ops, Action.RELEASE)
    assert group.pending() == {first: ("~spooltop", 1), second: ("~spooltop", 1)} and group.data(NAMES.held) == []
    undone(ops, released.operation)
    assert group.pending() == {} and group.data(NAMES.held) == ["m1", "m2"]
    new = done(ops, Action.HOLD, Box.NEW)
    assert group.data(NAMES.held) == ["m1", "m2", "m3"]
    undone(ops, new.operation)
    assert "m3" in group.data() and held.operation != new.operation


def test_restore_goes_where_it_came_from_and_emptying_is_for_good(group: Group) -> None:
    group.put(2)
    (first, _) = group.claim("dead", 2)
    ops = group.operations()
    ops.apply(ops.plan(Action.HOLD, Selection(ids=(first,))))
    done(ops, Action.PURGE, Box.HELD)
    done(ops, Action.PURGE, Box.CUR)
    assert group.data(NAMES.trash) == ["m1", "m2"]
    done(ops, Action.RESTORE, Box.TRASH)
    assert group.data(NAMES.held) == ["m1"] and group.data(NAMES.trash) == [] and group.data()[-1] == "m2"
    done(ops, Action.PURGE, Box.HELD)
    emptied = done(ops, Action.EMPTY)
    assert group.data(NAMES.trash) == [] and emptied.undo == ()
    (record,) = [one for one in ops.records() if one.operation == emptied.operation]
    assert record.why_not_undo == "nothing of it can be reversed"


def test_poison_is_held_and_the_limit_rejects(group: Group) -> None:
    group.put(2)
    three, ten = group.claim("dead", 2)
    for _ in range(2):
        group.take("dead", three)
    for _ in range(9):
        group.take("dead", ten)
    ops = group.operations()
    found = plan(ops, Action.REQUEUE, hold_poison=True)
    assert found.poison == 2 and len(found.items) == 2
    rejected = done(ops, Action.REQUEUE)
    assert group.pending() == {three: ("~spooltop", 3)} and group.data(NAMES.rejected) == ["m2"]
    assert "limit is 10" in next(iter(group.entries(NAMES.rejected).values()))["~why"]
    undone(ops, rejected.operation)
    assert group.pending()[ten] == ("~spooltop", 10)


def test_inject_and_its_undo(group: Group) -> None:
    ops = group.operations()
    put = done(ops, Action.INJECT, count=250, text="hello {n}", source="me")
    assert len(put.items) == 250 and group.data()[249] == "hello 250"
    group.claim("alive", 10)
    back = ops.apply(plan(ops, Action.UNDO, undoes=put.operation))
    assert len(back.items) == 240 and len(group.data()) == 10 and len(group.data(NAMES.trash)) == 240


def test_pause_resume_and_their_undo(group: Group) -> None:
    ops = group.operations()
    paused = done(ops, Action.PAUSE, reason="a change")
    record = group.ask("GET", NAMES.paused)
    assert b"a change" in record and b"ann" in record
    assert plan(ops, Action.PAUSE).refused[0].reason.startswith("it is paused already")
    resumed = done(ops, Action.RESUME)
    assert group.ask("GET", NAMES.paused) is None
    undone(ops, resumed.operation)
    assert group.ask("GET", NAMES.paused) == record
    undone(ops, paused.operation)
    assert group.ask("GET", NAMES.paused) is None


def test_a_cursor_is_set_by_plan(group: Group) -> None:
    ids = group.put(30)
    group.claim("alive", 30)
    ops = group.operations()
    found = plan(ops, Action.SET_CURSOR, source="work", value=ids[9])
    assert "20 messages would be delivered again" in found.items[0].warning
    result = ops.apply(found)
    assert group.claim("alive", 100) == ids[10:]
    late = plan(ops, Action.UNDO, undoes=result.operation)
    assert not late.items and "too late" in late.refused[0].reason
    back = done(ops, Action.SET_CURSOR, source="work", value="0")
    undone(ops, back.operation)
    assert group.claim("alive") == [] and plan(ops, Action.SET_CURSOR, source="none", value="0").refused


def test_nothing_is_asked_that_holds_the_server_up(group: Group) -> None:
    group.put(5)
    group.claim("dead", 3)
    ops = group.operations()
    for action in (Action.REQUEUE, Action.PURGE, Action.HOLD):
        plan(ops, action, Box.CUR)
    done(ops, Action.PURGE, Box.CUR)
    stats = group.ask("INFO", "commandstats").decode()
    assert "cmdstat_keys:" not in stats and "delconsumer" not in stats


def test_a_full_server_changes_nothing_but_can_be_emptied(group: Group) -> None:
    group.put(2)
    group.claim("dead")
    ops = group.operations()
    done(ops, Action.PURGE, Box.CUR)
    before = group.data(NAMES.trash)
    group.ask("CONFIG", "SET", "maxmemory", "1")
    found = plan(ops, Action.PURGE, Box.NEW)
    with pytest.raises(SpoolFull, match="memory of the server is full"):
        ops.apply(found)
    assert group.data(NAMES.trash) == before and group.data() == ["m2"]
    done(ops, Action.EMPTY)
    assert group.data(NAMES.trash) == []


def test_a_replica_is_read_only(group: Group) -> None:
    group.put(1)
    group.claim("dead")
    ops = group.operations()
    found = plan(ops, Action.REQUEUE)
    group.ask("REPLICAOF", "127.0.0.1", "1")
    try:
        with pytest.raises(Refused, match="the server is a replica"):
            ops.apply(found)
    finally:
        group.ask("REPLICAOF", "NO", "ONE")


def test_the_audit_stands_on_the_server_and_here(group: Group) -> None:
    group.put(2)
    ids = group.claim("dead", 2)
    ops = group.operations()
    result = done(ops, Action.REQUEUE)
    (line,) = group.entries(NAMES.audit).values()
    assert (line["operation"], line["user"], line["done"], line["ids"]) == (result.operation, "ann", "2", " ".join(ids))
    assert [one.event for one in ops.audited(result.operation).lines] == ["before", "after"]


def test_what_a_killed_operator_leaves_on_the_server_ends(group: Group) -> None:
    group.put(30)
    group.claim("dead", 30)
    ops = group.operations()
    found = plan(ops, Action.PURGE, Box.CUR)
    assert len(next(iter(group.operator().perform(found)))) == 25
    assert 7_000_000 < group.ask("TTL", NAMES.step(found.operation)) <= 90 * 86_400
