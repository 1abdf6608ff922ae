"""The command line as scripts rely on it, beyond what is recorded: names that can be typed back, streams that are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool

from ..cli.streams import ROOT, finish, spooltop

HOSTILE = (
    b"plain", b"[red]x[]", b"a\x1b[31mb", b"nl\nx", b"a\rb", b"\xff\xfe", b"back\\slash", b"a\\x41", b"\xc3\xbc", b"\xc2\x85",
    b"sp ace", b" lead", b"trail ", b"-dash", b"--force", b"-", b"ALL", b"{brace", b"100%41", b"a,b:c", b"\xe2\x80\xae",
    b"2026-11-21T02:41:09.json", b"caf\xc3\xa9,n=3", b"a b\\", b"L" * 255,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Spool.create(tmp_path / "spool", durable=False).close()
    return tmp_path / "spool"


def names(box: Path) -> list[bytes]:
    return sorted(os.listdir(os.fsencode(box)))


@pytest.mark.parametrize("form", ["ids", "json", "words"])
def test_hostile_names_go_through_every_command_and_back(path: Path, form: str) -> None:
    for name in HOSTILE:
        Path(os.fsdecode(os.fsencode(path / "new") + b"/" + name)).write_bytes(b"x")
    listed = spooltop("ls", path, "--json").out
    ids = [str(json.loads(line)["id"]) for line in listed.splitlines()]
    assert len(ids) == len(HOSTILE) and all(id.isprintable() for id in ids)
    words, stdin = (["-"], listed.encode())
    if form == "ids":
        stdin = "".join(f"{id}\n" for id in ids if id != "-").encode()
    if form == "words":
        words, stdin = json.loads(spooltop("purge", path, "-", "--json", "--dry-run", stdin=stdin).out)["command"][3:], b""
        assert {spooltop("show", path, "--raw", "--", id).out for id in ids} == {"x"}
    done = spooltop("purge", path, *words, "--yes", "--json", stdin=stdin)
    result = json.loads(done.out)
    assert result["done"] == len(HOSTILE) - (form == "ids") and result["missing"] == [] and result["failed"] == 0
    assert names(path / "new") == [b"-"] * (form == "ids")
    assert spooltop(*result["undo"][1:], "--yes").code == 0
    assert names(path / "new") == sorted(HOSTILE)


def test_names_that_the_terminal_has_no_signs_for_can_be_typed_back(path: Path) -> None:
    (path / "new" / "ü").write_bytes(b"payload")
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = finish(["ls", path], env=plain).out.split()[-1]
    assert shown == r"\xc3\xbc"
    assert finish(["show", path, shown, "--raw"], env=plain).out == "payload"


def test_ls_without_a_path_lists_here(path: Path) -> None:
    (path / "new" / "message").write_bytes(b"x")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert len(finish(["ls", "--json"], cwd=path, env=env).out.splitlines()) == 1
    nowhere = finish(["ls", "--json"], cwd=path.parent, env=env)
    assert nowhere.code == 2 and "no spool given" in nowhere.err


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("ls SPOOL >&-", "spooltop: standard output: "), ("ls SPOOL <&- >&-", "spooltop: standard output: "),
        ("ls SPOOL >/dev/full", "spooltop: standard output: "), ("put SPOOL <&-", "not enqueued"),
    ],
)  # fmt: skip
def test_a_broken_stream_is_one_line_and_no_defect(path: Path, command: str, line: str) -> None:
    (path / "new" / "message").write_bytes(b"x")
    shell = f'"$0" -m spooltop {command.replace("SPOOL", str(path))}'
    done = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and line in done.stderr and done.stderr.count("\n") == 1
    assert names(path / "new") == [b"message"] and names(path / "tmp") == []
