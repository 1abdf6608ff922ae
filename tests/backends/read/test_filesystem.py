"""A mount that is read-only here alone is told apart from a file system that is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.needs import needs


@needs("root")
@pytest.mark.parametrize(("mounted", "critical"), [("--bind", False), ("-t tmpfs", True)], ids=["bind mount", "file system"])
def test_a_mount_that_is_read_only_for_us_alone_is_no_problem(tmp_path: Path, mounted: str, critical: bool) -> None:
    source, place = tmp_path / "source", tmp_path / "place"
    place.mkdir()
    Spool.create(source / "x").close()
    bound = ",bind" if mounted == "--bind" else ""
    steps = (
        f"mount {mounted} '{source}' '{place}' && cp -a '{source}/.' '{place}/' 2>/dev/null; "
        f"mount -o remount,ro{bound} '{place}' && exec '{sys.executable}' -m spooltop status '{place}/x' --json"
    )
    done = subprocess.run(["unshare", "--mount", "sh", "-c", steps], capture_output=True, text=True, check=True)
    status = json.loads(done.stdout)
    assert status["disk"]["readonly"]
    assert ("fs-readonly" in {problem["code"] for problem in status["problems"]}) is critical
