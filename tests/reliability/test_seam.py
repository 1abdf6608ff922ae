"""The tables of file operations name every one, and say truly which of them change anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.log_store import LogFiles
from tests.engine.helpers import COMPOSED
from tests.matrix.cuts import CHANGES, EVERY

from .seam import Tripwire

DO: dict[str, Callable[[LogFiles, int, int], object]] = {
    "create": lambda files, at, fd: os.close(files.create("new", at)),
    "open_lasting": lambda files, at, fd: os.close(files.open_lasting("log", at)),
    "write": lambda files, at, fd: files.write(fd, b"written"),
    "pwrite": lambda files, at, fd: files.pwrite(fd, b"written", 2),
    "truncate": lambda files, at, fd: files.truncate(fd, 1),
    "reserve": lambda files, at, fd: files.reserve(fd, 0, 1 << 20),
    "copy_owner": lambda files, at, fd: files.copy_owner(fd, os.stat("b", dir_fd=at)),
    "rename": lambda files, at, fd: files.rename("a", at, "c", at),
    "rename_noreplace": lambda files, at, fd: files.rename_noreplace("a", at, "c", at),
    "swap": lambda files, at, fd: files.swap("a", at, "b", at),
    "keep_times": lambda files, at, fd: files.keep_times("a", at, os.stat("d", dir_fd=at)),
    "set_mtime": lambda files, at, fd: files.set_mtime(fd, 1e9),
    "reopen": lambda files, at, fd: os.close(files.reopen("a", at)),
    "replace": lambda files, at, fd: files.replace("a", "b", at),
    "link": lambda files, at, fd: files.link("a", at, "c", at),
    "symlink": lambda files, at, fd: files.symlink("a", "c", at),
    "touch": lambda files, at, fd: files.touch("a", at),
    "poke": lambda files, at, fd: files.poke("p", at),
    "unlink": lambda files, at, fd: files.unlink("a", at),
    "mkdir": lambda files, at, fd: files.mkdir("e", at),
    "rmdir": lambda files, at, fd: files.rmdir("d", at),
    "sync": lambda files, at, fd: files.sync(fd),
    "sync_dir": lambda files, at, fd: files.sync_dir(at),
    "sync_fs": lambda files, at, fd: files.sync_fs(fd),
    "open_dir": lambda files, at, fd: os.close(files.open_dir("d", at)),
    "open_read": lambda files, at, fd: os.close(files.open_read("a", at)),
    "close": lambda files, at, fd: files.close(os.dup(fd)),
    "lock": lambda files, at, fd: files.lock(fd),
    "lock_write": lambda files, at, fd: files.lock_write(fd),
    "write_locked": lambda files, at, fd: files.write_locked(fd),
    "lock_coarse": lambda files, at, fd: files.lock_coarse(fd),
    "read": lambda files, at, fd: files.read(fd),
    "read_at": lambda files, at, fd: files.read_at(fd, 3, 1),
    "content": lambda files, at, fd: files.content(fd),
    "stat": lambda files, at, fd: files.stat("a", at),
    "fstat": lambda files, at, fd: files.fstat(fd),
    "is_linked": lambda files, at, fd: files.is_linked(fd),
    "list": lambda files, at, fd: files.list(at),
    "scan": lambda files, at, fd: list(files.scan(at)),
    "inodes": lambda files, at, fd: list(files.inodes(at)),
    "regular": lambda files, at, fd: list(files.regular(at)),
}  # fmt: skip
"""Each operation, in a directory with the files ``a``, ``b``, the FIFO ``p`` and the empty directory ``d``; ``fd`` is ``a``."""


def state(path: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for one in path.iterdir():
        at = one.lstat()
        content = one.read_bytes() if one.is_file() else None
        found[one.name] = (at.st_ino, at.st_mode, at.st_size, at.st_nlink, at.st_blocks, at.st_mtime_ns, content)
    return found


def test_every_operation_is_in_the_tables() -> None:
    """A new operation is cut at, and fails, only once it is named there."""
    there = {name for kind in LogFiles.__mro__ for name, one in vars(kind).items() if callable(one) and not name.startswith("_")}
    assert there == EVERY | COMPOSED
    assert set(DO) == EVERY


@pytest.mark.parametrize("name", sorted(DO))
def test_what_changes_anything_is_counted_as_a_change_and_nothing_else(tmp_path: Path, name: str) -> None:
    for letter in "ab":
        (tmp_path / letter).write_text(f"content of {letter}")
    (tmp_path / "b").chmod(0o640)
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "p")
    listening = os.open(tmp_path / "p", os.O_RDONLY | os.O_NONBLOCK)
    at, fd = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "a", os.O_RDWR)
    try:
        before = state(tmp_path)
        files = Tripwire(0, lambda: None, seen=CHANGES)
        files.armed = True
        DO[name](files, at, fd)
        assert (state(tmp_path) != before) == (name in CHANGES) == (files.count == 1)
    finally:
        for one in (at, fd, listening):
            os.close(one)
