"""``bench`` and ``doctor``, which try a file system: what they print and write, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.e2e.terminal import SPOOLTOP
from tests.e2e.terminal import Terminal as Pty

from .streams import ROOT, spooltop, start

ROW = re.compile(r".{18,32} +[\w, ]*? *[\d,—]+ +(\d+(\.\d)? [µm]?s|—) +(\d+(\.\d)? [µm]?s|—) +[\d,]+(  yes)?")


def state(path: Path) -> list[tuple[str, int]]:
    return sorted((str(file), file.stat().st_mtime_ns if file.is_file() else 0) for file in path.rglob("*"))


def test_tables_to_paste_and_no_message_is_touched(spool: Path) -> None:
    (spool / "new" / "mine").write_bytes(b"mine")
    before = state(spool)
    done = spooltop("bench", spool, "--seconds", "2")
    assert (done.code, done.err, state(spool)) == (0, "", before)
    head, limits, where, *lines = done.out.splitlines()
    assert head.startswith(f"spooltop bench {spool}: ") and where == f"in a hidden directory in {spool}/tmp"
    assert limits == "about 2 s; at most 4,000 files and 50MB, removed at the end," and max(map(len, lines)) <= 79
    rows = [line for line in lines if re.search(r"\d [µm]?s|—", line) and not line.startswith(("exclusive", "right.", "put to"))]
    assert len(rows) == 7 + 12 + 18 and [row for row in rows if not ROW.fullmatch(row)] == []


def test_json_is_an_object_a_line_and_any_directory_will_do(tmp_path: Path) -> None:
    done = spooltop("bench", tmp_path, "--seconds", "2", "--json")
    first, *figures = map(json.loads, done.out.splitlines())
    assert (done.code, os.listdir(tmp_path), first["folder"], first["schema"]) == (0, [], str(tmp_path), 1)
    assert {figure["section"] for figure in figures} == {"files", "locks", "engine"} and len(figures) == 7 + 12 + 18
    assert [figure["exclusive"] for figure in figures if figure["section"] == "locks"] == [None, True] * 6
    for figure in figures:
        assert figure["error"] is None and figure["operations"] >= (figure["section"] == "files") and figure["seconds"] > 0
        assert figure["p50_seconds"] is None or 0 < figure["p50_seconds"] <= figure["p99_seconds"]


def in_run(process: subprocess.Popen[bytes], spool: Path, first: str = "run-*/*") -> str:
    """Waits until the first run has begun, and returns the hidden directory."""
    end = time.monotonic() + 60
    while not list(spool.glob(f"tmp/.spooltop-trial-*/{first}")):
        assert process.poll() is None and time.monotonic() < end
    return next(iter(os.listdir(spool / "tmp")))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_one_cleans_up_and_who_works_here_is_warned_of(spool: Path, number: int, code: int) -> None:
    with Spool(str(spool)) as other:
        other.put(b"x")
        claim = other.claim()
        assert claim is not None
        before = state(spool)
        with start("bench", spool, "--seconds", "300") as process:
            in_run(process, spool)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        claim.release()
    assert (process.returncode, b"Traceback" in err) == (code, False), err
    assert b"1 consumer at work here now: they make the figures lower, and the bench slows them down" in err
    assert os.listdir(spool / "tmp") == [] and len(before) == len(state(spool)) + 1  # its presence file


def test_what_a_killed_one_left_is_reported_by_doctor_and_swept_by_the_next(spool: Path) -> None:
    before = state(spool)
    with start("bench", spool, "--seconds", "300") as process:
        left = in_run(process, spool)
        process.kill()
        process.wait()
    assert os.listdir(spool / "tmp") == [left]
    assert "directories of a doctor or bench that was killed" in spooltop("doctor", spool).out
    assert spooltop("status", spool, "--json").out.count('"abandoned": 0') == 1
    spooltop("doctor", spool, "--write")
    assert state(spool) == before


def test_a_bar_on_a_terminal_and_its_end_leaves_nothing(spool: Path) -> None:
    with Pty([*SPOOLTOP, "bench", str(spool), "--seconds", "60"], cols=100) as screen:
        bar = re.compile(r"bench [█░]{20} \d+% · files: .* left · Ctrl-C stops and cleans up")
        screen.wait_for(lambda text: bool(bar.search(text)), 60)
        screen.type("\x03")
        assert screen.wait_exit() == 130
        assert "█" not in screen.text and "░" not in screen.text and "removed at the end" in screen.text
    assert os.listdir(spool / "tmp") == []


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
        in_run(process, spool, "locks-flock/lock")
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and b"Traceback" not in err, err
    assert os.listdir(spool / "tmp") == []
