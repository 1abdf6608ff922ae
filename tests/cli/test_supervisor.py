"""If the spool is on a file system that may never answer, the shell waits for a process that does not access it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spooltop.startup import supervisor
from spooltop.startup.supervisor import fork_if_fs_may_hang, may_hang

LINE = "30 1 0:40 / {point} rw,relatime - {kind} server rw\n"
TABLE = LINE.format(point="/", kind="ext4") + LINE.format(point="/sys/fs/fuse/connections", kind="fusectl")


def table(point: Path | str, kind: str) -> str:
    return TABLE + LINE.format(point=str(point).replace(" ", "\\040"), kind=kind)


@pytest.mark.parametrize(
    ("point", "kind", "path", "hangs"),
    [
        ("/mnt/far", "fuse.sshfs", "/mnt/far/spool", True), ("/mnt/far", "fuseblk", "/mnt/far/spool", True),
        ("/mnt/far", "nfs4", "/mnt/far/spool", True), ("/mnt/far", "cifs", "/mnt/far/spool", True),
        ("/mnt/far", "9p", "/mnt/far/spool", True), ("/mnt/far", "xfs", "/mnt/far/spool", False),
        ("/mnt/far", "fusectl", "/mnt/far/spool", False), ("/mnt/far", "nfs", "/mnt/far", True),
        ("/mnt/far", "nfs", "/mnt/farther/spool", False), ("/mnt/far", "nfs", "/mnt/far/../near", False),
        ("/mnt/ä b", "nfs", "/mnt/ä b/spool", True),
        # below a directory of spools, or behind a pattern
        ("/srv/queues/far", "nfs", "/srv/queues", True), ("/srv/queues/far", "nfs", "/srv/queues/", True),
        ("/srv/queues/far", "nfs", "/", True), ("/srv/queues/far", "nfs", "/srv/queues/*", True),
        ("/srv/queues/far", "nfs", "/srv/q*/[a-f]*", True), ("/srv/queues/far", "nfs", "/srv/queues/near", False),
        ("/srv/queues/far", "nfs", "/srv/queue", False), ("/srv/queues/far", "nfs", "/var/*", False),
    ],
)  # fmt: skip
def test_a_path_may_hang_where_its_mount_asks_somebody_else(point: str, kind: str, path: str, hangs: bool) -> None:
    assert may_hang(path, table(point, kind)) is hangs


def test_by_links_to_it(tmp_path: Path) -> None:
    mounts = table(tmp_path / "far", "fuse")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "over").symlink_to("../far/spools")
    (tmp_path / "link").symlink_to(tmp_path / "near" / "over")
    assert may_hang(str(tmp_path / "link" / "mail"), mounts)
    assert not may_hang(str(tmp_path / "near" / "mail"), mounts)
    (tmp_path / "round").symlink_to("round")
    assert not may_hang(str(tmp_path / "round" / "spool"), mounts)


def test_nothing_is_kept_apart_without_a_terminal(tmp_path: Path) -> None:
    assert fork_if_fs_may_hang([str(tmp_path)], [str(tmp_path)], {"TERM": "xterm"}) is None


@pytest.mark.parametrize("words", [["--help"], ["completion", "zsh"]])
def test_words_that_read_no_spool_look_at_no_mounts(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def may_hang(path: str, mounts: str) -> bool:
        raise AssertionError(path)

    monkeypatch.setattr(supervisor, "may_hang", may_hang)
    assert fork_if_fs_may_hang(words, ["/mnt/far"], {"TERM": "xterm"}) is None
