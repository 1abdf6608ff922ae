"""The hook of the matrix: file operations that end the process or fail, in whatever object does them.

The methods of ``Files`` and ``LogFiles`` are wrapped in the classes, so that an engine, a Control and what lies below are reached
alike.
"""

from __future__ import annotations

import ast
import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

from spooltop.backends.log_store import LogFiles
from spooltop.errors import SpooltopError
from tests.engine.helpers import CHANGING, LOOKING, SYNCING

__all__ = ["CHANGES", "EVERY", "HITS", "LASTING", "Mode", "Site", "calls_of", "cut", "fail", "interposed", "sites_of_call"]

CHANGES = CHANGING | {"reserve"}
"""Operations that change a file or a name. A cut before one that only looks or syncs leaves what the cut before the next change
leaves."""
LASTING = CHANGES | SYNCING
"""Operations that a full disk may fail."""
EVERY = LASTING | LOOKING | {"read_at", "lock_coarse"}
"""Operations that end in a system call."""
RENAMEAT2 = frozenset({"rename_noreplace", "swap"})
CUT = 9
_HERE = os.path.dirname(__file__)

Site = tuple[str, int, int]
"""Call in the source: its file, and the line and column where it ends."""
HITS: dict[str, set[Site]] = {"cut": set(), "failed": set()}
"""Sites at which a process was ended, and sites whose call failed."""


class Mode(NamedTuple):
    """Behaviour of the calls in ``seen``: at one of them the process ends or, with ``error``, it fails.

    ``old``: no renameat2. ``staged``: as on an ext4 without a journal. ``lasting``: all later calls fail too. ``done``: the call
    was done and yet reports the error. ``parts``: a log begins a new part with each line. ``short``: a write takes half.
    """

    error: int | None = None
    seen: frozenset[str] = CHANGES
    old: bool = False
    staged: bool = False
    lasting: bool = False
    done: bool = False
    parts: bool = False
    short: bool = False

    def __str__(self) -> str:
        flags = (flag for flag in ("old", "staged", "lasting", "done", "parts", "short") if getattr(self, flag))
        return "-".join(["cut" if self.error is None else errno.errorcode[self.error], *flags])


@contextmanager
def interposed(mode: Mode, act: Callable[[int, str, Callable[[], Any]], Any]) -> Iterator[None]:
    """Calls ``act(number from 1, name, do)`` in place of each operation that ``mode`` sees; it returns what ``do`` returns."""
    number = 0

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal number
            if name == "reuses_inodes_late" and mode.staged:
                return True
            do = partial(real, *arguments, **options)
            if name in RENAMEAT2 and mode.old:
                do = partial(_fail, errno.EINVAL)
            if name == "write" and mode.short:
                do = partial(real, arguments[0], arguments[1][: (len(arguments[1]) + 1) // 2])
            if name not in mode.seen:
                return do()
            number += 1
            return act(number, name, do)

        return call

    replaced = [
        (owner, name, real) for owner in LogFiles.__mro__[:-1] for name, real in vars(owner).items()
        if name in mode.seen | RENAMEAT2 | {"write", "reuses_inodes_late"}
    ]  # fmt: skip
    limit = LogFiles.rotate_at
    for owner, name, real in replaced:
        static = isinstance(real, staticmethod)
        setattr(owner, name, staticmethod(wrapped(name, real.__func__)) if static else wrapped(name, real))
    try:
        LogFiles.rotate_at = 1 if mode.parts else limit
        yield
    finally:
        LogFiles.rotate_at = limit
        for owner, name, real in replaced:
            setattr(owner, name, real)


def _fail(code: int) -> None:
    raise OSError(code, os.strerror(code))


def sites_of_call() -> tuple[Site, ...]:
    """Returns the site of the call that is done and, where ``Files`` does it for an operation composed of several, that of this
    operation too."""
    frame: FrameType | None = sys._getframe(1)
    sites: list[Site] = []
    while frame is not None and not (sites and "/engine/files.py" not in sites[-1][0]):
        if not frame.f_code.co_filename.startswith(_HERE):
            _, line, _, column = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
            sites.append((frame.f_code.co_filename, line or 0, column or 0))
        frame = frame.f_back
    return tuple(sites)


def calls_of(run: Callable[[], object], mode: Mode) -> list[tuple[Site, ...]]:
    """Runs it whole, and returns the sites of each call."""
    sites = []

    def act(number: int, name: str, do: Callable[[], Any]) -> Any:
        sites.append(sites_of_call())
        return do()

    with interposed(mode, act):
        run()
    return sites


def cut(run: Callable[[], object], mode: Mode, at: int | str) -> bool:
    """Runs it in a child that ends instead of its call number ``at``, or its first call in the file that ends so; with
    ``mode.error`` that call fails, and the child ends instead of its next change. False if it came to its end."""
    reading, writing = os.pipe()
    failed = False

    def act(number: int, name: str, do: Callable[[], Any]) -> Any:
        nonlocal failed
        if failed and name not in CHANGES:
            return do()
        sites = sites_of_call()
        if not failed and (number < at if isinstance(at, int) else not any(file.endswith(at) for file, _, _ in sites)):
            return do()
        if mode.error is not None and not failed:
            failed = True
            return _failed(mode.error, name, do)
        os.write(writing, repr(sites).encode())
        os._exit(CUT)

    pid = os.fork()
    if pid == 0:
        try:
            with interposed(mode, act):
                run()
            os._exit(0)
        except SpooltopError:
            os._exit(0 if mode.error else 1)
        except BaseException:  # noqa: BLE001  # a child never runs on in pytest
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as pipe:
        ended_at = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, CUT), f"at call {at}: see the traceback"
    if code:
        HITS["cut"].update(ast.literal_eval(ended_at.decode()))
    return bool(code)


def fail(run: Callable[[], Sequence[str]], mode: Mode, at: int) -> tuple[Sequence[str], bool]:
    """Runs it so that call number ``at`` fails: what is told of it, and whether there was such a call. No descriptor stays
    open."""
    reached = False

    def act(number: int, name: str, do: Callable[[], Any]) -> Any:
        nonlocal reached
        if number < at or (number > at and not mode.lasting):
            return do()
        HITS["failed"].update(sites_of_call())
        reached = True
        return _failed(mode.error or errno.EIO, name, do, done=mode.done)

    gc.freeze()  # errors of an earlier run that are not collected yet keep their descriptors till this one is counted
    try:
        descriptors = os.listdir("/proc/self/fd")
        with interposed(mode, act):
            try:
                told = run()
            except SpooltopError as error:
                told = [str(error)]
        if len(os.listdir("/proc/self/fd")) != len(descriptors):
            gc.collect()  # an error and its frames refer to each other
        assert len(os.listdir("/proc/self/fd")) == len(descriptors), at
    finally:
        gc.unfreeze()
    return told, reached


def _failed(error: int, name: str, do: Callable[[], Any], *, done: bool = False) -> None:
    """Raises the error of a call. A ``close`` that fails has closed all the same, as close(2) says."""
    if done or name == "close":
        do()
    _fail(error)
