"""File operations of which one, by its number, does something else first."""

from __future__ import annotations

import errno

from spooltop.backends.journal.log_files import LogFiles
from tests.matrix.cuts import EVERY


class Tripwire(LogFiles):
    """Does ``act`` before the file operation number ``at`` (from 1, counted while armed, of those in ``seen``); ``old`` has no
    renameat2. A ``close`` that fails has closed all the same, as close(2) says."""

    def __init__(self, at, act, *, old=False, seen=EVERY):
        super().__init__()
        self.at, self.act, self.old, self.seen = at, act, old, seen
        self.count = 0
        self.armed = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in EVERY or name not in self.seen:
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
