"""What is done before anything is loaded: a process that does not access a file system that may never answer, for which the shell
waits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from spooltop.startup import fork_if_fs_may_hang, may_hang, targets
from tests.e2e.terminal import Terminal as Pty

from .streams import spooltop

XTERM = {"TERM": "xterm-256color"}
LINE = "30 1 0:40 / {point} rw,relatime - {kind} server rw\n"


def test_every_option_of_the_dashboard_that_takes_a_value_is_skipped() -> None:
    options = re.findall(r"^  (--[\w-]+) \S", spooltop("-h").out, re.MULTILINE)
    assert len(options) > 6
    for option in options:
        assert targets(["q", option, "x"]) == ["q"], option
    assert targets(["--view", "new"]) == ["."]


def test_what_a_thread_loads_is_loaded_before_there_is_one(spool: Path, tmp_path: Path) -> None:
    """Since Python 3.13 ``collections.abc`` is replaced while it is loaded: where two threads load it at once, one finds it
    empty. Two threads that load a package and a module of it at once wait for each other."""
    program = """if True:
        import _thread, sys
        start, log = _thread.start_new_thread, open(sys.argv[2], "w", buffering=1)
        def logged(*words):
            print({"collections.abc", "spooltop.engine.spool"} <= set(sys.modules), file=log)
            return start(*words)
        _thread.start_new_thread = logged
        from spooltop.__main__ import main
        sys.exit(main(sys.argv[1:2]))
    """
    with Pty([sys.executable, "-c", program, str(spool), str(tmp_path / "log")]) as screen:
        screen.wait_for("live")
        screen.type("q")
        assert screen.wait_exit() == 0
    assert set((tmp_path / "log").read_text().split()) == {"True"}


def table(point: Path | str, kind: str) -> str:
    """Returns the kernel's list of mounts."""
    mounts = {"/": "ext4", "/sys/fs/fuse/connections": "fusectl", str(point).replace(" ", "\\040"): kind}
    return "".join(LINE.format(point=point, kind=kind) for point, kind in mounts.items())


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
        ("/srv/queues/far", "nfs", "/srv/queues/", True), ("/srv/queues/far", "nfs", "/", True),
        ("/srv/queues/far", "nfs", "/srv/q*/[a-f]*", True), ("/srv/queues/far", "nfs", "/srv/queues/near", False),
        ("/srv/queues/far", "nfs", "/srv/queue", False), ("/srv/queues/far", "nfs", "/var/*", False),
    ],
)  # fmt: skip
def test_a_path_may_hang_where_its_mount_asks_somebody_else(point: str, kind: str, path: str, hangs: bool) -> None:
    assert may_hang(path, table(point, kind)) is hangs


def test_a_path_may_hang_by_links_to_it(tmp_path: Path) -> None:
    mounts = table(tmp_path / "far", "fuse")
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "over").symlink_to("../far/spools")
    (tmp_path / "link").symlink_to(tmp_path / "near" / "over")
    (tmp_path / "round").symlink_to("round")
    paths = [tmp_path / name for name in ("link/mail", "near/mail", "round/spool")]
    assert [may_hang(str(path), mounts) for path in paths] == [True, False, False]


def test_for_words_that_read_no_spool_no_mount_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def may_hang(path: str, mounts: str) -> bool:
        raise AssertionError(path)

    monkeypatch.setattr("spooltop.startup.may_hang", may_hang)
    for words in (["--help"], ["completion", "zsh"]):
        assert fork_if_fs_may_hang(words, ["/mnt/far"], {"TERM": "xterm"}) is None
