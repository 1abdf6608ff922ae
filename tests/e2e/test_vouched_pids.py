"""Claims that name only a pid, seen from a container: what a pid is worth there, and the setting that says that it is enough."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.directory.reader import DirectoryReader
from spooltop.control import open_control
from spooltop.errors import UsageError
from spooltop.model.vocabulary import Verdict
from tests.needs import needs

from .terminal import SPOOLTOP

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]
VOUCHED = {"SPOOLTOP_CLAIMS_PIDS": "this-host"}
needs_root = needs("root")


@pytest.fixture
def gone(spool_path: Path) -> int:
    """The pid of a process that has ended, and whose claim stands in ``cur``."""
    with subprocess.Popen(["true"]) as process:
        pass
    (spool_path / "cur" / f"m:2,P{process.pid}").write_text("m")
    return process.pid


def contained(*words: str, code: int = 0, **settings: str) -> str:
    completed = subprocess.run(
        [*CONTAINER, *SPOOLTOP, *words], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **settings}
    )
    assert completed.returncode == code, (completed.stdout, completed.stderr)
    return completed.stdout


@needs_root
@pytest.mark.parametrize(
    ("settings", "verdict", "evidence"),
    [({}, "unknown", "no pid {} here"), (VOUCHED, "dead", "exited; claims.pids is this-host")],
    ids=["not vouched for", "vouched for"],
)
def test_a_pid_that_is_gone_in_a_container_is_dead_where_that_is_vouched_for(
    spool_path: Path, gone: int, settings: dict[str, str], verdict: str, evidence: str
) -> None:
    (line,) = contained("ls", str(spool_path), "--box", "cur", "--json", **settings).splitlines()
    row = json.loads(line)
    assert (row["verdict"], row["evidence"]) == (verdict, evidence.format(gone))


@needs_root
def test_what_is_vouched_for_can_be_requeued_as_dead(spool_path: Path, gone: int) -> None:
    words = ("requeue", str(spool_path), "--verdict", "dead", "--yes")
    contained(*words, code=4)
    assert os.listdir(spool_path / "cur") == [f"m:2,P{gone}"]
    contained(*words, **VOUCHED)
    assert os.listdir(spool_path / "cur") == [] and (spool_path / "new" / "m").exists()


def test_the_front_ends_judge_by_the_setting_and_a_living_pid_stays_alive(spool_path: Path, gone: int) -> None:
    (spool_path / "cur" / f"mine:2,P{os.getpid()}").write_text("m")
    with open_control(str(spool_path), watch=False, settings=VOUCHED) as control:
        found = {row.id: row.verdict for row in control.look().observation.claims}
    assert found == {"m": Verdict.DEAD, "mine": Verdict.ALIVE}


def test_no_reader_takes_another_word(spool_path: Path) -> None:
    with pytest.raises(UsageError, match=r"claims\.pids: 'here' is neither any nor this-host"):
        DirectoryReader(str(spool_path), OpenOptions(watch=False, pids="here"))
