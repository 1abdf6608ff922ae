"""What is done before anything is loaded: a first screen, gone before the first output, and a process that does not access a file
system that may never answer, for which the shell waits."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.startup import supervisor
from spooltop.startup.splash import Splash, targets, wanted
from spooltop.startup.supervisor import fork_if_fs_may_hang, may_hang
from tests.e2e.terminal import SPOOLTOP
from tests.e2e.terminal import Terminal as Pty

from .streams import ROOT, spooltop

XTERM = {"TERM": "xterm-256color"}
LINE = "30 1 0:40 / {point} rw,relatime - {kind} server rw\n"


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Opens a pty: our end, and the one of the program."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_it_is_for_what_opens_the_dashboard_and_not_for_what_prints(spool: Path, ends: tuple[int, int], tmp_path: Path) -> None:
    path, evil = str(spool), spool / "\x1b[2J"
    (evil / "new").mkdir(parents=True)
    for words, shown in (
        ([path], path), (["--read-only", path], path), (["demo"], "demo"), ([str(evil)], ""),
        ([f"{path}/cursors.json"], f"{path}/cursors.json"), ([f"{path}/nothing"], None),
        (["--json", path], None), (["demo", "--headless=3"], None),
    ):  # fmt: skip
        assert wanted(words, XTERM) == shown, words
    assert wanted([path], {"TERM": "dumb"}) is None
    assert wanted([f"{path}/nothing"], XTERM, ask=False) == f"{path}/nothing", "a file system that may hang is not asked"
    with open(tmp_path / "out", "wb") as file:
        assert not Splash.show([path], XTERM, (ends[1], file.fileno(), ends[1])).up


def test_every_option_of_the_dashboard_that_takes_a_value_is_skipped() -> None:
    options = re.findall(r"^  (--[\w-]+) \S", spooltop("-h").out, re.MULTILINE)
    assert len(options) > 6
    for option in options:
        assert targets(["q", option, "x"]) == ["q"], option
    assert targets(["--view", "new"]) == ["."]


def test_an_error_stands_on_the_screen_that_was_there_before(spool: Path) -> None:
    with Pty([*SPOOLTOP, "--no-such-flag", str(spool)]) as screen:
        assert screen.wait_exit() == 2
        before, _, after = bytes(screen.raw).partition(b"\x1b[?1049l")
    assert b"looking..." in before and b"spooltop:" not in before and b"spooltop: " in after


def test_no_thread_loads_what_python_replaces_while_it_is_loaded(spool: Path, ends: tuple[int, int]) -> None:
    """Since Python 3.13 ``collections.abc`` is such a module: where two threads load it at once, one finds it empty."""
    program = """if True:
        import _thread, sys
        sys.path[0] = sys.argv[1]
        from spooltop.startup.splash import Splash
        print("before", "collections.abc" in sys.modules, file=sys.stderr)
        _thread.start_new_thread = lambda *_: print("thread", "collections.abc" in sys.modules, file=sys.stderr)
        fd = int(sys.argv[3])
        assert Splash.show([sys.argv[2]], {"TERM": "xterm"}, (fd, fd, fd), ask=False).up
    """
    words = [sys.executable, "-S", "-c", program, str(ROOT), str(spool), str(ends[1])]
    done = subprocess.run(words, capture_output=True, text=True, pass_fds=ends[1:], check=False)
    assert (done.returncode, done.stderr.splitlines()) == (0, ["before False", "thread True"])


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

    monkeypatch.setattr(supervisor, "may_hang", may_hang)
    for words in (["--help"], ["completion", "zsh"]):
        assert fork_if_fs_may_hang(words, ["/mnt/far"], {"TERM": "xterm"}) is None
