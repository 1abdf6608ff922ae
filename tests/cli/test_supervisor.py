"""If the spool is on a file system that may never answer, the shell waits for a process that does not access it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spooltop.startup.supervisor import fork_if_fs_may_hang, may_hang

LINE = "30 1 0:40 / {point} rw,relatime - {kind} server rw\n"
TABLE = LINE.format(point="/", kind="ext4") + LINE.format(point="/sys/fs/fuse/connections", kind="fusectl")


def table(point: Path | str, kind: str) -> str:
    return TABLE + LINE.format(point=str(point).replace(" ", "\\040"), kind=kind)


@pytest.mark.parametrize(
    ("kind", "hangs"),
    [("fuse.sshfs", True), ("fuseblk", True), ("nfs4", True), ("cifs", True), ("9p", True), ("xfs", False), ("fusectl", False)],
)
def test_what_asks_somebody_else_may_hang(kind: str, hangs: bool) -> None:
    assert may_hang("/mnt/far/spool", table("/mnt/far", kind)) is hangs


def test_it_is_the_mount_that_the_path_leads_into() -> None:
    mounts = table("/mnt/far", "nfs")
    assert may_hang("/mnt/far", mounts)
    assert not may_hang("/mnt/farther/spool", mounts)
    assert not may_hang("/mnt/far/../near", mounts)
    assert may_hang("/mnt/ä b/spool", table("/mnt/ä b", "nfs"))


def test_a_mount_below_a_directory_of_spools_or_behind_a_glob() -> None:
    mounts = table("/srv/queues/far", "nfs")
    assert may_hang("/srv/queues", mounts) and may_hang("/srv/queues/", mounts) and may_hang("/", mounts)
    assert may_hang("/srv/queues/*", mounts) and may_hang("/srv/q*/[a-f]*", mounts)
    assert not may_hang("/srv/queues/near", mounts) and not may_hang("/srv/queue", mounts) and not may_hang("/var/*", mounts)


def test_by_links_to_it(tmp_path: Path) -> None:
    mounts = table(tmp_path / "far", "fuse")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "over").symlink_to("../far/spools")
    (tmp_path / "link").symlink_to(tmp_path / "near" / "over")
    assert may_hang(str(tmp_path / "link" / "mail"), mounts)
    assert not may_hang(str(tmp_path / "near" / "mail"), mounts)


def test_links_that_lead_nowhere_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    assert not may_hang(str(tmp_path / "round" / "spool"), table("/mnt/far", "fuse"))


def test_nothing_is_kept_apart_without_a_terminal(tmp_path: Path) -> None:
    assert fork_if_fs_may_hang([str(tmp_path)], [str(tmp_path)], {"TERM": "xterm"}) is None
