"""What tests make and throw away, and what of it is still open."""

from __future__ import annotations

import gc
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["descriptors", "extract", "own_state", "scratch"]


def scratch() -> str | None:
    """Returns the directory for spools that are thrown away: in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def extract(archive: tarfile.TarFile, folder: Path | str, members: Iterable[tarfile.TarInfo] | None = None) -> None:
    """Extracts an archive of ours. ``filter`` came with Python 3.11.4, and from 3.12 on it is a warning not to name one."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, members, filter="data")
    else:
        archive.extractall(folder, members)


def own_state() -> dict[str, str]:
    """Settings that name nothing but the place of this user's own state, which root alone can do without."""
    return {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}


def descriptors() -> set[str]:
    """Returns the descriptors that this process has open, without those of garbage."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))
