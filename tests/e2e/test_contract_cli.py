"""The command line as scripts rely on it, beyond what is recorded: names that can be typed back, streams that are closed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool

from ..cli.streams import finish, spooltop
from .consumers import Consumer

HOSTILE = (
    b"plain", b"[red]x[]", b"a\x1b[31mb", b"nl\nx", b"a\rb", b"\xff\xfe", b"back\\slash", b"a\\x41", b"\xc3\xbc", b"\xc2\x85",
    b"sp ace", b" lead", b"trail ", b"-dash", b"--force", b"-", b"ALL", b"{brace", b"100%41", b"a,b:c", b"\xe2\x80\xae",
    b"2026-11-21T02:41:09.json", b"L" * 255,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    Spool.create(path, durable=False).close()
    return path


def snapshot(path: Path) -> list[tuple[str, int, int, int]]:
    return sorted((str(one), (s := one.lstat()).st_ino, s.st_mtime_ns, s.st_ctime_ns) for one in (path, *path.rglob("*")))


def spool_with(path: Path, *data: bytes) -> None:
    with Spool(path, durable=False) as spool:
        spool.put_many(data)


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", ["ids", "json", "words"])
def test_hostile_names_go_through_every_command_and_back(path: Path, form: str) -> None:
    for name in HOSTILE:
        Path(os.fsdecode(os.fsencode(path / "new") + b"/" + name)).write_bytes(b"x")
    listed = spooltop("ls", path, "--json").out
    ids = [str(row["id"]) for row in lines(listed)]
    assert len(ids) == len(HOSTILE) and all(id.isprintable() for id in ids)
    before = snapshot(path)
    words, stdin = (["-"], listed.encode())
    if form == "ids":
        stdin = "".join(f"{id}\n" for id in ids if id != "-").encode()
    if form == "words":
        words, stdin = json.loads(spooltop("purge", path, "-", "--json", "--dry-run", stdin=stdin).out)["command"][3:], b""
    dry = spooltop("purge", path, *words, "--dry-run", "--json", stdin=stdin)
    assert dry.code == 0 and snapshot(path) == before
    done = spooltop("purge", path, *words, "--yes", "--json", stdin=stdin)
    result = json.loads(done.out)
    assert result["done"] == len(HOSTILE) - (form == "ids") and result["missing"] == [] and result["failed"] == 0
    assert spooltop(*result["undo"][1:], "--yes").code == 0
    assert sorted(os.listdir(os.fsencode(path / "new"))) == sorted(HOSTILE)


def test_a_foreign_claim_goes_back_under_its_bare_name(path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pid = gone.pid
    for name in HOSTILE:
        if len(name) < 200:
            (Path(os.fsdecode(os.fsencode(path / "cur") + b"/" + name + b":2,P%d" % pid))).write_bytes(b"x")
    rows = lines(spooltop("ls", path, "--box", "cur", "--json").out)
    assert {row["verdict"] for row in rows} == {"dead"} and {row["attempt"] for row in rows} == {None}
    done = spooltop("requeue", path, "ALL", "--yes")
    assert done.code == 0
    assert sorted(os.listdir(os.fsencode(path / "new"))) == sorted(name for name in HOSTILE if len(name) < 200)


def test_names_that_the_terminal_has_no_signs_for_can_be_typed_back(path: Path) -> None:
    (path / "new" / "ü").write_bytes(b"payload")
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = finish(["ls", path], env=plain).out.split()[-1]
    assert shown == r"\xc3\xbc"
    assert finish(["show", path, shown, "--raw"], env=plain).out == "payload"


def test_an_attempt_is_counted_the_same_in_every_box_and_undo_says_when_nothing_is_left(path: Path) -> None:
    spool_with(path, b"x")
    assert Consumer.claim(path).end("release") == 0
    with Spool(path) as spool:
        claim = spool.claim()
        assert claim is not None and claim.attempt == 2
        assert [row["attempt"] for row in lines(spooltop("ls", path, "--json").out)] == [2]
        claim.reject("no")
    assert [row["attempt"] for row in lines(spooltop("ls", path, "--box", "rejected", "--json").out)] == [2]
    undo = json.loads(spooltop("requeue", path, "--box", "rejected", "ALL", "--yes", "--json").out)["undo"][1:]
    redriven = [row["attempt"] for row in lines(spooltop("ls", path, "--box", "new", "--json").out)]
    assert redriven == [0], "at the limit it would be rejected again as soon as it is given back"
    assert spooltop(*undo, "--yes").code == 0
    again = spooltop(*undo, "--yes")
    assert again.code == 4 and "nothing is left to undo" in again.err


def test_a_live_holder_wants_force_besides_yes(path: Path) -> None:
    spool_with(path, b"x", b"y")
    holder, victim = Consumer.claim(path), Consumer.claim(path)
    victim.kill()
    done = spooltop("requeue", path, "ALL", "--yes")
    assert done.code == 1 and re.search(rf"\b{holder.pid}\b.*--force takes it", done.out) and len(os.listdir(path / "cur")) == 1
    assert spooltop("requeue", path, "ALL", "--yes").code == 3, "all that is left is refused"
    taken = spooltop("requeue", path, "ALL", "--yes", "--force")
    assert taken.code == 0 and os.listdir(path / "cur") == []
    assert holder.end("ack") == 1, "ClaimLost tells the holder"
    assert len(os.listdir(path / "new")) == 2


def test_ls_without_a_path_lists_here(path: Path) -> None:
    spool_with(path, b"x")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert len(lines(finish(["ls", "--json"], cwd=path, env=env).out)) == 1
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
    spool_with(path, b"x")
    shell = f'"$0" -m spooltop {command.replace("SPOOL", str(path))}'
    root = Path(__file__).parents[2]
    done = subprocess.run(["sh", "-c", shell, sys.executable], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and line in done.stderr and done.stderr.count("\n") == 1
    assert len(os.listdir(path / "new")) == 1 and os.listdir(path / "tmp") == []
