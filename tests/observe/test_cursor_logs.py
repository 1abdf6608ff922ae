"""Journals and poll logs beside real cursor files: the past, the writers, and what no look saw."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.control import Control, open_control
from spooltop.cursors.model import Cursor
from spooltop.engine import CursorFile
from spooltop.errors import UsageError
from spooltop.model.vocabulary import Json

from ..clock import Clock
from .observations import T0


class Watching:
    """A real folder with cursors in it, written by the engine or unsafely, the log of a poller beside them, and a control that
    is opened with the first look. The clock runs from ``T0``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock(T0)
        self.file, self.journal = folder / "cursors.json", folder / ".cursors.journal"
        self.log = folder / "poll-imessage.log"
        self.stack = ExitStack()

    def engine(self, at: float, source: str, value: Json) -> None:
        self.clock.now = T0 + at
        CursorFile(self.file, clock=self.clock).advance(source, value)
        os.utime(self.file, (self.clock.now, self.clock.now))

    def unsafe(self, at: float, **sections: Json) -> None:
        self.clock.now = T0 + at
        self.file.write_text(json.dumps(sections))
        os.utime(self.file, (self.clock.now, self.clock.now))

    def said(self, *lines: str) -> None:
        """Writes lines of the poller into its log."""
        with open(self.log, "a", encoding="utf-8", errors="surrogatepass") as log:
            log.write("".join(f"{line}\n" for line in lines))

    def open(self, glob: str = "", **settings: str) -> Control:
        """Opens the folder with the logs of ``glob``, of the settings, or else with the log."""
        logs = [glob] if glob else [] if settings else [str(self.log)]
        return open_control(str(self.folder), settings=settings, watch=False, clock=self.clock, poll_logs=logs)

    @cached_property
    def control(self) -> Control:
        return self.stack.enter_context(open_control(str(self.folder), settings={}, watch=False, clock=self.clock))

    def look(self, at: float) -> dict[str, Cursor]:
        """The cursors by source."""
        self.clock.now = T0 + at
        return {cursor.source: cursor for cursor in self.control.look().cursors}

    def cursor(self, at: float) -> Cursor:
        return self.look(at)["imessage"]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    watching = Watching(tmp_path)
    with watching.stack:
        yield watching


def moves(cursor: Cursor) -> list[tuple[float, Json, int | None]]:
    return [(one.at - T0, one.value, one.writer.pid if one.writer else None) for one in cursor.history]


def test_one_who_comes_later_knows_the_past_hour(watching: Watching) -> None:
    watching.engine(-4000, "imessage", 1)
    for n in range(1, 6):
        watching.engine(60 * n, "imessage", 10 + n)
    cursor = watching.cursor(310)
    assert (cursor.verdict, cursor.every, cursor.writes) == ("advancing", 60.0, 5)
    assert cursor.evidence == "every 60s, last 10s ago"
    me = os.getpid()
    assert moves(cursor)[:5] == [(300, 15, me), (240, 14, me), (180, 13, me), (120, 12, me), (60, 11, me)]
    assert cursor.history[0].held_by[0].pid == me


def test_a_lost_update_that_nobody_watched_is_found_by_what_the_next_write_replaced(watching: Watching) -> None:
    watching.unsafe(0, imessage=89632, email=1)
    for n in range(3):
        watching.engine(60 * n + 1, "imessage", 89636)
        watching.unsafe(60 * n + 30, imessage=89632, email=2 + n)
    cursor = watching.cursor(160)
    assert (cursor.verdict, cursor.reverts_recent, cursor.value) == ("reverted", 3, 89632)
    assert cursor.evidence == "reverted 89636→89632, 3× in 2m"


def test_a_lost_update_between_two_looks_is_found_too(watching: Watching) -> None:
    watching.unsafe(0, imessage=5, email=1)
    watching.look(1)
    watching.engine(10, "imessage", 6)
    watching.unsafe(11, imessage=5, email=2)
    cursor = watching.cursor(12)
    assert (cursor.verdict, cursor.suspects) == ("reverted", (("email", 1),))
    assert [(one.value, bool(one.writer)) for one in cursor.history] == [(5, False), (6, True), (5, False)]


def test_no_line_is_told_twice_also_after_a_rotation(watching: Watching) -> None:
    for n in range(4):
        watching.engine(10 * n, "imessage", n)
    assert [value for _, value, _ in moves(watching.cursor(35))] == [3, 2, 1, 0]
    lines = watching.journal.read_bytes().splitlines(keepends=True)
    watching.journal.unlink()
    watching.journal.write_bytes(b"".join(lines[2:]))
    watching.engine(50, "imessage", 9)
    with open(watching.journal, "ab") as file:
        file.write(lines[0][:10])
    for at in (51, 52):
        assert [value for _, value, _ in moves(watching.cursor(at))] == [9, 3, 2, 1, 0]


FORGED = st.binary(max_size=40) | st.dictionaries(
    st.sampled_from(["time", "file", "source", "pid", "command", "old", "new", "cut"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
).map(lambda value: json.dumps({"file": "cursors.json", **value}).encode())


@settings(max_examples=30)
@given(st.lists(FORGED))
def test_a_forged_journal_breaks_no_look(lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        watching = Watching(Path(folder))
        watching.unsafe(0, imessage=1)
        watching.journal.write_bytes(b"\n".join(lines))
        with watching.stack:
            cursor = watching.cursor(1)
            assert cursor.value == 1 and cursor.evidence.isprintable()


LINE = {"time": T0 - 5, "file": "cursors.json", "source": "imessage", "pid": 7, "command": "poll", "old": None, "new": 1}


@pytest.mark.parametrize("missing", ["time", "file", "source", "pid", "old", "new", "cut", ""])
def test_a_line_without_one_of_its_members_is_no_write(watching: Watching, missing: str) -> None:
    line = {**LINE, "cut": True} if missing == "cut" else {name: value for name, value in LINE.items() if name != missing}
    watching.journal.write_text(json.dumps(line) + "\n")
    watching.unsafe(0, imessage=1, email=1)
    assert [write.value for write in watching.cursor(1).history if write.journaled] == ([] if missing else [1])


@pytest.fixture
def memex(watching: Watching) -> Watching:
    """A shared cursor file and an empty log."""
    watching.unsafe(0, imessage=89632, email=1)
    watching.log.touch()
    return watching


def cursor(control: Control) -> Cursor:
    return next(one for one in control.look().cursors if one.source == "imessage")


def news(control: Control) -> list[int]:
    """Numbers of what was new in each poll, the newest first."""
    return [poll.new for poll in cursor(control).polls]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("poll ok: 4 new (cursor 89632 -> 89636)", [(0, 4, "89632", "89636")]),
        ("poll ok: 0 new (cursor=89636)", [(0, 0, "89636", "89636")]),
        ("2026-11-21T00:55:06+00:00 INFO poll ok: 4 new (cursor a b -> c)", [(-294, 4, "a b", "c")]),
        ("[2026-11-21 00:55:06,123Z] poll ok: 1 new (cursor=x)", [(-294, 1, "x", "x")]),
        ("2099-01-01T00:00:00Z poll ok: 1 new (cursor=x)", [(0, 1, "x", "x")]),
        ("2026-13-41T00:00:00Z poll ok: 1 new (cursor=x)", [(0, 1, "x", "x")]),
        ("poll failed: timeout", []),
        ("poll ok: many new (cursor=1)", []),
    ],
)
def test_a_line(memex: Watching, line: str, expected: list[tuple[float, int, str, str]]) -> None:
    with memex.open() as control:
        control.look()
        memex.said(line)
        assert [(poll.at - T0, poll.new, poll.start, poll.end) for poll in cursor(control).polls] == expected


def test_another_form_is_a_setting(memex: Watching) -> None:
    where = {"SPOOLTOP_POLL_LOG": f"imessage={memex.log}"}
    memex.said("got 3 since tok")
    with memex.open(**where, SPOOLTOP_POLL_LINE=r"got (?P<new>\d+) since (?P<start>\w+)") as control:
        assert [(poll.new, poll.start, poll.end) for poll in cursor(control).polls] == [(3, "tok", "tok")]
    for bad, why in (("(", "does not compile"), (r"got (\d+)", "groups new and start")):
        with pytest.raises(UsageError, match=why):
            memex.open(**where, SPOOLTOP_POLL_LINE=bad)


def test_idle_and_stopped_are_told_apart_by_the_log(memex: Watching) -> None:
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


def test_the_past_of_a_log_counts_at_the_first_look(memex: Watching) -> None:
    memex.said(*(f"2026-11-21T00:{minute}:06Z poll ok: 4 new (cursor 89632 -> 89636)" for minute in (38, 39)))
    with memex.open() as control:
        assert cursor(control).verdict == "stalled"


def test_a_log_is_read_on_through_rotation_and_truncation(memex: Watching) -> None:
    os.mkfifo(memex.folder / "poll-b.log")
    with memex.open(f"{memex.folder}/*.log") as control:
        assert news(control) == []
        memex.log.write_text("poll ok: 1 new (cursor=1)\npoll ok: 2 n")
        assert news(control) == [1]
        memex.said("ew (cursor=1)")
        assert news(control) == news(control) == [2, 1]
        memex.log.rename(memex.folder / "poll-imessage.log.1")
        memex.said("poll ok: 3 new (cursor=1000)")
        assert news(control) == [3, 2, 1]
        memex.log.write_text("poll ok: 4 new (cursor=1)\n")
        assert news(control) == [4, 3, 2, 1]


def test_a_line_without_an_end_holds_up_none_that_comes_after_it(memex: Watching) -> None:
    with memex.open() as control:
        control.look()
        memex.said("x" * (5 << 20), "poll ok: 7 new (cursor=1)")
        assert [7] in [news(control) for _ in range(8)]


def test_of_a_long_log_the_end(memex: Watching) -> None:
    memex.said(*(f"poll ok: {n} new (cursor={n:099})" for n in range(10_000)))
    with memex.open() as control:
        assert news(control) == list(range(9_999, 9_949, -1))


def test_saves_that_only_the_log_knows_are_a_lower_bound_of_the_reverts_and_pass(memex: Watching) -> None:
    with memex.open() as control:
        control.look()
        for _ in range(2):
            memex.said("poll ok: 4 new (cursor 89632 -> 89636)", "poll ok: 0 new (cursor=89632)")
        found = cursor(control)
        assert (found.verdict, found.reverts, found.reverts_is_bound) == ("reverted", 2, True)
        assert found.evidence == "reverted 89636→89632, at least 2× by its poll log, last 0s ago"
        memex.clock.advance(3600)
        assert cursor(control).verdict != "reverted"
