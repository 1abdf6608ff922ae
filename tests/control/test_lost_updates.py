"""Lost updates as a watcher sees them: each write between two looks counts, a correct one never."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.cursors.history import CursorHistory
from spooltop.cursors.model import Cursor, CursorSection, CursorWrite
from spooltop.model.vocabulary import Json, LockHolder


class Watched:
    """A folder of cursors that is watched."""

    def __init__(self, folder: Path, control: Control) -> None:
        self.path = folder / "cursors.json"
        self.control = control

    def write(self, sections: Json) -> None:
        draft = self.path.with_name(f"draft.{os.getpid()}")
        draft.write_text(json.dumps(sections))
        draft.replace(self.path)

    def received(self, sections: Json) -> None:
        """Waits until it was read as well."""
        self.write(sections)
        while not self.control.changes(0.2):
            continue

    def cursor(self, source: str = "imessage") -> Cursor:
        return next(one for one in self.control.look().cursors if one.source == source)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / "cursors.json").write_text(json.dumps({"imessage": 10, "email": 1}))
    with open_control(str(tmp_path), settings={"HOME": str(tmp_path)}) as control:
        found = Watched(tmp_path, control)
        assert found.cursor().value == 10
        yield found


def test_each_lost_update_between_two_looks_is_told(watched: Watched) -> None:
    for turn in range(4):
        watched.received({"imessage": 11 + turn, "email": 1 + turn})
        watched.received({"imessage": 10 + turn, "email": 2 + turn})
        watched.received({"imessage": 11 + turn, "email": 2 + turn})
    found = watched.cursor()
    assert (found.reverts, found.verdict, found.writes_unread, found.reverts_is_bound) == (4, "reverted", 0, False)
    assert found.suspects == (("email", 4),)
    assert watched.cursor().reverts == 4
    assert watched.cursor("email").reverts == 0


def test_each_write_of_the_file_of_one_source_counts(tmp_path: Path) -> None:
    folder = tmp_path / "cursors"
    folder.mkdir()
    (folder / "mail.json").write_text("10")
    with open_control(str(folder), settings={"HOME": str(tmp_path)}) as control:
        found = Watched(folder, control)
        found.path = folder / "mail.json"
        assert found.cursor("mail").value == 10
        for value in (11, 12, 13):
            found.received(value)
        assert [one.shown for one in found.cursor("mail").history] == ["13", "12", "11", "10"]


def test_writes_that_were_replaced_before_they_were_read_are_counted(watched: Watched) -> None:
    for turn in range(150):
        watched.write({"imessage": 11 + turn, "email": 1})
    found = watched.cursor()
    assert (found.value, found.reverts) == (160, 0)
    assert len(found.history) - 1 + found.writes_unread == 150


def test_a_file_written_in_place_is_read_when_it_is_closed(watched: Watched) -> None:
    for sections in ({"imessage": 11, "email": 1}, {"imessage": 10, "email": 2}):
        watched.path.write_text(json.dumps(sections))
        while not watched.control.changes(0.2):
            continue
    assert watched.cursor().reverts == 1


def test_more_sources_than_are_watched_are_said(watched: Watched) -> None:
    watched.write({f"s{n}": n for n in range(2_500)})
    snapshot = watched.control.look()
    assert len(snapshot.cursors) == 2_000
    assert not snapshot.observation.complete
    assert "500 more sources in cursors.json" in snapshot.not_visible


def test_a_large_section_is_watched_by_its_cursor(watched: Watched) -> None:
    for value in (1, 2, 1):
        watched.received({"imessage": {"cursor": value, "seen": "x" * 100_000}, "email": value + 1})
    found = watched.cursor()
    assert (found.value, found.cut, found.shown) == ({"cursor": 1}, True, "1")
    assert all(len(json.dumps(one.value)) < 300 for one in found.history)


def test_what_would_take_too_much_memory_is_not_read(watched: Watched) -> None:
    watched.path.write_text('{"imessage": [' + ",".join(["{}"] * 1_000_000) + "]}")
    found = watched.cursor()
    assert (found.verdict, found.value) == ("unreadable", 10)
    assert "would take over 48 MB of memory" in found.evidence


def test_a_line_of_the_journal_is_about_one_write_alone() -> None:
    """The clock of a file system stands still for milliseconds: the value that was there first has the same time."""
    history = CursorHistory(CursorSection(10.0, 1), seen_at=10.0)
    history.write(CursorSection(10.0, 2))
    history.add_journaled(CursorWrite(10.0, "imessage", 1, 2, LockHolder(7)), 11.0)
    assert [(one.value, one.journaled) for one in history.ring] == [(2, True), (1, False)]
