from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import Presence, PresenceLock, Vantage, check_hosts, judge, look, new_token
from spooltop.engine.system.files import Files
from spooltop.engine.system.host import Machine, file_system, is_network, process_start, this_machine
from spooltop.errors import UsageError
from spooltop.model.vocabulary import Verdict
from tests.engine.helpers import in_child

HERE = Machine("box", "boot-1", "pid:[1]", "machine-1")
OURS = Presence("free", "box", "boot-1", machine_id="machine-1", same_mount=True)
BEFORE = OURS._replace(boot_id="boot-0", same_mount=False)
ELSEWHERE = OURS._replace(host="client-b", boot_id="boot-9", machine_id="machine-9", same_mount=False)
LOCAL, NETWORK = Vantage(HERE, local=True), Vantage(HERE, local=False)
VOUCHED = replace(LOCAL, only_here=True)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[SpoolDirs]:
    Spool.create(tmp_path, False).close()
    with SpoolDirs(tmp_path) as dirs:
        yield dirs


def test_a_presence_tells_who_it_is_and_is_alive_until_it_is_dropped(dirs: SpoolDirs, tmp_path: Path) -> None:
    hold = PresenceLock.take(dirs, now=17.5, machine=HERE, command="worker --fast")
    found = look(dirs, hold.token)
    status = (tmp_path / ".spooltop/consumers" / hold.token).stat()
    assert found == Presence(
        "held", "box", "boot-1", "pid:[1]", "machine-1", os.getpid(), process_start(os.getpid()), "worker --fast", 17.5, True,
        (status.st_dev, status.st_ino), status.st_size,
    )  # fmt: skip
    assert found.owner.pid == os.getpid() and found.owner.start == 17.5
    hold.drop(dirs, remove=False)
    assert look(dirs, hold.token).state == "free"


def test_looking_disturbs_nobody_and_many_can_look(dirs: SpoolDirs) -> None:
    hold = PresenceLock.take(dirs, now=0)
    with SpoolDirs(dirs.path) as other:
        assert [look(which, hold.token).state for which in (dirs, other) * 3] == ["held"] * 6
    hold.drop(dirs, remove=True)
    assert look(dirs, hold.token).state == "missing"


def test_the_lock_ends_with_the_process(dirs: SpoolDirs) -> None:
    def work() -> None:
        with SpoolDirs(dirs.path) as mine:
            PresenceLock.take(mine, now=0)
            os._exit(0)

    assert in_child(work) == 0
    [token] = os.listdir(Path(dirs.path, ".spooltop/consumers"))
    assert look(dirs, token).state == "free"


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b'{"pid": true, "host": 7, "command": null, "since": "x"}', b"\xff" * 9000, b"[" * 4096],
    ids=["empty", "cut off", "a list", "wrong kinds", "no text", "nested too deep"],
)
def test_what_a_forged_file_says_is_not_trusted(dirs: SpoolDirs, line: bytes) -> None:
    hold = PresenceLock.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    path.write_bytes(line)
    found = look(dirs, hold.token)
    status = path.stat()
    assert found == Presence("held", file=(status.st_dev, status.st_ino), size=status.st_size)
    hold.drop(dirs, remove=True)


def test_a_link_or_a_fifo_in_place_of_a_presence_is_unreadable(dirs: SpoolDirs, tmp_path: Path) -> None:
    hold = PresenceLock.take(dirs, now=0)
    folder = tmp_path / ".spooltop/consumers"
    (folder / ("a" * 32)).symlink_to(folder / hold.token)
    os.mkfifo(folder / ("b" * 32))
    (folder / ("c" * 32)).mkdir()
    assert {look(dirs, letter * 32).state for letter in "abc"} == {"unreadable"}
    hold.drop(dirs, remove=True)


class Recalled(Files):
    """An NFS server that has to call the file back from a client that holds a delegation."""

    def open_read(self, name: str, dir_fd: int) -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)


class NoLocks(Files):
    """A system without locks of open file descriptions."""

    def write_locked(self, fd: int) -> bool | None:
        return None


def test_a_file_that_has_to_be_called_back_first_is_unknown(dirs: SpoolDirs) -> None:
    hold = PresenceLock.take(dirs, now=0)
    dirs.private_dir("consumers")
    dirs.files = Recalled()
    assert judge(look(dirs, hold.token), LOCAL) == (UNKNOWN, "its presence file is in use on another machine; look again")
    dirs.files = Files()
    hold.drop(dirs, remove=True)


def test_where_the_lock_cannot_be_asked_for_nobody_is_dead(dirs: SpoolDirs) -> None:
    hold = PresenceLock.take(dirs, now=0)
    hold.drop(dirs, remove=False)
    dirs.files = NoLocks()
    assert judge(look(dirs, hold.token), Vantage.of(dirs))[0] is UNKNOWN


def test_a_file_of_an_older_version_is_judged_by_flock(dirs: SpoolDirs) -> None:
    hold = PresenceLock.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    record = json.loads(path.read_text())
    hold.drop(dirs, remove=False)
    path.write_text(json.dumps({key: value for key, value in record.items() if key not in ("lock", "machine_id", "device")}))
    assert judge(look(dirs, hold.token), Vantage.of(dirs))[0] is DEAD
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert judge(look(dirs, hold.token), Vantage.of(dirs))[0] is ALIVE


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        ("ext4", "ext4", DEAD), ("xfs", "xfs", DEAD), ("overlay", "overlay", UNKNOWN), ("ext4", "overlay", UNKNOWN),
        ("overlay", "ext4", UNKNOWN), ("tmpfs", "tmpfs", UNKNOWN), ("nfs4", "nfs4", UNKNOWN), (None, "ext4", UNKNOWN),
    ],
)  # fmt: skip
def test_another_device_number_is_a_later_mount_only_of_a_disk(
    tmp_path: Path, theirs: str | None, ours: str, verdict: Verdict
) -> None:
    """A disk that is mounted anew may get another number; a layer or a server's mount may not meet the lock."""

    class ReplacingDirs(SpoolDirs):
        kind = ours

    Spool.create(tmp_path / "s", durable=False).close()
    dirs = ReplacingDirs(tmp_path / "s")
    hold = PresenceLock.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    record = json.loads(path.read_text())
    assert (record["file_system"], judge(look(dirs, hold.token), Vantage.of(dirs))[0]) == (ours, ALIVE)
    hold.drop(dirs, remove=False)
    path.write_text(json.dumps(record | {"device": record["device"] + 1, "file_system": theirs}))
    assert judge(look(dirs, hold.token), Vantage.of(dirs))[0] is verdict


def test_an_older_version_that_asks_by_flock_sees_a_holder(dirs: SpoolDirs) -> None:
    hold = PresenceLock.take(dirs, now=0)
    with Path(dirs.path, ".spooltop/consumers", hold.token).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    hold.drop(dirs, remove=True)


@pytest.mark.parametrize("how", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_who_may_only_read_cannot_make_the_dead_look_alive(dirs: SpoolDirs, how: int) -> None:
    hold = PresenceLock.take(dirs, now=0)
    hold.drop(dirs, remove=False)
    with Path(dirs.path, ".spooltop/consumers", hold.token).open() as file:
        fcntl.flock(file, how)
        with pytest.raises(OSError, match="Bad file descriptor"):
            dirs.files.lock_write(file.fileno())
        assert judge(look(dirs, hold.token), Vantage.of(dirs))[0] is DEAD


def test_a_presence_file_is_open_to_nobody_else_until_it_is_locked(dirs: SpoolDirs) -> None:
    seen: list[int] = []

    class Watched(Files):
        def lock_write(self, fd: int, *, wait: bool = False) -> bool:
            seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
            return super().lock_write(fd, wait=wait)

    before = os.umask(0)
    dirs.files = Watched()
    hold = PresenceLock.take(dirs, now=0)
    os.umask(before)
    assert seen == [0o600]
    hold.drop(dirs, remove=True)


def test_a_presence_file_that_a_stranger_has_locked_is_given_up_for_another_token(dirs: SpoolDirs) -> None:
    class Raced(Files):
        """A stranger with the rights of root locks the first file before its owner does."""

        first = True

        def lock_write(self, fd: int, *, wait: bool = False) -> bool:
            if self.first:
                self.first = False
                self.stranger = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
                assert super().lock_write(self.stranger)
            return super().lock_write(fd, wait=wait)

    dirs.files = files = Raced()
    hold = PresenceLock.take(dirs, now=0)
    assert os.listdir(Path(dirs.path, ".spooltop/consumers")) == [hold.token]
    assert look(dirs, hold.token).state == "held"
    os.close(files.stranger)
    hold.drop(dirs, remove=True)


def test_tokens_are_new_and_files_never_stand_unlocked_under_their_name(dirs: SpoolDirs) -> None:
    assert new_token() != new_token() and len(new_token()) == 32
    hold = PresenceLock.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    assert json.loads(path.read_text())["host"] == this_machine().host
    assert stat.S_ISREG(path.stat().st_mode) and os.listdir(path.parent) == [hold.token]
    hold.drop(dirs, remove=True)


@pytest.mark.parametrize(
    ("presence", "vantage", "verdict"),
    [
        # A conflict is alive wherever it is met.
        (OURS._replace(state="held"), LOCAL, ALIVE),
        (ELSEWHERE._replace(state="held"), LOCAL, ALIVE),
        (ELSEWHERE._replace(state="held"), NETWORK, ALIVE),
        (Presence("held"), VOUCHED, ALIVE),
        # Free: a holder of this boot, and the mount through which it took its lock.
        (OURS, LOCAL, DEAD),
        (OURS, NETWORK, DEAD),
        (OURS._replace(same_mount=False), LOCAL, UNKNOWN),
        (OURS._replace(same_mount=False), NETWORK, UNKNOWN),
        (OURS._replace(same_mount=None), LOCAL, DEAD),
        (OURS._replace(same_mount=None), NETWORK, UNKNOWN),
        # Free, another boot: dead only where it can only have been this machine's.
        (BEFORE, LOCAL, DEAD),
        (BEFORE, NETWORK, UNKNOWN),
        (BEFORE._replace(host="client-b"), LOCAL, UNKNOWN),
        (BEFORE._replace(machine_id="machine-9"), LOCAL, UNKNOWN),
        (BEFORE._replace(machine_id=""), replace(LOCAL, machine=replace(HERE, machine_id="")), UNKNOWN),
        (BEFORE._replace(machine_id=None), LOCAL, UNKNOWN),
        (ELSEWHERE, LOCAL, UNKNOWN),
        (ELSEWHERE, VOUCHED, DEAD),
        (ELSEWHERE, replace(VOUCHED, local=False), DEAD),
        # An empty boot id proves nothing.
        (OURS._replace(boot_id=""), LOCAL, UNKNOWN),
        (OURS._replace(boot_id=None), LOCAL, UNKNOWN),
        (OURS, replace(LOCAL, machine=replace(HERE, boot_id="")), UNKNOWN),
        (OURS._replace(boot_id=""), replace(LOCAL, machine=replace(HERE, boot_id="")), UNKNOWN),
        (OURS._replace(boot_id=""), replace(VOUCHED, machine=replace(HERE, boot_id="")), DEAD),
        (OURS._replace(boot_id=""), replace(VOUCHED, machine=replace(HERE, boot_id=""), local=False), UNKNOWN),
        (Presence("missing"), VOUCHED, UNKNOWN),
        (Presence("unreadable"), VOUCHED, UNKNOWN),
        (Presence("busy"), VOUCHED, UNKNOWN),
    ],
)
def test_the_verdict(presence: Presence, vantage: Vantage, verdict: Verdict) -> None:
    found, evidence = judge(presence._replace(pid=7, command="a\x1bb"), vantage)
    assert found is verdict and evidence and "\x1b" not in evidence


def test_only_the_two_values_of_claims_hosts_are_taken(tmp_path: Path) -> None:
    assert [check_hosts(one) for one in ("any", "this-machine")] == ["any", "this-machine"]
    with pytest.raises(UsageError, match="'this' is neither any nor this-machine"):
        Spool.create(tmp_path / "spool", hosts="this")


def test_the_kind_of_file_system(tmp_path: Path) -> None:
    fd = os.open("/proc", os.O_RDONLY)
    try:
        assert file_system(fd) == "proc"
    finally:
        os.close(fd)
    assert not is_network("ext4") and not is_network("btrfs")
    assert all(is_network(kind) for kind in ("nfs4", "fuse.sshfs", "virtiofs", "9p", "not yet invented", "?"))
