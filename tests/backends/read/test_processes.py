"""Pure rules on pids and descriptors, and the contents of a process table: one of the test's own, and the kernel's as other
users see it."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.directory.processes import (
    Certainty,
    Descriptor,
    Descriptors,
    Process,
    Processes,
    ProcOwner,
    Watchers,
    judge_pid,
    judge_pids,
)
from spooltop.backends.directory.storage import changes_unseen, is_local, sends_no_events
from spooltop.backends.directory.surroundings import LocalSurroundings
from spooltop.model.proc import Mount
from spooltop.model.vocabulary import Verdict
from tests.builders import GONE
from tests.needs import needs

SURE = Certainty(local=True, all_pids=True)
VOUCHED, HIDDEN = Certainty(True, False, True), Certainty(True, True, True)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN
BEFORE, AFTER = Process(4242, 900.0), Process(4242, 1_003.0)


@pytest.mark.parametrize("first", [True, False])
def test_a_pid_that_a_container_has_is_not_dead_though_all_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    monkeypatch.setattr(Processes, "exists", lambda *_: False)
    monkeypatch.setattr(Processes, "namesakes", lambda _, pids: {pid: [Process(9, 1.0)] for pid in pids})
    [(verdict, evidence, _)] = judge_pids(Processes(str(tmp_path)), [(4242, 1_000.0)], Certainty(True, first, True))
    assert (verdict, evidence) == (UNKNOWN, "no pid 4242 here; in a container it is pid 9")


@pytest.mark.parametrize(
    ("there", "process", "namesakes", "sure", "expected"),
    [
        (True, Process(4242, 1_001.9), [], SURE, (ALIVE, "running")),  # within the margin it may be the claimer
        (True, AFTER, [AFTER], SURE, (DEAD, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER, BEFORE], SURE, (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, None, SURE, (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER], Certainty(False, True), (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, Process(4242, 900.0, zombie=True), [], SURE, (UNKNOWN, "pid 4242 has exited, its parent has not noticed")),
        (False, None, [], Certainty(True, False), (UNKNOWN, "no pid 4242 here")),
        (False, None, [], Certainty(False, True), (UNKNOWN, "no pid 4242 here")),
        (False, None, [Process(77, 1_003.0)], SURE, (DEAD, "exited")),
        (None, None, [], SURE, (UNKNOWN, "no process can have pid 4242")),
        (False, None, None, VOUCHED, (DEAD, "exited; claims.pids is this-host")),
        (False, None, None, Certainty(False, True, True), (DEAD, "exited; claims.pids is this-host")),
        (False, None, None, HIDDEN, (DEAD, "exited; claims.pids is this-host")),  # hidepid
        (False, None, [], HIDDEN, (DEAD, "exited")),
        (False, None, [Process(77, 900.0)], HIDDEN, (UNKNOWN, "no pid 4242 here; in a container it is pid 77")),
        (True, BEFORE, None, Certainty(False, False, True), (ALIVE, "running")),
        (True, AFTER, None, VOUCHED, (DEAD, "pid 4242 is running, but started after the claim; claims.pids is this-host")),
        (True, AFTER, None, Certainty(False, True, True), (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER, BEFORE], HIDDEN, (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (None, None, None, VOUCHED, (UNKNOWN, "no process can have pid 4242")),
    ],
)  # fmt: skip
def test_verdict_of_a_pid_beside_those_of_claims(
    there: bool | None, process: Process | None, namesakes: list[Process] | None, sure: Certainty, expected: tuple[Verdict, str]
) -> None:
    assert judge_pid(4242, there, process, namesakes, 1_000.0, sure) == expected


ROOTS = ProcOwner(1, frozenset({0}), frozenset({0}), "cron", False)
ME = 65_000
MINE = ProcOwner(70, frozenset({ME}), frozenset({ME}), "sshd", True)
BOB = ProcOwner(80, frozenset({65_001}), frozenset({65_001, 65_777}), "bash", False)


@pytest.mark.parametrize(
    ("owner", "group", "mode", "unread", "unseen"),
    [
        (ME, ME, 0o644, (), ""),
        (ME, ME, 0o644, None, None),  # processes may be hidden altogether (hidepid)
        (ME, ME, 0o644, (ROOTS,), "root's"),
        (ME, ME, 0o644, (ROOTS, BOB), "root's"),
        (ME, ME, 0o644, (ROOTS, BOB, MINE, MINE), "root's and sshd"),  # sshd hides even from the user whom it logged in
        (ME, ME, 0o644, (MINE.replace(hides=False),), None),  # a worker of the same user in another group
        (ME, ME, 0o644, (MINE.replace(uids=frozenset({0, ME}), name="sudo"),), "root's and sudo"),
        (ME, 65_777, 0o600, (BOB,), "root's"),
        (ME, 65_778, 0o664, (BOB,), "root's"),
        (ME, 65_777, 0o664, (BOB,), None),  # who is in a group that may write
        (ME, ME, 0o646, (BOB,), None),
        (ME, ME, 0o646, (ROOTS,), "root's"),
        # The files of others may be written by processes of theirs alone.
        (65_001, 65_001, 0o644, (BOB,), None),
        (65_001, 65_001, 0o644, (ROOTS, MINE), "root's"),
        (65_001, 65_001, 0o644, (BOB.replace(uids=frozenset({0, 65_001})),), None),
    ],
)
def test_who_may_write_a_file_unseen(
    owner: int, group: int, mode: int, unread: tuple[ProcOwner, ...] | None, unseen: str | None
) -> None:
    status = os.stat_result((stat.S_IFREG | mode, 5, 1, 1, owner, group, 0, 0, 0, 0))
    opened = Descriptors({}, unread)
    assert opened.unseen_writers(status, ME, lambda: False) == unseen
    if mode & stat.S_IWGRP:
        assert opened.unseen_writers(status, ME, lambda: True) is None


@pytest.mark.parametrize(
    ("kind", "local", "silent", "unseen"),
    [
        ("ext4", True, False, False), ("tmpfs", True, False, False), ("nfs4", False, True, True), ("fuse.x", False, True, True),
        ("virtiofs", False, True, True), ("overlay", True, False, True),  # which sends events of its upper layer alone
    ],
)  # fmt: skip
def test_a_file_system_tells_whether_its_processes_are_all_here_and_its_changes_seen(
    kind: str, local: bool, silent: bool, unseen: bool
) -> None:
    mount = Mount(1, (0, 1), "/", kind, False)
    assert (is_local(mount), sends_no_events(mount), changes_unseen(mount)) == (local, silent, unseen)
    assert not is_local(None) and not sends_no_events(None)  # what is not told is not local


def write_status(proc: Path, pid: int, *numbers: int) -> Path:
    path = proc / str(pid)
    path.mkdir()
    (path / "status").write_text(f"Name:\tx\nPid:\t{pid}\nNSpid:\t{' '.join(map(str, numbers))}\nThreads:\t1\n")
    return path


def write_stat(proc: Path, pid: int, state: str, threads: int) -> None:
    (proc / str(pid)).mkdir()
    fields = [state, *["0"] * 16, str(threads), "0", "4200", "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) Z name) {' '.join(fields)}\n")


def test_all_who_have_a_number_in_any_namespace(tmp_path: Path) -> None:
    write_status(tmp_path, 1, 1)
    write_status(tmp_path, 77, 77, 42)
    write_status(tmp_path, 78, 78)
    found = Processes(str(tmp_path)).namesakes([42, 43])
    assert found is not None and {pid: [one.pid for one in those] for pid, those in found.items()} == {42: [77], 43: []}


@pytest.mark.parametrize("how", ["without the first process", "closed", "without its numbers"])
def test_a_table_that_hides_processes_or_numbers_says_nothing(tmp_path: Path, how: str) -> None:
    """As with hidepid (proc(5)): who hides its numbers may have any."""
    path = write_status(tmp_path, 77, 77, 42) / "status"
    if how != "without the first process":
        write_status(tmp_path, 1, 1)
        path.unlink()
    if how == "closed":
        path.mkdir()  # what cannot be read, root or not
    elif how == "without its numbers":
        path.write_text("Name:\tx\n")
    assert Processes(str(tmp_path)).namesakes([42]) is None


@pytest.mark.parametrize(
    ("state", "threads", "zombie"), [("Z", 1, True), ("X", 0, True), ("Z", 3, False), ("S", 1, False), ("R", 3, False)]
)
def test_a_process_whose_leader_ended_before_its_threads_lives(tmp_path: Path, state: str, threads: int, zombie: bool) -> None:
    write_stat(tmp_path, 42, state, threads)
    found = Processes(str(tmp_path)).process(42)
    assert found is not None and found.zombie is zombie
    assert found.started == 4200 / os.sysconf("SC_CLK_TCK")


def test_a_process_whose_descriptors_cannot_be_read_is_told_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an ordinary user sees everybody else's: what could not be read is never taken for read."""
    wanted = os.stat(tmp_path)
    for pid in (1, 77, 78, 79):
        write_status(tmp_path, pid, pid)
        with (tmp_path / str(pid) / "status").open("a") as file:
            file.write(f"Uid:\t{pid}\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t9 10 \n")
    for pid in (1, 77, 78):
        (tmp_path / str(pid) / "fd").mkdir()
    (tmp_path / "77" / "fd" / "3").symlink_to(tmp_path)
    write_stat(tmp_path, 80, "Z", 1)
    real = os.listdir

    def listdir(path: Any = ".") -> list[str]:
        if str(path).endswith(("/78/fd", "/80/fd")):
            raise PermissionError(errno.EACCES, "closed", path)
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    file = wanted.st_dev, wanted.st_ino
    descriptors = Processes(str(tmp_path)).descriptors({file})
    assert descriptors.by_file == {file: (Descriptor(77, 3, None),)}
    assert descriptors.unread == (ProcOwner(78, frozenset({78, 7}), frozenset({8, 9, 10}), "x", True),)


def test_a_process_that_hides_its_owner_may_be_anybodys(tmp_path: Path) -> None:
    write_status(tmp_path, 1, 1)
    (tmp_path / "1" / "fd").mkdir()
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "fd").touch()  # what cannot be listed, root or not
    assert Processes(str(tmp_path)).descriptors(set()).unread is None
    (tmp_path / "77" / "fd").unlink()
    assert Processes(str(tmp_path)).descriptors(set()).unread == ()


@pytest.mark.parametrize(("last", "unread"), [(5, ()), (1_000, None)])
def test_processes_that_begin_faster_than_they_are_read_are_not_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int, unread: tuple[()] | None
) -> None:
    """A child that is forked at each look may have what its parent closed before that was read."""
    children = itertools.count(2)
    monkeypatch.setattr(Processes, "shown_pids", lambda _: [1, min(next(children), last)])
    assert Processes(str(tmp_path)).descriptors({(1, 1)}).unread == unread


def watcher(proc: Path, pid: int, uid: int, *watched: int) -> None:
    """A process with an inotify instance that watches inodes of device 8:1."""
    path = write_status(proc, pid, pid)
    (path / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\n")
    for name in ("fd", "fdinfo"):
        (path / name).mkdir()
    (path / "fd/3").symlink_to("anon_inode:inotify")
    lines = "".join(f"inotify wd:1 ino:{inode:x} sdev:800001 mask:fce\n" for inode in watched)
    (path / "fdinfo/3").write_text(f"pos:\t0\nflags:\t02004000\n{lines}")


@pytest.mark.parametrize(
    ("instances", "watches", "full"),
    [(9, 9, set()), (2, 9, {77}), (1, 9, {77, 78}), (9, 3, {77}), (9, 0, {77, 78}), (None, 9, set())],
)
def test_a_user_without_an_inotify_watch_left_is_named(
    tmp_path: Path, instances: int | None, watches: int, full: set[int]
) -> None:
    watcher(tmp_path, 1, 77, 4, 5)
    watcher(tmp_path, 2, 77, 6)
    watcher(tmp_path, 3, 78)
    limits = tmp_path / "sys/fs/inotify"
    limits.mkdir(parents=True)
    for name, number in (("instances", instances), ("watches", watches)):
        if number is not None:
            (limits / f"max_user_{name}").write_text(f"{number}\n")
    seen = Processes(str(tmp_path)).watchers({(os.makedev(8, 1), 5)})
    assert (seen.pids, seen.complete, seen.full) == ([1], True, full)


@pytest.mark.parametrize(
    ("mode", "owner", "complete"), [(0o755, 77, False), (0o755, 78, True), (0o775, 78, False), (0o757, 78, False)]
)
def test_nobody_who_watches_is_no_proof_where_who_works_may_have_no_watch_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, complete: bool
) -> None:
    monkeypatch.setattr(Processes, "in_first_namespace", lambda _: True)
    monkeypatch.setattr(Processes, "watchers", lambda *_: Watchers([], True, {77: (1, 0)}, (1, None)))
    found = os.stat_result((0o40000 | mode, 5, 1, 2, owner, owner, 0, 0, 0, 0))
    root = os.open(tmp_path, os.O_RDONLY)
    users = LocalSurroundings(Processes()).watching(found, root)
    os.close(root)
    assert users.pids == () and users.complete is complete and ("no inotify watch left" in users.why) is not complete


OPENS = """
import sys
file = open(sys.argv[1], "a")
print("open", flush=True)
input()
"""


@needs("root", "setpriv")
@pytest.mark.parametrize(
    ("group", "verdict", "evidence"),
    [
        (61_234, "writing", "{pid} python -c has it open"),
        (61_233, "unknown", f"{GONE} exited · who has it open is not visible to you"),
    ],
)
def test_a_process_of_ones_own_that_acts_for_another_group_is_not_taken_for_read(
    group: int, verdict: str, evidence: str
) -> None:
    """Its descriptors can be listed, and none of them looked at: ptrace(2) compares groups too."""

    def by(gid: int) -> list[str]:
        return ["setpriv", "--reuid=61234", f"--regid={gid}", "--clear-groups", sys.executable]

    with tempfile.TemporaryDirectory(prefix="spooltop-processes-") as folder:  # pytest's own are closed to others
        path = Path(folder, "tmp", f"1795220920443125.{GONE}.{os.uname().nodename}")
        for box in ("tmp", "new", "cur"):
            Path(folder, box).mkdir()
        path.touch()
        for each in (Path(folder), *Path(folder).rglob("*")):
            os.chown(each, 61_234, 61_234)
        writer = subprocess.Popen([*by(group), "-c", OPENS, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "open\n"
            words = [*by(61_234), "-m", "spooltop", "ls", folder, "--box", "tmp", "--json"]
            row = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        finally:
            writer.kill()
            writer.communicate()
    assert (row["verdict"], row["evidence"]) == (verdict, evidence.format(pid=writer.pid))


def test_the_cpu_of_children_counts() -> None:
    with subprocess.Popen(["sh", "-c", "read x; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read y"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdin is not None and child.stdout is not None
        before = {pid: used for pid, _, used in Processes().cpu(os.getpid()) or ()}
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"\n"
        after = {pid: used for pid, _, used in Processes().cpu(os.getpid()) or ()}
        assert before.keys() >= {os.getpid(), child.pid} and after[child.pid] > before[child.pid]
        child.stdin.write(b"\n")
    assert Processes().cpu(child.pid) is None
