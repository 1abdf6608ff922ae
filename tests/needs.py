"""What a test needs beside Python and its packages: root, or a program. Where that is missing the test is skipped, and the
summary of the run counts what was missing.

``needs("root")`` also puts the mark ``root`` on a test, so that ``-m root`` runs exactly what an ordinary user could not."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable

import pytest

__all__ = ["is_root_missing", "missing_things", "need", "needs", "path_of", "summary"]

PACKAGES = {
    "fish": "fish", "flock": "util-linux", "gcc": "gcc", "losetup": "mount", "lslocks": "util-linux", "mkfs.ext4": "e2fsprogs",
    "mount": "mount",
    "nsenter": "util-linux", "redis-server": "redis-server", "setpriv": "util-linux", "spin": "spin", "strace": "strace",
    "tmux": "tmux", "unshare": "util-linux", "zsh": "zsh",
}  # fmt: skip
"""Debian's packages by the programs that tests use."""
_REASON = "needs "


def path_of(program: str) -> str | None:
    """Finds a program, also one of the directories that an ordinary user's PATH leaves out."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def needs(*things: str) -> pytest.MarkDecorator:
    """Mark of a test that is skipped where one of ``things`` is missing: "root", or a program."""
    return pytest.mark.needs(*things)


def need(*things: str) -> None:
    """Skips the test that calls it where one of ``things`` is missing."""
    for thing in things:
        if os.geteuid() != 0 if thing == "root" else path_of(thing) is None:
            pytest.skip(_REASON + thing)


def missing_things(reasons: Iterable[str]) -> Counter[str]:
    """Counts the skipped tests by what they needed, from the reasons of their skips."""
    found = (re.match(rf"(?:Skipped: )?{_REASON}(.*)", reason) for reason in reasons)
    return Counter(match[1] if match is not None else "see above" for match in found)


def is_root_missing(reason: str) -> bool:
    return "root" in missing_things([reason])


def summary(reasons: Iterable[str]) -> str:
    """One line that names what was missing, and the packages that have it; "" where nothing was.

    >>> summary(["Skipped: needs root", "Skipped: needs tmux", "Skipped: needs root"])
    'skipped for want of: root 2, tmux 1 (apt-get install tmux)'
    """
    counts = missing_things(reasons)
    if not counts:
        return ""
    packages = sorted({PACKAGES[thing] for thing in counts if thing in PACKAGES})
    words = ", ".join(f"{thing} {count:,}" for thing, count in counts.most_common())
    return f"skipped for want of: {words}" + (f" (apt-get install {' '.join(packages)})" if packages else "")
