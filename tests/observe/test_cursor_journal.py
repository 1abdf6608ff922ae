"""The engine's journal: the past hour, the writers, and writes that no look saw."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.backends.directory.cursors.journal import parse_journal
from spooltop.control import Control, open_control
from spooltop.engine import CursorFile
from spooltop.engine.cursors.journal import JOURNAL
from spooltop.model.cursors.state import Cursor
from spooltop.model.vocabulary import Json

from ..clock import Clock
from .observations import T0


class Watching:
    """A real folder with cursors in it, written by the engine or unsafely, and a control that is opened with the first look.
    The clock runs from ``T0``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock(T0)
        self.file = folder / "cursors.json"
        self.stack = ExitStack()

    def engine(self, at: float, source: str, value: Json) -> None:
        self.clock.now = T0 + at
        CursorFile(self.file, clock=self.clock).advance(source, value)
        os.utime(self.file, (self.clock.now, self.clock.now))

    def unsafe(self, at: float, **sections: Json) -> None:
        self.clock.now = T0 + at
        self.file.write_text(json.dumps(sections))
        os.utime(self.file, (self.clock.now, self.clock.now))

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


def test_a_line_names_the_writer_of_no_other_write_of_the_same_value(watching: Watching) -> None:
    watching.unsafe(0, imessage=5, email=1)
    watching.look(1)
    for at, value in ((10, 6), (30, 5), (50, 6)):
        watching.unsafe(at, imessage=value, email=1)
        watching.look(at + 1)
    watching.engine(60, "imessage", 6)
    assert moves(watching.cursor(61))[:4] == [(60, 6, os.getpid()), (50, 6, None), (30, 5, None), (10, 6, None)]


@pytest.mark.parametrize(("bypassed", "verdict"), [(False, "stopped"), (True, "not advancing")])
def test_in_a_shared_file_it_stopped_only_where_every_write_of_it_is_in_the_journal(
    watching: Watching, bypassed: bool, verdict: str
) -> None:
    watching.unsafe(0, imessage=1, email=1)
    watching.look(0.5)
    for n in range(1, 7):
        if bypassed and n == 3:
            watching.unsafe(60 * n, imessage=n + 1, email=1)
        else:
            watching.engine(60 * n, "imessage", n + 1)
        watching.look(60 * n + 1)
    assert watching.cursor(360 + 7200).verdict == verdict


def test_no_line_is_told_twice_also_after_a_rotation(watching: Watching) -> None:
    for n in range(4):
        watching.engine(10 * n, "imessage", n)
    assert [value for _, value, _ in moves(watching.cursor(35))] == [3, 2, 1, 0]
    journal = watching.folder / JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.unlink()
    journal.write_bytes(b"".join(lines[2:]))
    watching.engine(50, "imessage", 9)
    with open(journal, "ab") as file:
        file.write(lines[0][:10])
    for at in (51, 52):
        assert [value for _, value, _ in moves(watching.cursor(at))] == [9, 3, 2, 1, 0]


def test_what_a_safe_writer_set_back_is_no_lost_update_though_an_unsafe_one_did_so_before(watching: Watching) -> None:
    for n, value in enumerate((5, 6, 5, 6)):
        watching.unsafe(10 * n, imessage=value, email=1)
        watching.look(10 * n + 1)
    watching.engine(40, "imessage", 5)
    cursor = watching.cursor(41)
    assert (cursor.verdict, cursor.reverts_recent) == ("rewound", 0)
    assert [entry.writer is None for entry in cursor.history[:2]] == [False, True]


def test_nobody_locks_is_told_where_the_lock_is_not_there(watching: Watching) -> None:
    watching.unsafe(0, imessage=5, email=1)
    assert watching.cursor(1).unsafe == ("nobody locks by .cursors.lock: it is not there",)
    watching.engine(2, "imessage", 6)
    assert watching.cursor(3).unsafe == ()
    (watching.folder / "cursors.json.tmp").touch()
    assert watching.cursor(4).unsafe == ("common temp cursors.json.tmp seen",)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.integers(0, 3)), max_size=12))
def test_the_last_value_is_the_files_whatever_was_written(steps: list[tuple[str, bool, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        watching = Watching(Path(folder))
        watching.unsafe(0, a=0, b=0)
        with watching.stack:
            for n, (source, safe, value) in enumerate(steps):
                if safe:
                    watching.engine(n + 1, source, value)
                else:
                    watching.unsafe(n + 1, **{**json.loads(watching.file.read_text()), source: value})
                if value % 2:
                    watching.look(n + 1.5)
            values = {source: cursor.value for source, cursor in watching.look(len(steps) + 2).items()}
            assert values == json.loads(watching.file.read_text())


@given(st.lists(st.binary(max_size=40) | st.dictionaries(
    st.sampled_from(["time", "file", "source", "pid", "command", "old", "new", "cut"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)).map(lambda value: json.dumps(value).encode())
))  # fmt: skip
def test_a_forged_journal_says_nothing_or_something_whole(lines: list[bytes]) -> None:
    for name, write in parse_journal(b"\n".join(lines)):
        assert isinstance(name, str)
        assert isinstance(write.source, str)
        assert write.writer.pid is not None


@pytest.mark.parametrize("missing", ["time", "file", "source", "pid", "old", "new"])
def test_a_line_without_one_of_its_members_is_no_write(missing: str) -> None:
    line = {"time": 5.0, "file": "cursors.json", "source": "email", "pid": 7, "command": "poll", "old": None, "new": 1}
    assert [write.new for _, write in parse_journal(json.dumps(line).encode())] == [1]
    assert parse_journal(json.dumps({name: value for name, value in line.items() if name != missing}).encode()) == []
    assert parse_journal(json.dumps({**line, "cut": True}).encode()) == []
