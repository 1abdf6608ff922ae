"""Files in ``tmp``: locked, open or growing is being written; abandoned only with proof; all else unknown."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness.pid_liveness import Certainty
from spooltop.backends.directory.liveness.processes import Process
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


def test_descriptors_of_others_not_readable_is_unknown(tmp: Tmp) -> None:
    tmp.table.all_seen = False
    (tmp.folder / OURS).touch()
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (Verdict.UNKNOWN, "4290 exited · who has it open is not visible to you")


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
