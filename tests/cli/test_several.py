"""Commands on several targets: their words, the settings, one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool
from spooltop.errors import Unreadable

from .streams import spooltop


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        Spool.create(tmp_path / "quiet" / name).close()
    return tmp_path / "quiet"


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
