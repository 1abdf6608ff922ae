"""Lock files: real locks by real processes; markers that name a holder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import filelock
import pytest

from spooltop.backends.directory import storage
from spooltop.locks import lock_files
from spooltop.model.backend import ListQuery
from spooltop.model.proc import Mount
from spooltop.model.vocabulary import Box, Lock
from tests.cli.streams import spooltop
from tests.needs import needs

from .conftest import Opened
from .lock_holders import holder
from .table import FakeProcesses, Process

LIVING = Process(78, 0.0)
Look = Callable[..., dict[str, Lock]]


@pytest.fixture
def look(opened: Opened) -> Look:
    """Looks once at the lock files in a folder: name → lock."""

    def locks(folder: Path, table: FakeProcesses | None = None) -> dict[str, Lock]:
        around = {} if table is None else {"processes": table}
        with opened(folder, locks=True, **around) as control:
            return {os.path.basename(lock.path): lock for lock in control.look().observation.locks}

    return locks


@pytest.fixture
def table() -> FakeProcesses:
    """77 is gone, 78 lives; 79 is the number of a process in a container."""
    table = FakeProcesses(pids={78: LIVING})
    table.contained[79] = Process(5000, 0.0)
    return table


def test_a_look_asks_once_for_the_mount_of_a_folder(
    tmp_path: Path, look: Look, table: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many locks lie in it: the answer is read from /proc."""
    asked = []

    def mount_of(fd: int) -> Mount | None:
        asked.append(os.readlink(f"/proc/self/fd/{fd}"))
        return storage.mount_of(fd)

    for number in range(20):
        (tmp_path / f"{number}.lock").write_text("78\n")
    monkeypatch.setattr(lock_files, "mount_of", mount_of)
    found = look(tmp_path, table)
    assert {lock.verdict for lock in found.values()} == {"held"} and asked.count(str(tmp_path)) == 1


# Locks of the kernel


@pytest.mark.parametrize("how", ["flock", "posix", "ofd", "fork"])
def test_who_holds_it(tmp_path: Path, look: Look, how: str) -> None:
    """The child of a holder that has exited is the holder."""
    kind, *more = ("flock", "fork") if how == "fork" else (how,)
    with holder(kind, tmp_path / "job.lck", *more) as pid:
        lock = look(tmp_path)["job.lck"]
    assert (lock.verdict, lock.kind, [one.pid for one in lock.holders]) == ("held", kind, [pid])
    assert lock.holders[0].alive and lock.holders[0].user


def test_all_who_wait_are_listed(tmp_path: Path, look: Look) -> None:
    """Also those behind another that waits."""
    path = tmp_path / ".cursors.lock"
    with holder("flock", path) as pid, holder("wait", path) as first, holder("wait", path) as second:
        for _ in range(10_000):
            if len((lock := look(tmp_path)[".cursors.lock"]).waiters) == 2:
                break
    assert (lock.verdict, [one.pid for one in lock.holders]) == ("blocked", [pid])
    assert {one.pid for one in lock.waiters} == {first, second}


@needs("root")
@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (["unshare", "--fork", "--pid", "--mount-proc"], "unknown"),
        (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], "held"),
    ],
    ids=["in another pid namespace", "as another user"],
)
def test_a_held_lock_is_not_called_free(command: list[str], verdict: str) -> None:
    with tempfile.TemporaryDirectory(prefix="spooltop-locks-") as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o755)
        with holder("flock", Path(folder, "job.lock")) as pid:
            words = [*command, sys.executable, "-m", "spooltop", "locks", folder, "--json"]
            lock = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert lock["verdict"] == verdict
    assert verdict == "unknown" or [one["pid"] for one in lock["holders"]] == [pid]


@pytest.fixture
def overlay() -> Iterator[Path]:
    """A mounted overlayfs(5) whose lower directory has a lock file ``lower.lock``, in a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="spooltop-overlay-") as folder, ExitStack() as mounts:
        base, merged = Path(folder), os.path.join(folder, "merged")
        subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        mounts.callback(subprocess.run, ["umount", folder], check=True)
        for name in ("lower", "upper", "work", "merged"):
            (base / name).mkdir()
        (base / "lower" / "lower.lock").touch()
        options = f"lowerdir={base / 'lower'},upperdir={base / 'upper'},workdir={base / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=True)
        mounts.callback(subprocess.run, ["umount", merged], check=True)
        yield Path(merged)


@needs("root")
@pytest.mark.parametrize("name", ["lower.lock", "upper.lock"])
@pytest.mark.parametrize("how", ["flock", "posix", "ofd", "read only"])
def test_on_an_overlay_it_is_held_by_who_holds_it(overlay: Path, look: Look, name: str, how: str) -> None:
    """A file has another device and inode there than in the layer that it comes from, and another one after it was copied up.
    flock(2) needs no right to write: the file then stays in the layer below."""
    (overlay / "upper.lock").touch()
    if how == "read only":
        with (overlay / name).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            lock, kind, pid = look(overlay)[name], "flock", os.getpid()
    else:
        with holder(how, overlay / name) as pid:
            lock, kind = look(overlay)[name], how
    assert (lock.verdict, lock.kind, [one.pid for one in lock.holders]) == ("held", kind, [pid])


def test_a_file_that_merely_exists_is_free_only_where_it_is_known_to_be_locked_through_the_kernel(
    tmp_path: Path, look: Look
) -> None:
    """An empty file may be the lock itself (filelock 3.20, ``set -o noclobber``)."""
    for name in ("x.lock", ".cursors.lock", "job.lock"):
        (tmp_path / name).touch()
    (tmp_path / "job.lock.queue").mkdir()
    (tmp_path / "job.lock.queue" / "seq").write_text("1")
    (tmp_path / "poetry.lock").write_text("# a file of another kind\n" * 100)
    locks = look(tmp_path)
    assert {name: lock.verdict for name, lock in locks.items()} == {
        ".cursors.lock": "free", "job.lock": "free", "job.lock.queue": "free", "poetry.lock": "free", "x.lock": "unknown",
    }  # fmt: skip
    assert locks["x.lock"].evidence == "no kernel lock; if its existence is the lock, it does not name its holder"


def test_looking_takes_no_lock_and_what_was_seen_locked_is_free_afterwards(tmp_path: Path, opened: Opened) -> None:
    """Whatever the file holds, its lock is the kernel's. It is looked at once a second at most."""
    now = [10.0]
    control = opened(tmp_path, locks=True, monotonic=lambda: now[0])
    (tmp_path / "x.lock").write_text("99999999")

    def verdict() -> str:
        (lock,) = control.look().observation.locks
        return lock.verdict

    with (tmp_path / "x.lock").open() as held:
        assert verdict() != "held"
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert verdict() != "held"
        now[0] += 1
        assert verdict() == "held"
    now[0] += 1
    assert verdict() == "free"


# Locks that are there as long as their file


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        ("77\nhere\n123\n", "stale"), ("78\nhere\n123\n", "held"), ("77\nthere\n123\n", "unknown"), ("not a marker", "unknown"),
        ("77\n", "stale"), ("      77\n", "stale"), ("78", "held"), ("79", "unknown"), ("0", "unknown"),
        ("1795318000", "unknown"), ("here:77\n", "stale"),
        ("there:77\n", "unknown"), ("ann@here.77:1795220919\n", "stale"), ("ann@here:78", "held"),
        ("release.77", "unknown"), ("filelock/2\npid=", "unknown"),
        ("filelock/2\npid=77\nhost=here\nmode=lease\ntoken=0f\nduration=30.0\nstart=4\n", "stale"),
        ("filelock/2\npid=78\nhost=here\nmode=lease\ntoken=0f\nduration=30.0\nstart=4\n", "held"),
        ('{"pid": 77, "host": "here"}', "stale"), ('{"pid": 77}', "stale"),
        ('{"ownerId": "8131-41e2", "expiresAt": 1795220930708}', "stale"),
        ('{"ownerId": "8131-41e2", "expiresAt": 99795220930708}', "held"),
    ],
)  # fmt: skip
def test_soft_markers(tmp_path: Path, look: Look, table: FakeProcesses, content: str, verdict: str) -> None:
    (tmp_path / "x.lock").write_text(content)
    (tmp_path / "dir.lock").mkdir()  # a directory is a lock too
    (tmp_path / "dir.lock" / "pid").write_text(content)
    locks = look(tmp_path, table)
    assert locks["x.lock"].verdict == verdict
    assert (locks["dir.lock"].kind, locks["dir.lock"].verdict) == ("mkdir", "unknown" if "expiresAt" in content else verdict)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("ann@here.77:1795", "stale"), ("here:+77", "stale"), ("here.78", "held"), ("127.0.1.1:+77", "unknown"), ("../x.9", None)],
)
def test_links_that_lead_nowhere_and_name_a_process(
    tmp_path: Path, look: Look, table: FakeProcesses, text: str, verdict: str | None
) -> None:
    (tmp_path / "x.lock").symlink_to(text)
    assert [lock.verdict for lock in look(tmp_path, table).values()] == ([verdict] if verdict else [])


@pytest.mark.parametrize(("offset", "verdict"), [(0, "held"), (500, "stale"), (1 << 64, "stale")])
@pytest.mark.parametrize("form", ["78\nhere\n{}\n", "filelock/2\npid=78\nhost=here\nmode=exclusive\nstart={}\n"])
def test_another_process_with_the_pid_of_a_holder_does_not_hold_its_lock(
    tmp_path: Path, look: Look, form: str, offset: int, verdict: str
) -> None:
    table = FakeProcesses(pids={78: Process(78, 60.0)})
    boot, ticks = int(table.boot_id().replace("-", ""), 16), 60 * os.sysconf("SC_CLK_TCK")
    (tmp_path / "x.lock").write_text(form.format((boot << 64) + ticks + offset))
    (lock,) = look(tmp_path, table).values()
    assert (lock.verdict, lock.holders[0].alive) == (verdict, verdict == "held")
    assert verdict == "held" or lock.evidence == "pid 78 is another process now"


@pytest.mark.parametrize(
    ("content", "table", "evidence"),
    [
        ("78\nhere?pidns-f0000001\n123\n", FakeProcesses(pids={78: LIVING}), "taken in a container on host here, ask there"),
        # Who is gone here may live where nobody sees it.
        ("77\nhere\n123\n", FakeProcesses(hidden=[78]), "no pid 77 here"),
        ("77\nhere\n123\n", FakeProcesses(first=False), "no pid 77 here"),
        ("", FakeProcesses(first=False), "processes outside this container are not visible from here"),
    ],
    ids=["container", "hidden", "not the first", "empty"],
)
def test_what_is_not_visible_makes_a_lock_unknown(
    tmp_path: Path, look: Look, content: str, table: FakeProcesses, evidence: str
) -> None:
    (tmp_path / "x.lock").write_text(content)
    (lock,) = look(tmp_path, table).values()
    assert (lock.verdict, lock.evidence) == ("unknown", evidence)


def test_the_first_ticket_of_the_dead_on_a_free_lock_is_an_orphan(real_spools: Path, look: Look) -> None:
    """And where somebody has the lock all the same, it is not."""
    folder = real_spools / "stouputils_lockfifo"
    queue = look(folder, FakeProcesses())["job.lock.queue"]
    assert (queue.kind, queue.verdict, len(queue.waiters)) == ("ticket", "stale", 2)
    assert queue.evidence == "pid 9167 has exited and holds the first ticket: an orphan ticket on a free lock, job.lock"
    with (folder / "job.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "orphan" not in look(folder)["job.lock.queue"].evidence


@pytest.mark.parametrize("form", ["SoftFileLock", "SoftFileLease", "StrictSoftFileLock"])
def test_what_filelock_writes_is_held_by_this_process(tmp_path: Path, look: Look, form: str) -> None:
    (tmp_path / "other.lock").touch()
    with getattr(filelock, form)(tmp_path / "x.lock"):
        found = look(tmp_path)["x.lock"]
        assert (found.verdict, found.kind, [one.pid for one in found.holders]) == ("held", "soft", [os.getpid()])
    after = look(tmp_path).get("x.lock")
    assert after is None or (after.verdict, after.kind) == ("free", "soft")


def test_readers_and_writers_of_a_read_write_lock_are_listed(tmp_path: Path, look: Look) -> None:
    (tmp_path / "other.lock").touch()
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
    died = "pid 78 has exited; filelock evicts it when its heartbeat stays away"
    for pids, verdict, evidence in (({78: LIVING}, "blocked", "1 reads"), ({}, "unknown", died)):
        found = look(tmp_path, FakeProcesses(pids=pids))["x.lock.rw"]
        assert (found.verdict, found.evidence) == (verdict, evidence)
        assert [[one.pid for one in side] for side in (found.holders, found.waiters)] == [[78], [77]]
    (path / "holders" / reader).write_text("pid=78\nhost=there\n")
    found = look(tmp_path, FakeProcesses(pids={78: LIVING}))["x.lock.rw"]
    assert (found.verdict, found.evidence.partition(";")[0]) == ("unknown", "taken on host there, ask there")
    done = spooltop("unlock", tmp_path, "x.lock.rw", "--force", "--yes")
    assert done.code == 3 and "filelock itself evicts a holder" in done.out + done.err
    shutil.rmtree(path / "gen")
    assert "x.lock.rw" not in look(tmp_path, FakeProcesses())


# Lists of locks


def test_the_lock_of_a_message_in_a_box_is_among_the_locks_and_a_message_besides(spool: Path, opened: Opened) -> None:
    for name in (
        "cur/a:2,P77", "cur/a.lock", "new/b", "new/b.lock", "new/alone.lock", "new/\udcff", "new/\udcff.lock", "tmp/c",
        "tmp/c.lock",
    ):  # fmt: skip
        (spool / name).touch()
    control = opened(spool)
    with holder("flock", spool / "cur/a.lock") as pid:
        locks = {os.path.relpath(lock.path, spool): lock for lock in control.look().observation.locks}
        assert {name: lock.verdict for name, lock in locks.items()} == {
            "cur/a.lock": "held", "new/b.lock": "unknown", "new/\udcff.lock": "unknown", "tmp/c.lock": "unknown",
        }  # fmt: skip
        assert [one.pid for one in locks["cur/a.lock"].holders] == [pid]
        assert [one.pid for one in control.holders(str(spool / "cur/a.lock")).processes if "holds" in one.how] == [pid]
    listed = control.listing(ListQuery(Box.NEW))
    assert sorted(row.name for row in listed.window(0, 9)) == ["alone.lock", "b", "b.lock", "\udcff", "\udcff.lock"]
