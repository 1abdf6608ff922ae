"""The targets that words name: paths, globs, directories of spools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.backends.directory.find_targets import find_targets
from spooltop.engine import Spool
from spooltop.targets import find_targets as queues_of
from tests.needs import needs
from tests.programs.stored import unpacked


def spool(path: Path) -> str:
    Spool.create(path).close()
    return str(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("b", "a", "c"):
        spool(tmp_path / "q" / name)
    (tmp_path / "q" / "a-file").touch()
    (tmp_path / "q" / "empty").mkdir()
    return tmp_path / "q"


def test_a_glob_names_what_can_be_opened(root: Path) -> None:
    assert find_targets([f"{root}/*"]) == [f"{root}/a", f"{root}/b", f"{root}/c"]
    assert find_targets([f"{root}/[bc]"]) == [f"{root}/b", f"{root}/c"]


def test_a_directory_stands_for_the_spools_in_it(root: Path) -> None:
    assert find_targets([str(root)]) == [f"{root}/a", f"{root}/b", f"{root}/c"]
    assert find_targets([f"{root}/"]) == [f"{root}/a", f"{root}/b", f"{root}/c"]
    only = spool(root.parent / "p" / "only")
    assert find_targets([str(root.parent / "p")]) == [only]


def test_a_directory_stands_for_the_queues_of_other_programs_in_it(root: Path, tmp_path: Path) -> None:
    unpacked("huey", root)
    unpacked("dirq-simple", root / "empty")
    named = ["a", "b", "c", "huey"]
    assert queues_of([str(root)]) == [f"{root}/{name}" for name in named]
    assert queues_of([f"{root}/*"]) == [f"{root}/{name}" for name in ("a", "b", "c", "empty/dirq-simple", "huey")]
    assert queues_of([f"{root}/huey/queue"]) == [f"{root}/huey/queue"]


def test_only_some_directories_are_asked_for_other_queues(root: Path) -> None:
    for number in range(250):
        (root / f"no-{number}").mkdir()
    asked: list[str] = []
    assert find_targets([str(root)], is_queue=lambda path: bool(asked.append(path))) == [f"{root}/a", f"{root}/b", f"{root}/c"]
    assert len(asked) == 100


def test_each_is_named_once_by_its_real_path_in_the_order_of_the_words(root: Path) -> None:
    (root.parent / "link").symlink_to(root / "b")
    words = [f"{root}/c", f"{root.parent}/link", f"{root}/../q/b", str(root)]
    assert find_targets(words) == [f"{root}/c", f"{root.parent}/link", f"{root}/a"]


def test_a_word_stays_whatever_is_wrong_with_it(root: Path) -> None:
    words = [f"{root}/nowhere", f"{root}/empty", f"{root}/a-file", f"{root}/x*", "redis://h:6379/0#q*/g"]
    assert find_targets(words) == words


def test_a_name_with_the_signs_of_a_glob_is_a_path_where_it_is_there(root: Path) -> None:
    odd = spool(root / "[ab]*")
    assert find_targets([odd]) == [odd]
    assert odd in find_targets([str(root)])


def test_a_box_is_not_taken_for_a_directory_of_spools(root: Path) -> None:
    inside = root / "a" / "new"
    spool(inside / "strange")
    assert find_targets([str(inside)]) == [str(inside)]


def test_home_is_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    assert find_targets(["~/a", "~/*"]) == [f"{root}/a", f"{root}/b", f"{root}/c"]


@needs("root")
def test_a_directory_that_is_closed_is_kept_where_it_was_named(root: Path) -> None:
    """A closed directory may be a spool; nobody but its owner knows."""
    (root / "shut").mkdir(mode=0o700)
    for above in (root, *root.parents):
        if above.stat().st_mode & 0o5 != 0o5:
            above.chmod(above.stat().st_mode | 0o055)
    read, write = os.pipe()
    if not (child := os.fork()):
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        found = find_targets([f"{root}/*"]), find_targets([str(root)])
        os.write(write, "\n".join(map(str, found)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    by_glob, by_parent = os.read(read, 65536).decode().split("\n")
    assert "shut" in by_glob and "shut" not in by_parent
