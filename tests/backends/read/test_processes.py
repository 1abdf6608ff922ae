"""Contents of a process table: a table of the test's own, and the kernel's as seen by users other than root."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness.processes import Processes, Watchers
from spooltop.backends.directory.liveness.procfs import ProcFs
from spooltop.backends.directory.surroundings import LocalSurroundings
from tests.needs import needs

ROOT = Path(__file__).parents[3]


def status(proc: Path, pid: int, *numbers: int) -> Path:
    path = proc / str(pid)
    path.mkdir()
    (path / "status").write_text(f"Name:\tx\nPid:\t{pid}\nNSpid:\t{' '.join(map(str, numbers))}\nThreads:\t1\n")
    return path


def stat(proc: Path, pid: int, state: str, threads: int) -> None:
    (proc / str(pid)).mkdir()
    fields = [state, *["0"] * 16, str(threads), "0", "4200", "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) Z name) {' '.join(fields)}\n")


def test_all_who_have_a_number_in_any_namespace(tmp_path: Path) -> None:
    status(tmp_path, 1, 1)
    status(tmp_path, 77, 77, 42)
    status(tmp_path, 78, 78)
    found = Processes(str(tmp_path)).namesakes([42, 43])
    assert found is not None and {pid: [one.pid for one in those] for pid, those in found.items()} == {42: [77], 43: []}


def test_a_table_without_the_first_process_hides_others_too(tmp_path: Path) -> None:
    """As with hidepid (proc(5))."""
    status(tmp_path, 77, 77, 42)
    assert Processes(str(tmp_path)).namesakes([42]) is None


@pytest.mark.parametrize("how", ["closed", "without its numbers"])
def test_a_process_that_hides_its_numbers_may_have_any(tmp_path: Path, how: str) -> None:
    status(tmp_path, 1, 1)
    path = status(tmp_path, 77, 77, 42) / "status"
    path.unlink()
    if how == "closed":
        path.mkdir()  # what cannot be read, root or not
    else:
        path.write_text("Name:\tx\n")
    assert Processes(str(tmp_path)).namesakes([42]) is None


@pytest.mark.parametrize(
    ("state", "threads", "zombie"), [("Z", 1, True), ("X", 0, True), ("Z", 3, False), ("S", 1, False), ("R", 3, False)]
)
def test_a_process_whose_leader_ended_before_its_threads_lives(tmp_path: Path, state: str, threads: int, zombie: bool) -> None:
    stat(tmp_path, 42, state, threads)
    found = Processes(str(tmp_path)).process(42)
    assert found is not None and found.zombie is zombie
    assert found.started == 4200 / os.sysconf("SC_CLK_TCK")


def test_a_process_whose_descriptors_cannot_be_read_is_told_with_its_owner(tmp_path: Path) -> None:
    """As an ordinary user sees everybody else's: what could not be read is never taken for read."""
    wanted = os.stat(tmp_path)
    for pid in (1, 77, 78, 79):
        status(tmp_path, pid, pid)
        with (tmp_path / str(pid) / "status").open("a") as file:
            file.write(f"Uid:\t{pid}\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t9 10 \n")
    for pid in (1, 77, 78):
        (tmp_path / str(pid) / "fd").mkdir()
    (tmp_path / "77" / "fd" / "3").symlink_to(tmp_path)
    stat(tmp_path, 80, "Z", 1)
    code = (
        "import errno, os, sys\n"
        "from spooltop.backends.directory.liveness.processes import Processes\n"
        "real = os.listdir\n"
        "def listdir(path='.'):\n"
        "    if str(path).endswith(('/78/fd', '/80/fd')):\n"
        "        raise PermissionError(errno.EACCES, 'closed', path)\n"
        "    return real(path)\n"
        "os.listdir = listdir\n"
        f"print(Processes({str(tmp_path)!r}).descriptors({{({wanted.st_dev}, {wanted.st_ino})}}))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Descriptor(pid=77, number=3, writing=None)" in said
    assert "unread=(ProcOwner(pid=78, uids=frozenset({78, 7}), gids=frozenset({8, 9, 10}), name='x', hides=True),)" in said, said


def test_a_process_that_hides_its_owner_may_be_anybodys(tmp_path: Path) -> None:
    status(tmp_path, 1, 1)
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
    monkeypatch.setattr(ProcFs, "pids", lambda _: [1, min(next(children), last)])
    assert Processes(str(tmp_path)).descriptors({(1, 1)}).unread == unread


def watcher(proc: Path, pid: int, uid: int, *watched: int) -> None:
    """A process with an inotify instance that watches inodes of device 8:1."""
    path = status(proc, pid, pid)
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
    assert seen == Watchers([1], True, frozenset(full))


class Table(Processes):
    """A process table in which nobody watches, and user 77 has no watch left."""

    def in_first_namespace(self) -> bool:
        return True

    def watchers(self, files: object) -> Watchers:
        return Watchers([], True, frozenset({77}))


@pytest.mark.parametrize(
    ("mode", "owner", "complete"), [(0o755, 77, False), (0o755, 78, True), (0o775, 78, False), (0o757, 78, False)]
)
def test_nobody_who_watches_is_no_proof_where_who_works_may_have_no_watch_left(
    tmp_path: Path, mode: int, owner: int, complete: bool
) -> None:
    found = os.stat_result((0o40000 | mode, 5, 1, 2, owner, owner, 0, 0, 0, 0))
    root = os.open(tmp_path, os.O_RDONLY)
    users = LocalSurroundings(Table()).watching(found, root)
    os.close(root)
    assert users.pids == () and users.complete is complete and ("no inotify watch left" in users.why) is not complete


LOOKS = """
import os, sys
from spooltop.backends.directory.liveness.processes import Processes
pid, path = int(sys.argv[1]), sys.argv[2]
found, folder = os.stat(path), os.stat(os.path.dirname(path))
table = Processes()
opened = table.descriptors({(found.st_dev, found.st_ino)})
seen = [one.pid for those in opened.by_file.values() for one in those]
unread = [one for one in opened.unread or () if one.pid == pid]
watchers, complete, _ = table.watchers({(folder.st_dev, folder.st_ino)})
print(pid in seen, len(unread), pid in watchers, complete, table.files_of(pid) is None)
print(opened.unseen_writers(found, os.geteuid(), lambda: False))
"""
OPENS = """
import ctypes, os, sys
file = open(sys.argv[1], "a")
libc = ctypes.CDLL(None)
libc.inotify_add_watch(libc.inotify_init(), os.path.dirname(sys.argv[1]).encode(), 2)
print("open", flush=True)
input()
"""


@needs("root", "setpriv")
@pytest.mark.parametrize("group", [65_534, 65_533])
def test_a_process_of_ones_own_that_acts_for_another_group_is_not_taken_for_read(group: int) -> None:
    """Its descriptors can be listed, and none of them looked at: ptrace(2) compares groups too."""

    def by(gid: int) -> list[str]:
        return ["setpriv", "--reuid=65534", f"--regid={gid}", "--clear-groups", sys.executable, "-c"]

    with tempfile.TemporaryDirectory(prefix="spooltop-processes-") as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o777)
        path = Path(folder, "file")
        path.touch()
        os.chown(path, 65_534, 65_534)
        writer = subprocess.Popen([*by(group), OPENS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "open\n"
            words = [*by(65_534), LOOKS, str(writer.pid), str(path)]
            said = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
        finally:
            writer.kill()
            writer.communicate()
    if group == 65_534:
        assert said[0] == "True 0 True False False" and said[1].startswith("root's")  # and of others who are nobody
    else:
        assert said == ["False 1 False False True", "None"]


@needs("root")
def test_a_process_of_another_user_exists(tmp_path: Path) -> None:
    script = (
        "import sys; from spooltop.backends.directory.liveness.processes import Processes\n"
        "print(Processes().exists(int(sys.argv[1])))"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with subprocess.Popen(["sleep", "1000"]) as other:
        command = [*nobody, sys.executable, "-c", script, str(other.pid)]
        alive = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        other.kill()
        other.wait()
        gone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (alive, gone) == ("True\n", "False\n")


def test_a_process_that_belongs_to_another_user_exists() -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            code = 0 if Processes().exists(1) else 1
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
