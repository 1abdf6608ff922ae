"""Places for what a sweep makes and throws away."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["Template", "scratch"]


def scratch() -> str | None:
    """Returns the directory for spools that are thrown away: in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Template:
    """Directory tree that is prepared once at ``path`` and laid out there again for each trial."""

    def __init__(self, path: Path) -> None:
        self.path, self._kept = path, path.with_name(f"{path.name}.template")

    def keep(self) -> None:
        """Takes the tree as it stands as the one to lay out."""
        shutil.copytree(self.path, self._kept, symlinks=True)

    def lay_out(self) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(self._kept, self.path, symlinks=True)
