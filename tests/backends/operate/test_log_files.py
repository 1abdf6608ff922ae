"""Location and owner of the journal and the audit log, and other files that may have their names."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from spooltop.backends.directory.journal.journal import MOVES
from spooltop.backends.journal.append_log import AppendLog
from spooltop.backends.journal.log_files import LogFiles, open_path, plain_but_for_draft
from spooltop.backends.journal.log_lines import LogLines
from spooltop.backends.journal.log_store import SpoolLogs
from spooltop.backends.journal.record_log import RecordLog
from spooltop.engine.atomic import make_file
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import AuditFailed, SpooltopError, Unreadable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box
from tests.needs import needs

NOBODY = 65534
root_only = needs("root")


def purge_one(desk, name="one"):
    desk.put(name)
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=(name,)))
    return operations.apply(plan)


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("name", ["journal.jsonl", "audit.jsonl"])
@pytest.mark.parametrize("planted", ["fifo", "link", "hard link", "directory"])
def test_nothing_is_changed_where_something_else_stands_in_place_of_a_log(desk, tmp_path, name, planted):
    own = desk.path / ".spooltop"
    own.mkdir()
    other = tmp_path / "other"
    other.write_text("mine\n")
    match planted:
        case "fifo":
            os.mkfifo(own / name)
        case "link":
            (own / name).symlink_to(other)
        case "hard link":
            (own / name).hardlink_to(other)
        case "directory":
            (own / name).mkdir()
    with pytest.raises(AuditFailed, match=name):
        purge_one(desk)
    assert desk.names(Box.NEW) == ["one"]
    assert other.read_text() == "mine\n"


@pytest.mark.parametrize("draft", [False, True])
def test_a_log_with_a_third_name_is_not_read(desk, tmp_path, draft):
    """A log that is being replaced has its draft as its second name, and no other."""
    own = desk.path / ".spooltop"
    own.mkdir()
    other = tmp_path / "other"
    other.write_text("mine\n")
    (own / "journal.jsonl").hardlink_to(other)
    if draft:
        (own / ".journal.jsonl.1").hardlink_to(other)
    with pytest.raises(AuditFailed, match=r"journal\.jsonl"):
        purge_one(desk)
    assert desk.names(Box.NEW) == ["one"] and (own / ".journal.jsonl.1").exists() is draft


@pytest.mark.parametrize("planted", ["link", "third name", "second name", "fifo", "draft"])
def test_what_is_read_as_a_log_is_a_plain_file_or_one_that_is_being_replaced(tmp_path, folder, planted):
    other = tmp_path / "other"
    other.write_text("mine\n")
    log = tmp_path / "log"
    match planted:
        case "link":
            log.symlink_to(other)
        case "second name":
            log.hardlink_to(other)
        case "third name" | "draft":
            log.hardlink_to(other)
            (tmp_path / ".log.1").hardlink_to(other)
            if planted == "draft":
                other.unlink()
        case "fifo":
            os.mkfifo(log)
    files = LogFiles()
    with ExitStack() as stack:
        if planted != "draft":
            stack.enter_context(pytest.raises(OSError, match=r"log|symbolic"))
        fd = files.open_read("log", folder)
        stack.callback(os.close, fd)
        plain_but_for_draft(files, fd, folder, "log")
    assert log.is_symlink() or log.exists()


@pytest.mark.parametrize("linked", [".spooltop", ".spooltop/trash"])
def test_no_link_beside_the_boxes_leads_anything_out_of_the_spool(desk, tmp_path, linked):
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.path / linked).parent.mkdir(exist_ok=True)
    (desk.path / linked).symlink_to(outside)
    try:
        outcomes = [one.outcome for one in purge_one(desk).items]
    except SpooltopError as error:
        assert ".spooltop" in str(error)
    else:
        assert outcomes == [Outcome.FAILED]
    assert desk.names(Box.NEW) == ["one"]
    assert list(outside.iterdir()) == []


def test_only_the_end_of_a_journal_is_read_and_what_is_not_read_is_said(desk):
    purge_one(desk, "first")
    journal = desk.path / ".spooltop" / "journal.jsonl"
    with open(journal, "ab") as file:
        file.write(b"x" * 100_000 + b"\n")
    result = purge_one(desk, "last")

    class Little(LogFiles):
        read_at_most = 50_000

    operations = desk.operations(Little())
    assert [record.operation for record in operations.records()] == [result.operation]
    undo = operations.plan(Action.UNDO, Selection(), options={"undoes": result.operation})
    assert [item.row.name for item in undo.items] == ["last"]
    assert any("not read" in note for note in undo.notes)


def test_a_line_that_was_cut_off_stays_one_bad_line(tmp_path, folder):
    (tmp_path / "log").write_bytes(b'{"whole":1}\n{"cut o')
    lines = LogLines(LogFiles(), lambda: folder, "log")
    assert (list(lines), lines.torn, lines.unread) == ([b'{"whole":1}'], True, 0)
    AppendLog(LogFiles(), folder, "log", os.stat(tmp_path)).append(b'{"next":2}\n')
    assert (list(lines), lines.torn, lines.unread) == ([b'{"next":2}', b'{"cut o', b'{"whole":1}'], False, 0)


@root_only
def test_a_file_is_given_away_only_by_who_has_made_it(tmp_path, folder):
    (tmp_path / "secret").write_text("of root")
    os.chmod(tmp_path / "secret", 0o600)
    os.chown(tmp_path, NOBODY, NOBODY)
    make_file(LogFiles(), folder, "secret", os.fstat(folder))
    make_file(LogFiles(), folder, "log", os.fstat(folder))
    assert (tmp_path / "secret").stat().st_uid == 0
    assert (tmp_path / "log").stat().st_uid == NOBODY
    assert sorted(os.listdir(tmp_path)) == ["log", "secret"]


@root_only
def test_the_books_of_root_lie_where_nobody_else_writes(desk):
    for box in ("new", "cur", "tmp", "."):
        os.chown(desk.path / box, NOBODY, NOBODY)
    result = purge_one(desk)
    assert result.count(Outcome.DONE) == 1
    [kept] = desk.state.iterdir()
    assert stat.S_IMODE(desk.state.stat().st_mode) == stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert sorted(path.name for path in kept.iterdir()) == ["audit.jsonl", "journal.jsonl"]
    os.chmod(kept, 0o777)
    with pytest.raises(AuditFailed, match="others may write"):
        purge_one(desk, "two")
    with SpoolDirs(desk.path) as dirs:
        logs = SpoolLogs(dirs, LogFiles(), state_dir=str(desk.state))
        with pytest.raises(Unreadable, match="others may write"):
            RecordLog(logs, MOVES).read(required=True)
        logs.close()


def test_the_way_to_the_books_is_closed_to_others_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        os.close(open_path(LogFiles(), str(tmp_path / "a" / "b")))
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("a", "a/b")] == [0o700, 0o700]


@root_only
def test_root_undoes_what_the_owner_of_the_spool_did_and_the_owner_is_told_it_is_gone(desk):
    def as_owner(act):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                act(desk.operations())
                code = 0
            finally:
                os._exit(code)
        return os.waitpid(pid, 0)[1]

    def purge(operations):
        operations.apply(operations.plan(Action.PURGE, Selection(ids=("one",))))

    def find_it_gone(operations):
        [record] = operations.records()
        plan = operations.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
        assert plan.count == 0
        assert [refusal.reason for refusal in plan.refused] == ["no longer in trash"]

    with tempfile.TemporaryDirectory(dir="/tmp") as open_to_all:
        os.chmod(open_to_all, 0o755)
        desk.path = Path(open_to_all) / "spool"
        for path in (desk.path, *(desk.path / box for box in ("tmp", "new", "cur"))):
            path.mkdir()
            os.chown(path, NOBODY, NOBODY)
        os.chown(desk.path / "new" / desk.put("one"), NOBODY, NOBODY)
        assert as_owner(purge) == 0
        operations = desk.operations()
        [record] = operations.records()
        undo = operations.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
        assert operations.apply(undo).count(Outcome.DONE) == 1
        assert desk.names(Box.NEW) == ["one"]
        assert {path.stat().st_uid for path in desk.path.rglob("*")} == {NOBODY}
        assert as_owner(find_it_gone) == 0
