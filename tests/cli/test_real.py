"""The command line at terminals and pipes, with consumers that run, and with much or odd content."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from spooltop.control import Control, open_control
from spooltop.errors import Unreadable

from .streams import running, spooltop, start


def test_a_terminal_gets_the_dashboard_and_a_poor_one_the_report(spool: Path) -> None:
    assert spooltop(spool, tty=True).out == "dashboard\n"
    for term in ("dumb", ""):
        assert spooltop(spool, tty=True, environ={"TERM": term}).out.startswith(f"spooltop {spool}\n")


def test_show_raw_gives_every_byte_but_not_to_a_terminal(spool: Path) -> None:
    payload = os.urandom(200_000)
    (spool / "new" / "report.txt").write_bytes(payload)
    with start("show", spool, "report.txt", "--raw") as process:
        out, _ = process.communicate()
    assert (process.returncode, out) == (0, payload)
    done = spooltop("show", spool, "report.txt", "--raw", tty=True)
    assert (done.code, done.out) == (3, "")


def test_of_very_many_operations_the_newest_are_listed_and_how_to_list_all_is_said(spool: Path) -> None:
    (spool / "new" / "message").touch()
    assert spooltop("hold", spool, "ALL", "--yes").code == 0
    [record] = [json.loads(line) for line in spooltop("ops", spool, "--json").out.splitlines()]
    journal = spool / ".spooltop" / "journal.jsonl"
    written = journal.read_text()
    journal.write_text("".join(written.replace(record["operation"], f"op{number:04}") for number in range(1002)))
    listed = spooltop("ops", spool, "--json")
    assert listed.code == 0 and "only the newest 1,000 operations are listed; --all lists all" in listed.err
    assert [json.loads(line)["operation"] for line in listed.out.splitlines()] == [f"op{n:04}" for n in range(1001, 1, -1)]
    whole = spooltop("ops", spool, "--all")
    assert (whole.code, whole.err) == (0, "") and whole.out.count("op") >= 1002
    assert "op0000" in spooltop("ops", spool, "op0000").out


def test_a_canary_is_followed_until_it_is_gone(spool: Path) -> None:
    left = spooltop("inject", spool, "--canary", "--timeout", "0.2", "--yes")
    assert (left.code, left.err) == (1, "spooltop: inject: 0 of 1 went through; after 0.2s 1 in new, not claimed\n")
    with running("work", spool, "--", "true") as worker:
        done = spooltop("inject", spool, "--canary", "--timeout", "60", "--yes")
        counted = spooltop("inject", spool, "--canary", "--count", "2", "--timeout", "60", "--yes", "--json")
    assert (done.code, done.err) == (0, "")
    steps = re.findall(r"^\S+\.P\S+  (?!new)(.*) after ", done.out, re.MULTILINE)
    assert steps == [f"cur, claimed by {worker.pid}", "gone"]
    assert done.out.splitlines()[-1].startswith("1 of 1 went through, after ")
    trace = json.loads(counted.out)["trace"]
    assert [step["pid"] for step in trace] == [worker.pid] * 2
    assert all(step["put_at"] <= step["claimed_at"] <= step["gone_at"] for step in trace)


def test_a_reader_that_has_seen_enough_is_no_error(spool: Path) -> None:
    for number in range(3000):
        (spool / "new" / f"{number:020}").touch()
    with start("ls", spool, "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_what_names_no_holder_in_cur_is_shown_and_taken_by_force_only(tmp_path: Path) -> None:
    """An inbox of agents (AMQ): cur is what was read, and a requeue would hand old instructions out again."""
    for box, name in (("tmp", ""), ("new", ""), ("cur", "2026-07-01T10-02-03.123Z_pid4312_ab12.md"), ("cur", "b.md")):
        (tmp_path / box).mkdir(exist_ok=True)
        if name:
            (tmp_path / box / name).write_text("do this")
    words = "not a claim that spooltop knows: no holder in its name"
    status = json.loads(spooltop("status", tmp_path, "--json").out)
    assert status["boxes"]["cur"]["count"] == 2 and set(status["claims"].values()) == {0}
    assert [(problem["severity"], problem["code"], problem["text"]) for problem in status["problems"]] == [
        ("note", "claims-unknown", "2 in cur are not claims that spooltop knows: no holder in their names")
    ]
    for command in ("requeue", "hold", "purge"):
        done = spooltop(command, tmp_path, "--box", "cur", "ALL", "--yes")
        assert done.code == 3 and words in done.out, done
    assert spooltop("requeue", tmp_path, "b.md", "--yes", "--force").code == 0
    assert os.listdir(tmp_path / "new") == ["b.md"]


def test_an_error_in_one_of_several_leaves_the_others(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert spooltop("init", tmp_path / name).code == 0

    def opener(path: str, **options: Any) -> Control:
        if path.endswith("/a"):
            raise Unreadable("it is closed", path=path)
        return open_control(path, **options)

    done = spooltop("status", tmp_path, opener=opener)
    assert done.code == 5 and f"? {tmp_path}/a" in done.out and "it is closed" in done.out and f"✓ {tmp_path}/b" in done.out
