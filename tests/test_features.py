"""The table of features: without its line in it, nothing is concluded or printed of a feature, and all else works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spooltop
from spooltop.features import FEATURES

COMMANDS = (("status",), ("status", "--json"), ("ls",), ("check",))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spool with a message, a cursor file and a lock file."""
    base = tmp_path_factory.mktemp("features") / "spool"
    for box in ("tmp", "new", "cur"):
        (base / box).mkdir(parents=True)
    (base / "new" / "1795222801446548.4290.vm").write_bytes(b"x")
    (base / "cursors.json").write_text('{"imessage": 7}')
    (base / "job.lock").write_text("1\n")
    return base


def outputs(tree: Path, target: Path) -> dict[tuple[str, ...], subprocess.CompletedProcess[str]]:
    environ = {**os.environ, "PYTHONPATH": str(tree)}
    return {
        words: subprocess.run(
            [sys.executable, "-m", "spooltop", words[0], str(target), *words[1:]], env=environ, cwd=tree, text=True,
            capture_output=True, check=False,
        )
        for words in COMMANDS
    }  # fmt: skip


@pytest.mark.parametrize("feature", FEATURES)
def test_without_its_line_in_the_table_a_feature_is_not_shown_and_all_else_works(
    tmp_path: Path, target: Path, feature: str
) -> None:
    shutil.copytree(Path(spooltop.__file__).parent, tmp_path / "spooltop", ignore=shutil.ignore_patterns("__pycache__"))
    whole = outputs(tmp_path, target)
    table = tmp_path / "spooltop" / "features.py"
    line = f'    "{feature}",\n'
    assert table.read_text().count(line) == 1
    table.write_text(table.read_text().replace(line, ""))
    without = outputs(tmp_path, target)

    for words in COMMANDS:
        assert not without[words].stderr and without[words].returncode == whole[words].returncode, without[words].stderr
    before, after = (json.loads(run["status", "--json"].stdout) for run in (whole, without))
    assert before[feature] and feature not in after and before["boxes"].keys() == after["boxes"].keys()
    assert without["ls",].stdout.count("1795222801446548.4290.vm") == whole["ls",].stdout.count("1795222801446548.4290.vm") == 1
    heading = {"cursors": "imessage", "locks": "job.lock"}[feature]
    assert heading in whole["status",].stdout and heading not in without["status",].stdout
