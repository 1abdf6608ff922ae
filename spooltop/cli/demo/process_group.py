"""Processes that end with the process that started them, however it ends.

Three mechanisms work together: the kernel kills each child when its parent ends (prctl(2), PR_SET_PDEATHSIG); each child reads
end-of-file from the lifeline when the demo ends; and the demo reads end-of-file from the reports when the last child has ended.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable

from msgspec import Struct

from spooltop.engine.system.syscalls import end_with_parent, overwrite_memory, set_process_name

_KILLED_AFTER = 3.0


class Child(Struct, frozen=True):
    """Descriptors of the two pipes, which every process of the demo holds."""

    lifeline: int
    reports: int

    def wait(self, seconds: float) -> bool:
        """Waits; False, at once, when the demo is over."""
        return not _readable(self.lifeline, seconds)

    def report(self) -> None:
        """Reports one more dead claim to the demo."""
        try:
            os.write(self.reports, b"d")
        except OSError:
            return  # the demo is over: nobody counts any more


Act = Callable[[Child], None]
"""Work of a process of the demo, until the demo is over."""


class ProcessGroup:
    """The first child, which starts all others, as the demo sees it: forked at once to run ``act`` under the name ``title``, so
    before any thread is started. Tracebacks of children are appended to the file ``errors``."""

    def __init__(self, title: str, act: Act, *, errors: str) -> None:
        their_end, self._lifeline = os.pipe()
        self._reports, written = os.pipe()
        os.set_blocking(written, False)
        self._deaths = 0

        def first() -> None:
            os.close(self._lifeline)
            os.close(self._reports)
            os.setsid()  # neither Ctrl-C nor a stopped terminal is meant for them
            _own_streams(errors)
            act(Child(their_end, written))

        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = fork(title, first)
        os.close(their_end)
        os.close(written)

    def end(self) -> int:
        """Ends all children and waits until the last is gone. Returns the number of dead claims that occurred."""
        os.close(self._lifeline)
        if not self._gone():
            os.kill(self._pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
            self._gone()
        os.waitpid(self._pid, 0)
        os.close(self._reports)
        return self._deaths

    def _gone(self) -> bool:
        """Reads the reports until no writer is left. False if that takes too long."""
        end = time.monotonic() + _KILLED_AFTER
        while _readable(self._reports, end - time.monotonic()):
            if not (part := os.read(self._reports, 4096)):
                return True
            self._deaths += len(part)
        return False


def _readable(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], max(0.0, seconds))[0])


def fork(title: str, act: Callable[[], None]) -> int:
    """Forks a child that runs ``act`` under the name ``title`` and ends; it is killed when this process ends. Returns its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if end_with_parent(signal.SIGKILL, parent):
            _call_it(title)
            act()
            code = 0
    except BaseException:  # noqa: BLE001  nothing may go on into the code of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _own_streams(errors: str) -> None:
    """Takes the terminal away from this process: what it writes to stderr is appended to the file ``errors``."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for fd, stream in ((null, 0), (null, 1), (log, 2)):
        os.dup2(fd, stream)
    os.close(null)
    os.close(log)
    sys.stdout = sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115  lasts


def _call_it(title: str) -> None:
    """Sets the process name that ``ps`` and the dashboard show: proc(5) ``comm``, and ``cmdline`` in place of the original
    arguments."""
    sys.orig_argv[:] = title.split()
    set_process_name(os.fsencode(title.split()[0]))
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return  # then it goes by the name of the demo
    if 0 < start < end:
        words = os.fsencode(title).replace(b" ", b"\0")[: end - start - 1]
        overwrite_memory(start, words.ljust(end - start, b"\0"))
