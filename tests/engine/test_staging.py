"""Drafts in staging directories: where they are made, and that a put keeps its promises whatever becomes of the directories."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.engine.system.files import Files
from spooltop.errors import SpooltopError
from tests.engine.helpers import CHANGING, Interposed, failing_at, in_child, killed_at, places
from tests.scratch import Template

FIRST = 32
"""Drafts that a process makes in ``tmp`` before it takes a staging directory."""
EACH = 256
DATA = b"whole " * 1000


class Recording(Files):
    """Records the directory in which each file is created, relative to the spool. ``reuses_inodes_late`` as if on an ext4 without
    a journal."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = os.path.realpath(root)
        self.folders: list[str] = []

    def reuses_inodes_late(self, fd: int) -> bool:
        return True

    def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
        fd = super().create(name, dir_fd, mode)
        self.folders.append(os.path.relpath(os.readlink(f"/proc/self/fd/{dir_fd}"), self.root))
        return fd


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def files(root: Path) -> Recording:
    return Recording(root)


@pytest.fixture
def spool(root: Path, files: Recording) -> Iterator[Spool]:
    with Spool.create(root, durable=False, files=files) as spool:
        yield spool


def drained(spool: Spool) -> list[bytes]:
    found = []
    for held in spool.claims():
        found.append(held.data)
        held.ack()
    return found


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
    spool.put(DATA, **options)  # type: ignore[call-overload]
    assert files.folders and not any(map(in_stage, files.folders))


@pytest.mark.parametrize("mode", [0o700, 0o2770, 0o1777, 0o755])
def test_they_have_the_mode_of_new(root: Path, files: Recording, mode: int) -> None:
    Spool.create(root).close()
    for box in ("cur", "new"):
        (root / box).chmod(mode)
    with Spool(root, durable=False, files=files) as spool:
        spool.put_many([b""] * (FIRST + 1))
    stage = root / ".spooltop" / "stage"
    assert {stat.S_IMODE(found.stat().st_mode) for found in (stage, *stage.iterdir())} == {mode}


def test_a_large_group_keeps_few_directories_open(spool: Spool) -> None:
    most = 0

    def messages() -> Iterator[bytes]:
        nonlocal most
        for _ in range(50 * EACH):
            most = max(most, len(os.listdir("/proc/self/fd")))
            yield b""

    before = len(os.listdir("/proc/self/fd"))
    assert len(spool.put_many(messages())) == spool.depth() == 50 * EACH
    assert before + 20 < most < before + 40
    spool.put(b"")
    assert len(os.listdir("/proc/self/fd")) <= before + 5


# Where a staging directory cannot be had


def a_file(stage: Path) -> None:
    stage.parent.mkdir()
    stage.write_bytes(b"not a directory")


def a_link(stage: Path) -> None:
    stage.parent.mkdir()
    stage.symlink_to(stage.parents[2] / "precious")


def links_below(stage: Path) -> None:
    stage.mkdir(parents=True)
    for number in range(256):
        (stage / f"{number:02x}").symlink_to(stage.parents[2] / "precious")


def newer_format(stage: Path) -> None:
    stage.parent.mkdir()
    (stage.parent / "format").write_text("99\n")


@pytest.mark.parametrize("prepare", [a_file, a_link, links_below, newer_format])
def test_the_draft_is_made_in_tmp(root: Path, files: Recording, prepare: Callable[[Path], None]) -> None:
    """Whoever may write ``.spooltop`` could lead the drafts of a producer that runs as root out of the spool."""
    precious = root.parent / "precious"
    precious.mkdir()
    with Spool.create(root, durable=False, files=files) as spool:
        prepare(root / ".spooltop" / "stage")
        for _ in range(3 * FIRST):
            spool.put(b"x")
        assert spool.depth() == 3 * FIRST
    assert set(files.folders) == {"tmp"}
    assert list(precious.iterdir()) == []


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), FileNotFoundError(errno.ENOENT, "gone")])
def test_the_draft_goes_to_tmp_where_the_directory_cannot_be_written_any_more(root: Path, error: OSError) -> None:
    class Closed(Recording):
        def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
            if in_stage(os.path.relpath(os.readlink(f"/proc/self/fd/{dir_fd}"), self.root)):
                raise error
            return super().create(name, dir_fd, mode)

    with Spool.create(root, durable=False, files=Closed(root)) as spool:
        for _ in range(3 * FIRST):
            spool.put(b"x")
        spool.put_many([b"x"] * FIRST)
        assert spool.depth() == 4 * FIRST


def test_a_directory_that_is_removed_is_made_again(spool: Spool, root: Path, files: Recording) -> None:
    spool.put_many([b""] * (FIRST + 1))
    [folder] = (root / ".spooltop" / "stage").iterdir()
    folder.rmdir()
    del files.folders[:]
    for _ in range(FIRST + 2):
        spool.put(b"")
    assert files.folders[: FIRST + 1] == ["tmp"] * (FIRST + 1) and in_stage(files.folders[-1])


# Cut off, and failing


def put(spool: Spool) -> None:
    spool.put(DATA, source="s")


def put_many(spool: Spool) -> None:
    spool.put_many([DATA] * 3)


def take_first_ones(spool: Spool, files: Interposed) -> None:
    """Puts as many messages as go through ``tmp``, and takes them."""
    files.armed = False
    spool.put_many([b""] * FIRST)
    assert drained(spool) == [b""] * FIRST
    files.armed = True


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("operation", [put, put_many])
def test_killed_at_every_change(memory: Path, operation: Callable[[Spool], None], durable: bool) -> None:
    made = Template(memory / "spool")
    Spool.create(made.path, False).close()
    made.keep()
    staged = 0
    for k in range(1, 500):
        made.lay_out()

        def work(k: int = k) -> None:
            files = killed_at(k, of=CHANGING, staging=True)
            spool = Spool(made.path, durable, files=files)
            take_first_ones(spool, files)
            operation(spool)
            os._exit(0)

        finished = in_child(work) == 0
        left = [names for names in places(made.path).values() if not names[0].startswith("new/")]
        assert all(len(names) == 1 and names[0].startswith(".spooltop/stage/") for names in left), (k, left)
        staged += bool(left)
        with Spool(made.path, False) as spool:
            got = drained(spool)
            assert set(got) <= {DATA} and len(got) <= (3 if operation is put_many else 1), k
            if finished:
                assert len(got) == (3 if operation is put_many else 1) and not left, k
                break
    assert staged > 1 and k > 8


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("operation", [put, put_many])
def test_an_error_at_every_call(memory: Path, operation: Callable[[Spool], None], code: int, done: bool) -> None:
    made = Template(memory / "spool")
    Spool.create(made.path, False).close()
    made.keep()
    expected = 3 if operation is put_many else 1
    for k in range(1, 500):
        made.lay_out()
        files = failing_at(k, code, done=done, staging=True)
        files.armed = False
        spool = Spool(made.path, files=files)
        take_first_ones(spool, files)
        confirmed = True
        try:
            operation(spool)
        except (OSError, SpooltopError):
            confirmed = False
        files.armed = False
        spool.close()
        with Spool(made.path, False) as spool:
            got = drained(spool)
        assert set(got) <= {DATA} and len(got) <= expected, (k, files.calls)
        if confirmed:
            assert len(got) == expected, (k, files.calls)
        if len(files.calls) < k:
            assert confirmed
            return
    raise AssertionError("it never passes")


# The file system
