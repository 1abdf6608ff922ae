"""Presence of consumers: when their claims are those of the dead, whatever stands in the file and whoever locks it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.engine import Spool
from tests.engine.helpers import Files, claimed, die_holding, names_in

# A dead consumer, of which only the file is left


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The presence file of a consumer that died."""
    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="x")
    die_holding(tmp_path)
    [presence] = (tmp_path / ".spooltop/consumers").iterdir()
    return presence


def is_put_back(path: Path, files: Files | None = None, hosts: str = "any") -> bool:
    """True if the claim of the dead consumer is one of the dead."""
    with Spool(path, False, files=files, hosts=hosts) as spool:
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
        replaced(lambda path: path.symlink_to("/nowhere")), replaced(os.mkfifo), replaced(Path.mkdir), Path.unlink,
    ],
    ids=["empty", "cut off", "a list", "no text", "nested too deep", "wrong kinds", "link", "fifo", "directory", "gone"],
)  # fmt: skip
def test_a_forged_file_is_no_proof(tmp_path: Path, left: Path, forge: Callable[[Path], object]) -> None:
    forge(left)
    assert not is_put_back(tmp_path)


def test_a_lock_that_cannot_be_asked_for_is_no_proof(tmp_path: Path, left: Path) -> None:
    class Recalled(Files):
        """An NFS server that has to call the file back from a client that holds a delegation."""

        def open_read(self, name: str, dir_fd: int | None, *, follow: bool = False) -> int:
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


BEFORE = {"boot_id": "before"}
ELSEWHERE = {"boot_id": "before", "host": "client-b", "machine_id": "machine-9"}
VOUCHED = {"hosts": "this-machine"}
FREE: list[tuple[dict[str, Any], dict[str, str], bool]] = [
    # Of this boot: proof on the mount through which the lock was taken, or where it can be no other.
    ({}, {}, True), ({}, {"kind": "nfs4"}, True), ({"device": None}, {}, True), ({"device": None}, {"kind": "nfs4"}, False),
    # A disk that is mounted anew may get another number; a layer or a server's mount may not meet the lock.
    *(({"device": -1, "file_system": theirs}, {"kind": ours}, theirs == ours and ours in ("ext4", "xfs")) for theirs, ours in [
        ("ext4", "ext4"), ("xfs", "xfs"), ("overlay", "overlay"), ("ext4", "overlay"), ("overlay", "ext4"),
        ("tmpfs", "tmpfs"), ("nfs4", "nfs4"), (None, "ext4"),
    ]),
    # Of another boot: proof where it can only have been this machine's, on a file system that no other can have mounted.
    *((BEFORE, {"kind": kind}, kind in ("ext4", "btrfs")) for kind in [
        "ext4", "btrfs", "nfs4", "fuse.sshfs", "virtiofs", "9p", "not yet invented", "?",
    ]),
    *((BEFORE | edits, {}, False) for edits in ({"host": "client-b"}, {"machine_id": "machine-9"}, {"machine_id": None})),
    (BEFORE | {"machine_id": ""}, {"machine_id": ""}, False),
    (ELSEWHERE, {}, False), (ELSEWHERE, VOUCHED, True), (ELSEWHERE, VOUCHED | {"kind": "nfs4"}, True),
    # An empty boot id proves nothing.
    ({"boot_id": ""}, {}, False), ({"boot_id": None}, {}, False), ({}, {"boot_id": ""}, False),
    ({"boot_id": ""}, {"boot_id": ""}, False), ({"boot_id": ""}, VOUCHED | {"boot_id": ""}, True),
    ({"boot_id": ""}, VOUCHED | {"boot_id": "", "kind": "nfs4"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "seen_from", "dead"), FREE, ids=str)
def test_a_free_lock_is_proof_only_where_it_could_not_be_missed(
    tmp_path: Path, left: Path, monkeypatch: pytest.MonkeyPatch, edits: dict[str, Any], seen_from: dict[str, str], dead: bool
) -> None:
    """Nor is it a proof while somebody holds it, wherever that is said to be."""
    here = {"machine_id": "m" * 32} | seen_from
    hosts = here.pop("hosts", "any")
    monkeypatch.setattr("spooltop.engine.dirs.SpoolDirs.kind", here.pop("kind", "ext4"))
    machine = replace(resolve_name("spooltop.engine.presence.this_machine")(), **here)
    monkeypatch.setattr("spooltop.engine.presence.this_machine", lambda: machine)
    left.write_text(json.dumps({**json.loads(left.read_text()), "machine_id": "m" * 32, **edits}))
    with open(left, "r+") as held:
        assert Files().lock_write(held.fileno())
        assert not is_put_back(tmp_path, hosts=hosts)
    assert is_put_back(tmp_path, hosts=hosts) is dead


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
