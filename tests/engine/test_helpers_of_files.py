from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest

from spooltop.engine import Spool, available, read_and_delete, write_atomic
from spooltop.errors import Refused, SpoolFull, SpooltopError
from tests.clock import Clock
from tests.engine.helpers import Files, Interposed, failing, in_child

# write_atomic


def test_what_is_written_is_synced_before_it_has_the_name_and_the_directory_after(tmp_path: Path) -> None:
    files = Interposed()
    write_atomic(tmp_path / "state", b"x", files=files)
    steps = [call for call in files.calls if call in ("write", "sync", "replace", "sync_dir")]
    assert steps == ["write", "sync", "replace", "sync_dir"]


def test_what_is_no_file_is_neither_replaced_nor_taken(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"real")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(Refused):
            write_atomic(tmp_path / name, b"new")
        with pytest.raises(SpooltopError, match="regular"):
            read_and_delete(tmp_path / name)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"real"
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link", "real"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_content_and_no_litter(tmp_path: Path, code: int) -> None:
    (tmp_path / "state").write_bytes(b"old")
    with pytest.raises(SpoolFull) as failed:
        write_atomic(tmp_path / "state", b"new", files=failing("write", code))
    assert failed.value.path == str(tmp_path / "state")
    assert os.listdir(tmp_path) == ["state"] and (tmp_path / "state").read_bytes() == b"old"


# read_and_delete


def test_of_many_readers_exactly_one_gets_a_file(tmp_path: Path) -> None:
    contents = [b"%d" % number for number in range(200)]
    for content in contents:
        (tmp_path / content.decode()).write_bytes(content)
    tries = [tmp_path / content.decode() for content in contents for _ in range(3)]
    with get_context("fork").Pool(3) as readers:
        got = readers.map(read_and_delete, tries, chunksize=1)
    assert sorted(filter(None, got)) == sorted(contents) and os.listdir(tmp_path) == []


def test_a_lock_beside_is_waited_for_and_given_up(tmp_path: Path) -> None:
    path, lock = tmp_path / "job", tmp_path / "job.lock"
    path.write_bytes(b"content")
    ticks = iter(range(100))
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read_and_delete(path, timeout=3, tick=lambda: float(next(ticks))) is None
        assert path.read_bytes() == b"content"
    assert read_and_delete(path) == b"content" and os.listdir(tmp_path) == ["job.lock"]


# available

HOLD = """
import fcntl, sys
posix, flocked = (open(path, "r+") for path in sys.argv[1:])
fcntl.lockf(posix, fcntl.LOCK_EX)
fcntl.flock(flocked, fcntl.LOCK_EX)
print(flush=True)
input()
"""


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
    locks = [tmp_path / f"{kind}.job.lock" for kind in ("posix", "flock")]
    with subprocess.Popen([sys.executable, "-c", HOLD, *locks], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline()
        found = [os.path.basename(path) for path in available(tmp_path, "*.job")]
        holder.communicate(b"\n")
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


def test_counts_that_cannot_be_reached_are_not_none(spool: Spool, tmp_path: Path) -> None:
    Path(spool.path, ".spooltop").symlink_to(tmp_path)
    for count in (spool.suppressed, spool.locks_used):
        with pytest.raises(OSError, match="Not a directory"):
            count()


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
