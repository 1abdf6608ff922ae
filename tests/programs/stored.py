"""Queues that other programs made, stored for tests that have none of them: ``python -m tests.programs.stored [NAME...]`` makes
them anew."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from ..scratch import extract
from .spools import MAKERS, Made, read_made

__all__ = ["STORED", "unpacked"]

STORED = Path(__file__).parent / "stored"
_LEFT_OUT = ("private", "public", "dev", "etc", "lib", "usr")


def unpacked(name: str, folder: Path) -> tuple[Path, Made]:
    """Unpacks the queue of that name; returns its directory and what is known of it."""
    with tarfile.open(STORED / f"{name}.tar.xz") as archive:
        extract(archive, folder)
    return folder / name, read_made(folder / f"{name}.json")


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if any(part in _LEFT_OUT for part in Path(info.name).parts[1:2]) or not (info.isfile() or info.isdir() or info.islnk()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _store(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder, name)
        made = MAKERS[name](spool)
        # By the time that a test reads them, leases have ended.
        made.locks = {lock: "free" if verdict == "held" else verdict for lock, verdict in made.locks.items()}
        made.write(Path(folder, f"{name}.json"))
        with tarfile.open(STORED / f"{name}.tar.xz", "w:xz") as archive:
            for one in (spool, spool.with_suffix(".json")):
                archive.add(one, one.name, filter=_plain)


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    for each in sys.argv[1:] or MAKERS:
        _store(each)
        print(each, (STORED / f"{each}.tar.xz").stat().st_size, "bytes")
