"""Runs Python as on a Unix that is not Linux: ``python -m tests.e2e.elsewhere -m MODULE ARGS`` or ``-c CODE ARGS``.

The names that only Linux has are taken out of ``os``, ``time``, ``signal``, ``select``, ``fcntl`` and the C library. ``/proc`` is
missing for everyone but psutil, which reads other sources on other systems.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import runpy
import select
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

LINUX_ONLY: dict[ModuleType, tuple[str, ...]] = {
    os: (
        "O_PATH", "O_TMPFILE", "P_PIDFD", "copy_file_range", "eventfd", "eventfd_read", "eventfd_write", "fdatasync", "getxattr",
        "listxattr", "memfd_create", "pidfd_open", "pipe2", "posix_fallocate", "removexattr", "sched_getaffinity",
        "sched_setaffinity", "setxattr", "splice", *(name for name in dir(os) if name.startswith("EFD_")),
    ),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "CLOCK_MONOTONIC_COARSE", "CLOCK_REALTIME_COARSE"),
    signal: ("sigtimedwait", "sigwaitinfo"),
    select: ("epoll", *(name for name in dir(select) if name.startswith("EPOLL"))),
    fcntl: tuple(name for name in dir(fcntl) if name.startswith("F_OFD_")),
}  # fmt: skip
IN_THE_C_LIBRARY = frozenset((
    "fallocate", "fanotify_init", "fanotify_mark", "inotify_add_watch", "inotify_init", "inotify_init1",
    "name_to_handle_at", "prctl", "renameat2", "syncfs",
))  # fmt: skip


class _Library(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if name in IN_THE_C_LIBRARY:
            raise AttributeError(f"{name}: not in this C library")
        return super().__getattr__(name)


def hide() -> None:
    """Hides all of it from what is imported and called from now on in this process."""
    for module, names in LINUX_ONLY.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    ctypes.CDLL = _Library  # type: ignore[misc]
    sys.addaudithook(_refuse_proc)
    for name in ("stat", "lstat", "readlink", "access"):
        setattr(os, name, _refusing(getattr(os, name)))


def _refuse_proc(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        _check(arguments[0])


def _refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    def refusing(path: Any, *arguments: Any, **options: Any) -> Any:
        _check(path)
        return call(path, *arguments, **options)

    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if call in known:
            known.add(refusing)
    return refusing


def _check(path: Any) -> None:
    text = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
    if text == "/proc" or text.startswith("/proc/"):
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] == "psutil":
                return
            frame = frame.f_back  # type: ignore[assignment]
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


if __name__ == "__main__":
    hide()
    how, what, *words = sys.argv[1:]
    sys.argv = [what, *words]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<code>", "exec"), {"__name__": "__main__"})
