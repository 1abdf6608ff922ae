"""``doctor`` on the command line: plain lines, on a terminal, as JSON, and its exit codes."""

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

from .streams import ROOT, spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    assert spooltop("init", tmp_path / "spool").code == 0
    return tmp_path / "spool"


def test_each_check_is_a_line_and_the_worst_is_the_code(spool: Path) -> None:
    done = spooltop("doctor", spool)
    assert done.err == ""
    words = [line.split(" ")[0] for line in done.out.splitlines()]
    assert all(re.fullmatch(r"(ok|warning|problem) [a-z-]+: .+", line) for line in done.out.splitlines())
    assert done.code == (2 if "problem" in words else 1 if "warning" in words else 0)
    assert all("; remedy: " in line for line in done.out.splitlines() if not line.startswith("ok"))
    (spool / "cur").rmdir()
    done = spooltop("doctor", spool)
    assert done.code == 2
    assert f"problem boxes: cur missing: puts or claims fail; remedy: spooltop init {spool}\n" in done.out


def test_json_is_an_object_a_line(spool: Path) -> None:
    (spool / "new").chmod(0o777)
    found = [json.loads(line) for line in spooltop("doctor", spool, "--json").out.splitlines()]
    assert all(set(one) == {"schema", "check", "status", "text", "remedy"} and one["schema"] == 1 for one in found)
    assert {"ok", "warning"} <= {one["status"] for one in found}
    assert all((one["remedy"] is None) == (one["status"] == "ok") for one in found)
    assert [one["check"] for one in found if one["check"] in ("file-system", "rename", "clock", "boxes")] == [
        "file-system", "rename", "clock", "boxes"
    ]  # fmt: skip


def test_write_tries_in_tmp_alone_and_leaves_nothing(spool: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (spool, spool / "new", spool / "cur")}
    assert "not tried" in spooltop("doctor", spool).out
    done = spooltop("doctor", spool, "--write")
    assert "ok locks: tried: flock and OFD locks exclude another process and end with it" in done.out
    assert "ok rename: tried" in done.out and "not tried" not in done.out
    assert os.listdir(spool / "tmp") == [] and not (spool / ".spooltop").exists()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_on_a_terminal_it_is_aligned_coloured_and_counted(spool: Path) -> None:
    (spool / "cur").rmdir()
    plain = spooltop("doctor", spool, tty=True, environ={"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1"}).out
    assert "\x1b" not in plain
    heads = [line for line in plain.splitlines()[:-2] if not line.startswith(" ")]
    assert all(re.match(r"[✓!✗] (ok     |warning|problem)  [a-z-]+ +\S", line) for line in heads)
    assert {line.index(line[30:].split()[0], 30) for line in heads} == {30}
    assert max(len(line) for line in plain.splitlines() if "→" not in line and str(spool) not in line) <= 80
    assert f"→ spooltop init {spool}" in plain
    assert re.fullmatch(r"\d+ problems?, (\d+ warnings?, )?\d+ ok", plain.splitlines()[-1])
    coloured = spooltop("doctor", spool, tty=True, environ={"TERM": "xterm", "LANG": "C.UTF-8"}).out
    assert "\x1b[31m✗ problem" in coloured and "\x1b[32m✓ ok" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured).split()[:8] == plain.split()[:8]
    assert spooltop("doctor", spool, "--ascii", tty=True, environ={"TERM": "dumb"}).out.isascii()


def test_other_targets(real_spools: Path, tmp_path: Path) -> None:
    done = spooltop("doctor", real_spools / "seed_cursors")
    assert done.code in (0, 1, 2) and "cursor-writers" in done.out and "boxes" not in done.out
    mail = tmp_path / "mail"
    for name in ("tmp", "new", "cur"):
        (mail / name).mkdir(parents=True)
    (mail / "dovecot-uidlist").touch()
    assert "a mail folder is never changed" in spooltop("doctor", mail).out
    done = spooltop("doctor", mail, "--write")
    assert (done.code, done.out) == (3, "") and "mail" in done.err
    assert spooltop("doctor", tmp_path / "nothing").code == 5
    assert spooltop("doctor", tmp_path / "nothing", "--watch", "0").code == 2


def test_read_only_refuses_to_write(spool: Path) -> None:
    done = spooltop("doctor", spool, "--write", "--read-only")
    assert done.code == 3 and "--read-only" in done.err and os.listdir(spool / "tmp") == []


def test_watching_says_how_fast_it_fills(spool: Path) -> None:
    done = spooltop("doctor", spool, "--watch", "1s")
    assert re.search(r"space: .*(did not fill|filled by .*/s) over", done.out) and "not measured" not in done.out


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
