"""``doctor`` on the command line: what it writes, while it fills, and interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .streams import ROOT, spooltop


def test_write_tries_in_tmp_alone_and_leaves_nothing(spool: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (spool, spool / "new", spool / "cur")}
    watched = spooltop("doctor", spool, "--watch", "1s").out
    assert re.search(r"space: .*(did not fill|filled by .*/s) over", watched)
    assert "not tried" in watched and "not measured" not in watched
    done = spooltop("doctor", spool, "--write")
    assert "ok locks: tried: flock and OFD locks exclude another process and end with it" in done.out
    assert "ok rename: tried" in done.out and "not tried" not in done.out
    assert os.listdir(spool / "tmp") == [] and not (spool / ".spooltop").exists()
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_trial_cleans_up(spool: Path, number: int, code: int) -> None:
    silent = spool.parent / "silent"  # in place of the other process of the trial of locks
    silent.write_text("#!/bin/sh\nexec cat\n")
    silent.chmod(0o755)
    program = f"import sys; sys.executable = {str(silent)!r}; from spooltop.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program, "doctor", str(spool), "--write"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not list(spool.glob("tmp/.spooltop-trial-*/locks-flock/lock")):
            assert process.poll() is None and time.monotonic() < end
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and b"Traceback" not in err, err
    assert os.listdir(spool / "tmp") == []
