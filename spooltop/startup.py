"""Startup before anything is loaded: a supervisor process for file systems that may hang."""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
# Supervisor process between the shell and the dashboard or a command, for a spool on a file system that may never answer. A
# thread that waits for a FUSE program that accepted a request, or for a server that is gone, may not react to any signal,
# including SIGKILL. Its process does not end, and neither does any process that waits for it. On a file system of this kind,
# the shell therefore waits for a supervisor, which touches no file and exits as soon as the dashboard has restored the
# terminal, or the command has left its thread that hangs. A process that still hangs then ends by itself when the file system
# answers or is unmounted.

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Leave = Callable[[int], object]
    """Reports to the supervisor that nothing is left to do (the terminal is restored), with the exit code."""

WITH_VALUE = ("--as", "--cursor-file", "--filter", "--poll-log", "--redis-tickets", "--sort", "--theme", "--view", "--watch")
"""Options that may stand before a command, and take the next word."""
_REMOTE = ("fuse", "nfs", "cifs", "smb", "9p", "virtiofs", "ceph", "afs", "lustre", "gpfs", "autofs")
"""Names, or beginnings of names, of file systems that ask another process or machine."""
_PLAIN = frozenset(("-h", "--help", "-V", "--version"))
_WITHOUT_A_PATH = ("completion", "config", "help", "version")
_CONTROL = "fusectl"
_LINKS = 40
"""Maximum number of symbolic links in the resolution of a path, path_resolution(7)."""
_FOR_EVER = 3600.0
_GRACE = 1.0
"""Seconds that a dashboard has to end after it left or was interrupted."""
_RESTORE = b"\x1b[?25h\x1b[?1049l\r\n"


def targets(words: Sequence[str]) -> list[str]:
    """Returns all paths that these words may open."""
    found = [word for before, word in zip(("", *words), words, strict=False) if word[:1] != "-" and before not in WITH_VALUE]
    return found or ["."]


_HANDLED = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
"""Signals that the supervisor forwards or receives."""


def may_hang(path: str, mountinfo: str) -> bool:
    """True if ``path`` leads to a file system that asks another process or machine, or one is mounted below it, according to the
    text of ``/proc/self/mountinfo`` (proc(5)). A glob stands for the directory in front of it. Never accesses a file system of
    this kind."""
    from spooltop.model.proc import parse_mounts

    mounts = parse_mounts(mountinfo.splitlines())
    points = {one.mountpoint: one.fs_type.startswith(_REMOTE) and one.fs_type != _CONTROL for one in mounts}
    if not any(points.values()):
        return False
    magic = min((path.index(sign) for sign in "*?[" if sign in path), default=len(path))
    path = os.path.abspath(path if magic == len(path) else os.path.dirname(path[:magic]))
    if any(hangs and point.startswith(f"{path.rstrip('/')}/") for point, hangs in points.items()):
        return True
    left, at, links = path.split("/")[::-1], "/", 0
    while left:
        if points.get(at, False):
            return True
        step = left.pop()
        if step in ("", "."):
            continue
        at = os.path.dirname(at) if step == ".." else os.path.join(at, step)
        if points.get(at, False):
            return True
        try:
            to = os.readlink(at)
        except OSError:
            continue  # no link
        links += 1
        if links > _LINKS:
            return False  # it leads nowhere: whoever opens it says so
        left += to.split("/")[::-1]
        at = "/" if to.startswith("/") else os.path.dirname(at)
    return False


def fork_if_fs_may_hang(words: Sequence[str], targets: Sequence[str], environ: Mapping[str, str]) -> Leave | None:
    """Continues in a child if one of ``targets``, or another path among these words, may hang; the parent exits with the child's
    exit code. The returned function must be called before anything that may hang is closed. In all other cases there is no
    supervisor, and the result is None."""
    if not _PLAIN.isdisjoint(words) or (words and words[0] in _WITHOUT_A_PATH):
        return None
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read()
    except OSError:
        return None  # the mounts are unknown
    values = [word.rpartition("=")[2] for word in words if "/" in word and "://" not in word]
    if not any(may_hang(path, mounts) for path in (*targets, *values)) and not _may_hang_by_settings(words, mounts, environ):
        return None
    from spooltop.cli.parser import command_of

    command = command_of(words)[0]
    draws = environ.get("TERM", "") not in ("", "dumb") and all(os.isatty(fd) for fd in (0, 1, 2))
    is_dashboard = draws and command.name in ("", "demo")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by whoever called, it would take the exit code away
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    read, write = os.pipe()
    supervisor, child = os.getpid(), os.fork()
    if child:
        os.close(write)
        os._exit(_supervise(child, read, is_dashboard=is_dashboard))
    os.close(read)
    _end_with_parent(supervisor)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)

    def leave(code: int) -> None:
        os.write(write, bytes([code & 0xFF]))
        if os.getppid() == supervisor:
            os.kill(supervisor, signal.SIGUSR1)

    return leave


def _may_hang_by_settings(words: Sequence[str], mounts: str, environ: Mapping[str, str]) -> bool:
    """Returns whether one of the paths of the settings may hang, where ``words`` name none."""
    if len([word for word in words if not word.startswith("-")]) > 1 or not may_hang("/", mounts):
        return False
    from spooltop.errors import SpooltopError
    from spooltop.settings import load

    try:
        return any(may_hang(path, mounts) for path in load(environ).items("paths"))
    except SpooltopError:
        return False  # the command itself says what is wrong with them


def _supervise(child: int, leaving: int, *, is_dashboard: bool) -> int:
    """Forwards signals to ``child`` and stops when it stops, until it has ended or has reported that it leaves. Returns the exit
    code. A dashboard gets a moment to end; a command takes as long as it takes to end on Ctrl-C, and nothing is left to do once
    it leaves."""
    code, last, left = 128 + signal.SIGINT, None, False
    while True:
        info = signal.sigtimedwait(_HANDLED, _FOR_EVER if last is None else max(0.0, last - time.monotonic()))
        if info is None:
            if last is None:
                continue
            if not left:
                os.write(2, _RESTORE)  # it hangs since before it drew anything, or while it did
            return code
        if info.si_signo == signal.SIGCHLD:
            if (ended := _ended(child)) is not None:
                return ended
        elif info.si_signo == signal.SIGUSR1:
            if info.si_pid == child:
                code, left, last = os.read(leaving, 1)[0], True, time.monotonic() + _GRACE
                if not is_dashboard:
                    return code
        elif info.si_code <= 0:
            os.kill(child, info.si_signo)  # sent by a process: what the terminal sends, the child gets itself
        elif info.si_signo == signal.SIGINT and is_dashboard:
            last = last or time.monotonic() + _GRACE


def _ended(child: int) -> int | None:
    """Exit code of ``child``, None if it is still running. If the child was stopped, this process stops too, so that the shell
    sees it."""
    found, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
    if found and os.WIFSTOPPED(status):
        os.kill(os.getpid(), signal.SIGSTOP)
        if os.waitid(os.P_PID, child, os.WCONTINUED | os.WNOHANG) is None:
            os.kill(child, signal.SIGCONT)  # whoever continued us did not continue it
        return None
    if not found:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end_with_parent(parent: int) -> None:
    """Arranges for SIGHUP when the parent ends, as if the terminal were gone, prctl(2): no process would wait for this one."""
    from spooltop.engine.syscalls import end_with_parent

    if not end_with_parent(signal.SIGHUP, parent):
        sys.exit(128 + signal.SIGHUP)
