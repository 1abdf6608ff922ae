"""Journals that are read back as audit logs: the user, the result of each item, and logs that were written to mislead."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from spooltop.control import open_control
from spooltop.errors import Unreadable
from spooltop.model.plan import AuditTrail, ItemResult, Outcome, Request, Selection, said
from spooltop.model.vocabulary import Action, Box
from tests.builders import SpoolWorld
from tests.cli.streams import finish

NAMES = ("a\x1b[31mb", "[red]", "\udcff\udcfe", "plain")


@pytest.fixture
def spool(world: SpoolWorld) -> Path:
    for name in NAMES:
        world.put(name)
    return world.path


@pytest.mark.early
def test_who_it_was_and_what_became_of_each_item_comes_back(spool: Path) -> None:
    who = {"SUDO_USER": "ann", "SSH_CONNECTION": "192.0.2.1 5 192.0.2.2 22"}
    done = finish(["hold", spool, "ALL", "--box", "new", "--yes", "--json"], env={**os.environ, **who})
    operation = json.loads(done.out)["operation"]
    with open_control(str(spool), watch=False, settings={}) as control:
        trail = control.audit(operation)
        assert control.audit("nothing").lines == ()
        control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": operation}))
        assert control.audit(operation) == trail  # a line of the undo names the operation, and is none of it
    assert trail.problems == ()
    [after] = trail.lines
    assert (after.event, after.by.sudo_user, after.by.ssh_connection) == ("after", "ann", who["SSH_CONNECTION"])
    assert after.by.uid == os.geteuid() and after.by.pid is not None and after.by.pid != os.getpid()
    assert ({item.id for item in after.results}, after.tried, after.count) == (set(NAMES), len(NAMES), len(NAMES))
    assert {item.outcome for item in after.results} == {Outcome.DONE}
    assert "(sudo by ann) from 192.0.2.1" in said(after)


RUN = {"from": "cur", "to": "new", "names": ["a"], "inos": 7, "sizes": 1, "ctimes": 5, "tokens": None}
HEAD = {"schema": 1, "line": "intent", "operation": "op1", "first": 0, "action": "purge", "time": 5.0, "user": "root"}
RESULT = {"schema": 1, "line": "result", "operation": "op1", "first": 0, "time": 6.0}


def line(**more: object) -> bytes:
    return json.dumps({**HEAD, "by": {}, "undoes": None, "count": 3, "force": False, "moves": [RUN], **more}).encode()


FORGED = [
    {"user": 5}, {"user": ["root"]}, {"by": 5}, {"by": {"uid": "0"}}, {"by": {"uid": -1}}, {"by": {"pid": 10**30}},
    {"by": {"tty": ["x"]}}, {"by": {"sudo_user": "\\q"}}, {"force": "yes"}, {"count": 1e999}, {"count": "many"}, {"schema": 2},
]  # fmt: skip


def trail(spool: Path, *lines: bytes) -> AuditTrail:
    (spool / ".spooltop").mkdir()
    (spool / ".spooltop" / "journal.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    with open_control(str(spool), watch=False, settings={}) as control:
        return control.audit("op1")


def test_lines_that_are_none_are_left_out_and_counted(spool: Path) -> None:
    forged = [line(first=place, **more) for place, more in enumerate(FORGED, 1)]
    deep = b'{"operation":"op1","x":' + b"[" * 100_000
    found = trail(spool, line(), *forged, b'"op1" {', deep)
    assert len(found.lines) == 1 and found.problems[0].startswith(f"{len(forged) + 2} lines")


def test_a_refusal_says_where_the_newest_line_is_wrong(spool: Path) -> None:
    first = line(first=1, moves=[{**RUN, "inos": "\x1b[2J"}])
    newest = line(first=2, action="\x1b" * 500)
    [said] = trail(spool, line(), newest, first).problems
    assert said.startswith("2 lines") and "; the newest: " in said and "`$.moves[0].inos`" in said
    (spool / ".spooltop" / "journal.jsonl").write_bytes(newest + b"\n")
    with open_control(str(spool), watch=False, settings={}) as control:
        [said] = control.audit("op1").problems
    assert said.startswith("1 lines") and "`$.action`" in said and said.isprintable() and len(said) < 700


def test_a_line_says_whether_it_was_forced_and_what_became_of_each_item(spool: Path) -> None:
    run = {**RUN, "names": ["a:2,P7", '"', "c"], "to_names": ["a", "\\xff", "c"]}
    skipped = {"place": 2, "outcome": "skipped", "reason": 'changed "since"', "moved": False, "ino": 0, "ctime": 0}
    result = json.dumps({**RESULT, "tried": 3, "others": [skipped]}).encode()
    found = trail(spool, line(force=True, moves=[run]), result, line(first=3))
    assert [(one.force, one.event, one.names) for one in found.lines] == [(True, "after", ()), (False, "before", ("a",))]
    assert found.lines[0].results == (
        ItemResult("a", "a:2,P7", Outcome.DONE, "", "a"), ItemResult('"', '"', Outcome.DONE, "", "\udcff"),
        ItemResult("c", "c", Outcome.SKIPPED, 'changed "since"', ""),
    )  # fmt: skip
    assert not found.problems


def test_what_a_forged_line_tells_is_marked_and_escaped(spool: Path) -> None:
    bad = line(user="root\x1b[2J\u202e", by={"tty": "\n", "sudo_user": "\x9b", "ssh_connection": "\r"})
    [told] = trail(spool, bad).lines
    assert said(told).isprintable() and "its owner can write" in said(replace(told, trusted=False))


def test_what_is_audited_goes_to_syslog_where_it_is_asked_for(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda priority, line: copies.append(line))
    with open_control(str(spool), watch=False, settings={}, syslog=True) as control:
        result = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
    before, after = (json.loads(copy[copy.index("{") :]) for copy in copies)
    assert (before["event"], after["event"], after["done"], after["failed"]) == ("before", "after", len(NAMES), 0)
    assert before["operation"] == result.operation and "names" not in before and max(map(len, copies)) < 1000


def test_an_undo_names_the_journal_that_cannot_be_read_instead_of_missing_the_operation(spool: Path) -> None:
    with open_control(str(spool), watch=False, settings={}) as control:
        done = control.apply(control.plan(Action.PAUSE, Selection(), options={"reason": "x"}))
        undo = control.plan(Action.UNDO, Selection(), options={"undoes": done.operation})
        assert undo.count == 1
        log = spool / ".spooltop" / "pauses.jsonl"
        log.rename(log.with_suffix(".away"))
        log.symlink_to(log.with_suffix(".away"))
        with pytest.raises(Unreadable, match="the journal of pauses cannot be read"):
            request = Request(Action.UNDO, Selection(), options={"undoes": done.operation})
            control._operator(Action.UNDO).operator.candidates(request)


def test_a_log_that_is_cut_off_or_a_link_is_told_and_not_followed(spool: Path, tmp_path: Path) -> None:
    with open_control(str(spool), watch=False, settings={}) as control:
        result = control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
        log = spool / ".spooltop" / "journal.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole[:-9])
        cut = control.audit(result.operation)
        assert [one.event for one in cut.lines] == ["before"] and "cut off" in cut.problems[0]
        (tmp_path / "other").write_bytes(whole)
        log.unlink()
        log.symlink_to(tmp_path / "other")
        with pytest.raises(Unreadable, match="cannot be read"):
            control.audit(result.operation)
