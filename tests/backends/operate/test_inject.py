"""Injected messages: whole, under the ids that the result names, from options that make sense."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spooltop.errors import UsageError
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Confirm, Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import SpoolWorld
from tests.clock import NOW, Clock

NONE = Selection()


def plan_of(world: SpoolWorld, **options: Any) -> Plan:
    with world.control() as control:
        return control.plan(Action.INJECT, NONE, options=options)


def test_messages_come_whole_under_the_ids_that_the_result_names(world: SpoolWorld) -> None:
    _, result = world.do(Action.INJECT, NONE, count=3, text="hello", source="test", canary=True)
    assert world.names(Box.NEW) == sorted(one.name for one in result.items) and world.names(Box.TMP) == []
    with world.control() as control:
        control.look()
        rows = control.listing(ListQuery(Box.NEW)).window(0, 9)
    assert {(row.id, row.source, row.canary) for row in rows} == {(one.id, "test", True) for one in result.items}
    assert list(world.census()) == ["hello"] and len(rows) == result.count(Outcome.DONE) == 3
    _, result = world.do(Action.INJECT, NONE, size=100_000)
    assert (world.path / "new" / result.items[0].name).stat().st_size == 100_000
    _, result = world.do(Action.INJECT, NONE, count=1001, text="one after a whole batch")
    assert result.count(Outcome.DONE) == len(world.names(Box.NEW)) - 4 == 1001


def test_whoever_may_read_new_may_read_them(world: SpoolWorld) -> None:
    (world.path / "new").chmod(0o770)
    before = os.umask(0o077)  # says nothing: a consumer of the group has to read them
    try:
        _, result = world.do(Action.INJECT, NONE, text="hello")
    finally:
        os.umask(before)
    assert stat.S_IMODE((world.path / "new" / result.items[0].name).stat().st_mode) == 0o660


def test_what_stands_in_braces_is_filled_in_for_each_and_all_other_braces_stay(world: SpoolWorld) -> None:
    text = '{"n": {n}, "of": {"count": {count}, "id": "{id}"}, "from": "{source}", "at": {time}, "as is": "{{n}} {m} {}"}\udcff'
    with world.control(clock=Clock()) as control:
        plan = control.plan(Action.INJECT, NONE, options={"count": 3, "text": text, "source": "test"})
        assert any('"n": 1, "of"' in note for note in plan.notes), plan.notes  # how the first begins is seen before
        result = control.apply(plan)
    assert len(result.items) == 3
    for number, one in enumerate(result.items, 1):
        data = (world.path / "new" / one.name).read_bytes()
        assert data.endswith(b"\xff") and json.loads(data[:-1]) == {
            "n": number, "of": {"count": 3, "id": one.id}, "from": "test", "at": int(NOW), "as is": "{n} {m} {}",
        }  # fmt: skip


def test_a_text_that_the_locale_has_no_characters_for_is_utf_8() -> None:
    """It is typed into the dashboard: no argument can hold it there."""
    code = "from spooltop.backends.plan_options import InjectedContent as Content\n"
    code += "print(*(Content({'text': text}, 9).data(1, '', 0.0) for text in ('\\u20ac', 'x\\udcff')))"
    words = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **words}, capture_output=True, text=True)
    assert done.stdout == "b'\\xe2\\x82\\xac' b'x\\xff'\n", done.stderr


def test_a_file_is_read_when_the_plan_is_made(world: SpoolWorld, tmp_path: Path) -> None:
    file = tmp_path / "a message"
    file.write_bytes(b"number {n}\x00\xff")
    with world.control() as control:
        plan = control.plan(Action.INJECT, NONE, options={"count": 2, "file": str(file)})
        assert plan.command == ("spooltop", "inject", str(world.path), "--count", "2", "--file", str(file))
        file.write_bytes(b"changed since")
        contents = {(world.path / "new" / one.name).read_bytes() for one in control.apply(plan).items}
    assert contents == {b"number 1\x00\xff", b"number 2\x00\xff"}


def test_the_confirmation_counts_what_will_be_put(world: SpoolWorld) -> None:
    assert [plan_of(world, count=count).confirm for count in (9, 10, 100)] == [Confirm.SMALL, Confirm.LARGE, Confirm.NUMBER]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, None), ({"count": "5"}, None), ({"count": True}, None), ({"size": -1}, None), ({"size": "big"}, None),
        ({"text": "a", "size": 1}, None), ({"source": "x" * 41}, None), ({"source": ""}, None),
        ({"file": "a", "text": "b"}, "cannot be combined"), ({"file": "fifo"}, "not a regular file"),
        ({"file": "."}, "not a regular"),
        ({"file": "large"}, "larger than"), ({"file": "no"}, "read"),
    ],
)  # fmt: skip
def test_nonsense_is_a_usage_error_before_anything_happens(
    world: SpoolWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str | None
) -> None:
    """A file that is none is not waited for."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with open("large", "wb") as large:
        large.truncate(10 << 30)
    with pytest.raises(UsageError, match=words):
        plan_of(world, **options)
    assert not (world.path / ".spooltop").exists()
