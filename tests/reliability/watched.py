"""Watching changes nothing: every call of the dashboard and of the commands that look, as strace(1) saw them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from tests.scratch import scratch

from ..e2e.terminal import SPOOLTOP, Terminal
from .figures import Figure

__all__ = ["BAR", "LOOKING", "NAME", "changes", "ended_well", "filled", "look_around", "looked", "run", "state", "traced"]

NAME = "only watched: every call of the dashboard and of each command that looks (strace)"
BAR = "0 calls that change anything in the spool"

CHANGING = (
    "open,openat,openat2,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,mknod,"
    "mknodat,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utime,utimes,utimensat,futimesat,truncate,ftruncate,fallocate,"
    "setxattr,lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr,write,pwrite64,writev,pwritev,sendfile,copy_file_range"
)
OPENS = re.compile(r"\b(open|openat|openat2|creat)(\(| resumed>)")
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
LOOKING = (
    ("status",), ("ls",), ("ls", "--box", "trash"), ("show", "ID"), ("show", "ID", "--who"), ("locks",), ("cursors",),
    ("tickets",), ("ops",), ("purge", "--box", "new", "ALL", "--dry-run"), ("purge", "--expired", "--dry-run"),
    ("doctor",),
)  # fmt: skip
"""The commands that look, behind which the path comes; a plan that is only shown is one of them."""
BESIDE = 60.0
"""Seconds for which a dashboard watches others at work."""
WORKER = """
import sys, time
from spooltop.engine import Spool
with Spool(sys.argv[1], durable=False) as spool:
    while True:
        spool.put(b"x", source="bot")
        claim = spool.claim()
        time.sleep(0.01)
        if claim is not None:
            claim.ack()
"""


def filled(path: Path) -> Path:
    """A spool with something of everything that is looked at."""
    with Spool.create(path, durable=False) as made:
        made.put_many(b'{"n": %d}' % number for number in range(6))
    (path / "cursors.json").write_text('{"email": 7}')
    (path / "x.lock").touch()
    (path / "cur" / "foreign:2,P999999").write_text("x")
    with open_control(str(path), watch=False, settings={}) as control:
        first = min(os.listdir(path / "new"))
        control.apply(control.plan(Action.PURGE, Selection(box=Box.NEW, ids=(first,))))
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


def looked(log: Path, spool: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs one of ``LOOKING``."""
    id = min(os.listdir(spool / "new"))
    given = [words[0], str(spool), *(id if word == "ID" else word for word in words[1:])]
    return subprocess.run([*traced(log), *given, "--json"], capture_output=True, text=True, check=False)


def ended_well(words: Sequence[str], code: int) -> bool:
    """True if one of ``LOOKING`` ended as it should: the trash has nothing that expired, and a doctor may find something."""
    return code in ((0, 1, 2) if words[0] == "doctor" else (4,) if "--expired" in words else (0,))


def look_around(screen: Terminal, waiting: int) -> None:
    """Visits all views, a list of operations, a message, and a plan that Esc leaves; then quits."""
    screen.wait_for("live · as of", 60)
    views = (("2", f"New {waiting}"), ("3", "Claims"), ("4", "Tmp"), ("5", "Cursors"), ("6", "Locks"), ("7", "Aside"))
    for key, seen in views:
        screen.type(key)
        screen.wait_for(seen)
        screen.collect(0.5)
    for key, seconds in (("z", 1.0), ("q", 1.0), ("2", 0.5), ("\r", 1.0), ("q", 0.5), ("r", 1.5), ("\x1b", 1.0)):
        screen.type(key)
        screen.collect(seconds)
    for _ in range(3):
        if screen.process.poll() is None:
            screen.type("q")
            screen.collect(0.7)
    assert screen.wait_exit(30) == 0


def calls(log: Path, spool: Path) -> int:
    """Counts the calls that concern a path in ``spool``."""
    return sum(str(spool) in line for line in log.read_text(errors="replace").splitlines())


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    if shutil.which("strace") is None:
        return Figure(NAME, BAR, 0, 0, skipped=1, explained="no strace here")
    trials, wrong = 0, []
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        log, spool = Path(folder) / "log", filled(Path(folder) / "watched")
        before = state(spool)
        for words in LOOKING[:1] if quick else LOOKING:
            done = looked(log, spool, words)
            wrong += [f"{' '.join(words)}: {line}" for line in changes(log, spool)]
            if not ended_well(words, done.returncode):
                wrong.append(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
            trials += calls(log, spool)
        if not quick:
            screen = Terminal([*traced(log), str(spool)], cols=160, rows=50)
            try:
                look_around(screen, 5)
            finally:
                screen.close()
            wrong += [f"the dashboard: {line}" for line in changes(log, spool)]
            trials += calls(log, spool)
        wrong += ["something in the spool is not as it was"] if state(spool) != before else []
        if not quick:
            trials += among_others(log, spool, wrong, say)
    for line in wrong:
        say(line)
    seen = (
        f"calls that open something or could change it; {len(LOOKING)} commands, all views, a plan that was left, and "
        f"{BESIDE:.0f} s beside consumers at work"
    )
    return Figure(NAME, BAR, trials, len(wrong), explained=seen)


def among_others(log: Path, spool: Path, wrong: list[str], say: Callable[[str], None]) -> int:
    """A dashboard while others put and work."""
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(spool)]) for _ in range(2)]
    screen = Terminal([*traced(log), str(spool)], cols=160, rows=50)
    try:
        screen.wait_for("live · as of", 60)
        end = time.monotonic() + BESIDE
        while time.monotonic() < end:
            screen.collect(1.0)
        screen.type("q")
        assert screen.wait_exit(30) == 0
    finally:
        screen.close()
        for worker in workers:
            worker.kill()
            worker.wait()
    wrong += [f"beside others: {line}" for line in changes(log, spool)]
    seen = calls(log, spool)
    say(f"{seen:,} calls while others worked")
    return seen
