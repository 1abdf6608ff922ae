"""Who only watches leaves no trace: strace sees every call of a dashboard and of the commands that look."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .terminal import SPOOLTOP, Terminal

CHANGING = (
    "open,openat,openat2,creat,rename,renameat,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,mknod,"
    "mknodat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,utimes,utimensat,futimesat,truncate,ftruncate,fallocate,"
    "setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,write,pwrite64,writev,pwritev,sendfile,copy_file_range"
)
OPENS = re.compile(r"\b(open|openat|openat2|creat)(\(| resumed>)")
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "watched"
    with Spool.create(path, durable=False) as made:
        made.put_many(b'{"n": %d}' % number for number in range(5))
    (path / "cursors.json").write_text('{"email": 7}')
    (path / "x.lock").touch()
    (path / "cur" / "foreign:2,P999999").write_text("x")
    return path


def traced(log: Path) -> list[str]:
    return ["strace", "-f", "-qq", "-y", "-s", "300", "-e", f"trace={CHANGING}", "-o", str(log), *SPOOLTOP]


def changes(log: Path, spool: Path) -> list[str]:
    """The calls that would change something in ``spool``: by a path in it, by one relative to a descriptor of it, by that."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if str(spool) in line]
    into = re.compile(rf"(write\w*|sendfile|copy_file_range)\(\d++(?!<{re.escape(str(spool))})")  # what is shown names it too
    return [line for line in lines if not into.search(line) and (WRITES.search(line) or not OPENS.search(line))]


def state(spool: Path) -> dict[str, tuple[int, int, int, int]]:
    found = {}
    for path in (spool, *spool.rglob("*")):
        at = path.lstat()
        found[str(path)] = (at.st_ino, at.st_mode, at.st_size, at.st_mtime_ns + at.st_ctime_ns)
    return found


def test_the_eye_of_this_test_sees_a_change(spool: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    subprocess.run([*traced(log), "hold", str(spool), "ALL", "--box", "new", "--yes"], check=True, capture_output=True)
    told = "\n".join(changes(log, spool))
    assert "renameat2" in told and "O_CREAT" in told and "mkdir" in told and re.search(r"write\w*\(\d+<", told)


@pytest.mark.parametrize("command", ["status", "ls", "show", "locks", "cursors", "tickets", "ops"])
def test_a_command_that_looks_changes_nothing(spool: Path, tmp_path: Path, command: str) -> None:
    log = tmp_path / "log"
    words = [str(spool), *([os.listdir(spool / "new")[0]] if command == "show" else [])]
    before = state(spool)
    done = subprocess.run([*traced(log), command, *words, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "O_RDONLY" in log.read_text() and changes(log, spool) == []
    assert state(spool) == before


def test_a_dashboard_that_is_only_watched_changes_nothing(spool: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = state(spool)
    screen = Terminal([*traced(log), str(spool)], cols=160, rows=50)
    try:
        screen.wait_for("live · as of", 60)
        for key, seen in (("2", "New 5"), ("3", "Claims"), ("4", "Tmp"), ("5", "Cursors"), ("6", "Locks"), ("7", "Aside")):
            screen.type(key)
            screen.wait_for(seen)
            screen.collect(0.5)
        screen.type("z")
        screen.collect(1.0)
        screen.type("q")
        screen.collect(1.0)
        screen.type("2")
        screen.collect(0.5)
        screen.type("\r")  # a message
        screen.collect(1.0)
        screen.type("q")
        screen.collect(0.5)
        screen.type("r")  # a plan, which Esc leaves
        screen.collect(1.5)
        screen.type("\x1b")
        screen.collect(1.0)
        for _ in range(3):
            if screen.process.poll() is None:
                screen.type("q")
                screen.collect(0.7)
        assert screen.wait_exit(30) == 0
    finally:
        screen.close()
    assert str(spool) in log.read_text()
    assert changes(log, spool) == []
    assert state(spool) == before
