from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool, available, read_and_delete, write_atomic
from spooltop.errors import Refused, SpoolFull, SpooltopError
from tests.clock import Clock
from tests.engine.helpers import Files, Interposed, in_child, killed_at
from tests.needs import needs

# write_atomic


def test_a_file_is_replaced_whole_or_not_at_all_wherever_the_writer_dies(tmp_path: Path) -> None:
    path = tmp_path / "state"
    for k in range(1, 100):
        path.write_bytes(b"old")
        status = in_child(lambda k=k: write_atomic(path, b"new" * 1000, files=killed_at(k)))  # type: ignore[misc]
        assert path.read_bytes() in ((b"old", b"new" * 1000) if status else (b"new" * 1000,))
        if status == 0:
            break
        assert status == signal.SIGKILL
    assert k > 5


def test_what_is_written_is_synced_before_it_has_the_name_and_the_directory_after(tmp_path: Path) -> None:
    files = Interposed()
    write_atomic(tmp_path / "state", b"x", files=files)
    steps = [call for call in files.calls if call in ("write", "sync", "replace", "sync_dir")]
    assert steps == ["write", "sync", "replace", "sync_dir"]


@needs("root")
def test_owner_group_and_mode_stay(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    os.chown(path, 4711, 4712)
    path.chmod(0o604)
    write_atomic(path, b"new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4711, 4712, 0o604)


def test_links_and_fifos_are_refused_and_stay(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"real")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(Refused):
            write_atomic(tmp_path / name, b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"real"
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link", "real"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_content_and_no_litter(tmp_path: Path, code: int) -> None:
    def full(_number: int, name: str) -> None:
        if name == "write":
            raise OSError(code, "full")

    (tmp_path / "state").write_bytes(b"old")
    with pytest.raises(SpoolFull) as failed:
        write_atomic(tmp_path / "state", b"new", files=Interposed(full))
    assert failed.value.path == str(tmp_path / "state")
    assert os.listdir(tmp_path) == ["state"] and (tmp_path / "state").read_bytes() == b"old"


# read_and_delete


def test_of_many_readers_exactly_one_gets_a_file(tmp_path: Path) -> None:
    code = (
        "import sys; from spooltop.engine import read_and_delete\n"
        "sys.stdin.readline()\n"
        "for n in range(200):\n"
        "    if (data := read_and_delete(f'{sys.argv[1]}/{n}')) is not None: print(data.decode())"
    )
    for number in range(200):
        (tmp_path / str(number)).write_text(str(number))
    readers = [
        subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for reader in readers:
        assert reader.stdin is not None
        reader.stdin.write("go\n")
        reader.stdin.flush()
    got = [int(line) for reader in readers for line in reader.communicate()[0].split()]
    assert sorted(got) == list(range(200)) and os.listdir(tmp_path) == []


def test_a_reader_that_dies_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "job"
    for k in range(1, 100):
        path.write_bytes(b"content")
        status = in_child(lambda k=k: read_and_delete(path, files=killed_at(k)) and None)  # type: ignore[misc]
        left = [one.read_bytes() for one in tmp_path.iterdir()]
        for one in tmp_path.iterdir():
            one.unlink()
        if status == 0:
            assert left == []
            break
        assert left in ([b"content"], []), k
        assert left or k > 5, "gone only after it was read"
    assert k > 5


def test_a_lock_beside_is_waited_for_and_given_up(tmp_path: Path) -> None:
    path, lock = tmp_path / "job", tmp_path / "job.lock"
    path.write_bytes(b"content")
    ticks = iter(range(100))
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read_and_delete(path, timeout=3, tick=lambda: float(next(ticks))) is None
        assert path.read_bytes() == b"content"
    assert read_and_delete(path) == b"content" and os.listdir(tmp_path) == ["job.lock"]


def test_what_is_no_file_is_not_taken(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("secret")
    for name in ("fifo", "link"):
        with pytest.raises(SpooltopError, match="regular"):
            read_and_delete(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link", "secret"]


# available


def test_only_what_nobody_holds_is_available(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = os.uname().nodename
    soft = {"free": "", "alive": f"{os.getpid()}\n{host}\n", "dead": f"{dead.pid}\n{host}\n", "far": "1\nelsewhere\n"}
    for name in (*soft, "plain", ".dot", "other.txt"):
        (tmp_path / (name if "." in name else f"{name}.job")).touch()
    for name, said in soft.items():
        (tmp_path / f"{name}.job.lock").write_text(said)
    (tmp_path / "folder.job").mkdir()
    for kind in ("posix", "flock"):
        (tmp_path / f"{kind}.job").touch()
        (tmp_path / f"{kind}.job.lock").touch()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        lock = os.open(tmp_path / "posix.job.lock", os.O_RDWR)
        fcntl.lockf(lock, fcntl.LOCK_EX)
        flocked = os.open(tmp_path / "flock.job.lock", os.O_RDONLY)
        fcntl.flock(flocked, fcntl.LOCK_EX)
        os.write(writing, b"x")
        signal.pause()
    os.read(reading, 1)
    try:
        found = [os.path.basename(path) for path in available(tmp_path, "*.job")]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
    assert found == ["dead.job", "free.job", "plain.job"]
    assert len(list(available(tmp_path, "[fp]*.job"))) == 4


# Counters


def test_duplicates_are_counted_by_source_and_over_processes(spool: Spool) -> None:
    spool.put(b"", key="k", source="a")
    for source in ("a", "a", "b", None):
        spool.put(b"", key="k", source=source)
    spool.put(b"", id="x")
    assert in_child(lambda: spool.put(b"", id="x", source="b") and None) == 0
    assert spool.suppressed() == {"a": 2, "b": 2, "": 1}
    assert spool.locks_used() == (2, 0)


def test_the_lock_of_an_id_is_given_up_after_its_time_and_counted(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    with Spool(tmp_path, lock_timeout=0) as spool:
        spool.put(b"", id="x")
        [path] = (tmp_path / ".spooltop/ids").iterdir()
        with open(path, "r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # which whoever may only read can take too
            assert spool.put(b"", id="x") == "x"
            assert Files().lock_write(held.fileno())
            with pytest.raises(SpooltopError, match="not free"):
                spool.put(b"", id="x")
        assert spool.locks_used() == (2, 1) and spool.depth() == 1


def test_a_counter_file_that_has_grown_is_summed_up_and_keeps_its_totals(memory: Path, clock: Clock) -> None:
    counters = memory / ".spooltop/counters"
    with Spool.create(memory, False, clock=clock) as spool:
        for number in range(3001):  # the first is no duplicate
            spool.put(b"", key="k", source=f"s{number % 3}")
            clock.advance(10)
        assert counters.stat().st_size < 140_000
        with open(counters, "ab") as torn:
            torn.write(b'{"at": 1, "wh')
        assert spool.suppressed() == {"s0": 1000, "s1": 1000, "s2": 1000}
