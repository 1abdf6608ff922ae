"""The directory of a demo, and the removal of those left by killed demos."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from spooltop.cli.demo import demo_dir
from spooltop.engine import Spool
from spooltop.errors import NotASpool, Refused
from tests.needs import needs


@pytest.fixture
def left_behind(tmp_path: Path) -> Path:
    """Makes what a killed demo leaves: its lock is free, its spool has messages."""
    ground = demo_dir.make(str(tmp_path))
    os.close(ground.lock)
    with Spool(ground.spool, durable=False) as spool:
        spool.put(b"x")
    assert ground.base is not None
    return Path(ground.base)


def test_a_demo_removes_all_of_its_directory_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    ground = demo_dir.make(str(tmp_path))
    with Spool(ground.spool, durable=False) as spool:
        spool.put(b"x")
    outside = tmp_path / "mine" / "letter"
    outside.write_text("keep")
    os.symlink(tmp_path / "mine", Path(ground.spool, "link"))
    os.symlink(tmp_path / "mine", Path(ground.base or "", "link"))
    assert demo_dir.sweep(str(tmp_path)) == [], "it lives"
    ground.close()
    assert os.listdir(tmp_path) == ["mine"]
    assert outside.read_text() == "keep"


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_leftover_is_swept_also_where_its_removal_was_cut_off(tmp_path: Path, left_behind: Path, cut_off: bool) -> None:
    if cut_off:
        (left_behind / "memex" / "tmp").rmdir()
    assert demo_dir.sweep(str(tmp_path)) == [left_behind.name]
    assert os.listdir(tmp_path) == []


def test_a_demo_of_which_a_process_lives_is_left_alone(tmp_path: Path, left_behind: Path) -> None:
    child = os.open(left_behind / demo_dir.MARKER, os.O_RDONLY)
    fcntl.flock(child, fcntl.LOCK_SH)
    assert demo_dir.sweep(str(tmp_path)) == []
    os.close(child)
    assert demo_dir.sweep(str(tmp_path)) == [left_behind.name]


def test_what_has_not_the_marker_is_left_alone(tmp_path: Path, left_behind: Path) -> None:
    (tmp_path / f"{demo_dir.PREFIX}empty").mkdir()
    (tmp_path / f"{demo_dir.PREFIX}file").write_text("x")
    (tmp_path / f"{demo_dir.PREFIX}other").mkdir()
    (tmp_path / f"{demo_dir.PREFIX}other" / demo_dir.MARKER).write_text("something else")
    (tmp_path / f"{demo_dir.PREFIX}deep" / demo_dir.MARKER).mkdir(parents=True)
    (tmp_path / f"{demo_dir.PREFIX}linked").mkdir()
    os.symlink(left_behind / demo_dir.MARKER, tmp_path / f"{demo_dir.PREFIX}linked" / demo_dir.MARKER)
    os.mkfifo(tmp_path / f"{demo_dir.PREFIX}fifo")
    before = set(os.listdir(tmp_path)) - {left_behind.name}
    assert demo_dir.sweep(str(tmp_path)) == [left_behind.name]
    assert set(os.listdir(tmp_path)) == before


def test_another_name_with_the_marker_is_left_alone(tmp_path: Path, left_behind: Path) -> None:
    left_behind.rename(tmp_path / "precious")
    assert demo_dir.sweep(str(tmp_path)) == []
    assert (tmp_path / "precious" / "memex" / "new").is_dir()


def test_a_link_to_a_leftover_elsewhere_is_not_followed(tmp_path: Path, left_behind: Path) -> None:
    swept = tmp_path / "swept"
    swept.mkdir()
    os.symlink(left_behind, swept / left_behind.name)
    assert demo_dir.sweep(str(swept)) == []
    assert (left_behind / "memex").is_dir()
    assert os.path.lexists(swept / left_behind.name)


@needs("root")
@pytest.mark.parametrize("content", ["", demo_dir.MARKER])
def test_what_another_user_owns_is_left_alone(tmp_path: Path, left_behind: Path, content: str) -> None:
    os.chown(left_behind / content, 65534, 65534)
    assert demo_dir.sweep(str(tmp_path)) == []
    assert (left_behind / "memex").is_dir()


def test_a_kept_spool_is_not_made_over_something(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("x")
    for place in (tmp_path, tmp_path / "letter"):
        with pytest.raises(Refused, match="exists already"):
            demo_dir.keep(str(place))
    with pytest.raises(NotASpool, match="parent"):
        demo_dir.keep(str(tmp_path / "missing" / "spool"))
    assert demo_dir.sweep(str(tmp_path / "missing")) == []
    assert os.listdir(tmp_path) == ["letter"]
