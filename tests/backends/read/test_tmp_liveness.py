"""Files in ``tmp``: locked, open or growing is being written; abandoned only with proof; all else unknown."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control
from spooltop.model.vocabulary import Row, Verdict

from .conftest import Opened
from .table import FakeProcesses, Process, ProcOwner

WRITING, ABANDONED, UNKNOWN = Verdict.WRITING, Verdict.ABANDONED, Verdict.UNKNOWN
OURS = "1795220920443125.P4290R0123456789abcdef.here"
THEIRS = "1795220920443125.4290.here"
CHOSEN = "order-17,n=0"
ROOT = ProcOwner(1, frozenset({0}), frozenset({0}), "cron", False)
BOB = ProcOwner(80, frozenset({65_001}), frozenset({65_001, 65_777}), "bash", False)
WRITER = {4290: Process(4290, 10.0, command="import.py", user="bob")}


class Tmp:
    """Looks at the folder ``tmp`` of a spool, or at the staging directory ``staged``, with a table of processes."""

    def __init__(self, spool: Path, staged: str, opened: Opened) -> None:
        self.folder = spool / ".spooltop" / "stage" / staged if staged else spool / "tmp"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._before = f"{staged}/" if staged else ""
        self.table = FakeProcesses()
        # The table of locks is read at most once a second.
        self.control: Control = opened(spool, processes=self.table, monotonic=count().__next__)

    def write(self, name: str, mode: int = 0o644) -> os.stat_result:
        (self.folder / name).touch()
        (self.folder / name).chmod(mode)
        return os.stat(self.folder / name)

    def open_in(self, name: str, pid: int) -> None:
        """Has a process open the file."""
        status = os.stat(self.folder / name)
        self.table.open_files[status.st_dev, status.st_ino] = (pid,)

    def look(self) -> tuple[Row, ...]:
        rows = self.control.look(rescan=True).observation.tmp
        assert all(row.key == ("tmp", self._before + row.name) for row in rows)
        return rows

    def settled(self) -> Row:
        self.look()
        self.table.boot += 10
        (row,) = self.look()
        return row


@pytest.fixture(params=["", "07"], ids=["tmp", "staged"])
def tmp(request: pytest.FixtureRequest, spool: Path, opened: Opened) -> Tmp:
    return Tmp(spool, request.param, opened)


@pytest.mark.parametrize(
    ("name", "table", "verdict", "evidence"),
    [
        (OURS, {}, ABANDONED, "4290 exited · nobody has it open"),
        (THEIRS, {}, ABANDONED, "4290 exited · nobody has it open"),
        # A put that waits for its group: its lock is free, because a file is closed before it is moved.
        (OURS, {"pids": WRITER}, UNKNOWN, "pid 4290 is running, but does not have it open"),
        (f"{OURS},s=email", {"pids": WRITER}, UNKNOWN, "pid 4290 is running, but does not have it open"),
        (THEIRS, {"pids": WRITER}, UNKNOWN, "pid 4290 is running, but does not have it open"),
        (THEIRS, {"contained": {4290: Process(77, 10.0)}}, UNKNOWN, "no pid 4290 here, but a container has that pid"),
        (OURS, {"first": False}, UNKNOWN, "no pid 4290 here"),
        (CHOSEN, {}, ABANDONED, "its lock is free · nobody has it open"),
        (CHOSEN, {"table": None}, UNKNOWN, "nobody has it open, no writer in its name"),
        (f"{THEIRS},n=0", {}, ABANDONED, "its lock is free · nobody has it open"),  # the pid in a chosen id is nobody's
        ("half.txt", {}, UNKNOWN, "nobody has it open, no writer in its name"),
        ("1700000000000000.1.h", {"pids": {1: Process(1, 0.0)}}, UNKNOWN, "written on host h, ask there"),
        ("1795220919.M782871P9155Q3.vm", {}, UNKNOWN, "written on host vm, ask there"),
        ("1795220919.12_3.a\\057b\\072c", {}, UNKNOWN, "written on host a/b:c, ask there"),
    ],
)
def test_verdict_and_evidence_of_a_file(tmp: Tmp, name: str, table: dict[str, Any], verdict: Verdict, evidence: str) -> None:
    vars(tmp.table).update(table)
    tmp.write(name)
    if evidence.startswith("its lock is free"):  # without a writer it proves nothing at once
        assert [row.evidence for row in tmp.look()] == ["not watched long enough"]
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (verdict, evidence)


@pytest.mark.parametrize("unread", [None, (BOB,)])
@pytest.mark.parametrize(
    ("name", "pids", "verdict", "evidence"),
    [
        # The free lock of a writer that is gone proves it to everybody.
        (OURS, {}, ABANDONED, "4290 exited · its lock is free"),
        (f"{OURS},s=email", {}, ABANDONED, "4290 exited · its lock is free"),
        (f"{THEIRS},n=0", {}, UNKNOWN, "who has it open is not visible to you"),
        (CHOSEN, {}, UNKNOWN, "who has it open is not visible to you"),
        (THEIRS, {}, UNKNOWN, "4290 exited · who has it open is not visible to you"),
        (THEIRS, WRITER, UNKNOWN, "pid 4290 is running · who has it open is not visible to you"),
    ],
)
def test_where_descriptors_of_others_who_may_write_are_not_readable(
    tmp: Tmp, unread: tuple[ProcOwner, ...] | None, name: str, pids: dict[int, Process], verdict: Verdict, evidence: str
) -> None:
    tmp.table.unread, tmp.table.pids = unread, pids
    tmp.write(name, 0o666)
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (verdict, evidence)
    assert not pids or (row.owner is not None and row.owner.command == "import.py")
    tmp.table.table = None
    assert tmp.settled().verdict is verdict  # what was proved stays


def test_own_processes_are_enough_where_only_the_owner_may_write(tmp: Tmp) -> None:
    tmp.table.unread = (ROOT, BOB)
    tmp.write(THEIRS)
    row = tmp.settled()
    evidence = "4290 exited · none of your processes has it open (root's are not visible)"
    assert (row.verdict, row.evidence) == (ABANDONED, evidence)


def test_where_processes_are_hidden_a_free_lock_is_enough_and_no_container_is_named(tmp: Tmp) -> None:
    """hidepid: nobody can tell whether a container has the number, so only a lock that is free proves anything."""
    tmp.table.hidden, tmp.table.unread = {1}, None
    tmp.write(OURS)
    assert [row.evidence for row in tmp.look()] == ["not watched long enough"]
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (ABANDONED, "no pid 4290 here · its lock is free")
    (tmp.folder / OURS).rename(tmp.folder / THEIRS)
    tmp.table.unread = ()
    row = tmp.settled()
    assert (row.verdict, row.evidence) == (UNKNOWN, "no pid 4290 here, but not all processes are visible to you")


@pytest.mark.parametrize(
    ("lock", "verdict"),
    [
        ("OFDLCK ADVISORY  WRITE -1", WRITING),
        ("POSIX  ADVISORY  WRITE 4290", WRITING),
        # These take no right to write, so that anybody could keep the file from being taken for abandoned.
        ("OFDLCK ADVISORY  READ -1", ABANDONED),
        ("FLOCK  ADVISORY  WRITE 6120", ABANDONED),
        ("FLOCK  ADVISORY  READ 6120", ABANDONED),
    ],
)
def test_only_a_lock_that_a_writer_alone_can_take_is_writing(tmp: Tmp, lock: str, verdict: Verdict) -> None:
    status = tmp.write(OURS)
    line = f"1: {lock} {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} 0 EOF"
    tmp.table.table = line.encode()
    assert tmp.settled().verdict is verdict


@pytest.mark.parametrize(
    ("only_reads", "expected"),
    [(False, (WRITING, "6120 rsync has it open")), (True, (ABANDONED, "4290 exited · nobody has it open for writing"))],
)
def test_who_has_it_open_for_writing_writes_it(tmp: Tmp, only_reads: bool, expected: tuple[Verdict, str]) -> None:
    tmp.write(OURS)
    tmp.open_in(OURS, 6120)
    tmp.table.pids[6120] = Process(6120, 10.0, command="rsync", user="ann")
    tmp.table.only_read = {6120} if only_reads else set()
    row = tmp.settled()
    assert (row.verdict, row.evidence) == expected
    assert only_reads or (row.owner is not None and row.owner.user == "ann")


def test_who_has_it_open_is_asked_again_for_other_files_and_after_some_seconds(tmp: Tmp) -> None:
    """Reading the descriptors of all processes is too much for each look."""
    tmp.table.pids[4290] = Process(4290, 10.0)

    def verdicts(opened: str = "") -> dict[str, Verdict | None]:
        if opened:
            tmp.open_in(opened, 4290)
        return {row.name: row.verdict for row in tmp.look()}

    tmp.write(THEIRS)
    assert verdicts() == verdicts(THEIRS) == {THEIRS: UNKNOWN}
    tmp.table.boot += 6
    assert verdicts() == {THEIRS: WRITING}
    tmp.write(OURS)
    assert verdicts(OURS) == {THEIRS: WRITING, OURS: WRITING}


def test_growing_is_writing_and_then_no_more(tmp: Tmp) -> None:
    tmp.write(THEIRS)
    tmp.look()
    tmp.table.boot += 1
    (tmp.folder / THEIRS).write_text("ab")
    (row,) = tmp.look()
    assert (row.verdict, row.size) == (WRITING, 2)
    tmp.table.boot += 10
    assert tmp.look()[0].verdict is ABANDONED


def test_only_our_own_names_tell_when_a_file_was_begun(tmp: Tmp) -> None:
    begun = {"1700000000000000.1.h": 5.0, "half.txt": 5.0, "1700000000000000.1.h,n=0": 5.0, OURS: 1_795_220_920.443125}
    for name in begun:
        tmp.write(name)
        os.utime(tmp.folder / name, (5, 5))
    rows = tmp.look()
    assert {row.name: row.enqueued_at for row in rows} == {row.name: row.in_box_since for row in rows} == begun
    assert {row.written_at for row in rows} == {5.0}


@pytest.mark.parametrize("gone", [False, True])
def test_the_owner_of_a_real_file_sees_what_there_is(spool: Path, opened: Opened, gone: bool) -> None:
    """Whoever runs this, root or not: by the kernel's own table."""
    with subprocess.Popen(["sleep", "1000"]) as writer:
        if gone:
            writer.kill()
            writer.wait()
        path = spool / "tmp" / f"1700000000000000.{writer.pid}.{os.uname().nodename}"
        path.touch(0o644)
        (row,) = opened(spool).look().observation.tmp
        writer.kill()
    if gone:
        assert row.verdict is ABANDONED
        assert ("none of your processes" in row.evidence) == (os.geteuid() != 0), row.evidence
    else:
        assert (row.verdict, row.evidence) == (UNKNOWN, f"pid {writer.pid} is running, but does not have it open")
