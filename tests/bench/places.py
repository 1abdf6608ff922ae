"""Where something is measured, in words that tell nothing of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from spooltop.engine.machine import file_system

__all__ = ["kind"]


def kind(path: str | Path) -> str:
    """The type of the file system that ``path`` is on."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return file_system(fd)
    finally:
        os.close(fd)
