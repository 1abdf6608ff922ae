"""Audit logs that are read back: the user, the result of each item, and logs that were written to mislead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import Unreadable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.audit import AuditLog, said
from spooltop.model.operations.plan import ItemResult, Outcome
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.operate.audit_log import after_line, trail_of

NAMES = ("a\x1b[31mb", "[red]", "\udcff\udcfe", "plain")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    with Spool.create(tmp_path / "spool", durable=False) as made:
        for name in NAMES:
            Path(made.path, "new", name).write_text("x")
    return tmp_path / "spool"


def spooltop(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spooltop", *words], capture_output=True, text=True, env={**os.environ, **environ}, check=False
    )  # fmt: skip


@pytest.mark.early
def test_who_it_was_and_what_became_of_each_item_comes_back(spool: Path) -> None:
    who = {"SUDO_USER": "ann", "SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"}
    done = spooltop("hold", str(spool), "ALL", "--box", "new", "--yes", "--json", **who)
    assert done.returncode == 0, done.stderr
    operation = json.loads(done.stdout)["operation"]
    with open_control(str(spool), watch=False, settings={}) as control:
        trail = control.audit(operation)
        assert control.audit("nothing").lines == ()
        control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": operation}))
        assert control.audit(operation) == trail  # a line of the undo names the operation, and is none of it
    assert trail.problems == ()
    assert [line.event for line in trail.lines] == ["before", "after"]
    before, after = trail.lines
    assert (before.sudo_user, before.ssh_connection) == ("ann", who["SSH_CONNECTION"])
    assert before.uid == os.geteuid() and before.pid is not None and before.pid != os.getpid()
    assert set(before.names) == {f"new/{name}" for name in NAMES}
    assert {one.id for one in after.results} == set(NAMES) and after.tried == len(NAMES)
    assert {one.outcome for one in after.results} == {Outcome.DONE}
    assert "(sudo by ann) from 192.0.2.1" in said(after)

    shown = spooltop("ops", str(spool), operation[:4])
    assert shown.returncode == 0, shown.stderr
    assert "sudo by ann" in shown.stdout and shown.stdout.count("done  ") >= len(NAMES)
    assert shown.stdout.replace("\n", "").isprintable() and "a\\x1b[31mb" in shown.stdout
    record = json.loads(spooltop("ops", str(spool), operation, "--json").stdout)
    assert [line["ssh_connection"] for line in record["audit"]] == [who["SSH_CONNECTION"]] * 2
    assert {item["outcome"] for item in record["items"]} == {"done"}
    lost = spooltop("ops", str(spool), "nope")
    assert lost.returncode != 0 and len(lost.stderr.splitlines()) == 1 and "no operation nope" in lost.stderr


HEAD: dict[str, Json] = {"schema": 1, "time": 5.0, "event": "after", "operation": "op1", "action": "purge", "user": "root"}


def line(**more: object) -> bytes:
    """A line with a result for each item, as an earlier version wrote it."""
    return json.dumps({**HEAD, "results": [], **more}).encode()


def columns(**more: object) -> bytes:
    return json.dumps({**HEAD, "ids": ["a"], "names": ["a"], "outcomes": "done", "reasons": "", **more}).encode()


FORGED = [
    {"time": 1e300}, {"time": "now"}, {"time": True}, {"event": "never"}, {"user": 5}, {"user": ["root"]}, {"results": 5},
    {"results": [5]}, {"results": [{"id": "a", "outcome": "eaten"}]}, {"results": [{"id": "\\xZZ", "outcome": "done"}]},
    {"event": "before", "names": "all"}, {"event": "before", "names": ["\\q"]}, {"count": 1e999}, {"count": "many"},
    {"schema": 2}, {"pid": 10**30}, {"uid": -1.5},
]  # fmt: skip
FORGED_COLUMNS = [
    {"names": "a"}, {"names": [5]}, {"names": ["\\q"]}, {"ids": [[]]}, {"ids": []}, {"outcomes": "eaten"},
    {"outcomes": ["done", "done"]}, {"outcomes": None}, {"reasons": 5}, {"became": ["a", "b"]},
]  # fmt: skip


@pytest.mark.parametrize(
    "forged", [line(**more) for more in FORGED] + [columns(**more) for more in FORGED_COLUMNS], ids=bytes.decode
)
def test_a_line_that_is_none_is_left_out_and_counted(forged: bytes) -> None:
    trail = trail_of([AuditLog([forged, b'"op1" {', line()], torn=True, unread=3_000_000, trusted=False)], "op1")
    assert len(trail.lines) == 1
    unread, torn, bad = trail.problems
    assert "3 MB of the audit log in the spool" in unread and "cut off" in torn and bad.startswith("2 lines")


@pytest.mark.parametrize(
    ("written", "force"), [({"force": True}, True), ({"force": False}, False), ({"force": 1}, False), ({}, False)]
)
def test_a_line_says_whether_it_was_forced(written: dict[str, object], force: bool) -> None:
    [one] = trail_of([AuditLog([line(**written)], torn=False, unread=0, trusted=True)], "op1").lines
    assert one.force is force


DONE = [ItemResult("a", "a:2,P7", Outcome.DONE, "", "a"), ItemResult("\x1b", '"', Outcome.DONE, "", "\udcff")]


SKIPPED = ItemResult("c", "c", Outcome.SKIPPED, 'changed "since"')


@pytest.mark.parametrize("results", [DONE, [*DONE, SKIPPED], [one._replace(became="") for one in DONE], [SKIPPED], []])
def test_results_are_read_as_they_were_written_and_as_an_earlier_version_wrote_them(results: list[ItemResult]) -> None:
    before = [dict(zip(("id", "name", "outcome", "reason", "became"), map(escape, one), strict=True)) for one in results]
    for written in (after_line(HEAD, results), line(results=before)):
        assert written.decode().isascii()
        trail = trail_of([AuditLog([written], torn=False, unread=0, trusted=True)], "op1")
        assert [one.results for one in trail.lines] == [tuple(results)] and not trail.problems


def test_what_a_forged_line_tells_is_marked_and_escaped() -> None:
    bad = line(user="root\x1b[2J\u202e", ended="\x1b]52;c;x\x07", tty="\n", sudo_user="\x9b", ssh_connection="\r")
    deep = b'{"operation":"op1","x":' + b"[" * 100_000
    [one] = trail_of([AuditLog([deep, bad], torn=False, unread=0, trusted=False)], "op1").lines
    assert said(one).isprintable() and "its owner can write" in said(one)


def test_what_is_audited_goes_to_syslog_where_it_is_asked_for(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda priority, line: copies.append(line))
    with open_control(str(spool), watch=False, settings={}, syslog=True) as control:
        result = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
    before, after = (json.loads(copy[copy.index("{") :]) for copy in copies)
    assert (before["event"], after["event"], after["done"], after["failed"]) == ("before", "after", len(NAMES), 0)
    assert before["operation"] == result.operation and "names" not in before and max(map(len, copies)) < 1000


def test_a_log_that_is_cut_off_or_a_link_is_told_and_not_followed(spool: Path, tmp_path: Path) -> None:
    with open_control(str(spool), watch=False, settings={}) as control:
        result = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
        log = spool / ".spooltop" / "audit.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole[:-9])
        trail = control.audit(result.operation)
        assert [one.event for one in trail.lines] == ["before"] and "cut off" in trail.problems[0]
        (tmp_path / "other").write_bytes(whole)
        log.unlink()
        log.symlink_to(tmp_path / "other")
        with pytest.raises(Unreadable, match="cannot be accessed"):
            control.audit(result.operation)
