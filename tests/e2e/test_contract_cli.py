"""The command line as scripts rely on it: exit codes, JSON members with their types, names that can be typed back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spooltop.engine import Spool

from ..cli.streams import finish, spooltop
from .consumers import Consumer

NUMBER = (int, float)
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


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def put(path: Path, *data: bytes, source: str | None = None) -> list[str]:
    with Spool(path, durable=False) as spool:
        return spool.put_many(data, source=source)


def gone_pid() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid


def test_status_json_has_what_was_promised(path: Path) -> None:
    put(path, b"x", b"yy")
    (path / "cursors.json").write_text('{"imessage": {"rowid": 89633}}')
    status = json.loads(spooltop("status", path, "--json").out)
    assert status["schema"] == 1 and status["spool"] == str(path) and status["complete"] is True
    assert abs(status["taken_at"] - time.time()) < 3600
    assert set(status["boxes"]) >= {"tmp", "new", "cur", "held", "rejected", "trash"}
    for box in status["boxes"].values():
        assert isinstance(box["count"], int) and isinstance(box["bytes"], int | None)
        assert isinstance(box["oldest_age"], float | None)
    assert status["boxes"]["new"]["count"] == 2 and status["boxes"]["new"]["bytes"] == 3
    assert set(status["claims"]) >= {"alive", "dead", "unknown"}
    assert status["rates"]["in"] is None and status["rates"]["done"] is None, "one look measures no rate"
    assert isinstance(status["rates"]["window"], NUMBER)
    assert status["disk"]["bytes_free"] > 0 and status["disk"]["inodes_free"] >= 0
    cursor = status["cursors"]["imessage"]
    assert cursor["value"] == {"rowid": 89633} and cursor["file"].endswith("cursors.json")
    assert isinstance(cursor["verdict"], str) and isinstance(cursor["evidence"], str)
    assert status["locks"] == [] and status["problems"] == []


def test_ls_json_has_what_was_promised_and_problems_can_be_selected(path: Path) -> None:
    put(path, b"x", source="email")
    victim = Consumer.claim(path)
    victim.kill()
    put(path, b"yy")
    claim, waiting = sorted(lines(spooltop("ls", path, "--json").out), key=lambda row: str(row["box"]))
    for row in (claim, waiting):
        assert row["schema"] == 1
        for member in ("id", "name", "box"):
            assert isinstance(row[member], str)
        for member in ("age", "in_box_age", "enqueued_at", "in_box_since"):
            assert isinstance(row[member], float)
        assert isinstance(row["size"], int)
    assert (claim["box"], claim["source"], claim["attempt"], claim["verdict"]) == ("cur", "email", 1, "dead")
    assert isinstance(claim["evidence"], str) and claim["evidence"]
    owner = claim["owner"]
    assert isinstance(owner, dict) and owner["pid"] == victim.pid and owner["host"] == os.uname().nodename
    assert isinstance(owner["start"], float) and isinstance(owner["command"], str)
    assert (waiting["box"], waiting["source"], waiting["verdict"]) == ("new", None, None)
    (problem,) = json.loads(spooltop("status", path, "--json").out)["problems"]
    assert problem["code"] == "claims-dead" and problem["count"] == 1 and isinstance(problem["text"], str)
    assert problem["selection"] == {"box": "cur", "verdict": "dead"} and problem["severity"] == "critical"


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
    pid = gone_pid()
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


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["requeue"], 2), (["requeue", "--box", "new", "ALL", "--yes"], 2), (["purge"], 2), (["purge", "ALL", "--yes"], 2),
        (["ls", "--box", "nix"], 2), (["ls", "--older-than", "10x"], 2), (["ls", "--filter", "age:>"], 2), (["show"], 2),
        (["show", r"a\zz"], 2), (["undo"], 2), (["inject", "--count", "0", "--yes"], 2), (["work"], 2),
        (["work", "--", "no-such-command"], 2),
        (["purge", "--box", "new", "ALL"], 3), (["requeue", "ALL"], 4), (["inject"], 3),
        (["requeue", "nope", "--yes"], 4), (["purge", "nope", "--yes"], 4), (["show", "nope"], 4), (["ls", "nope"], 4),
        (["undo", "nope", "--yes"], 4), (["purge", "--box", "new", "--yes"], 4),
    ],
)  # fmt: skip
def test_exit_codes_and_one_line_of_error(path: Path, words: list[str], code: int) -> None:
    put(path, b"x")
    before = snapshot(path)
    done = spooltop(words[0], path, *words[1:])
    assert done.code == code
    assert done.err.startswith("spooltop: ") and done.err.count("\n") == 1
    assert snapshot(path) == before


def test_purge_of_a_box_says_that_it_takes_what_is_older_than_an_hour(path: Path) -> None:
    put(path, b"x")
    (path / "new" / "1700000000.1.h").write_bytes(b"")
    done = spooltop("purge", path, "--box", "new", "--yes")
    assert done.code == 0 and os.listdir(path / "new") != [] and len(os.listdir(path / "new")) == 1
    again = spooltop("purge", path, "--box", "new", "--yes")
    assert again.code == 4 and "1h or longer" in again.err and "ALL" in again.err
    assert spooltop("purge", path, "--box", "new", "ALL", "--yes").code == 0
    assert os.listdir(path / "new") == []


def test_an_attempt_is_counted_the_same_in_every_box_and_undo_says_when_nothing_is_left(path: Path) -> None:
    put(path, b"x")
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
    put(path, b"x", b"y")
    holder, victim = Consumer.claim(path), Consumer.claim(path)
    victim.kill()
    done = spooltop("requeue", path, "ALL", "--yes")
    assert done.code == 1 and re.search(rf"\b{holder.pid}\b.*--force takes it", done.out) and len(os.listdir(path / "cur")) == 1
    assert spooltop("requeue", path, "ALL", "--yes").code == 3, "all that is left is refused"
    taken = spooltop("requeue", path, "ALL", "--yes", "--force")
    assert taken.code == 0 and os.listdir(path / "cur") == []
    assert holder.end("ack") == 1, "ClaimLost tells the holder"
    assert len(os.listdir(path / "new")) == 2


def test_looking_writes_nothing(path: Path) -> None:
    put(path, b"x", b"y")
    Consumer.claim(path).kill()
    (path / "cursors.json").write_text('{"a": 1}')
    before = snapshot(path)
    (id,) = [str(row["id"]) for row in lines(spooltop("ls", path, "--box", "new", "--json").out)]
    for words in (["status"], ["ls"], ["show", id], ["ops"], ["cursors"], ["locks"], ["requeue", "ALL", "--dry-run"]):
        assert spooltop(words[0], path, *words[1:]).code == 0
    assert snapshot(path) == before


def test_paths_that_are_not_quite_a_spool(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "status" / "new").mkdir(parents=True)
    (tmp_path / "status" / "cur").mkdir()
    before = snapshot(tmp_path)
    for wrong, hint in (("spoo", "spool"), ("file", "a file"), ("spool/new", "spool"), ("empty", "init")):
        done = spooltop("status", tmp_path / wrong)
        assert done.code == 5 and hint in done.err and done.err.count("\n") == 1, wrong
    parent = spooltop("status", tmp_path)
    assert parent.code == 0 and str(path) in parent.out and str(tmp_path / "status") in parent.out
    two = finish(["./status", "--json"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    assert two.code == 0 and json.loads(two.out)["boxes"]["tmp"]["count"] is None
    assert json.loads(two.out)["complete"] is False
    assert snapshot(tmp_path) == before


def test_a_box_that_cannot_be_listed_is_not_shown_as_empty(path: Path) -> None:
    (path / "tmp").rmdir()
    alone = spooltop("ls", path, "--box", "tmp", "--json")
    assert alone.code == 5 and alone.out == "" and "tmp could not be listed" in alone.err
    put_by_hand = path / "new" / "m"
    put_by_hand.write_bytes(b"")
    some = spooltop("ls", path, "--json")
    assert some.code == 0 and len(lines(some.out)) == 1 and "tmp could not be listed" in some.err


def test_init_makes_no_spool_inside_a_box(path: Path) -> None:
    before = snapshot(path)
    for inside in ("new", "new/other", "cur/x"):
        done = spooltop("init", path / inside)
        assert done.code == 3 and "a box of a spool" in done.err
    assert snapshot(path) == before


def test_ls_without_a_path_lists_here(path: Path) -> None:
    put(path, b"x")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert len(lines(finish(["ls", "--json"], cwd=path, env=env).out)) == 1
    nowhere = finish(["ls", "--json"], cwd=path.parent, env=env)
    assert nowhere.code == 2 and "no spool given" in nowhere.err


def test_a_mail_folder_is_looked_at_and_never_changed(path: Path) -> None:
    (path / "cur" / "1600000000.M1P2.h:2,S").write_text("Subject: x")
    before = snapshot(path)
    changes = (["requeue", "ALL", "--yes"], ["purge", "--box", "new", "ALL", "--yes"], ["inject", "--yes"])
    for words in (["put"], ["work", "--", "true"], *changes):
        done = spooltop(words[0], path, *words[1:], stdin=b"x")
        assert done.code == 3 and "mail" in done.err
    assert spooltop("ls", path).code == 0 and "read-only" in spooltop("status", path).out
    plan = json.loads(spooltop("requeue", path, "ALL", "--as", "spool", "--dry-run", "--json").out)
    assert plan["count"] == 1
    assert snapshot(path) == before
    assert spooltop(*plan["command"][1:], "--yes", "--json").code == 3, "nothing says who has read it"
    same = spooltop(*plan["command"][1:], "--yes=1", "--json")
    assert same.code == 0 and len(os.listdir(path / "new")) == 1, "the command of the plan does the same"
    assert spooltop(*json.loads(same.out)["undo"][1:], "--yes").code == 0


@pytest.mark.parametrize("streams", [">&-", "<&- >&-", ">/dev/full"])
def test_a_broken_output_is_one_line_and_no_defect(path: Path, streams: str) -> None:
    put(path, b"x")
    shell = f'"$0" -m spooltop ls "$1" {streams}'
    root = Path(__file__).parents[2]
    done = subprocess.run(["sh", "-c", shell, sys.executable, path], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("spooltop: standard output: ") and done.stderr.count("\n") == 1


def test_a_closed_input_enqueues_nothing(path: Path) -> None:
    root = Path(__file__).parents[2]
    shell = '"$0" -m spooltop put "$1" <&-'
    done = subprocess.run(["sh", "-c", shell, sys.executable, path], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "not enqueued" in done.stderr
    assert os.listdir(path / "new") == [] == os.listdir(path / "tmp")


def test_init_where_nothing_may_be_written_is_refused(tmp_path: Path) -> None:
    done = spooltop("init", "/proc/spool")
    assert done.code == 3 and done.err.count("\n") == 1 and "defect" not in done.err


def test_the_queue_of_a_mail_server_is_told_from_a_spool(tmp_path: Path) -> None:
    for folder in ("active", "bounce", "corrupt", "defer", "deferred", "hold", "incoming", "maildrop"):
        (tmp_path / "postfix" / folder).mkdir(parents=True)
    done = spooltop("status", tmp_path / "postfix")
    assert done.code == 0 and "read-only: Postfix changes its own queue" in done.out
    refused = spooltop("requeue", tmp_path / "postfix", "ALL", "--yes")
    assert refused.code == 3 and "postqueue -i ID" in refused.err and refused.err.count("\n") == 1
