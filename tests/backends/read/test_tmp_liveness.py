"""Files in ``tmp``: locked, open or growing is being written; abandoned only with proof; all else unknown."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness.pid_liveness import Certainty
from spooltop.backends.directory.liveness.processes import Descriptors, Process
from spooltop.backends.directory.liveness.procfs import ProcOwner
from spooltop.backends.directory.liveness.tmp_liveness import TmpJudge, Writer, writer_of
from spooltop.backends.directory.locks.lock_files import LockTable
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.proc.locks import parse_locks
from spooltop.model.row import Row
from spooltop.model.vocabulary import Verdict

from .conftest import Opened
from .table import FakeProcesses

SURE = Certainty(local=True, all_pids=True)
OURS = "1795220920443125.P4290R0123456789abcdef.here"
THEIRS = "1795220920443125.4290.here"
NO_LOCKS = LockTable({})


class Tmp:
    """Looks at the folder ``tmp`` of a spool, or at the staging directory ``staged``, with a table of processes."""

    def __init__(self, spool: Path, staged: str, table: FakeProcesses) -> None:
        self.folder = spool / ".spooltop" / "stage" / staged if staged else spool / "tmp"
        self.folder.mkdir(parents=True)
        self._spool = spool
        self._before = f"{staged}/" if staged else ""
        self.table = table
        self.files = TmpJudge(table)

    def look(self, sure: Certainty = SURE, locks: LockTable = NO_LOCKS) -> list[Row]:
        with SpoolDirs(self._spool) as dirs:
            names = [self._before + name for name in os.listdir(self.folder)]
            rows = self.files.look(dirs, names, len(names), sure, lambda: locks, None)[0]
        assert all(row.key == ("tmp", self._before + row.name) for row in rows)
        return rows

    def settled(self, sure: Certainty = SURE, locks: LockTable = NO_LOCKS) -> Row:
        self.look(sure, locks)
        self.table.boot += 10
        (row,) = self.look(sure, locks)
        return row


@pytest.fixture(params=["", "07"], ids=["tmp", "staged"])
def tmp(request: pytest.FixtureRequest, tmp_path: Path) -> Tmp:
    return Tmp(tmp_path, request.param, FakeProcesses())


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        ("1700000000000000.1.h", Writer(1, "h")),
        ("1795220919.M782871P9155Q3.vm", Writer(9155, "vm")),
        (OURS, Writer(4290, "here")),
        ("1795220919.12_3.a\\057b\\072c", Writer(12, "a/b:c")),
        ("report.txt", None),
        ("order-17,n=0", None),
    ],
)
def test_writer_in_a_name(name: str, writer: Writer | None) -> None:
    assert writer_of(name) == writer


@pytest.mark.parametrize("name", [OURS, THEIRS])
def test_gone_writer_and_nobody_has_it_open(tmp: Tmp, name: str) -> None:
    (tmp.folder / name).touch()
    (row,) = tmp.look()
    assert (row.verdict, row.evidence) == (Verdict.ABANDONED, "4290 exited · nobody has it open")


@pytest.mark.parametrize("name", [OURS, OURS + ",s=email"])
def test_a_put_that_waits_for_its_group_is_not_abandoned(tmp: Tmp, name: str) -> None:
    tmp.table.pids[4290] = Process(4290, 10.0)  # its lock is free: a file is closed before it is moved
    (tmp.folder / name).touch()
    assert tmp.settled().verdict is Verdict.UNKNOWN


def test_own_file_without_a_pid_whose_lock_is_free(tmp: Tmp) -> None:
    (tmp.folder / "order-17,n=0").touch()
    assert [row.evidence for row in tmp.look()] == ["not watched long enough"]
    tmp.table.boot += 10
    (row,) = tmp.look()
    assert (row.verdict, row.evidence) == (Verdict.ABANDONED, "its lock is free · nobody has it open")


def test_own_file_whose_lock_cannot_be_seen_is_unknown(tmp: Tmp) -> None:
    (tmp.folder / "order-17,n=0").touch()
    row = tmp.settled(locks=LockTable({}, "not visible"))
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "nobody has it open, no writer in its name")


@pytest.mark.parametrize(
    ("name", "since"),
    [("1700000000000000.1.h", 5.0), ("half.txt", 5.0), ("1700000000000000.1.h,n=0", 5.0), (OURS, 1_795_220_920.443125)],
)
def test_only_our_own_names_tell_when_a_file_was_begun(tmp: Tmp, name: str, since: float) -> None:
    (tmp.folder / name).touch()
    os.utime(tmp.folder / name, (5, 5))
    (row,) = tmp.look()
    assert (row.enqueued_at, row.in_box_since, row.written_at) == (since, since, 5.0)


def test_what_is_abandoned_is_not_asked_for_again(tmp: Tmp) -> None:
    (tmp.folder / OURS).touch()
    tmp.settled()
    sweeps = tmp.table.sweeps
    tmp.table.pids[4290] = Process(4290, 5_000.0)
    assert tmp.settled().verdict is Verdict.ABANDONED
    assert tmp.table.sweeps == sweeps


def test_many_left_behind_cost_one_look_at_all_processes(tmp: Tmp) -> None:
    for pid in range(4290, 4300):
        (tmp.folder / f"1700000000000000.{pid}.here").touch()
    tmp.table.contained[4295] = Process(4295, 10.0)
    verdicts = {row.name.split(".")[1]: row.verdict for row in tmp.look()}
    assert [pid for pid, verdict in verdicts.items() if verdict is not Verdict.ABANDONED] == ["4295"]
    assert tmp.table.sweeps == 1


def test_other_host_is_to_be_asked_there_whoever_has_the_pid_here(tmp: Tmp) -> None:
    tmp.table.pids[1] = Process(1, 0.0, command="init")
    (tmp.folder / "1700000000000000.1.h").touch()
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "written on host h, ask there")


@pytest.mark.parametrize(
    ("lock", "verdict"),
    [
        ("OFDLCK ADVISORY  WRITE -1", Verdict.WRITING),
        ("POSIX  ADVISORY  WRITE 4290", Verdict.WRITING),
        # These take no right to write, so that anybody could keep the file from being taken for abandoned.
        ("OFDLCK ADVISORY  READ -1", Verdict.ABANDONED),
        ("FLOCK  ADVISORY  WRITE 6120", Verdict.ABANDONED),
        ("FLOCK  ADVISORY  READ 6120", Verdict.ABANDONED),
    ],
)
def test_only_a_lock_that_a_writer_alone_can_take_is_writing(tmp: Tmp, lock: str, verdict: Verdict) -> None:
    (tmp.folder / OURS).touch()
    status = os.stat(tmp.folder / OURS)
    line = f"1: {lock} {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} 0 EOF"
    (found,) = parse_locks(line.encode())
    locks = LockTable({(found.device, found.inode): (found,)})
    assert tmp.settled(locks=locks).verdict is verdict


def test_who_reads_it_does_not_write_it(tmp: Tmp) -> None:
    (tmp.folder / OURS).touch()
    status = os.stat(tmp.folder / OURS)
    tmp.table.open_files[status.st_dev, status.st_ino] = (6120,)
    tmp.table.only_read.add(6120)
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.ABANDONED, "4290 exited · nobody has it open for writing")


def test_a_reader_that_locks_an_abandoned_file_changes_nothing(spool: Path, opened: Opened) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    path = spool / "tmp" / f"1795220920443125.P{gone.pid}R0123456789abcdef.{os.uname().nodename}"
    path.touch()
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (row,) = opened(spool).see().tmp
    assert row.verdict is Verdict.ABANDONED


def test_who_has_it_open_is_asked_again_for_other_files_and_after_some_seconds(tmp: Tmp) -> None:
    """Reading the descriptors of all processes is too much for each look."""
    tmp.table.pids[4290] = Process(4290, 10.0)

    def opened_now(name: str) -> dict[str, Verdict | None]:
        status = os.stat(tmp.folder / name)
        tmp.table.open_files[status.st_dev, status.st_ino] = (4290,)
        return {row.name: row.verdict for row in tmp.look()}

    (tmp.folder / THEIRS).touch()
    (tmp.folder / OURS).touch()
    assert {row.verdict for row in tmp.look()} == {Verdict.UNKNOWN}
    assert opened_now(THEIRS)[THEIRS] is Verdict.UNKNOWN
    tmp.table.boot += 6
    assert opened_now(THEIRS)[THEIRS] is Verdict.WRITING
    assert opened_now(OURS)[OURS] is Verdict.UNKNOWN
    (tmp.folder / (OURS + ",s=email")).touch()
    assert opened_now(OURS)[OURS] is Verdict.WRITING


def test_open_in_a_process_is_writing(tmp: Tmp) -> None:
    (tmp.folder / "stray").touch()
    status = os.stat(tmp.folder / "stray")
    tmp.table.open_files[status.st_dev, status.st_ino] = (6120,)
    tmp.table.pids[6120] = Process(6120, 10.0, command="rsync", user="ann")
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.WRITING, "6120 rsync has it open")
    assert row.owner is not None and row.owner.user == "ann"


def test_growing_is_writing_and_then_no_more(tmp: Tmp) -> None:
    path = tmp.folder / THEIRS
    path.write_text("a")
    tmp.look()
    tmp.table.boot += 1
    path.write_text("ab")
    (row,) = tmp.look()
    assert (row.verdict, row.size) == (Verdict.WRITING, 2)
    tmp.table.boot += 10
    assert tmp.look()[0].verdict is Verdict.ABANDONED


def test_living_writer_that_has_it_not_open_is_unknown(tmp: Tmp) -> None:
    tmp.table.pids[4290] = Process(4290, 10.0)
    (tmp.folder / THEIRS).touch()
    assert tmp.settled().verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("sure", [Certainty(False, True), Certainty(True, False)])
def test_where_not_all_can_be_seen_it_is_unknown(tmp: Tmp, sure: Certainty) -> None:
    (tmp.folder / OURS).touch()
    row = tmp.settled(sure)
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "no pid 4290 here")


ROOT = ProcOwner(1, frozenset({0}), frozenset({0}), "cron", False)
ME = 65_000
MINE = ProcOwner(70, frozenset({ME}), frozenset({ME}), "sshd", True)
BOB = ProcOwner(80, frozenset({65_001}), frozenset({65_001, 65_777}), "bash", False)


@pytest.mark.parametrize(
    ("mode", "group", "unread", "unseen"),
    [
        (0o644, None, (), ""),
        (0o644, None, None, None),  # processes may be hidden altogether (hidepid)
        (0o644, None, (ROOT,), "root's"),
        (0o644, None, (ROOT, BOB), "root's"),
        (0o644, None, (ROOT, BOB, MINE, MINE), "root's and sshd"),  # sshd hides even from the user whom it logged in
        (0o644, None, (MINE._replace(hides=False),), None),  # a worker of the same user in another group
        (0o644, None, (MINE._replace(uids=frozenset({0, ME}), name="sudo"),), "root's and sudo"),
        (0o600, 65_777, (BOB,), "root's"),
        (0o664, 65_778, (BOB,), "root's"),
        (0o664, 65_777, (BOB,), None),  # who is in a group that may write
        (0o646, None, (BOB,), None),
        (0o646, None, (ROOT,), "root's"),
    ],
)
def test_who_may_write_a_file_unseen(
    tmp_path: Path, mode: int, group: int | None, unread: tuple[ProcOwner, ...] | None, unseen: str | None
) -> None:
    found = _owned(tmp_path, ME, ME if group is None else group, mode)
    opened = Descriptors({}, unread)
    assert opened.unseen_writers(found, ME, lambda: False) == unseen
    if mode & stat.S_IWGRP:
        assert opened.unseen_writers(found, ME, lambda: True) is None


def test_the_files_of_others_may_be_written_by_processes_of_theirs_alone(tmp_path: Path) -> None:
    found = _owned(tmp_path, 65_001, 65_001, 0o644)
    for unread, unseen in ((BOB,), None), ((ROOT, MINE), "root's"), ((BOB._replace(uids=frozenset({0, 65_001})),), None):
        assert Descriptors({}, unread).unseen_writers(found, ME, lambda: False) == unseen


def _owned(tmp_path: Path, uid: int, gid: int, mode: int) -> os.stat_result:
    values = [*os.stat(tmp_path)]
    values[stat.ST_MODE], values[stat.ST_UID], values[stat.ST_GID] = stat.S_IFREG | mode, uid, gid
    return os.stat_result(values)


def test_own_processes_are_enough_where_only_the_owner_may_write(tmp: Tmp) -> None:
    tmp.table.unread = (ROOT, BOB)
    (tmp.folder / THEIRS).touch(0o644)
    row = tmp.settled()
    evidence = "4290 exited · none of your processes has it open (root's are not visible)"
    assert (row.verdict, row.evidence) == (Verdict.ABANDONED, evidence)


def test_descriptors_of_others_not_readable_is_unknown(tmp: Tmp) -> None:
    tmp.table.unread = (ROOT, BOB)
    (tmp.folder / THEIRS).touch()
    (tmp.folder / THEIRS).chmod(0o666)
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "4290 exited · who has it open is not visible to you")


def test_a_writer_that_runs_is_named_to_those_who_cannot_see_its_files(tmp: Tmp) -> None:
    tmp.table.pids[4290] = Process(4290, tmp.table.boot, tmp.table.wall(), "import.py", "bob")
    tmp.table.unread = (BOB,)
    (tmp.folder / THEIRS).touch()
    (tmp.folder / THEIRS).chmod(0o666)
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "pid 4290 is running · who has it open is not visible to you")
    assert row.owner is not None and row.owner.command == "import.py"


@pytest.mark.parametrize("unread", [None, (BOB,)])
@pytest.mark.parametrize(
    ("id", "verdict", "evidence"),
    [
        (OURS, Verdict.ABANDONED, "4290 exited · its lock is free"),
        (OURS + ",s=email", Verdict.ABANDONED, "4290 exited · its lock is free"),
        # These were chosen for a put: whoever writes has another pid, which is not in the name.
        (THEIRS + ",n=0", Verdict.UNKNOWN, "who has it open is not visible to you"),
        ("order-17,n=0", Verdict.UNKNOWN, "who has it open is not visible to you"),
    ],
)
def test_the_free_lock_of_a_writer_that_is_gone_proves_it_to_everybody(
    tmp: Tmp, unread: tuple[ProcOwner, ...] | None, id: str, verdict: Verdict, evidence: str
) -> None:
    tmp.table.unread = unread
    (tmp.folder / id).touch()
    (tmp.folder / id).chmod(0o666)
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (verdict, evidence)
    assert tmp.settled(locks=LockTable({}, "not visible")).verdict is verdict  # what was proved stays


def test_where_processes_are_hidden_a_free_lock_is_enough_and_no_container_is_named(tmp: Tmp) -> None:
    """hidepid: nobody can tell whether a container has the number, so only a lock that is free proves anything."""
    tmp.table.hidden, tmp.table.unread = {1}, None
    (tmp.folder / OURS).touch()
    assert [row.evidence for row in tmp.look()] == ["not watched long enough"]
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.ABANDONED, "no pid 4290 here · its lock is free")
    (tmp.folder / OURS).rename(tmp.folder / THEIRS)
    tmp.table.unread = ()
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "no pid 4290 here, but not all processes are visible to you")


def test_a_put_with_a_chosen_id_is_not_judged_by_a_number_in_it(tmp: Tmp) -> None:
    (tmp.folder / (THEIRS + ",n=0")).touch()
    assert [row.evidence for row in tmp.look()] == ["not watched long enough"]


@pytest.mark.parametrize("gone", [False, True])
def test_the_owner_of_a_real_file_sees_what_there_is(spool: Path, opened: Opened, gone: bool) -> None:
    """Whoever runs this, root or not: by the kernel's own table."""
    with subprocess.Popen(["sleep", "1000"]) as writer:
        if gone:
            writer.kill()
            writer.wait()
        path = spool / "tmp" / f"1700000000000000.{writer.pid}.{os.uname().nodename}"
        path.touch(0o644)
        (row,) = opened(spool).see().tmp
        writer.kill()
    if gone:
        assert row.verdict is Verdict.ABANDONED
        assert ("none of your processes" in row.evidence) == (os.geteuid() != 0), row.evidence
    else:
        assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, f"pid {writer.pid} is running, but does not have it open")


def test_a_container_that_has_the_number_is_unknown(tmp: Tmp) -> None:
    tmp.table.contained[4290] = Process(77, 10.0)
    (tmp.folder / THEIRS).touch()
    assert tmp.settled().verdict is Verdict.UNKNOWN


def test_a_name_without_a_writer_is_unknown(tmp: Tmp) -> None:
    (tmp.folder / "half.txt").touch()
    assert tmp.settled().verdict is Verdict.UNKNOWN


def test_litter_is_strange(tmp: Tmp) -> None:
    (tmp.folder / "folder").mkdir()
    os.mkfifo(tmp.folder / "fifo")
    assert tmp.look() == []
    assert sorted(row.note for row in tmp.files.irregular) == ["a directory, not a message", "a fifo, not a message"]
