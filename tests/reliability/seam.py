"""All file operations of the engine and of an operator behind one function, which may do something else instead."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from spooltop.backends.log_store import LogFiles
from tests.matrix.cuts import EVERY

__all__ = ["CALLS", "OPENING", "Around", "Seam", "Tripwire"]

CALLS = EVERY
"""Operations that end in a system call; ``move`` and ``write_all`` are made of these."""
OPENING = frozenset({"open_dir", "create", "open_read", "open_lasting"})
"""Operations that return a descriptor."""

Around = Callable[[int, str, Callable[..., Any], tuple[Any, ...]], Any]


class Seam(LogFiles):
    """File operations that a test intercepts. While ``armed``, each operation is ``around(number from 1, its name, the callable
    that does it, its arguments)``, which returns its result. ``old``: without renameat2. ``calls`` are the names of the
    operations done."""

    def __init__(self, around: Around | None = None, *, old: bool = False) -> None:
        super().__init__()
        self.around, self.old = around, old
        self.armed = False
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if name not in CALLS or not super().__getattribute__("armed"):
            return real

        def recorded(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            done = (lambda *changed: real(*changed, **options)) if options else real
            return done(*arguments) if self.around is None else self.around(len(self.calls), name, done, arguments)

        return recorded

    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if self.old:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super().rename_noreplace(name, dir_fd, to, to_fd)


class Tripwire(LogFiles):
    """Does ``act`` before the file operation number ``at`` (from 1, counted while armed, of those in ``seen``); ``old`` has no
    renameat2. A ``close`` that fails has closed all the same, as close(2) says."""

    def __init__(self, at: int, act: Callable[[], object], *, old: bool = False, seen: frozenset[str] = CALLS) -> None:
        super().__init__()
        self.at, self.act, self.old, self.seen = at, act, old, seen
        self.count = 0
        self.armed = False

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if name not in CALLS or name not in self.seen:
            return real

        def counted(*arguments: Any, **options: Any) -> Any:
            if self.armed:
                self.count += 1
                if self.count == self.at:
                    if name == "close":
                        real(*arguments, **options)
                    self.act()
            if name == "rename_noreplace" and self.old:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(*arguments, **options)

        return counted
