"""Drafts in staging directories: where they are made, and that a put keeps its promises whatever becomes of the directories."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.engine.helpers import Files

FIRST = 32
"""Drafts that a process makes in ``tmp`` before it takes a staging directory."""
EACH = 256


class Recording(Files):
    """Records the directory in which each file is created, relative to the spool; with ``error`` none can be in a staging
    directory. ``reuses_inodes_late`` as if on an ext4 without a journal."""

    def __init__(self, root: Path, error: int = 0) -> None:
        super().__init__()
        self.root, self.error = os.path.realpath(root), error
        self.folders: list[str] = []

    def reuses_inodes_late(self, fd: int) -> bool:
        return True

    def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
        folder = os.path.relpath(os.readlink(f"/proc/self/fd/{dir_fd}"), self.root)
        if self.error and in_stage(folder):
            raise OSError(self.error, os.strerror(self.error))
        self.folders.append(folder)
        return super().create(name, dir_fd, mode)


@pytest.fixture
def files(memory: Path) -> Recording:
    return Recording(memory)


@pytest.fixture
def spool(memory: Path, files: Recording) -> Iterator[Spool]:
    with Spool.create(memory, durable=False, files=files) as spool:
        yield spool


def in_stage(folder: str) -> bool:
    return os.path.dirname(folder) == ".spooltop/stage"


def test_a_busy_producer_takes_one_directory_after_the_other(spool: Spool, files: Recording) -> None:
    for _ in range(FIRST + 2 * EACH + 1):
        spool.put(b"x")
    drafts = [folder for folder in files.folders if folder == "tmp" or in_stage(folder)]
    assert drafts[:FIRST] == ["tmp"] * FIRST
    first, second, third = (drafts[FIRST + turn * EACH] for turn in range(3))
    assert drafts[FIRST:] == [first] * EACH + [second] * EACH + [third]
    assert all(map(in_stage, (first, second, third))) and len({first, second, third}) == 3
    assert spool.depth() == FIRST + 2 * EACH + 1


def test_elsewhere_nothing_of_the_kind_is_made(memory: Path) -> None:
    with Spool.create(memory / "spool", durable=False) as spool:
        spool.put_many([b""] * 2 * EACH)
        assert spool.depth() == 2 * EACH
    assert sorted(os.listdir(memory / "spool")) == ["cur", "new", "tmp"]


@pytest.mark.parametrize("options", [{"key": "k"}, {"id": "i"}])
def test_what_a_retry_has_to_find_is_in_tmp(spool: Spool, files: Recording, options: dict[str, str]) -> None:
    spool.put_many([b""] * (FIRST + 1))
    del files.folders[:]
    spool.put(b"", **options)  # type: ignore[call-overload]
    assert files.folders and not any(map(in_stage, files.folders))


def test_a_large_group_keeps_few_directories_open(spool: Spool) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 45, before[1]))
    try:
        assert len(spool.put_many([b""] * 60 * EACH)) == spool.depth() == 60 * EACH
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# Where a staging directory cannot be had


def links_below(stage: Path) -> None:
    stage.mkdir()
    for number in range(256):
        (stage / f"{number:02x}").symlink_to(stage.parents[1] / "precious")


@pytest.mark.parametrize(
    "prepare",
    [
        lambda stage: stage.write_bytes(b"not a directory"), lambda stage: stage.symlink_to(stage.parents[1] / "precious"),
        links_below, lambda stage: (stage.parent / "format").write_text("99\n"),
    ],
    ids=["a file", "a link", "links below", "a newer format"],
)  # fmt: skip
def test_the_draft_is_made_in_tmp(spool: Spool, memory: Path, files: Recording, prepare: Callable[[Path], object]) -> None:
    """Whoever may write ``.spooltop`` could lead the drafts of a producer that runs as root out of the spool."""
    for path in (memory / "precious", memory / ".spooltop"):
        path.mkdir()
    prepare(memory / ".spooltop/stage")
    for _ in range(3 * FIRST):
        spool.put(b"x")
    assert spool.depth() == 3 * FIRST and set(files.folders) == {"tmp"} and os.listdir(memory / "precious") == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOENT])
def test_the_draft_goes_to_tmp_where_the_directory_cannot_be_written_any_more(memory: Path, code: int) -> None:
    with Spool.create(memory, durable=False, files=Recording(memory, code)) as spool:
        for _ in range(3 * FIRST):
            spool.put(b"x")
        spool.put_many([b"x"] * FIRST)
        assert spool.depth() == 4 * FIRST
