from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool, set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import Files
from spooltop.model.vocabulary import Box
from tests.engine.helpers import Interposed


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[SpoolDirs]:
    Spool.create(tmp_path, False).close()
    with SpoolDirs(tmp_path) as dirs:
        yield dirs


def test_missing_boxes_are_told_and_the_others_open(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "tmp").symlink_to("/")
    with SpoolDirs(tmp_path) as dirs:
        assert dirs.new is not None and dirs.missing == (Box.TMP, Box.CUR)
        with pytest.raises(FileNotFoundError):
            dirs.box(Box.CUR)


def test_looking_makes_nothing(dirs: SpoolDirs) -> None:
    assert dirs.private_dir() is None and dirs.private_dir("held", "x") is None and list(set_aside.entries(dirs, Box.HELD)) == []
    assert sorted(os.listdir(dirs.path)) == ["cur", "new", "tmp"]


def test_our_own_directory_is_made_once_with_its_format(dirs: SpoolDirs) -> None:
    fd = dirs.private_dir("a", "b", create=True)
    assert fd == dirs.private_dir("a", "b") and sorted(os.listdir(dirs.path)) == [".spooltop", "cur", "new", "tmp"]
    assert Path(dirs.path, ".spooltop/format").read_bytes() == b"2\n"
    assert sorted(os.listdir(Path(dirs.path, ".spooltop"))) == ["a", "format"]
    with SpoolDirs(dirs.path) as other:
        assert other.private_dir("a", "b") is not None


def test_two_that_make_it_at_once_get_the_same(dirs: SpoolDirs) -> None:
    def race(_number: int, name: str) -> None:
        if name == "rename_noreplace" and not os.path.exists(os.path.join(dirs.path, ".spooltop")):
            assert dirs.private_dir(create=True) is not None

    with SpoolDirs(dirs.path, Interposed(race)) as other:
        mine = other.private_dir(create=True)
        theirs = dirs.private_dir()
        assert mine is not None and theirs is not None and os.path.samestat(os.fstat(mine), os.fstat(theirs))
    assert sorted(os.listdir(dirs.path)) == [".spooltop", "cur", "new", "tmp"]


@pytest.mark.parametrize("name", ["..", ".", "", "a/b"])
def test_no_part_leads_out(dirs: SpoolDirs, name: str) -> None:
    with pytest.raises(ValueError, match="not the name"):
        dirs.private_dir(name, create=True)


def test_a_linked_directory_of_our_own_is_not_entered(dirs: SpoolDirs, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    Path(dirs.path, ".spooltop").symlink_to(outside)
    with pytest.raises(OSError):
        dirs.private_dir("held", create=True)
    assert os.listdir(outside) == []


def test_swapped_boxes_and_a_moved_spool_are_noticed(dirs: SpoolDirs, tmp_path: Path) -> None:
    assert dirs.swapped() == [] and not dirs.moved()
    os.rename(tmp_path / "cur", tmp_path / "old")
    assert dirs.swapped() == [Box.CUR]
    (tmp_path / "cur").symlink_to("old")
    assert dirs.swapped() == [Box.CUR]
    os.rename(tmp_path, tmp_path.with_name("elsewhere"))
    assert dirs.moved()


LONG = "x" * 255


@pytest.mark.parametrize("name", ["plain", "x.meta", "two\nlines", os.fsdecode(b"\xff"), LONG])
def test_a_message_goes_aside_with_what_is_known_of_it(dirs: SpoolDirs, name: str) -> None:
    known = {"origin": "cur", "reason": "r", "at": 1.5, "who": "me"}
    for message in (name, "other"):
        Path(dirs.path, "cur", message).write_bytes(os.fsencode(message))
        set_aside.set_aside(dirs, Box.HELD, "op-1", message, dirs.box(Box.CUR), known)
    entries = {entry.name: entry for entry in set_aside.entries(dirs, Box.HELD)}
    assert set(entries) == {name, "other"}
    assert set_aside.read_meta(dirs, entries[name]) == {**known, "name": name}
    set_aside.remove_meta(dirs, entries[name])
    set_aside.remove_meta(dirs, entries[name])
    assert set_aside.read_meta(dirs, entries[name]) == {} and set_aside.read_meta(dirs, entries["other"])["name"] == "other"


def test_a_lost_race_leaves_no_metadata(dirs: SpoolDirs) -> None:
    with pytest.raises(FileNotFoundError):
        set_aside.set_aside(dirs, Box.TRASH, "op", "gone", dirs.box(Box.NEW), {})
    assert os.listdir(Path(dirs.path, ".spooltop/trash/op")) == []


def test_what_is_aside_is_not_replaced(dirs: SpoolDirs) -> None:
    for content in (b"one", b"two"):
        Path(dirs.path, "new/same").write_bytes(content)
        if content == b"one":
            set_aside.set_aside(dirs, Box.TRASH, "op", "same", dirs.box(Box.NEW), {"at": 1})
    with pytest.raises(FileExistsError):
        set_aside.set_aside(dirs, Box.TRASH, "op", "same", dirs.box(Box.NEW), {"at": 2})
    assert Path(dirs.path, ".spooltop/trash/op/same").read_bytes() == b"one"
    assert Path(dirs.path, "new/same").read_bytes() == b"two"
    [entry] = set_aside.entries(dirs, Box.TRASH)
    assert set_aside.read_meta(dirs, entry)["at"] == 1


@pytest.mark.parametrize("renameat2", [True, False])
def test_moves_never_replace_and_lost_races_are_told(tmp_path: Path, renameat2: bool) -> None:
    files = Interposed(renameat2=renameat2)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(FileExistsError):
            files.move("a", fd, "b", fd)
        with pytest.raises(FileNotFoundError):
            files.move("c", fd, "d", fd)
        files.move("a", fd, "c", fd)
        files.move("b", fd, "d", fd, unique=True)
        assert sorted(os.listdir(tmp_path)) == ["c", "d"] and (tmp_path / "c").read_text() == "a"
    finally:
        os.close(fd)


def test_a_move_that_was_done_and_yet_failed_is_found_out(tmp_path: Path) -> None:
    class Lying(Files):
        def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
            super().rename_noreplace(name, dir_fd, to, to_fd)
            raise OSError(errno.ESTALE, "an answer was lost")

    (tmp_path / "a").touch()
    (tmp_path / "x").mkdir()
    fd, inside = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path / "x", os.O_RDONLY)
    try:
        inode = os.stat(tmp_path / "a").st_ino
        Lying().move("a", fd, "a", inside, inode=inode)
        assert os.listdir(inside) == ["a"]
        with pytest.raises(OSError, match="answer was lost"):
            Lying().move("a", inside, "a", fd)
    finally:
        os.close(fd)
        os.close(inside)


def test_a_put_that_was_done_and_yet_failed_is_found_out(tmp_path: Path) -> None:
    lies: list[bool] = []

    class Lying(Files):
        def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
            super().rename_noreplace(name, dir_fd, to, to_fd)
            if lies:
                raise OSError(errno.ESTALE, "an answer was lost")

    with Spool.create(tmp_path, False, files=Lying()) as spool:
        lies.append(True)
        spool.put(b"x")
        assert spool.depth() == 1 and os.listdir(tmp_path / "tmp") == []


def test_a_move_that_was_cut_off_between_link_and_unlink_is_finished(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.link(tmp_path / "a", tmp_path / "b")
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        Interposed(renameat2=False).move("a", fd, "b", fd)
        assert os.listdir(tmp_path) == ["b"]
    finally:
        os.close(fd)
