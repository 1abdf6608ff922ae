"""Hold, release, restore: out of the consumers' way and back to where it came from."""

from __future__ import annotations

import json
import os

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.engine import Spool
from spooltop.errors import Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.vocabulary import Action, Box, Verdict

ALL = Selection(everything=True)


def do(operations, action, selection=ALL, **more):
    plan = operations.plan(action, selection, **more)
    return plan, operations.apply(plan)


def undo(operations, operation):
    return operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": operation}))


def put_aside(desk, box, folder, name, meta, data="x"):
    where = desk.path / ".spooltop" / box / folder
    where.mkdir(parents=True, exist_ok=True)
    (where / name).write_text(data)
    if meta is not None:
        (where / f".{name}.meta").write_text(meta)
    return where


def test_what_is_held_no_consumer_takes_and_a_release_gives_it_back_as_it_was(desk):
    with Spool(desk.path) as spool:
        id = spool.put(b"work", source="mail")
        [name] = desk.names(Box.NEW)
        operations = desk.operations()
        plan, result = do(operations, Action.HOLD, Selection(ids=(id,)))
        assert result.count(Outcome.DONE) == 1
        assert spool.claim() is None
        meta = json.loads((desk.path / ".spooltop" / "held" / plan.operation / f".{name}.meta").read_text())
        assert (meta["origin"], meta["reason"], meta["who"]) == ("new", "hold by ann", "ann")
        released, result = do(operations, Action.RELEASE)
        assert result.count(Outcome.DONE) == 1
        assert desk.names(Box.NEW) == [name]
        assert desk.names(Box.HELD) == []
        assert undo(operations, released.operation).count(Outcome.DONE) == 1
        assert undo(operations, plan.operation).count(Outcome.FAILED) == 0
        assert desk.names(Box.NEW) == [name]
        with spool.claim() as claim:
            assert (claim.id, claim.attempt, claim.source) == (id, 1, "mail")


def test_claims_are_held_by_what_is_known_of_their_holders(desk):
    [dead] = desk.claim_and_die(desk.put(desk.id(1)))
    _, [alive] = desk.claim(desk.put(desk.id(2)))
    desk.put("whose:2,P7", box=Box.CUR)
    operations = desk.operations()
    plan = operations.plan(Action.HOLD, Selection(box=Box.CUR, everything=True))
    assert sorted(item.row.name for item in plan.items) == sorted([dead, "whose:2,P7"])
    assert plan.confirm is Confirm.NUMBER
    assert [(refusal.row.name, refusal.forceable) for refusal in plan.refused] == [(alive, True)]
    assert operations.apply(plan).count(Outcome.DONE) == 2
    forced, result = do(operations, Action.HOLD, Selection(box=Box.CUR, everything=True), force=True)
    assert forced.confirm is Confirm.NUMBER
    assert result.count(Outcome.DONE) == 1
    assert sorted(desk.names(Box.HELD)) == sorted([dead, alive, "whose:2,P7"])
    assert undo(operations, plan.operation).count(Outcome.DONE) == 2
    assert desk.names(Box.CUR) == sorted([dead, "whose:2,P7"])
    _, released = do(operations, Action.RELEASE)
    assert released.count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [f"{desk.id(2)},n=1,e=died"]


def test_poison_can_be_held_by_the_requeue_of_the_others(desk):
    desk.claim_and_die_here(desk.put(desk.id(1)))
    desk.claim_and_die_here(desk.put(f"{desk.id(2)},n=3"))
    operations = desk.operations()
    dead = Selection(box=Box.CUR, verdict=Verdict.DEAD)
    plain = operations.plan(Action.REQUEUE, dead)
    assert plain.poison == 1
    assert [item.warning for item in plain.items] == ["", "4 consumers died while processing it"]
    plan = operations.plan(Action.REQUEUE, dead, options={"hold_poison": True})
    assert plan.command == ("spooltop", "requeue", str(desk.path), "--hold-poison", desk.id(1), desk.id(2))
    result = operations.apply(plan)
    assert result.count(Outcome.DONE) == 2
    assert result.notes == ("1 of those done: held instead: 4 consumers died while processing it",)
    assert desk.names(Box.NEW) == [f"{desk.id(1)},n=1,e=died"]
    [held] = desk.names(Box.HELD)
    assert held.startswith(desk.id(2))
    meta = json.loads((desk.path / ".spooltop" / "held" / plan.operation / f".{held}.meta").read_text())
    assert meta["origin"] == "cur"
    assert meta["reason"] == "held instead: 4 consumers died while processing it, by ann"
    assert undo(operations, plan.operation).count(Outcome.DONE) == 2
    assert len(desk.names(Box.CUR)) == 2


def test_a_message_rejected_at_the_limit_has_all_its_attempts_again(desk):
    with Spool(desk.path, max_attempts=2, durable=False) as spool:
        spool.put(b"hard", source="mail")

        def fails(times):
            for attempt in range(1, times + 1):
                claim = spool.claim()
                assert claim.attempt == attempt
                claim.release()

        fails(2)
        assert len(desk.names(Box.REJECTED)) == 1
        operations = desk.operations()
        for action in (Action.REQUEUE, Action.RESTORE):
            _, result = do(operations, action, Selection(box=Box.REJECTED, everything=True))
            assert result.count(Outcome.DONE) == 1
            fails(2)
            assert len(desk.names(Box.REJECTED)) == 1


def test_what_was_purged_is_restored_to_where_it_came_from(desk):
    desk.put("waits", "1")
    [dead] = desk.claim_and_die(desk.put(desk.id(1), "2"))
    desk.put("half", "3", box=Box.TMP)
    desk.verdicts["half"] = Verdict.ABANDONED
    desk.put("kept", "4")
    operations = desk.operations()
    do(operations, Action.HOLD, Selection(ids=("kept",)))
    put_aside(desk, "rejected", "r1", "bad,n=2", '{"origin": "cur", "reason": "schema", "at": 3.0, "who": "w"}', "5")
    named = Selection(ids=("waits", desk.id(1), "half", "kept", "bad"))
    purge, result = do(operations, Action.PURGE, named)
    assert result.count(Outcome.DONE) == 5
    plan, result = do(operations, Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert result.count(Outcome.DONE) == 5
    places = {content: where for content, [where] in desk.census().items()}
    assert places == {
        "1": "new/waits", "2": f"new/{desk.id(1)},n=1,e=died", "3": "tmp/half", "4": f".spooltop/held/{plan.operation}/kept",
        "5": f".spooltop/rejected/{plan.operation}/bad,n=2",
    }  # fmt: skip
    metadata = json.loads((desk.path / ".spooltop" / "rejected" / plan.operation / ".bad,n=2.meta").read_text())
    assert (metadata["origin"], metadata["reason"], metadata["at"]) == ("cur", "schema", 3.0)
    assert undo(operations, plan.operation).count(Outcome.DONE) == 5
    assert all(where.startswith(f".spooltop/trash/{purge.operation}/") for [where] in desk.census().values())
    _, result = do(operations, Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert result.count(Outcome.DONE) == 5
    _, result = do(operations, Action.RESTORE, Selection(box=Box.HELD, everything=True))
    assert result.count(Outcome.DONE) == 1
    assert "kept" in desk.names(Box.NEW)
    assert dead not in desk.names(Box.CUR)


HOSTILE = [
    None, "{", "[" * 60_000, '"text"', "{}", '{"origin": 5}', '{"origin": "../../etc"}', '{"origin": "trash"}',
    '{"origin": "/etc"}', '{"origin": "new/../.."}', '{"origin": "NEW"}', '{"origin": ["new"]}', '{"origin": "held", "was": 5}',
    '{"origin": "held", "was": {"origin": "../x", "name": "../../x", "reason": "\\u001b[2J"}}',
    '{"origin": "rejected", "was": {"was": {"was": {}}}}', '{"origin": "new", "name": "../../../escaped"}',
]  # fmt: skip


@pytest.mark.parametrize("box", ["held", "rejected", "trash"])
@pytest.mark.parametrize("meta", HOSTILE)
def test_whatever_lies_beside_it_a_message_goes_to_a_box_or_stays(desk, box, meta):
    put_aside(desk, box, "op1", "job,n=1", meta, "mine")
    operations = desk.operations()
    outside = sorted(desk.path.parent.iterdir())
    plan = operations.plan(Action.RESTORE, Selection(box=Box(box), everything=True))
    if plan.refused:
        assert box == "trash"
        assert [refusal.forceable for refusal in plan.refused] == [True]
        assert "not known" in plan.refused[0].reason
        plan = operations.plan(Action.RESTORE, Selection(box=Box.TRASH, everything=True), force=True)
        assert plan.confirm is Confirm.NUMBER
    assert operations.apply(plan).count(Outcome.DONE) == 1
    [[where]] = desk.census().values()
    assert where in ("new/job,n=1", "new/job,n=0", f".spooltop/held/{plan.operation}/job,n=1",
                     f".spooltop/rejected/{plan.operation}/job,n=1")  # fmt: skip
    assert sorted(desk.path.parent.iterdir()) == outside
    assert undo(operations, plan.operation).count(Outcome.DONE) == 1
    assert desk.census() == {"mine": [f".spooltop/{box}/op1/job,n=1"]}


def test_metadata_that_are_a_link_or_a_fifo_are_not_read(desk, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"origin": "tmp"}')
    where = put_aside(desk, "held", "op1", "a", None)
    (where / ".a.meta").symlink_to(secret)
    put_aside(desk, "held", "op1", "b", None)
    os.mkfifo(where / ".b.meta")
    (put_aside(desk, "held", "op2", "c", None).parent / ".op2.meta").symlink_to(secret)
    os.mkfifo(put_aside(desk, "held", "op3", "d", None).parent / ".op3.meta")
    _, result = do(desk.operations(), Action.RESTORE, Selection(box=Box.HELD, everything=True))
    assert result.count(Outcome.DONE) == 4
    assert desk.names(Box.NEW) == ["a", "b", "c", "d"]
    assert secret.exists()


def test_a_foreign_name_that_looks_like_a_claim_keeps_it_where_it_came_from_new(desk):
    desk.put("job:2,P77", "x")
    operations = desk.operations()
    do(operations, Action.HOLD, Selection(box=Box.NEW, everything=True))
    do(operations, Action.RELEASE)
    assert desk.names(Box.NEW) == ["job:2,P77"]


def test_two_of_one_name_that_were_held_are_not_put_over_each_other(desk):
    put_aside(desk, "held", "op1", "job", '{"origin": "new"}', "1")
    put_aside(desk, "held", "op2", "job", '{"origin": "new"}', "2")
    _, result = do(desk.operations(), Action.RELEASE)
    assert (result.count(Outcome.DONE), result.count(Outcome.FAILED)) == (1, 1)
    assert sorted(desk.census()) == ["1", "2"]


@pytest.mark.parametrize(
    ("action", "box"), [(Action.HOLD, Box.TMP), (Action.RELEASE, Box.TRASH), (Action.RESTORE, Box.NEW), (Action.EMPTY, Box.HELD)]
)
def test_each_says_what_it_takes_from(desk, action, box):
    with pytest.raises(Refused, match="is not possible for messages in"):
        desk.operations().plan(action, Selection(box=box, everything=True))


def test_what_was_set_aside_is_chosen_by_who_had_it_as_the_view_shows_it(desk):
    claims = [desk.put(f"job{pid}:2,P{pid}", box=Box.CUR) for pid in (4242, 4343)]
    desk.verdicts = dict.fromkeys(claims, Verdict.DEAD)
    operations = desk.operations()
    operations.apply(operations.plan(Action.PURGE, Selection(ids=("job4242", "job4343"))))
    chosen = operations.plan(Action.RESTORE, Selection(box=Box.TRASH, filter="pid:4343"))
    assert [item.name for item in chosen.items] == ["job4343:2,P4343"]


@pytest.mark.parametrize("same", [False, True])
def test_an_undo_into_the_folder_of_another_operation_replaces_nothing_there(desk, same):
    desk.put("a", box=Box.NEW)
    operations = desk.operations()
    purged, _ = do(operations, Action.PURGE, Selection(box=Box.NEW, everything=True))
    restored, _ = do(operations, Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert desk.names(Box.NEW) == ["a"]
    there = desk.path / ".spooltop" / "trash" / purged.operation / "a"
    there.parent.mkdir(parents=True, exist_ok=True)
    if same:
        there.write_text("somebody else's")
    back = undo(operations, restored.operation)
    if same:
        assert back.count(Outcome.DONE) == 0
        assert there.read_text() == "somebody else's" and desk.names(Box.NEW) == ["a"]
    else:
        assert back.count(Outcome.DONE) == 1 and there.exists() and desk.names(Box.NEW) == []


@pytest.mark.parametrize("folder", [False, True])
def test_of_two_undos_into_the_folder_of_another_operation_the_second_has_moved_nothing(desk, folder):
    """The message stands where it was to go, but another has moved it there."""
    desk.put("a", box=Box.NEW)
    operations = desk.operations()
    purged, _ = do(operations, Action.PURGE, Selection(box=Box.NEW, everything=True))
    restored, _ = do(operations, Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    there = desk.path / ".spooltop" / "trash" / purged.operation / "a"
    if folder:
        there.parent.mkdir(parents=True, exist_ok=True)

    class Late(LogFiles):
        def move(self, name, dir_fd, to, *args, **more):
            (desk.path / "new" / "a").rename(there)
            super().move(name, dir_fd, to, *args, **more)

    [item] = undo(desk.operations(Late()), restored.operation).items
    assert (item.outcome, item.reason) == (Outcome.SKIPPED, "already claimed by a consumer")
    assert there.exists() and there.with_name(".a.meta").exists()


def test_of_two_undos_of_a_release_of_what_nothing_is_known_of_the_second_has_moved_nothing(desk):
    """As above, in the shorter way that messages go which are all alike, from the second on."""
    folder = put_aside(desk, "held", "someone", "a", None)
    put_aside(desk, "held", "someone", "b", None)
    operations = desk.operations()
    released, result = do(operations, Action.RELEASE, Selection(box=Box.HELD, everything=True))
    assert result.count(Outcome.DONE) == 2 and desk.names(Box.NEW) == ["a", "b"]

    class Late(LogFiles):
        def move(self, name, dir_fd, to, *args, **more):
            if name == "b":
                (desk.path / "new" / "b").rename(folder / "b")
            super().move(name, dir_fd, to, *args, **more)

    done, late = undo(desk.operations(Late()), released.operation).items
    assert (done.name, done.outcome, late.outcome) == ("a", Outcome.DONE, Outcome.SKIPPED)
    assert late.reason == "already claimed by a consumer"
    assert (folder / "a").exists() and (folder / "b").exists()


@pytest.mark.parametrize("in_common", [True], indirect=True)
def test_what_is_known_in_common_lies_beside_the_own_folder_of_an_operation_alone(desk, in_common):
    """Undone into the folder of another operation, each message gets metadata of its own: what else lies there is not its."""
    desk.put("a", box=Box.NEW)
    desk.put("b", box=Box.NEW)
    operations = desk.operations()
    purged, _ = do(operations, Action.PURGE, Selection(box=Box.NEW, everything=True))
    trash = desk.path / ".spooltop" / "trash"
    assert sorted(path.name for path in trash.rglob("*.meta")) == [f".{purged.operation}.meta"]
    restored, _ = do(operations, Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    (trash / f".{purged.operation}.meta").unlink(missing_ok=True)
    folder = trash / purged.operation
    folder.mkdir(exist_ok=True)
    (folder / "stranger").write_text("of somebody else")
    assert undo(operations, restored.operation).count(Outcome.DONE) == 2
    assert sorted(path.name for path in trash.rglob("*.meta")) == [".a.meta", ".b.meta"]
    plan = operations.plan(Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert [refusal.row.name for refusal in plan.refused] == ["stranger"]
