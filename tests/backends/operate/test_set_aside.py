"""Hold, purge, release, restore: out of the consumers' way and back to where it came from, with what is known of it."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path

import pytest

from spooltop.backends.directory.storage import Folders
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import AuditFailed
from spooltop.model.plan import Confirm, Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import ALL, GONE, SpoolWorld, message_id

NEW, CUR, TMP, HELD, TRASH, REJECTED = (
    Selection(box=box, everything=True) for box in (Box.NEW, Box.CUR, Box.TMP, Box.HELD, Box.TRASH, Box.REJECTED)
)
MANY = 1001
"""So many messages that what is known of all lies beside their folder, once."""


def metadata(world: SpoolWorld, box: Box, name: str) -> dict[str, object]:
    [file] = (world.path / ".spooltop" / box).glob(f"*/.{name}.meta")
    content: dict[str, object] = json.loads(file.read_text())
    return content


def test_what_was_known_of_a_rejected_message_is_known_again_once_it_is_restored_from_the_trash(world: SpoolWorld) -> None:
    world.put_aside(Box.REJECTED, "bad,n=2", origin="cur", reason="schema", at=3.0, who="w")
    world.put("c" * 255)
    for action, selection in ((Action.PURGE, Selection(ids=("bad", "c" * 255))), (Action.RESTORE, TRASH)):
        plan, result = world.do(action, selection)
        assert result.count(Outcome.DONE) == 2
    known = metadata(world, Box.REJECTED, "bad,n=2")
    assert (known["origin"], known["reason"], known["at"]) == ("cur", "schema", 3.0) and world.names(Box.NEW) == ["c" * 255]
    assert world.undo(plan.operation)[1].count(Outcome.DONE) == len(world.names(Box.TRASH)) == 2


def test_a_rejected_message_is_requeued_under_its_own_name_and_put_back_by_undo_with_its_metadata(world: SpoolWorld) -> None:
    name = f"{message_id(1)},n=1,c={'a' * 32}.1795222800000000:2,P9"
    known = {"origin": "cur", "reason": "schema", "at": 1.0, "who": "w"}
    world.put_aside(Box.REJECTED, name, **known)
    plan, _ = world.do(Action.REQUEUE, REJECTED)
    assert [(item.row.reason, item.row.attempt) for item in plan.items] == [("schema", 2)]
    assert world.names(Box.NEW) == [message_id(1)]  # its attempts count anew
    (world.path / ".spooltop" / "rejected" / "f1" / f".{name}.meta").write_text("{")  # a crash has left it
    world.undo(plan.operation)
    assert world.names(Box.REJECTED) == [name] and metadata(world, Box.REJECTED, name) == known


HOSTILE = [
    None, "{", "[" * 60_000, '"text"', "{}", "\0", '{"origin": 5}', '{"origin": "../../etc"}', '{"origin": "trash"}',
    '{"origin": "/etc"}', '{"origin": "new/../.."}', '{"origin": "NEW"}', '{"origin": ["new"]}', '{"origin": "held", "was": 5}',
    '{"origin": "held", "was": {"origin": "../x", "name": "../../x", "reason": "\\u001b[2J"}}', '{"at": 1' + "0" * 400 + "}",
    '{"origin": "rejected", "was": {"was": {"was": {}}}}', '{"origin": "new", "name": "../../../escaped"}', '{"at": NaN}',
]  # fmt: skip


@pytest.mark.parametrize("box", [Box.HELD, Box.REJECTED, Box.TRASH])
@pytest.mark.parametrize("meta", HOSTILE)
def test_whatever_lies_beside_it_a_message_goes_to_a_box_or_stays(world: SpoolWorld, box: Box, meta: str | None) -> None:
    world.put_aside(box, "job,n=1", "mine")
    file = world.path / ".spooltop" / box / "f1" / ".job,n=1.meta"
    file.unlink() if meta is None else file.write_text(meta)
    (file.parents[1] / "no name of an operation").mkdir()
    outside = sorted(world.path.parent.iterdir())
    with world.control() as control:
        plan = control.plan(Action.RESTORE, Selection(box=box, everything=True))
        if plan.refused:
            assert box is Box.TRASH and plan.refused[0].forceable and "not known" in plan.refused[0].reason
            plan = control.plan(Action.RESTORE, TRASH, force=True)
            assert plan.confirm is Confirm.NUMBER
        assert control.apply(plan).count(Outcome.DONE) == 1
    [[place]] = world.census().values()
    own = [f".spooltop/{box}/{plan.operation}/job,n=1" for box in (Box.HELD, Box.REJECTED)]
    assert place in ("new/job,n=1", "new/job,n=0", *own)
    assert sorted(set(world.path.parent.iterdir()) - {world.state}) == outside
    assert world.undo(plan.operation)[1].count(Outcome.DONE) == 1
    assert world.census() == {"mine": [f".spooltop/{box}/f1/job,n=1"]}


def test_metadata_that_are_a_link_or_a_fifo_are_not_read(world: SpoolWorld, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"origin": "tmp"}')
    for name in "abcd":
        world.put_aside(Box.HELD, name, folder=f"op{name}")
        (world.path / f".spooltop/held/op{name}/.{name}.meta").unlink()
    above = world.path / ".spooltop/held"
    for planted in (above / "opa/.a.meta", above / ".opc.meta"):
        planted.symlink_to(secret)
    for planted in (above / "opb/.b.meta", above / ".opd.meta"):
        os.mkfifo(planted)
    assert world.do(Action.RESTORE, HELD)[1].count(Outcome.DONE) == 4
    assert world.names(Box.NEW) == ["a", "b", "c", "d"] and secret.exists()


def test_what_was_set_aside_by_more_operations_than_there_are_descriptors_comes_back_at_once(world: SpoolWorld) -> None:
    names = [world.put_aside(Box.REJECTED, f"job{number:03}", folder=f"op{number}") for number in range(300)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 200, before[1]))
    try:
        plan, _ = world.do(Action.REQUEUE, REJECTED)
        assert world.names(Box.NEW) == names
        assert world.undo(plan.operation)[1].count(Outcome.DONE) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert world.names(Box.REJECTED) == names


# What is selected


def test_what_was_set_aside_is_chosen_by_who_had_it_as_the_view_shows_it(world: SpoolWorld) -> None:
    for pid in (GONE, GONE - 1):
        world.claim_foreign(f"job{pid}", pid=pid)
    world.do(Action.PURGE, CUR)
    with world.control() as control:
        plan = control.plan(Action.RESTORE, Selection(box=Box.TRASH, filter=f"pid:{GONE - 1}"))
    assert [item.name for item in plan.items] == [f"job{GONE - 1}:2,P{GONE - 1}"]


def test_nothing_takes_from_tmp_what_is_written_or_from_cur_what_is_worked_on(world: SpoolWorld) -> None:
    world.put(message_id(1))
    _, [claim] = world.claim_living()
    for name in ("growing", "left"):
        world.put(name, box=Box.TMP)
    with world.control() as control:
        before = control.plan(Action.PURGE, TMP, force=True)
        assert before.count == 2
        with open(world.path / "tmp/growing", "ab"):
            result = control.apply(before)
            assert {one.name: one.outcome for one in result.items} == {"growing": Outcome.SKIPPED, "left": Outcome.DONE}
            for selection, kept in ((TMP, "growing"), (CUR, claim)):
                plan, _ = world.do(Action.PURGE, selection, force=True)
                assert [(refusal.row.name, refusal.forceable) for refusal in plan.refused] == [(kept, False)]
    assert (world.names(Box.TMP), world.names(Box.CUR)) == (["growing"], [claim])


# What is known of very many


def many(world: SpoolWorld, count: int = MANY) -> None:
    for number in range(count):
        world.put(f"{number:04}", "x")


def test_messages_out_of_two_boxes_have_nothing_in_common(world: SpoolWorld) -> None:
    """A power cut may take what is in common away, where the order of changes is not kept."""
    many(world, MANY - 1)
    world.claim_foreign("claimed")
    world.do(Action.HOLD, ALL)
    origins = sorted(json.loads(path.read_text())["origin"] for path in (world.path / ".spooltop/held").rglob(".*.meta"))
    assert origins == ["cur"] + ["new"] * (MANY - 1)


def test_a_message_that_finds_its_name_taken_takes_nothing_from_who_has_it(world: SpoolWorld, before_call: Interpose) -> None:
    many(world)

    def plant(*_: object) -> None:
        [folder] = (world.path / ".spooltop/trash").glob("*/")
        (folder / "1000").write_text("another")
        (folder / ".1000.meta").write_text("of the other")

    before_call("rename_noreplace", plant, "1000")
    plan, result = world.do(Action.PURGE, NEW)
    [failed] = [one for one in result.items if one.outcome is not Outcome.DONE]
    assert (failed.name, failed.reason) == ("1000", "trash already has a file of that name; it stays in new")
    assert (world.path / ".spooltop/trash" / plan.operation / ".1000.meta").read_text() == "of the other"


def test_who_empties_the_trash_during_a_purge_leaves_no_message_of_which_nothing_is_known(world: SpoolWorld) -> None:
    many(world, 2 * MANY)
    with world.control() as purging, world.control() as emptying:
        plan = purging.plan(Action.PURGE, NEW)

        def empty(tried: int) -> None:
            if tried == MANY - 1:
                emptying.apply(emptying.plan(Action.EMPTY, TRASH))

        assert purging.apply(plan, on_progress=empty).count(Outcome.DONE) == 2 * MANY
        back = purging.plan(Action.RESTORE, TRASH)
        assert not back.refused and purging.apply(back).count(Outcome.DONE) == MANY + 1
    assert len(world.names(Box.NEW)) == MANY + 1


def test_what_is_known_of_all_is_relied_on_no_more_once_somebody_has_replaced_it(world: SpoolWorld, tmp_path: Path) -> None:
    many(world, 2 * MANY)
    with world.control() as control:
        plan = control.plan(Action.HOLD, NEW)
        forged = tmp_path / "forged"
        forged.write_text('{"origin": "tmp"}')

        def replace(tried: int) -> None:
            if tried == MANY - 1:
                forged.replace(world.path / f".spooltop/held/.{plan.operation}.meta")

        assert control.apply(plan, on_progress=replace).count(Outcome.DONE) == 2 * MANY
    own = [json.loads(file.read_text()) for file in (world.path / ".spooltop/held" / plan.operation).glob(".*.meta")]
    assert len(own) == MANY + 1 and {one["origin"] for one in own} == {"new"}


def test_metadata_of_a_folder_that_could_not_be_read_are_read_again_after_a_batch(world: SpoolWorld) -> None:
    world.put_aside(Box.HELD, "a")
    with SpoolDirs(world.path) as dirs:
        folders = Folders(dirs)
        assert folders.shared(Box.HELD, "f1") == {}
        (world.path / ".spooltop/held/.f1.meta").write_text('{"origin": "new"}')
        folders.close()
        assert folders.shared(Box.HELD, "f1") == {"origin": "new"}


def test_what_is_no_file_stays_however_many_files_go(world: SpoolWorld) -> None:
    for name in "ab":
        world.put(name)
    os.mkfifo(world.path / "new/fifo")
    (world.path / "new/link").symlink_to("a")
    plan, result = world.do(Action.HOLD, Selection(box=Box.NEW, everything=True))
    assert [refusal.reason for refusal in plan.refused] == ["a fifo, not a message", "a symbolic link, not a message"]
    assert result.count(Outcome.DONE) == 2 and world.names(Box.NEW) == ["fifo", "link"]


@pytest.mark.parametrize("tail", [f",c={'a' * 32}.1795222800000000:2,P55", ":2,P55"])
@pytest.mark.parametrize("plain", [1, 2], ids=["before", "after"])
@pytest.mark.parametrize(("box", "action"), [(Box.HELD, Action.RELEASE), (Box.TRASH, Action.RESTORE), (Box.CUR, Action.REQUEUE)])
def test_each_goes_back_by_its_own_name_whether_the_one_before_has_the_tail_of_a_claim(
    world: SpoolWorld, box: Box, action: Action, plain: int, tail: str
) -> None:
    names = {number: message_id(number) + ("" if number == plain else tail) for number in (1, 2)}
    for name in names.values():
        if box is Box.CUR:
            world.put(name, box=Box.CUR)
        else:
            world.put_aside(box, name, origin="cur")
    plan, result = world.do(action, Selection(box=box, everything=True), force=True)
    assert result.count(Outcome.DONE) == plan.count == 2
    assert world.names(Box.NEW) == [message_id(number) + ("" if number == plain else ",n=1") for number in (1, 2)]


# What deletes goes on when nothing can be written


@pytest.mark.parametrize(("code", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, True), (errno.EIO, False)])
@pytest.mark.parametrize("now", [False, True])
def test_a_full_disk_stops_every_change_but_those_that_free_space(
    world: SpoolWorld, before_call: Interpose, code: int, full: bool, now: bool
) -> None:
    world.put("a")
    world.do(Action.PURGE, Selection(ids=("a",)))
    world.put("b")

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for operation in ("write", "create", "mkdir"):
        before_call(operation, fail)
    purge = Selection(ids=("b",))
    with pytest.raises(AuditFailed):
        world.do(Action.PURGE, purge)
    before = world.census()
    if not full:
        with pytest.raises(AuditFailed):
            world.do(Action.EMPTY, TRASH)
        assert world.census() == before
        return
    _, result = world.do(Action.PURGE, purge, now=True) if now else world.do(Action.EMPTY, TRASH)
    assert result.count(Outcome.DONE) == 1
    [[left]] = world.census().values()
    assert left.endswith("/a") if now else left == "new/b"
    assert any("without a line in the journal" in note for note in result.notes)
