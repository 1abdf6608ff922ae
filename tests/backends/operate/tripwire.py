"""File operations of which one, by its number, does something else first: end the process, fail."""

from __future__ import annotations

import errno
import os
import signal

from spooltop.backends.journal.log_files import LogFiles
from spooltop.errors import SpooltopError
from spooltop.model.operations.plan import Outcome
from tests.engine.helpers import CHANGING, LOOKING, SYNCING

CHANGES = CHANGING | {"reserve"}
"""Operations that change a file or a name."""
LASTING = CHANGES | SYNCING
"""Operations that change the state of the disk after a power cut."""
SEEN = LASTING | LOOKING | {"read_at", "lock_coarse"}
"""Every operation that ends in a system call."""


class Tripwire(LogFiles):
    """Does ``act`` before the file operation number ``at`` (from 1, counted while armed, of those in ``seen``); ``old`` has no
    renameat2. A ``close`` that fails has closed all the same, as close(2) says."""

    def __init__(self, at, act, *, old=False, seen=SEEN):
        super().__init__()
        self.at, self.act, self.old, self.seen = at, act, old, seen
        self.count = 0
        self.armed = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in SEEN or name not in self.seen:
            return found

        def counted(*args, **more):
            if self.armed:
                self.count += 1
                if self.count == self.at:
                    if name == "close":
                        found(*args, **more)
                    self.act()
            if name == "rename_noreplace" and self.old:
                raise OSError(errno.EINVAL, "Invalid argument")
            return found(*args, **more)

        return counted


def killed(at, run, *, old, seen=CHANGES):
    """``run(files)`` in a child that is killed before its call number ``at`` of those in ``seen``; True where there
    was none and it came to its end.

    A kill before a call that only looks or syncs leaves the same files as the kill before the next change: those are left out.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run(Tripwire(at, lambda: os.kill(os.getpid(), signal.SIGKILL), old=old, seen=seen))
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def failed(at, code, run):
    """``run(files, say)``, of which the call number ``at`` fails: what was told of that, and whether there was no such call. No
    descriptor stays open. A full disk fails only what writes."""

    def fail():
        raise OSError(code, os.strerror(code))

    files = Tripwire(at, fail, seen=LASTING if code == errno.ENOSPC else SEEN)
    reported = []
    descriptors = len(os.listdir("/proc/self/fd"))
    over = False
    try:
        result = run(files, reported.append)
        notes = [note for note in result.notes if " of those done: " not in note]  # no trouble: what else came of them
        reported += [one.reason for one in result.items if one.outcome is not Outcome.DONE] + notes
        over = files.count < at
        assert not over or (result.count(Outcome.DONE) == len(result.items) and not notes)
    except SpooltopError as error:
        reported.append(str(error))
        assert files.count >= at, error
    assert len(os.listdir("/proc/self/fd")) == descriptors, at
    return reported, over
