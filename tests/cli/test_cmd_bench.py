"""``bench`` on the command line: tables, JSON, interruptions, refusals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.e2e.terminal import SPOOLTOP
from tests.e2e.terminal import Terminal as Pty

from .streams import spooltop, start

ROW = re.compile(r".{18,32} +[\w, ]*? *[\d,—]+ +(\d+(\.\d)? [µm]?s|—) +(\d+(\.\d)? [µm]?s|—) +[\d,]+(  yes)?")


@pytest.fixture(autouse=True)
def message(spool: Path) -> None:
    (spool / "new" / "mine").write_bytes(b"mine")


def state(path: Path) -> list[tuple[str, int]]:
    return sorted((str(one), one.stat().st_mtime_ns if one.is_file() else 0) for one in path.rglob("*"))


def test_tables_to_paste_and_no_message_is_touched(spool: Path) -> None:
    before = state(spool)
    done = spooltop("bench", spool, "--seconds", "2")
    assert (done.code, done.err) == (0, "")
    assert state(spool) == before
    head, limits, where, *lines = done.out.splitlines()
    assert head.startswith(f"spooltop bench {spool}: ")
    assert limits == "about 2 s; at most 4,000 files and 50MB, removed at the end,"
    assert where == f"in a hidden directory in {spool}/tmp"
    assert max(map(len, lines)) <= 79
    tables = "\n".join(lines).split("\n\n")
    assert [table.split("  ")[0].strip() for table in tables] == [
        "files of 1 kB, 1 process", "take and release", "engine, 1 kB"
    ]  # fmt: skip
    rows = [line for line in lines if re.search(r"\d [µm]?s|—", line) and not line.startswith(("exclusive", "right.", "put to"))]
    assert len(rows) == 7 + 12 + 18
    assert [row for row in rows if not ROW.fullmatch(row)] == []


def test_json_is_an_object_a_line_and_any_directory_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "any"
    folder.mkdir()
    done = spooltop("bench", folder, "--seconds", "2", "--json")
    first, *figures = map(json.loads, done.out.splitlines())
    assert done.code == 0 and os.listdir(folder) == [] and first["folder"] == str(folder)
    assert first["schema"] == 1
    assert {figure["section"] for figure in figures} == {"files", "locks", "engine"} and len(figures) == 7 + 12 + 18
    assert [figure["exclusive"] for figure in figures if figure["section"] == "locks"] == [None, True] * 6
    for figure in figures:
        assert figure["error"] is None and figure["operations"] >= (figure["section"] == "files") and figure["seconds"] > 0
        assert figure["p50_seconds"] is None or 0 < figure["p50_seconds"] <= figure["p99_seconds"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_an_interrupted_one_cleans_up(spool: Path, number: int, code: int) -> None:
    before = state(spool)
    with start("bench", spool, "--seconds", "300") as process:
        in_run(process, spool)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert state(spool) == before and b"Traceback" not in err


def in_run(process: subprocess.Popen[bytes], spool: Path) -> str:
    """Waits until the first run has begun, and returns the hidden directory."""
    end = time.monotonic() + 60
    while not list(spool.glob("tmp/.spooltop-trial-*/run-*/*")):
        assert process.poll() is None and time.monotonic() < end
    return next(iter(os.listdir(spool / "tmp")))


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


def test_who_works_here_is_warned(spool: Path) -> None:
    with Spool(str(spool)) as other, start("bench", spool, "--seconds", "300") as process:
        claim = other.claim()
        assert claim is not None
        in_run(process, spool)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        claim.release()
    assert b"1 consumer at work here now: they make the figures lower, and the bench slows them down" in err


def test_what_is_refused(spool: Path) -> None:
    done = spooltop("bench", spool, "--read-only")
    assert (done.code, done.out) == (3, "") and "--read-only" in done.err
    assert spooltop("bench", spool / "new" / "mine").code == 5
    (spool / "dovecot-uidlist").touch()
    done = spooltop("bench", spool)
    assert (done.code, done.out) == (3, "") and "mail" in done.err and os.listdir(spool / "tmp") == []


@pytest.mark.parametrize("end", ["ctrl-c", "hang up"])
def test_a_bar_on_a_terminal_and_its_end_leaves_nothing(spool: Path, end: str) -> None:
    with Pty([*SPOOLTOP, "bench", str(spool), "--seconds", "60"], cols=100) as screen:
        bar = re.compile(r"bench [█░]{20} \d+% · files: .* left · Ctrl-C stops and cleans up")
        screen.wait_for(lambda text: bool(bar.search(text)), 60)
        if end == "ctrl-c":
            screen.type("\x03")
            assert screen.wait_exit() == 130
            assert "█" not in screen.text and "░" not in screen.text and "removed at the end" in screen.text
        else:
            screen.hang_up()
            assert screen.process.wait(60) != 0
    assert os.listdir(spool / "tmp") == []
