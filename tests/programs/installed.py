"""Other programs, installed into a cache of this user's own: never into the environment that the tests run in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

__all__ = ["JOB_QUEUE", "PACKAGES", "STREAM_PACKAGES", "job_queue_home", "python_with"]

PACKAGES = ("dirq==1.8", "huey==3.5.4", "kombu==5.7.0", "mailman==3.3.10")
STREAM_PACKAGES = ("faststream[redis]==0.7.8", "taskiq-redis==1.2.4")
JOB_QUEUE = "@platformatic/job-queue@0.5.0"


def _cache() -> Path:
    folder = Path(os.environ.get("SPOOLTOP_PROGRAMS") or Path(tempfile.gettempdir()) / f"spooltop-programs-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _made(name: str, *commands: list[str]) -> Path:
    """Runs the ``commands`` in the folder ``name`` of the cache, unless they ran there once. Only one process does."""
    folder = _cache() / name
    with FileLock(f"{folder}.lock"):
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for command in commands:
                subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            (folder / "made").touch()
    return folder


def python_with(*packages: str) -> Path:
    """Returns an interpreter that has these packages."""
    key = hashlib.sha1(" ".join(packages).encode(), usedforsecurity=False).hexdigest()[:10]
    venv = _made(
        f"python-{key}",
        [sys.executable, "-m", "venv", "."],
        ["bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
    )
    return venv / "bin" / "python"


def job_queue_home() -> Path:
    """Returns the folder that has job-queue among its node_modules."""
    (npm := shutil.which("npm")) or sys.exit("npm is missing: apt-get install npm")
    return _made("job-queue-0.5.0", [str(npm), "init", "--yes"], [str(npm), "install", "--silent", "--no-fund", JOB_QUEUE])
