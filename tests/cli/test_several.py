"""Commands on several targets: their words, the settings, one line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import Unreadable
from tests.desk import new_desk

from .streams import spooltop


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        Spool.create(tmp_path / "quiet" / name).close()
    return tmp_path / "quiet"


def test_status_has_a_line_for_each_worst_first(root: Path, tmp_path: Path) -> None:
    bad = new_desk(tmp_path / "dead")
    bad.claim_and_die_here(bad.put(bad.id(1)))
    done = spooltop("status", root, bad.path)
    lines = done.out.splitlines()
    assert done.code == 0 and len(lines) == 5
    assert lines[0].startswith("3 spools · 1 with problems, worst first · as of ")
    assert lines[2].startswith(f"✗ {bad.path} ") and "1 claim of a dead consumer" in lines[2]
    assert [line.split()[:2] for line in lines[3:]] == [["✓", f"{root}/a"], ["✓", f"{root}/b"]]


def test_status_json_has_an_object_a_line_and_the_worst_exit_code(root: Path) -> None:
    done = spooltop("status", root, root / "gone", "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 5
    assert [(one["spool"], one["complete"]) for one in found] == [
        (f"{root}/gone", False), (f"{root}/a", True), (f"{root}/b", True),
    ]  # fmt: skip
    assert found[0]["error"].startswith("no such directory") and found[1]["boxes"]["new"]["count"] == 0


def test_a_directory_of_one_spool_stands_for_it(root: Path) -> None:
    Spool.create(root.parent / "one" / "only").close()
    done = spooltop("status", root.parent / "one")
    assert done.code == 0 and done.out.startswith(f"spooltop {root.parent}/one/only\n")


def test_an_error_in_one_leaves_the_others(root: Path) -> None:
    def opener(path: str, **options: Any) -> Control:
        if path.endswith("/a"):
            raise Unreadable("it is closed", path=path)
        return open_control(path, **options)

    done = spooltop("status", root, opener=opener)
    assert done.code == 5 and f"? {root}/a" in done.out and "it is closed" in done.out and f"✓ {root}/b" in done.out


@pytest.mark.parametrize("command", [["status"], ["check"], ["metrics"]])
def test_without_a_path_the_setting_says_which(root: Path, command: list[str]) -> None:
    environ = {"TERM": "xterm", "SPOOLTOP_PATHS": f"{root}/a:{root}/[b]"}
    done = spooltop(*command, environ=environ)
    assert (done.code, done.err) == (0, "")
    assert f"{root}/a" in done.out and f"{root}/b" in done.out


def test_a_settings_file_names_them_too(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "config" / "spooltop" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'paths = ["{root}/*"]\n')
    done = spooltop("status", environ={"TERM": "xterm", "XDG_CONFIG_HOME": str(tmp_path / "config")})
    assert done.out.startswith("2 spools · 0 with problems")


def test_a_pattern_that_matches_nothing_says_so(root: Path) -> None:
    done = spooltop("status", f"{root}/x*")
    assert (done.code, done.out) == (5, "") and "nothing matches this pattern" in done.err


def test_of_several_words_one_that_is_no_path_is_a_misspelt_command(root: Path) -> None:
    done = spooltop("statsu", root, root / "a")
    assert done.code == 2 and "unknown command 'statsu'; did you mean spooltop status?" in done.err
