"""The version of spooltop, and those of what it stands on, for bug reports and for whoever compares two machines.

The names of the directories of installed packages tell their versions. ``importlib.metadata`` reads the same names, but takes
48 ms to load, more than everything else that ``spooltop --version`` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from spooltop import __version__
from spooltop.patterns import pattern

__all__ = ["installed", "missing", "versions"]

_NEEDED = ("textual", "watchfiles", "psutil", "filelock")
_EXTRAS = {"redis": "redis", "prometheus_client": "metrics"}
"""Packages that only an extra of spooltop needs, with the extra."""
_PACKAGE = pattern(r"([A-Za-z0-9_.]+?)-([0-9][^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info")


def versions() -> Iterator[str]:
    """Yields lines: first ``spooltop VERSION``, which scripts read, then one for each thing below it."""
    yield f"spooltop {__version__}"
    yield f"python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    found = installed((*_NEEDED, *_EXTRAS), sys.path)
    yield from (f"{name} {found.get(name, 'not found')}" for name in _NEEDED)
    yield from (f"{name} {found.get(name) or missing(extra)}" for name, extra in _EXTRAS.items())
    system = os.uname()
    yield f"{system.sysname} {system.release} {system.machine}: {', '.join(_calls())}"


def missing(extra: str) -> str:
    return f"not installed: pip install '.[{extra}]' in the checkout"


def installed(names: Sequence[str], folders: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages ``names`` in ``folders``, of each the first one, as Python would import it."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue  # a zip file, or a folder that is not there, which sys.path may well name
        for entry in entries:
            match = _PACKAGE.fullmatch(entry)
            name = match[1].lower().replace(".", "_") if match else ""
            if match and name in names:
                found.setdefault(name, match[2])
    return found


def _calls() -> Iterator[str]:
    """Says which of the system calls are there on which a guarantee rests."""
    import fcntl

    from spooltop.engine.system.syscalls import HAS_INOTIFY, HAS_RENAMEAT2

    ofd_locks = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
    for name, there in (("renameat2", HAS_RENAMEAT2), ("OFD locks", ofd_locks), ("inotify", HAS_INOTIFY)):
        yield f"{name} yes" if there else f"{name} NO"
