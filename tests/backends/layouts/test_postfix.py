"""Postfix: age by the domain of senders, an even sample of a large queue, and the command that does what spooltop does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.backends.layouts import row_maker
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.definition.load import parse_layout
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.control import open_control
from spooltop.errors import Refused, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.observation import Ages
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from spooltop.observe.observer import Observer
from spooltop.records import replace
from tests.programs.stored import unpacked

from .test_queue_file import made
from .test_reader import Around

NOW = 1795410000.0


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    for name in ("active", "incoming", "deferred/A", "hold"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def put(queue: Path, number: int, sender: str, age: float) -> None:
    path = queue / "deferred" / "A" / f"A{number:09X}"
    path.write_bytes(made(("C", b" 1 "), ("T", f"{NOW - age:.0f} 0".encode()), ("S", sender.encode()), ("M", b"")))


def looked(queue: Path, *, times: int = 1) -> tuple[Ages, int]:
    reader = LayoutReader(str(queue), read_layout(os.path.join(SHIPPED, "postfix.toml")), Around(), clock=lambda: NOW)
    for _ in range(times):
        observation = reader.see()
    listing = reader.listing(ListQuery(Box.NEW))
    unread = sum(row.source is None for row in listing.window(0, 9_999))
    reader.close()
    assert observation.ages is not None
    return observation.ages, unread


def test_ages_by_the_domain_of_senders(queue: Path) -> None:
    for number in range(4):
        put(queue, number, f"n{number}@Letter.example", 30)
    put(queue, 9, "", 90_000)
    (queue / "deferred" / "A" / "AFFFFFFFF1").write_bytes(b"S\xff\xff")
    ages, unread = looked(queue)
    assert [(one.source, one.total, one.counts) for one in ages.by_source] == [
        ("letter.example", 4, (0, 4, 0, 0, 0, 0)), (None, 1, (0,) * 6), ("MAILER-DAEMON", 1, (0, 0, 0, 0, 0, 1)),
    ]  # fmt: skip
    assert (ages.looked_at, ages.of, ages.undated, unread) == (6, 6, 1, 1)


def test_a_large_queue_is_read_by_an_even_sample_first(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_maker, "_READ_AT_MOST", 100)
    for number in range(400):
        put(queue, number, f"a@{'first' if number < 200 else 'second'}.example", 30)
    ages, unread = looked(queue)
    assert (ages.looked_at, ages.of, unread) == (100, 400, 300)
    assert [one.total for one in ages.by_source] == [50, 50]
    ages, unread = looked(queue, times=4)
    assert (ages.looked_at, ages.of, unread) == (400, 400, 0)


def test_what_is_refused_names_the_command_of_postfix(tmp_path: Path) -> None:
    spool, _ = unpacked("postfix", tmp_path)
    with open_control(str(spool), watch=False, settings={}) as control:
        capabilities = control.look().observation.capabilities
        assert capabilities.command(Action.HOLD, "3F2A1") == "postsuper -h 3F2A1"
        assert capabilities.command(Action.REQUEUE, "$(rm x)") == "postqueue -i '$(rm x)'"
        assert capabilities.command(Action.INJECT, "3F2A1") == ""
        with pytest.raises(Refused) as raised:
            control.plan(Action.PURGE, Selection(ids=("9BD6542861A",)))
        assert str(raised.value) == f"{spool}: purge: Postfix changes its own queue; postsuper -d 9BD6542861A"


@pytest.mark.parametrize("text", ["postsuper -d", "postsuper -d {id} {path}", "x\\n{id}", ""])
def test_a_command_that_is_not_valid_is_named(text: str) -> None:
    layout = f'name = "mine"\ndetect = ["q/"]\n[[match]]\nbox = "new"\npath = "q/{{id}}"\n[commands]\npurge = "{text}"'
    with pytest.raises(UsageError, match=r"mine.toml: line 7: purge"):
        parse_layout("mine.toml", layout)
    with pytest.raises(UsageError, match=r"line 7: kill = 'kill': there are requeue, purge, hold, release"):
        parse_layout("mine.toml", layout.replace(f'purge = "{text}"', 'kill = "x {id}"'))


def test_mail_that_is_not_due_does_not_wait_for_anybody(queue: Path) -> None:
    put(queue, 1, "a@b.example", 30)
    put(queue, 2, "a@b.example", 90_000)
    later = queue / "deferred" / "A" / f"A{2:09X}"
    os.utime(later, (NOW + 60, NOW + 60))
    os.utime(queue / "deferred" / "A" / f"A{1:09X}", (NOW - 60, NOW - 60))
    reader = LayoutReader(str(queue), read_layout(os.path.join(SHIPPED, "postfix.toml")), Around(), clock=lambda: NOW)
    new = reader.see().boxes[Box.NEW]
    reader.close()
    assert (new.count, new.due, new.oldest_at) == (2, 1, NOW - 30)
    observer = Observer()
    (queue / "deferred" / "A" / f"A{1:09X}").unlink()
    reader = LayoutReader(str(queue), read_layout(os.path.join(SHIPPED, "postfix.toml")), Around(), clock=lambda: NOW)
    first = reader.see()
    reader.close()
    assert first.boxes[Box.NEW].due == 0
    for at in range(0, 900, 15):
        snapshot = observer.add(replace(first, taken_at=NOW + at))
    assert [problem.code for problem in snapshot.problems] == []
