"""Poll logs: what their lines say, and what they add to the verdict on a cursor."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.control import Control, open_control
from spooltop.errors import UsageError
from spooltop.model.cursors.state import Cursor
from spooltop.observe.cursors.poll_logs import LogGlob, PollLogs
from spooltop.observe.cursors.polls import POLL_LINE, parse_poll, poll_pattern

from ..clock import Clock
from .observations import T0

PATTERN = re.compile(POLL_LINE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("poll ok: 4 new (cursor 89632 -> 89636)", (T0, 4, "89632", "89636")),
        ("poll ok: 0 new (cursor=89636)", (T0, 0, "89636", "89636")),
        ("2026-11-21T00:55:06+00:00 INFO poll ok: 4 new (cursor a b -> c)", (T0 - 294, 4, "a b", "c")),
        ("[2026-11-21 00:55:06,123Z] poll ok: 1 new (cursor=x)", (T0 - 294, 1, "x", "x")),
        ("2099-01-01T00:00:00Z poll ok: 1 new (cursor=x)", (T0, 1, "x", "x")),
        ("2026-13-41T00:00:00Z poll ok: 1 new (cursor=x)", (T0, 1, "x", "x")),
        ("poll failed: timeout", None),
        ("poll ok: many new (cursor=1)", None),
    ],
)
def test_a_line(line: str, expected: tuple[float, int, str, str] | None) -> None:
    poll = parse_poll("imessage", line, T0, PATTERN)
    assert (None if poll is None else (poll.at, poll.new, poll.start, poll.end)) == expected


def test_another_form_is_a_setting() -> None:
    pattern = poll_pattern(r"got (?P<new>\d+) since (?P<start>\w+)")
    poll = parse_poll("a", "got 3 since tok", T0, pattern)
    assert poll is not None
    assert (poll.new, poll.start, poll.end) == (3, "tok", "tok")
    for bad in ("(", r"got (\d+)"):
        with pytest.raises(UsageError, match="groups new and start" if bad == r"got (\d+)" else None):
            poll_pattern(bad)


@given(st.text(), st.floats(0, 1e12))
def test_any_line_is_a_poll_or_none(text: str, at: float) -> None:
    for line in (text, f"poll ok: 4 new (cursor {text} -> {text})", f"{text} poll ok: 4 new (cursor={text})"):
        poll = parse_poll("a", line, at, PATTERN)
        assert poll is None or poll.at <= at


class Memex:
    """A shared cursor file and the log of one poller beside it."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock(T0)
        self.file, self.log = folder / "cursors.json", folder / "poll-imessage.log"
        self.write(89632)
        self.log.touch()
        self.folder = folder

    def open(self, *globs: str, **settings: str) -> Control:
        return open_control(str(self.folder), settings=settings, watch=False, clock=self.clock, poll_logs=globs)

    def write(self, value: int) -> None:
        self.file.write_text(json.dumps({"imessage": value, "email": 1}))
        os.utime(self.file, (self.clock(), self.clock()))

    def said(self, line: str) -> None:
        with open(self.log, "a") as log:
            log.write(f"{line}\n")
        os.utime(self.log, (self.clock(), self.clock()))


@pytest.fixture
def memex(tmp_path: Path) -> Memex:
    return Memex(tmp_path)


def cursor(control: Control) -> Cursor:
    return next(one for one in control.look().cursors if one.source == "imessage")


def test_idle_and_stopped_are_told_apart_by_the_log(memex: Memex) -> None:
    with memex.open(SPOOLTOP_POLL_LOG=f"{memex.folder}/none*.log:imessage={memex.log}") as control:
        control.look()
        for _ in range(10):
            memex.clock.advance(60)
            memex.said("poll ok: 0 new (cursor=89632)")
            found = cursor(control)
        assert (found.verdict, found.evidence) == ("idle", "its poller ran 0s ago and has nothing new")
        memex.clock.advance(3600)
        found = cursor(control)
        assert (found.verdict, found.evidence) == ("stopped", "no poll in its log for 1h, every 60s before")


def test_the_past_of_a_log_counts_at_the_first_look(memex: Memex) -> None:
    for minute in (38, 39):
        memex.said(f"2026-11-21T00:{minute}:06Z poll ok: 4 new (cursor 89632 -> 89636)")
    with memex.open(str(memex.log)) as control:
        assert cursor(control).verdict == "stalled"


def test_a_log_is_read_on_through_rotation_and_truncation(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    os.mkfifo(tmp_path / "b.log")
    logs = PollLogs([LogGlob(str(tmp_path / "*.log"))])

    def lines() -> list[str]:
        return [line for _, _, _, these in logs.look() for line in these]

    assert lines() == []
    log.write_text("one\ntwo")
    assert lines() == ["one"]
    with open(log, "a") as file:
        file.write(" more\n")
    assert (lines(), lines()) == (["two more"], [])
    log.rename(tmp_path / "a.log.1")
    log.write_text("new\n")
    assert lines() == ["new"]
    log.write_text("x\n")
    assert lines() == ["x"]


def test_a_line_without_an_end_holds_up_none_that_comes_after_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\n")
    logs = PollLogs([LogGlob(str(log))])
    logs.look()
    with log.open("a") as file:
        file.write(f"{'x' * (5 << 20)}\nafter\n")
    found = [line for _ in range(8) for _, _, _, lines in logs.look() for line in lines]
    assert found[-1] == "after"


def test_of_a_long_log_the_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"{n:099}\n" for n in range(10_000)))
    ((_, _, _, lines),) = PollLogs([LogGlob(str(log))]).look()
    assert lines[-1] == f"{9999:099}"
    assert all(len(line) == 99 for line in lines)
    assert 600 < len(lines) < 700


def test_saves_that_only_the_log_knows_are_a_lower_bound_of_the_reverts_and_pass(memex: Memex) -> None:
    with memex.open(str(memex.log)) as control:
        control.look()
        for _ in range(2):
            memex.said("poll ok: 4 new (cursor 89632 -> 89636)")
            memex.said("poll ok: 0 new (cursor=89632)")
        found = cursor(control)
        assert (found.verdict, found.reverts, found.reverts_is_bound) == ("reverted", 2, True)
        assert found.evidence == "reverted 89636→89632, at least 2× by its poll log, last 0s ago"
        memex.clock.advance(3600)
        assert cursor(control).verdict != "reverted"
