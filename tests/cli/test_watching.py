"""``--watch`` looks for as long as the dashboard would, then answers once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spooltop.control import Control, open_control

from .streams import spooltop


def write(path: Path, sections: dict[str, int]) -> None:
    draft = path.with_name("draft")
    draft.write_text(json.dumps(sections))
    draft.replace(path)


class Busy:
    """Opens a control; after its first look, a writer loses an update and ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, path: str, **options: object) -> Control:
        assert options["watch"] is True
        control = open_control(path, settings={"HOME": path})
        control.look()
        for sections in ({"imessage": 11, "email": 1}, {"imessage": 10, "email": 2}):
            write(self.path, sections)
            while not control.changes(0.2):
                continue
        return control


@pytest.mark.parametrize("command", ["status", "cursors"])
def test_lost_updates_are_told_by_source(tmp_path: Path, command: str) -> None:
    path = tmp_path / "cursors.json"
    write(path, {"imessage": 10, "email": 1})
    done = spooltop(command, tmp_path, "--watch", "0.1", "--json", opener=Busy(path))
    lines = [json.loads(line) for line in done.out.splitlines()]
    found = lines[0]["cursors"] if command == "status" else {line["source"]: line for line in lines}
    assert done.code == 0
    assert {source: cursor["reverts"] for source, cursor in found.items()} == {"imessage": 1, "email": 0}
    assert found["imessage"]["verdict"] == "reverted"


def test_ctrl_c_ends_it_at_once_without_a_word(tmp_path: Path) -> None:
    write(tmp_path / "cursors.json", {"imessage": 10})
    code = (
        "import sys\n"
        "from spooltop.cli.main import run\n"
        "from spooltop.control import open_control\n"
        "def opened(path, **options):\n"
        "    print('opened', flush=True)\n"
        "    return open_control(path, **options)\n"
        "sys.exit(run(['status', sys.argv[1], '--watch', '600s'], dashboard=lambda *_: 0, open_control=opened))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environ = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "opened\n"
        overdue = threading.Timer(120, process.kill)
        overdue.start()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        overdue.cancel()
        assert process.stderr.read().strip() == ""
