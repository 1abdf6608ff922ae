"""Presence of consumers: when their claims are those of the dead, whatever stands in the file and whoever locks it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import Spool
from spooltop.engine.presence import Machine, Presence, Vantage, judge, this_machine
from spooltop.model.vocabulary import Verdict
from tests.engine.helpers import Files, claimed, die_holding, names_in

HERE = Machine("box", "boot-1", "pid:[1]", "machine-1")
OURS = Presence("free", "box", "boot-1", machine_id="machine-1", same_mount=True)
BEFORE = OURS._replace(boot_id="boot-0", same_mount=False)
ELSEWHERE = OURS._replace(host="client-b", boot_id="boot-9", machine_id="machine-9", same_mount=False)
NO_BOOT_ID = OURS._replace(boot_id="")
LOCAL, NETWORK = Vantage(HERE, local=True), Vantage(HERE, local=False)
VOUCHED = replace(LOCAL, only_here=True)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN


def seen_from(vantage: Vantage, **machine: str) -> Vantage:
    return replace(vantage, machine=replace(HERE, **machine))


@pytest.mark.parametrize(
    ("presence", "vantage", "verdict"),
    [
        # A conflict is alive wherever it is met.
        (OURS._replace(state="held"), LOCAL, ALIVE), (ELSEWHERE._replace(state="held"), LOCAL, ALIVE),
        (ELSEWHERE._replace(state="held"), NETWORK, ALIVE), (Presence("held"), VOUCHED, ALIVE),
        # Free: a holder of this boot, and the mount through which it took its lock.
        (OURS, LOCAL, DEAD), (OURS, NETWORK, DEAD),
        (OURS._replace(same_mount=False), LOCAL, UNKNOWN), (OURS._replace(same_mount=False), NETWORK, UNKNOWN),
        (OURS._replace(same_mount=None), LOCAL, DEAD), (OURS._replace(same_mount=None), NETWORK, UNKNOWN),
        # Free, another boot: dead only where it can only have been this machine's.
        (BEFORE, LOCAL, DEAD), (BEFORE, NETWORK, UNKNOWN),
        (BEFORE._replace(host="client-b"), LOCAL, UNKNOWN), (BEFORE._replace(machine_id="machine-9"), LOCAL, UNKNOWN),
        (BEFORE._replace(machine_id=""), seen_from(LOCAL, machine_id=""), UNKNOWN),
        (BEFORE._replace(machine_id=None), LOCAL, UNKNOWN),
        (ELSEWHERE, LOCAL, UNKNOWN), (ELSEWHERE, VOUCHED, DEAD), (ELSEWHERE, replace(VOUCHED, local=False), DEAD),
        # An empty boot id proves nothing.
        (NO_BOOT_ID, LOCAL, UNKNOWN), (OURS._replace(boot_id=None), LOCAL, UNKNOWN),
        (OURS, seen_from(LOCAL, boot_id=""), UNKNOWN), (NO_BOOT_ID, seen_from(LOCAL, boot_id=""), UNKNOWN),
        (NO_BOOT_ID, seen_from(VOUCHED, boot_id=""), DEAD),
        (NO_BOOT_ID, replace(seen_from(VOUCHED, boot_id=""), local=False), UNKNOWN),
        (Presence("missing"), VOUCHED, UNKNOWN), (Presence("unreadable"), VOUCHED, UNKNOWN), (Presence("busy"), VOUCHED, UNKNOWN),
    ],
)  # fmt: skip
def test_the_verdict(presence: Presence, vantage: Vantage, verdict: Verdict) -> None:
    found, evidence = judge(presence._replace(pid=7, command="a\x1bb"), vantage)
    assert found is verdict and evidence and "\x1b" not in evidence


# A dead consumer, of which only the file is left


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The presence file of a consumer that died."""
    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="x")
    die_holding(tmp_path)
    [presence] = (tmp_path / ".spooltop/consumers").iterdir()
    return presence


def is_put_back(path: Path, files: Files | None = None) -> bool:
    """True if the claim of the dead consumer is one of the dead."""
    with Spool(path, False, files=files) as spool:
        return spool.recover() == ["x"]


def replaced(make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda path: (path.unlink(), make(path))


@pytest.mark.parametrize(
    "forge",
    [
        *(lambda path, content=content: path.write_bytes(content) for content in [
            b"", b"{", b"[]", b"\xff" * 9000, b"[" * 4096,
            b'{"lock": "ofd", "boot_id": 7, "pid": true, "host": 7, "command": null, "since": "x"}',
        ]),
        replaced(lambda path: path.symlink_to("/nowhere")), replaced(os.mkfifo), replaced(Path.mkdir),
    ],
    ids=["empty", "cut off", "a list", "no text", "nested too deep", "wrong kinds", "link", "fifo", "directory"],
)  # fmt: skip
def test_a_forged_file_is_no_proof(tmp_path: Path, left: Path, forge: Callable[[Path], object]) -> None:
    forge(left)
    assert not is_put_back(tmp_path)


def test_a_lock_that_cannot_be_asked_for_is_no_proof(tmp_path: Path, left: Path) -> None:
    class Recalled(Files):
        """An NFS server that has to call the file back from a client that holds a delegation."""

        def open_read(self, name: str, dir_fd: int) -> int:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)

    class NoLocks(Files):
        """A system without locks of open file descriptions."""

        def write_locked(self, fd: int) -> bool | None:
            return None

    assert not is_put_back(tmp_path, Recalled()) and not is_put_back(tmp_path, NoLocks())
    assert is_put_back(tmp_path)


@pytest.mark.parametrize("how", [fcntl.LOCK_EX, fcntl.LOCK_SH])
def test_who_may_only_read_cannot_make_the_dead_look_alive(tmp_path: Path, left: Path, how: int) -> None:
    with left.open() as file:
        fcntl.flock(file, how)
        with pytest.raises(OSError, match="Bad file descriptor"):
            Files().lock_write(file.fileno())
        assert is_put_back(tmp_path)


@pytest.mark.parametrize(
    ("edits", "kind", "dead"),
    [
        # A disk that is mounted anew may get another number; a layer or a server's mount may not meet the lock.
        *(({"device": -1, "file_system": theirs}, ours, theirs == ours and ours in ("ext4", "xfs")) for theirs, ours in [
            ("ext4", "ext4"), ("xfs", "xfs"), ("overlay", "overlay"), ("ext4", "overlay"), ("overlay", "ext4"),
            ("tmpfs", "tmpfs"), ("nfs4", "nfs4"), (None, "ext4"),
        ]),
        # A restart is seen only on a file system that no other machine can have mounted.
        *(({"boot_id": "before", "machine_id": "m" * 32}, kind, kind in ("ext4", "btrfs")) for kind in [
            "ext4", "btrfs", "nfs4", "fuse.sshfs", "virtiofs", "9p", "not yet invented", "?",
        ]),
    ],
    ids=str,
)  # fmt: skip
def test_a_free_lock_is_proof_only_where_it_could_not_be_missed(
    tmp_path: Path, left: Path, monkeypatch: pytest.MonkeyPatch, edits: dict[str, Any], kind: str, dead: bool
) -> None:
    monkeypatch.setattr("spooltop.engine.dirs.SpoolDirs.kind", kind)
    machine = replace(this_machine(), machine_id="m" * 32)
    monkeypatch.setattr("spooltop.engine.presence.this_machine", lambda: machine)
    left.write_text(json.dumps({**json.loads(left.read_text()), **edits}))
    assert is_put_back(tmp_path) is dead


# A presence that is made


class Watched(Files):
    """Calls ``before`` when a file is to be locked, once the spool is prepared."""

    def __init__(self, before: Callable[[int], object]) -> None:
        super().__init__()
        self.before, self.armed = before, False

    def lock_write(self, fd: int, *, wait: bool = False) -> bool:
        if self.armed:
            self.before(fd)
        return super().lock_write(fd, wait=wait)


def test_a_presence_file_is_open_to_nobody_else_until_it_is_locked(tmp_path: Path) -> None:
    modes: list[int] = []
    files = Watched(lambda fd: modes.append(stat.S_IMODE(os.fstat(fd).st_mode)))
    Spool.create(tmp_path).close()
    for box in ("new", "cur"):
        (tmp_path / box).chmod(0o755)
    with Spool(tmp_path, False, files=files) as spool:
        spool.put(b"")
        files.armed = True
        claimed(spool).ack()
        [presence] = tmp_path.glob(".spooltop/consumers/*")
        assert modes[0] == 0o600 and stat.S_IMODE(presence.stat().st_mode) == 0o644


def test_a_presence_file_that_a_stranger_has_locked_is_given_up_for_another_token(tmp_path: Path) -> None:
    strangers: list[int] = []

    def lock(fd: int) -> None:
        """As one with the rights of root, who locks the first file before its owner does."""
        if not strangers:
            strangers.append(os.open(f"/proc/self/fd/{fd}", os.O_RDWR))
            assert Files().lock_write(strangers[0])

    files = Watched(lock)
    with Spool.create(tmp_path, False, files=files) as spool, Spool(tmp_path, False) as other:
        spool.put(b"")
        files.armed = True
        claim = claimed(spool)
        assert strangers and names_in(tmp_path / ".spooltop/consumers") == [claim.token] and other.recover() == []
        claim.ack()
    os.close(strangers[0])
