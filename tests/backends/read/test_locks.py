"""Lock files: real locks by real processes, compared with lslocks(8); parsing of what the kernel prints."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock
import pytest

from spooltop.backends.directory.liveness.processes import Process, Processes
from spooltop.backends.directory.locks.lock_files import LockFiles, LockTable, message_locks, read_table
from spooltop.backends.directory.world import World
from spooltop.model.look.locks import Lock
from spooltop.model.proc.locks import LockLine, parse_locks
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Box
from tests.cli.streams import spooltop
from tests.needs import needs

from .conftest import Opened
from .table import FakeProcesses

REAL = b"""\
1: FLOCK  ADVISORY  WRITE 17795 fe:00:2326310 0 EOF
2: POSIX  ADVISORY  WRITE 17789 fe:00:2326311 5 14
2: -> POSIX  ADVISORY  WRITE 17793 fe:00:2326311 0 EOF
3:  -> FLOCK  ADVISORY  WRITE 17791 fe:00:2326310 0 EOF
4: LEASE  ACTIVE    READ  17791 fe:00:7 0 EOF
5: OFDLCK ADVISORY  WRITE -1 fe:00:2326312 0 EOF
nonsense
"""

HOLDER = """
import fcntl, os, sys
how, path = sys.argv[1:3]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
if how == "wait":
    print("waits", flush=True)
{"flock": lambda: fcntl.flock(fd, fcntl.LOCK_EX), "wait": lambda: fcntl.flock(fd, fcntl.LOCK_EX),
 "posix": lambda: fcntl.lockf(fd, fcntl.LOCK_EX),
 "ofd": lambda: fcntl.fcntl(fd, 37, __import__("struct").pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))}[how]()
if how == "flock" and len(sys.argv) > 3 and os.fork():
    os._exit(0)
print("has it", os.getpid(), flush=True)
sys.stdin.read()
"""


def test_parse() -> None:
    fe = (0xFE, 0)
    assert parse_locks(REAL) == [
        LockLine("flock", False, 17795, fe, 2326310),
        LockLine("posix", False, 17789, fe, 2326311),
        LockLine("posix", True, 17793, fe, 2326311),
        LockLine("flock", True, 17791, fe, 2326310),
        LockLine("ofd", False, -1, fe, 2326312),
    ]


def test_a_file_is_found_under_either_device() -> None:
    """btrfs: stat says another device than /proc/locks."""
    (line,) = parse_locks(b"1: FLOCK  ADVISORY  WRITE 5 00:27:9 0 EOF")
    table = LockTable({(line.device, line.inode): (line,)})
    assert table.of([(0, 0x28)], 9) == ()
    assert table.of([(0, 0x28), (0, 0x27)], 9) == (line,)


@contextmanager
def holder(how: str, path: Path, *more: str) -> Iterator[int]:
    """A process that holds the lock (or waits for it); its pid, or that of its child."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, how, str(path), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        said = process.stdout.readline().split()
        if "fork" in more:
            process.wait()  # what it started is alone with the lock
        try:
            yield int(said[2]) if len(said) > 2 else process.pid
        finally:
            process.stdin.close()
            if how == "wait":
                process.kill()


def look(folder: Path) -> dict[str, Lock]:
    processes = Processes()
    fd = os.open(folder, os.O_RDONLY)
    try:
        locks = LockFiles(World(processes=processes)).look([(str(folder), fd, None)], lambda: read_table(processes))
    finally:
        os.close(fd)
    return {os.path.basename(lock.path): lock for lock in locks}


@pytest.mark.parametrize("how", ["flock", "posix", "ofd"])
def test_who_holds_it(tmp_path: Path, how: str) -> None:
    with holder(how, tmp_path / "job.lock") as pid:
        lock = look(tmp_path)["job.lock"]
        listed = json.loads(subprocess.run([shutil.which("lslocks") or "lslocks", "-J"], capture_output=True, check=True).stdout)
        oracle = [line for line in listed["locks"] if line["path"] == str(tmp_path / "job.lock")]
    assert (lock.verdict, lock.kind) == ("held", how)
    assert [one.pid for one in lock.holders] == [pid]
    assert lock.holders[0].alive and lock.holders[0].user
    # lslocks reads the table in pieces, and prints a lock twice if others come and go meanwhile.
    assert how == "ofd" or {line["pid"] for line in oracle} == {pid}


def test_waiters_block(tmp_path: Path) -> None:
    path = tmp_path / ".cursors.lock"
    with holder("flock", path) as pid, holder("wait", path) as waiter:
        for _ in range(10_000):
            if (lock := look(tmp_path)[".cursors.lock"]).waiters:
                break
        assert (lock.verdict, [one.pid for one in lock.holders]) == ("blocked", [pid])
        assert [one.pid for one in lock.waiters] == [waiter]


def test_a_waiter_behind_a_waiter_waits_too(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    with holder("flock", path) as pid, holder("wait", path) as first, holder("wait", path) as second:
        for _ in range(10_000):
            if len((lock := look(tmp_path)["job.lock"]).waiters) == 2:
                break
        listed = json.loads(subprocess.run(["lslocks", "-J", "-o", "PID,MODE"], capture_output=True, check=True).stdout)["locks"]
    assert [one.pid for one in lock.holders] == [pid]
    assert {one.pid for one in lock.waiters} == {first, second}
    waiting = {line["pid"] for line in listed if line["mode"].endswith("*")}  # so lslocks(8) marks who waits
    assert {first, second} <= waiting and pid not in waiting


def look_by(command: list[str], folder: Path) -> list[str]:
    """Verdict and holders of the only lock file in ``folder``, as another process sees them, started by ``command``."""
    words = [*command, sys.executable, "-c", LOOKER, str(folder)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


LOOKER = """
import os, sys
from spooltop.backends.directory.locks.lock_files import LockFiles, read_table
from spooltop.backends.directory.world import World
from spooltop.backends.directory.liveness.processes import Process, Processes
processes = Processes()
fd = os.open(sys.argv[1], os.O_RDONLY)
(lock,) = LockFiles(World(processes=processes)).look([(sys.argv[1], fd, None)], lambda: read_table(processes))
print(lock.verdict, *(party.pid for party in lock.holders))
"""


@needs("root")
def test_in_another_pid_namespace_a_held_lock_is_not_called_free(tmp_path: Path) -> None:
    inside = ["unshare", "--fork", "--pid", "--mount-proc"]
    with holder("flock", tmp_path / "job.lock"):
        assert look_by(inside, tmp_path)[0] == "unknown"


@needs("root")
def test_another_user_sees_who_holds_it() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory(prefix="spooltop-locks-") as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o755)
        with holder("flock", Path(folder, "job.lock")) as pid:
            assert look_by(nobody, Path(folder)) == ["held", str(pid)]


@pytest.fixture
def overlay() -> Iterator[Path]:
    """A mounted overlayfs(5) whose lower directory has a lock file ``lower.lock``, in a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="spooltop-overlay-") as folder:
        base = Path(folder)
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        try:
            for name in ("lower", "upper", "work", "merged"):
                (base / name).mkdir()
            (base / "lower" / "lower.lock").touch()
            options = f"lowerdir={base / 'lower'},upperdir={base / 'upper'},workdir={base / 'work'}"
            subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(base / "merged")], check=True)
            try:
                yield base / "merged"
            finally:
                subprocess.run(["umount", str(base / "merged")], check=True)
        finally:
            subprocess.run(["umount", folder], check=True)


@needs("root")
@pytest.mark.parametrize("name", ["lower.lock", "upper.lock"])
@pytest.mark.parametrize("how", ["flock", "posix", "ofd"])
def test_on_an_overlay_it_is_held_by_who_holds_it(overlay: Path, name: str, how: str) -> None:
    """A file has another device and inode there than in the layer that it comes from, and another one after it was copied up."""
    assert look(overlay).get(name) is None or look(overlay)[name].verdict == "unknown"
    with holder(how, overlay / name) as pid:
        lock = look(overlay)[name]
        listed = json.loads(subprocess.run(["lslocks", "-J", "-o", "PID,PATH"], capture_output=True, check=True).stdout)["locks"]
    assert (lock.verdict, lock.kind, [one.pid for one in lock.holders]) == ("held", how, [pid])
    assert how == "ofd" or pid in [line["pid"] for line in listed]


@needs("root")
def test_on_an_overlay_a_lock_on_a_file_that_was_only_read(overlay: Path) -> None:
    """flock(2) needs no right to write: the file stays in the layer below."""
    with (overlay / "lower.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (lock,) = look(overlay).values()
    assert (lock.verdict, [one.pid for one in lock.holders]) == ("held", [os.getpid()])


def test_child_of_a_dead_holder_is_the_holder(tmp_path: Path) -> None:
    with holder("flock", tmp_path / "job.lck", "fork") as pid:
        lock = look(tmp_path)["job.lck"]
    assert [one.pid for one in lock.holders] == [pid]


def test_a_file_that_merely_exists_is_free_only_where_it_is_known_to_be_locked_through_the_kernel(tmp_path: Path) -> None:
    """An empty file may be the lock itself (filelock 3.20, ``set -o noclobber``)."""
    os.close(os.open(tmp_path / "x.lock", os.O_CREAT | os.O_EXCL))
    for name in (".cursors.lock", "job.lock"):
        (tmp_path / name).touch()
    (tmp_path / "job.lock.queue").mkdir()
    (tmp_path / "job.lock.queue" / "seq").write_text("1")
    (tmp_path / "poetry.lock").write_text("# a file of another kind\n" * 100)
    verdicts = {name: lock.verdict for name, lock in look(tmp_path).items()}
    assert verdicts == {
        ".cursors.lock": "free", "job.lock": "free", "job.lock.queue": "free", "poetry.lock": "free", "x.lock": "unknown",
    }  # fmt: skip
    lock = look(tmp_path)["x.lock"]
    assert lock.evidence == "no kernel lock; if its existence is the lock, it does not name its holder"


def test_a_file_that_was_seen_locked_by_the_kernel_is_free_afterwards_whatever_it_holds(tmp_path: Path) -> None:
    processes, steps = Processes(), iter(range(100))
    files = LockFiles(World(processes=processes, monotonic=lambda: float(next(steps))))
    (tmp_path / "x.lock").write_text("99999999")
    fd = os.open(tmp_path, os.O_RDONLY)
    folders = [(str(tmp_path), fd, None)]
    with (tmp_path / "x.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [lock.verdict for lock in files.look(folders, lambda: read_table(processes))] == ["held"]
    assert [lock.verdict for lock in files.look(folders, lambda: read_table(processes))] == ["free"]
    os.close(fd)


LIVING = Process(78, 0.0)


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (None, "unknown"), ("", "unknown"), ("77", "stale"), ("here:77\n", "stale"), ("there:77", "unknown"), ("78\n", "held"),
        ("79", "unknown"),
    ],
)  # fmt: skip
def test_a_directory_is_a_lock_too(tmp_path: Path, content: str | None, verdict: str) -> None:
    (tmp_path / "x.lock").mkdir()
    if content is not None:
        (tmp_path / "x.lock" / "pid").write_text(content)
    table = FakeProcesses(pids={78: LIVING})
    table.contained[79] = Process(5000, 0.0)
    assert [(lock.kind, lock.verdict) for lock in looked(tmp_path, table)] == [("mkdir", verdict)]


def looked(folder: Path, table: FakeProcesses) -> tuple[Lock, ...]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        return LockFiles(World(processes=table)).look([(str(folder), fd, None)], lambda: read_table(table))
    finally:
        os.close(fd)


def test_absent_locks_are_unknown_where_others_are_not_visible(tmp_path: Path) -> None:
    (tmp_path / "x.lock").touch()
    table = FakeProcesses(first=False)
    fd = os.open(tmp_path, os.O_RDONLY)
    (lock,) = LockFiles(World(processes=table)).look([(str(tmp_path), fd, None)], lambda: read_table(table))
    os.close(fd)
    assert lock.verdict == "unknown"


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        ("77\nhere\n123\n", "stale"),
        ("78\nhere\n123\n", "held"),
        ("77\nthere\n123\n", "unknown"),
        ("not a marker", "unknown"),
        ("77\n", "stale"),
        ("      77\n", "stale"),
        ("78", "held"),
        ("79", "unknown"),
        ("0", "unknown"),
        ("1795318000", "unknown"),
        ("here:77\n", "stale"),
        ("there:77\n", "unknown"),
        ("ann@here.77:1795220919\n", "stale"),
        ("ann@here:78", "held"),
        ("release.77", "unknown"),
        ("filelock/2\npid=77\nhost=here\nmode=lease\ntoken=0f\nduration=30.0\nstart=4\n", "stale"),
        ("filelock/2\npid=78\nhost=here\nmode=lease\ntoken=0f\nduration=30.0\nstart=4\n", "held"),
        ("filelock/2\npid=", "unknown"),
        ('{"pid": 77, "host": "here"}', "stale"),
        ('{"pid": 77}', "stale"),
        ('{"ownerId": "8131-41e2", "expiresAt": 1795220930708}', "stale"),
        ('{"ownerId": "8131-41e2", "expiresAt": 99795220930708}', "held"),
    ],
)
def test_soft_markers(tmp_path: Path, content: str, verdict: str) -> None:
    (tmp_path / "x.lock").write_text(content)
    table = FakeProcesses(pids={78: LIVING})
    table.contained[79] = Process(5000, 0.0)  # a process in a container has that number
    (lock,) = looked(tmp_path, table)
    assert lock.verdict == verdict


@pytest.mark.parametrize(("offset", "verdict"), [(0, "held"), (500, "stale"), (1 << 64, "stale")])
@pytest.mark.parametrize("form", ["78\nhere\n{}\n", "filelock/2\npid=78\nhost=here\nmode=exclusive\nstart={}\n"])
def test_another_process_with_the_pid_of_a_holder_does_not_hold_its_lock(
    tmp_path: Path, form: str, offset: int, verdict: str
) -> None:
    table = FakeProcesses(pids={78: Process(78, 60.0)})
    boot, ticks = int(table.boot_id().replace("-", ""), 16), 60 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "x.lock").write_text(form.format((boot << 64) + ticks + offset))
    (lock,) = looked(tmp_path, table)
    assert (lock.verdict, lock.holders[0].alive) == (verdict, verdict == "held")
    assert verdict == "held" or lock.evidence == "pid 78 is another process now"


def test_a_lock_of_a_process_in_a_container_names_the_host_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text("78\nhere?pidns-f0000001\n123\n")
    (lock,) = looked(tmp_path, FakeProcesses(pids={78: LIVING}))
    assert (lock.verdict, lock.evidence) == ("unknown", "taken in a container on host here, ask there")


@pytest.mark.parametrize("table", [FakeProcesses(hidden=[78]), FakeProcesses(first=False)], ids=["hidden", "not the first"])
def test_who_is_gone_here_may_live_where_nobody_sees_it(tmp_path: Path, table: FakeProcesses) -> None:
    (tmp_path / "x.lock").write_text("77\nhere\n123\n")
    (lock,) = looked(tmp_path, table)
    assert (lock.verdict, lock.evidence) == ("unknown", "no pid 77 here")


def test_a_directory_of_any_lock_files_is_listed_and_its_stale_ones_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    gone = next(pid for pid in range(300, 1 << 22) if Processes().exists(pid) is False)
    (folder / "leader.lock").write_text(f"{gone}\n")
    (folder / "empty.lock").touch()
    (folder / "dir.lock").mkdir()
    os.utime(folder / "leader.lock", (1, 1))
    sure = Processes().in_first_namespace()
    words = {"leader.lock": "STALE" if sure else "unknown", "empty.lock": "unknown", "dir.lock": "unknown"}
    for other in ([], ["notes.txt"]):  # only lock files, and other things among them
        for name in other:
            (folder / name).touch()
        lines = [json.loads(line) for line in spooltop("locks", folder, "--json").out.splitlines()]
        assert {os.path.basename(line["path"]): line["verdict"] for line in lines} == {
            name: word.lower() for name, word in words.items()
        }
        for name, word in words.items():
            assert re.search(rf"^{word} .*/{name}$", spooltop("locks", folder).out, re.MULTILINE)
        assert spooltop("tickets", folder).out == "no tickets here\n"
    assert "spooltop locks" in spooltop("status", folder).err
    (folder / "notes.txt").unlink()
    assert ("[lock-stale]" in spooltop("status", folder).out) is sure
    for name, words_of_it in (("empty.lock", "if its existence is the lock"), ("dir.lock", "rm -r ")):
        done = spooltop("unlock", folder, name, "--force", "--yes")
        assert done.code in (3, 4) and words_of_it in done.out + done.err
    if sure:
        done = spooltop("unlock", folder, "leader.lock", "--yes")
        assert done.code == 0 and not (folder / "leader.lock").exists(), done.err
        operation = json.loads(spooltop("ops", folder, "--json").out)["operation"]
        assert spooltop("undo", folder, operation, "--yes").code == 0
        assert (folder / "leader.lock").read_text() == f"{gone}\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("ann@here.77:1795", "stale"), ("here:+77", "stale"), ("here.78", "held"), ("127.0.1.1:+77", "unknown"), ("../x.9", None)],
)
def test_links_that_lead_nowhere_and_name_a_process(tmp_path: Path, text: str, verdict: str | None) -> None:
    (tmp_path / "x.lock").symlink_to(text)
    table = FakeProcesses(pids={78: LIVING})
    fd = os.open(tmp_path, os.O_RDONLY)
    locks = LockFiles(World(processes=table)).look([(str(tmp_path), fd, None)], lambda: read_table(table))
    os.close(fd)
    assert [lock.verdict for lock in locks] == ([verdict] if verdict else [])


def test_a_second_name_of_an_element_does_not_tell_whose_it_is(real_spools: Path) -> None:
    (lock,) = look(real_spools / "dirq_simple" / "6b00e590").values()
    assert (lock.kind, lock.verdict) == ("soft", "unknown")
    assert lock.evidence == "a link to 6b00e5b7c2149f: it does not name its owner"


def test_the_first_ticket_of_the_dead_on_a_free_lock_is_an_orphan(real_spools: Path) -> None:
    """And where somebody has the lock all the same, it is not."""
    folder = real_spools / "stouputils_lockfifo"
    table = FakeProcesses()
    fd = os.open(folder, os.O_RDONLY)
    locks = LockFiles(World(processes=table)).look([(str(folder), fd, None)], lambda: read_table(table))
    os.close(fd)
    queue = next(lock for lock in locks if lock.kind == "ticket")
    assert (queue.verdict, len(queue.waiters)) == ("stale", 2)
    assert queue.evidence == "pid 9167 has exited and holds the first ticket: an orphan ticket on a free lock, job.lock"
    with (folder / "job.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "orphan" not in look(folder)["job.lock.queue"].evidence


@pytest.mark.parametrize("form", ["SoftFileLock", "SoftFileLease", "StrictSoftFileLock"])
def test_what_filelock_writes_is_held_by_this_process(tmp_path: Path, form: str) -> None:
    lock = getattr(filelock, form)(tmp_path / "x.lock")
    with lock:
        found = look(tmp_path)["x.lock"]
        assert (found.verdict, found.kind, [one.pid for one in found.holders]) == ("held", "soft", [os.getpid()])
    after = look(tmp_path).get("x.lock")
    assert after is None or (after.verdict, after.kind) == ("free", "soft")


def test_readers_and_writers_of_a_read_write_lock_are_listed(tmp_path: Path) -> None:
    lock = filelock.SoftReadWriteLock(tmp_path / "x.lock")
    path = tmp_path / "x.lock.rw"
    for acquire, words in ((lock.read_lock, "1 reads"), (lock.write_lock, "1 writes")):
        with acquire():
            found = look(tmp_path)["x.lock.rw"]
            assert (found.kind, found.verdict, found.evidence) == ("rw", "held", words)
            assert [one.pid for one in found.holders] == [os.getpid()] and found.waiters == ()
        assert look(tmp_path)["x.lock.rw"].verdict == "free"
    lock.close()
    newest = max((path / "gen").glob("0*"))
    reader, writer = "0" * 32, "f" * 32
    newest.write_text(f"filelock-rw/1\ngeneration=9\nwriter={writer}\nreader={reader}\n")
    for token, pid in ((reader, 78), (writer, 77)):
        (path / "holders" / token).write_text(f"filelock-rw/1\ntoken={token}\npid={pid}\nhost=here\nlease=90.0\nnonce=1\n")
    for pids, verdict, evidence in (
        ({78: LIVING}, "blocked", "1 reads"),
        ({}, "unknown", "pid 78 has exited; filelock evicts it when its heartbeat stays away"),
    ):
        (found,) = looked(tmp_path, FakeProcesses(pids=pids))
        assert (found.verdict, found.evidence) == (verdict, evidence)
        assert [[one.pid for one in side] for side in (found.holders, found.waiters)] == [[78], [77]]
    (path / "holders" / reader).write_text("pid=78\nhost=there\n")
    (found,) = looked(tmp_path, FakeProcesses(pids={78: LIVING}))
    assert (found.verdict, found.evidence.partition(";")[0]) == ("unknown", "taken on host there, ask there")
    done = spooltop("unlock", tmp_path, "x.lock.rw", "--force", "--yes")
    assert done.code == 3 and "filelock itself evicts a holder" in done.out + done.err
    shutil.rmtree(path / "gen")
    assert looked(tmp_path, FakeProcesses()) == ()


def test_a_strict_lock_of_a_dead_holder_is_stale(tmp_path: Path) -> None:
    code = f"import filelock, os; filelock.StrictSoftFileLock({str(tmp_path / 'x.lock')!r}).acquire(); os._exit(0)"
    code = code.replace("filelock.Strict", "l = filelock.Strict").replace(".acquire()", "; l.acquire()")
    subprocess.run([sys.executable, "-c", code], check=True)
    found = look(tmp_path)["x.lock"]
    assert found.verdict == ("stale" if Processes().in_first_namespace() else "unknown") and found.holders[0].alive is False


def test_looking_takes_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with path.open("w") as file:
        look(tmp_path)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert look(tmp_path)["x.lock"].verdict == "held"


def test_looked_at_once_a_second_at_most(tmp_path: Path) -> None:
    table = FakeProcesses()
    steps = [10.0]
    files = LockFiles(World(processes=table, monotonic=lambda: steps[0]))
    fd = os.open(tmp_path, os.O_RDONLY)
    assert files.look([(str(tmp_path), fd, None)], lambda: read_table(table)) == ()
    (tmp_path / "x.lock").touch()
    assert files.look([(str(tmp_path), fd, None)], lambda: read_table(table)) == ()
    steps[0] += 1
    assert len(files.look([(str(tmp_path), fd, None)], lambda: read_table(table))) == 1
    os.close(fd)


def test_the_lock_of_a_message_in_a_box_is_among_the_locks_and_a_message_besides(spool: Path, opened: Opened) -> None:
    for name in ("cur/a:2,P77", "cur/a.lock", "new/b", "new/b.lock", "new/alone.lock", "tmp/c", "tmp/c.lock"):
        (spool / name).touch()
    reader = opened(spool)
    with holder("flock", spool / "cur/a.lock") as pid:
        observation = reader.see()
        locks = {os.path.relpath(lock.path, spool): lock for lock in observation.locks}
        assert {name: lock.verdict for name, lock in locks.items()} == {
            "cur/a.lock": "held", "new/b.lock": "unknown", "tmp/c.lock": "unknown",
        }  # fmt: skip
        assert [one.pid for one in locks["cur/a.lock"].holders] == [pid]
        assert [one.pid for one in reader.holders(str(spool / "cur/a.lock")).processes if "holds" in one.how] == [pid]
    listed = reader.listing(ListQuery(Box.NEW))
    assert sorted(row.name for row in listed.window(0, 9)) == ["alone.lock", "b", "b.lock"]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([b"a/a.lock", b"b.lock"], ("a.lock",)),
        ([b"b.lock/x", b"c/b,c=0.1:2,P4"], ("b.lock",)),
        ([b"bc/b.lock/.lock"], ()),
        ([b"a.lock/a.lock.lock/a"], ("a.lock", "a.lock.lock")),
        ([b"\xff/\xff.lock"], ("\udcff.lock",)),
    ],
)
def test_which_names_are_locks_of_messages(names: list[bytes], found: tuple[str, ...]) -> None:
    assert message_locks(iter(names)) == found


def test_a_verdict_stands_with_its_evidence_in_the_list_of_a_command(spool: Path) -> None:
    (spool / "leader.lock").write_text('{"ownerId": "w1", "expiresAt": 1700000000000}')
    (spool / ".cursors.lock").touch()
    lines = spooltop("locks", spool).out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["free", "STALE", "its"] and "not renewed" in lines[2]
    (spool / "leader.lock").write_text(f'{{"ownerId": "w1", "expiresAt": {int(time.time() * 1000) - 10_000}}}')
    assert "\nstale " in spooltop("locks", spool).out  # not for long yet, so it is no problem
    assert "no problems detected" in spooltop("status", spool).out
