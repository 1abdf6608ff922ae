from __future__ import annotations

import errno
import json
import os
import resource
import stat
from pathlib import Path

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.errors import Refused, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.operations.progress import BATCH
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import Operations
from tests.needs import needs


def undo(operations, operation):
    return operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": operation}))


def test_a_purge_moves_to_the_trash_and_back_to_the_exact_name(desk):
    desk.put("one", "1")
    desk.put("two:2,P4242", "2", box=Box.CUR)
    desk.verdicts["two:2,P4242"] = Verdict.DEAD
    desk.put("half", "3", box=Box.TMP)
    desk.verdicts["half"] = Verdict.ABANDONED
    before = desk.census()
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=("one", "two", "half")))
    assert any("frees no disk space" in note for note in plan.notes)
    result = operations.apply(plan)
    assert result.count(Outcome.DONE) == 3
    trash = f".spooltop/trash/{plan.operation}"
    assert desk.census() == {"1": [f"{trash}/one"], "2": [f"{trash}/two:2,P4242"], "3": [f"{trash}/half"]}
    assert undo(operations, plan.operation).count(Outcome.DONE) == 3
    assert desk.census() == before


def test_what_is_known_lies_beside_it(desk):
    desk.put("one")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=("one",)))
    operations.apply(plan)
    meta = json.loads((desk.path / ".spooltop" / "trash" / plan.operation / ".one.meta").read_text())
    assert meta == {
        "origin": "new", "reason": "purge by ann", "at": desk.clock.now, "who": "ann", "operation": plan.operation,
    }  # fmt: skip


class NoLinks(LogFiles):
    def link(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        raise OSError(errno.EMLINK, "Too many links", name)


@pytest.mark.parametrize(("files", "links"), [(LogFiles(), 4), (NoLinks(), 1)], ids=["links", "no links"])
def test_what_is_known_of_many_is_written_once_and_each_has_it_for_itself(desk, files, links):
    waiting = [desk.put(f"job{number}") for number in range(3)]
    claims = [desk.put(f"job{number}:2,P4242", box=Box.CUR) for number in range(3, 7)]
    long = desk.put("x" * 255)
    desk.verdicts = dict.fromkeys(claims, Verdict.DEAD)
    operations = desk.operations(files)
    plan = operations.plan(Action.PURGE, Selection(ids=(*waiting, *(name.partition(":")[0] for name in claims), long)))
    assert operations.apply(plan).count(Outcome.DONE) == 8
    folder = desk.path / ".spooltop" / "trash" / plan.operation
    metas = {name: folder / f".{name}.meta" for name in (*waiting, *claims)}
    assert [json.loads(metas[name].read_text())["origin"] for name in (*waiting, *claims)] == ["new"] * 3 + ["cur"] * 4
    assert max(path.stat().st_nlink for path in metas.values()) == links
    [apart] = [path for path in folder.glob(".*.meta") if path not in metas.values()]
    assert json.loads(apart.read_text())["name"] == long  # as its own name is too long to tell whose it is
    back = operations.plan(Action.RESTORE, Selection(ids=("job0", "job3", "job4")))
    assert operations.apply(back).count(Outcome.DONE) == 3
    assert [json.loads(metas[name].read_text())["origin"] for name in (*waiting[1:], *claims[2:])] == ["new"] * 2 + ["cur"] * 2
    assert not metas["job0"].exists() and not metas[claims[0]].exists()


def common(desk, operation, box="trash"):
    return desk.path / ".spooltop" / box / f".{operation}.meta"


def test_what_is_known_of_very_many_lies_beside_their_folder_and_once(desk, in_common):
    waiting = [desk.put(f"job{number}") for number in range(4)]
    desk.put("job4:2,P4242", box=Box.CUR)
    before = desk.census()
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert operations.apply(plan).count(Outcome.DONE) == 4
    known = {"reason": "purge by ann", "at": desk.clock.now, "who": "ann", "operation": plan.operation}
    assert json.loads(common(desk, plan.operation).read_text()) == {"origin": "new", **known}
    folder = desk.path / ".spooltop" / "trash" / plan.operation
    assert sorted(os.listdir(folder)) == waiting
    desk.clock.now += 7200
    back = operations.plan(Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert operations.apply(back).count(Outcome.DONE) == 4
    assert [desk.names(box) for box in (Box.NEW, Box.TRASH)] == [waiting, []]
    assert undo(operations, back.operation).count(Outcome.DONE) == 4
    assert undo(operations, plan.operation).count(Outcome.DONE) == 4
    assert desk.census() == before
    again = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    operations.apply(again)
    desk.clock.now += 7200
    emptied = operations.apply(operations.plan(Action.EMPTY, Selection(box=Box.TRASH, everything=True)))
    assert emptied.count(Outcome.DONE) == 4
    assert not common(desk, again.operation).exists() and not (folder.parent / again.operation).exists()


def test_what_comes_out_of_more_than_one_box_has_its_own(desk, in_common):
    """A power cut may take them away where the order of changes is not kept, and what is left is of another box."""
    half = desk.put("half", box=Box.TMP)
    desk.verdicts[half] = Verdict.ABANDONED
    desk.put("whole")
    plan = desk.operations().plan(Action.PURGE, Selection(ids=("half", "whole")))
    assert desk.operations().apply(plan).count(Outcome.DONE) == 2
    metas = (desk.path / ".spooltop" / "trash").rglob(".*.meta")
    assert sorted((path.name, json.loads(path.read_text())["origin"]) for path in metas) == [
        (".half.meta", "tmp"), (".whole.meta", "new"),
    ]  # fmt: skip


def test_a_message_that_finds_its_name_taken_takes_nothing_from_who_has_it(desk, in_common):
    for name in ("a", "b"):
        desk.put(name)
    operations = desk.operations(Twins())
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    said = [(one.name, one.outcome, one.reason) for one in operations.apply(plan).items]
    assert said == [("a", Outcome.DONE, ""), ("b", Outcome.FAILED, "trash already has a file of that name; it stays in new")]
    folder = desk.path / ".spooltop" / "trash" / plan.operation
    assert (folder / ".b.meta").read_text() == "of the other"


class Twins(LogFiles):
    """Another ``b``, with what is known of it, comes into the folder just before ours."""

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        found = super().stat(name, dir_fd)
        if name != "b" or not os.readlink(f"/proc/self/fd/{dir_fd}").endswith("/new"):
            return found
        for folder in Path(os.readlink(f"/proc/self/fd/{dir_fd}")).parent.glob(".spooltop/trash/*/"):
            (folder / "b").write_text("another")
            (folder / ".b.meta").write_text("of the other")
        return found


@pytest.mark.parametrize("during", [False, True], ids=["between two batches", "during a batch"])
def test_another_who_empties_the_trash_meanwhile_leaves_no_message_of_which_nothing_is_known(desk, in_common, during):
    for number in range(6):
        desk.put(f"job{number}")
    operations = desk.operations(Emptied(desk) if during else None)

    def empties(words: int) -> None:
        if words == 3 and not during:
            empty(desk)

    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True), options={"rate": 3})
    assert operations.apply(plan, empties).count(Outcome.DONE) >= 4
    back = desk.operations().plan(Action.RESTORE, Selection(box=Box.TRASH, everything=True))
    assert not back.refused
    assert desk.operations().apply(back).count(Outcome.DONE) == len(back.items) >= 2
    assert desk.names(Box.TRASH) == []


def empty(desk):
    operations = desk.operations()
    plan = operations.plan(Action.EMPTY, Selection(box=Box.TRASH, everything=True))
    assert operations.apply(plan).count(Outcome.DONE) == len(plan.items) > 0


class Emptied(LogFiles):
    """Before the fifth message is moved another operator takes away what lies beside the folder, as at the end of an emptying
    that has begun before the folder was made anew."""

    def __init__(self, desk) -> None:
        super().__init__()
        self._desk = desk

    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if name == "job4":
            [path] = (self._desk.path / ".spooltop" / "trash").glob(".*.meta")
            path.unlink()
        super().rename_noreplace(name, dir_fd, to, to_fd)


@pytest.mark.parametrize("box", [Box.NEW, None])
def test_so_many_messages_have_it_in_common(desk, box):
    for number in range(BATCH + 1):
        desk.put(f"{number}")
    operations = desk.operations()
    hold = operations.plan(Action.HOLD, Selection(box=box, everything=True))
    assert operations.apply(hold).count(Outcome.DONE) == BATCH + 1
    [meta_path] = (desk.path / ".spooltop" / "held").rglob(".*.meta")
    assert meta_path == common(desk, hold.operation, "held")
    purge = operations.plan(Action.PURGE, Selection(box=Box.HELD, everything=True))
    assert operations.apply(purge).count(Outcome.DONE) == BATCH + 1
    was = {json.loads(path.read_text())["was"]["reason"] for path in (desk.path / ".spooltop" / "trash").rglob(".*.meta")}
    assert was == {"hold by ann"}  # for the day when it goes back there
    assert undo(operations, purge.operation).count(Outcome.DONE) == BATCH + 1
    assert len(desk.names(Box.HELD)) == BATCH + 1
    release = operations.plan(Action.RELEASE, Selection(box=Box.HELD, everything=True))
    assert operations.apply(release).count(Outcome.DONE) == BATCH + 1
    assert len(desk.names(Box.NEW)) == BATCH + 1


def test_messages_out_of_two_boxes_have_nothing_in_common(desk):
    for number in range(BATCH + 1):
        desk.put(f"{number}")
    desk.claim_and_die("7")
    hold = desk.operations().plan(Action.HOLD, Selection(everything=True))
    assert desk.operations().apply(hold).count(Outcome.DONE) == BATCH + 1
    assert not common(desk, hold.operation, "held").exists()
    metas = [json.loads(path.read_text()) for path in (desk.path / ".spooltop" / "held").rglob(".*.meta")]
    assert sorted(meta["origin"] for meta in metas) == ["cur"] + ["new"] * BATCH


def test_what_is_purged_at_a_low_rate_tells_each_its_own_time(desk, in_common):
    for number in range(4):
        desk.put(f"job{number}")
    operations = Operations(desk.operator(wait=lambda seconds: desk.clock.advance(1000 * seconds)), str(desk.path))
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True), options={"rate": 1})
    began = desk.clock.now
    assert operations.apply(plan).count(Outcome.DONE) == 4
    folder = desk.path / ".spooltop" / "trash" / plan.operation
    assert json.loads(common(desk, plan.operation).read_text())["at"] == began
    own = {path.name: round(json.loads(path.read_text())["at"] - began) for path in folder.glob(".*.meta")}
    assert own == {f".job{number}.meta": 1000 * number for number in (1, 2, 3)}


class Planted(LogFiles):
    """Somebody else is quicker with metadata beside the folder, or they cannot be written."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.planted = ""

    def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
        if self.how in ("file", "link") and not self.planted and len(name) == 16 and name.endswith(".meta"):
            self.planted = name
            if self.how == "link":
                os.symlink("/etc/passwd", name, dir_fd=dir_fd)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))
        self.planted = self.planted or (name if name.endswith(".meta") else "")
        return super().create(name, dir_fd, mode)

    def sync(self, fd: int) -> None:
        if self.how == "sync" and os.readlink(f"/proc/self/fd/{fd}").endswith(".meta"):
            raise OSError(errno.EIO, "Input/output error")
        super().sync(fd)


@pytest.mark.parametrize("how", ["file", "link", "sync"])
def test_where_it_cannot_lie_beside_the_folder_each_has_its_own(desk, in_common, how):
    for number in range(3):
        desk.put(f"job{number}")
    files = Planted(how)
    operations = desk.operations(files)
    plan = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert operations.apply(plan).count(Outcome.DONE) == 3
    assert files.planted == f".{plan.operation}.meta"
    assert common(desk, plan.operation).is_symlink() == (how == "link")
    assert os.path.lexists(common(desk, plan.operation)) == (how != "sync")
    folder = desk.path / ".spooltop" / "trash" / plan.operation
    assert [json.loads((folder / f".job{number}.meta").read_text())["origin"] for number in range(3)] == ["new"] * 3


def test_writers_and_living_holders_are_refused(desk):
    desk.put("growing", box=Box.TMP)
    desk.verdicts["growing"] = Verdict.WRITING
    desk.put("left", box=Box.TMP)
    desk.verdicts["left"] = Verdict.ABANDONED
    desk.put("whose", box=Box.TMP)
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(box=Box.TMP, everything=True), force=True)
    assert sorted(item.row.name for item in plan.items) == ["left", "whose"]
    assert plan.confirm is Confirm.NUMBER
    assert any("1 unknown: no evidence here shows whether the writer is running" in note for note in plan.notes)
    assert [(refusal.row.name, refusal.forceable) for refusal in plan.refused] == [("growing", False)]
    left = operations.plan(Action.PURGE, Selection(box=Box.TMP, verdict=Verdict.ABANDONED, everything=True))
    assert left.confirm is Confirm.SMALL
    desk.claim(desk.put(desk.id(1)))
    cur = operations.plan(Action.PURGE, Selection(box=Box.CUR, everything=True), force=True)
    assert (cur.items, [refusal.forceable for refusal in cur.refused]) == ([], [False])


def test_a_file_that_somebody_writes_to_by_now_stays_in_tmp(desk):
    desk.put("left", box=Box.TMP)
    desk.verdicts["left"] = Verdict.ABANDONED
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(box=Box.TMP, everything=True))
    desk.verdicts["left"] = Verdict.WRITING
    assert operations.apply(plan).items[0].outcome is Outcome.SKIPPED
    assert desk.names(Box.TMP) == ["left"]


def test_what_is_younger_than_an_hour_is_left_alone_unless_asked_for(desk):
    operations = desk.operations()
    old, young = ("a,n=0,c={}.{}:2,P1".format("a" * 32, int((desk.clock.now - age) * 1e6)) for age in (3700, 3500))
    for name in (old, young):
        desk.put(name.replace("a,n", "b,n") if name is young else name, box=Box.CUR)

    def chosen(**conditions):
        return len(operations.plan(Action.PURGE, Selection(box=Box.CUR, **conditions)).items)

    assert chosen() == 1
    assert chosen(everything=True) == 2
    assert chosen(older_than=3400.0) == 2
    assert chosen(filter="age:>58m") == 2
    assert chosen(ids=("b",)) == 1
    with pytest.raises(UsageError):
        operations.plan(Action.PURGE, Selection(source="mail"))
    with pytest.raises(Refused):
        operations.plan(Action.PURGE, Selection(box=Box.TRASH, everything=True))


def test_a_name_of_255_bytes_goes_and_comes_back(desk):
    name = desk.put("c" * 255, "long")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=(name,)))
    assert operations.apply(plan).count(Outcome.DONE) == 1
    undo(operations, plan.operation)
    assert desk.census() == {"long": [f"new/{name}"]}


def test_a_rejected_message_is_requeued_under_its_own_name_and_put_back_by_undo(desk):
    folder = desk.path / ".spooltop" / "rejected" / "abc123"
    folder.mkdir(parents=True)
    name = f"{desk.id(1)},n=1,c={'a' * 32}.1795222800000000:2,P9"
    (folder / name).write_text("bad")
    (folder / f".{name}.meta").write_text('{"origin": "cur", "reason": "schema", "at": 1.0, "who": "w"}')
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    assert [(item.row.reason, item.row.attempt) for item in plan.items] == [("schema", 2)]
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert desk.names(Box.NEW) == [desk.id(1)]  # its attempts count anew
    assert os.listdir(folder) == []
    assert undo(operations, plan.operation).count(Outcome.DONE) == 1
    assert desk.names(Box.REJECTED) == [name]
    meta = json.loads((folder / f".{name}.meta").read_text())
    assert meta == {"origin": "cur", "reason": "schema", "at": 1.0, "who": "w"}


def test_what_was_set_aside_by_more_operations_than_there_are_descriptors_comes_back_at_once(desk):
    names = []
    for number in range(300):
        folder = desk.path / ".spooltop" / "rejected" / f"op{number}"
        folder.mkdir(parents=True)
        names.append(f"job{number:03}")
        (folder / f"{names[-1]}:2,P1").write_text(f"{number}")
        (folder / f".{names[-1]}:2,P1.meta").write_text('{"origin": "cur"}')
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 200, before[1]))
    try:
        operations = desk.operations()
        plan = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
        assert operations.apply(plan).count(Outcome.DONE) == 300
        assert desk.names(Box.NEW) == names
        assert undo(operations, plan.operation).count(Outcome.DONE) == 300
        assert operations.records()[1].undone_by == operations.records()[0].operation
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(desk.names(Box.REJECTED)) == 300


@needs("root")
@pytest.mark.parametrize("umask", [0, 0o077])
def test_root_leaves_everything_to_whom_the_spool_belongs(desk, umask):
    for path in (desk.path, *desk.path.iterdir()):
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o2770)
    for number in range(3):
        os.chown(desk.path / "cur" / desk.put(f"job{number}:2,P4242", box=Box.CUR), 65534, 65534)
    before = os.umask(umask)
    try:
        operations = desk.operations()
        plan = operations.plan(Action.PURGE, Selection(box=Box.CUR, everything=True))
        assert operations.apply(plan).count(Outcome.DONE) == 3
        operations.apply(operations.plan(Action.INJECT, Selection(), options={"count": 2}))
    finally:
        os.umask(before)
    found = {path: path.stat() for path in desk.path.rglob("*")}
    assert desk.path / ".spooltop" / "trash" / plan.operation / ".job0:2,P4242.meta" in found
    assert {(status.st_uid, status.st_gid) for status in found.values()} == {(65534, 65534)}
    modes = {path: stat.S_IMODE(status.st_mode) for path, status in found.items()}
    made = {path: mode for path, mode in modes.items() if not path.name.startswith("job")}
    assert {mode for path, mode in made.items() if path.is_dir()} == {0o2770}
    assert {mode for path, mode in made.items() if path.is_file()} == {0o660}


def test_metadata_that_a_crash_has_left_are_no_obstacle(desk):
    folder = desk.path / ".spooltop" / "rejected" / "abc123"
    folder.mkdir(parents=True)
    (folder / "job:2,P1").write_text("bad")
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    operations.apply(plan)
    (folder / ".job:2,P1.meta").write_text("{")
    assert undo(operations, plan.operation).count(Outcome.DONE) == 1
    assert json.loads((folder / ".job:2,P1.meta").read_text())["origin"] == "new"


@pytest.mark.parametrize("meta", ["[" * 60_000, '{"at": 1' + "0" * 400 + "}", '{"at": NaN, "reason": 5}', "\0", '"text"'])
def test_whatever_lies_beside_a_rejected_message_it_can_be_requeued_and_put_back(desk, meta):
    folder = desk.path / ".spooltop" / "rejected" / "abc123"
    folder.mkdir(parents=True)
    (folder / "job:2,P1").write_text("bad")
    (folder / ".job:2,P1.meta").write_text(meta)
    (folder.parent / "no name of an operation").mkdir()
    (folder.parent / "no name of an operation" / "job").write_text("foreign")
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    assert [item.row.name for item in plan.items] == ["job:2,P1"]
    assert operations.apply(plan).count(Outcome.DONE) == 1
    assert undo(operations, plan.operation).count(Outcome.DONE) == 1
    assert "job:2,P1" in desk.names(Box.REJECTED)
