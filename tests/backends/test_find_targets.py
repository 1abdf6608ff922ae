"""The targets that words name: paths, globs, directories of spools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.targets import find_targets
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
    (tmp_path / "link").symlink_to("q/b")
    return tmp_path / "q"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["{}/*"], ["a", "b", "c"]), (["{}/[bc]"], ["b", "c"]), (["{}"], ["a", "b", "c"]), (["{}/"], ["a", "b", "c"]),
        (["~/a", "~/*"], ["a", "b", "c"]),
        # Each is named once, by its real path, in the order of the words.
        (["{}/c", "{}/../link", "{}/../q/b", "{}"], ["c", "../link", "a"]),
        # A word stays whatever is wrong with it, and a box is not taken for a directory of spools.
        (["{}/nowhere", "{}/empty", "{}/a-file", "{}/x*"], ["nowhere", "empty", "a-file", "x*"]), (["{}/a/new"], ["a/new"]),
    ],
)  # fmt: skip
def test_words_name_what_can_be_opened(root: Path, words: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    spool(root / "a/new/strange")
    assert find_targets([word.format(root) for word in words]) == [f"{root}/{name}" for name in found]


def test_a_name_with_the_signs_of_a_glob_is_a_path_where_it_is_there(root: Path) -> None:
    odd = spool(root / "[ab]*")
    assert find_targets([odd]) == [odd] and odd in find_targets([str(root)])


def test_a_directory_stands_for_the_queues_of_other_programs_in_it(root: Path) -> None:
    unpacked("huey", root)
    unpacked("dirq-simple", root / "empty")
    assert find_targets([str(root)]) == [f"{root}/{name}" for name in ("a", "b", "c", "huey")]
    assert find_targets([f"{root}/*"]) == [f"{root}/{name}" for name in ("a", "b", "c", "empty/dirq-simple", "huey")]
    assert find_targets([f"{root}/huey/queue"]) == [f"{root}/huey/queue"]


@needs("root")
def test_a_directory_that_is_closed_is_kept_where_it_was_named(root: Path) -> None:
    """A closed directory may be a spool; nobody but its owner knows."""
    (root / "shut").mkdir(mode=0o700)
    for above in (root, *root.parents):
        if above.stat().st_mode & 0o5 != 0o5:
            above.chmod(above.stat().st_mode | 0o055)
    code = "import sys; from spooltop.targets import find_targets; [print(find_targets([word])) for word in sys.argv[1:]]"
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    words = [*nobody, sys.executable, "-c", code, f"{root}/*", str(root)]
    by_glob, by_parent = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "shut" in by_glob and "shut" not in by_parent
