from __future__ import annotations

import json
import os
import stat

import pytest

from spooltop.engine import names
from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome
from spooltop.model.vocabulary import Action, Box
from tests.needs import needs


def inject(desk, **options):
    operations = desk.operations()
    return operations.apply(operations.plan(Action.INJECT, Selection(), options=options))


def test_messages_come_whole_under_the_ids_that_the_result_names(desk):
    result = inject(desk, count=3, text="hello", source="test", canary=True)
    assert result.count(Outcome.DONE) == 3
    assert desk.names(Box.NEW) == sorted(one.name for one in result.items)
    parsed = [names.parse(one.name, claimed=False) for one in result.items]
    assert [(name.id, name.source, name.canary) for name in parsed] == [(one.id, "test", True) for one in result.items]
    assert (desk.path / "new" / result.items[0].name).read_text() == "hello"
    assert desk.names(Box.TMP) == []


def test_what_stands_in_braces_is_filled_in_for_each_and_all_other_braces_stay(desk):
    text = '{"n": {n}, "of": {"count": {count}, "id": "{id}"}, "from": "{source}", "at": {time}, "as is": "{{n}} {m} {}"}\udcff'
    operations = desk.operations()
    plan = operations.plan(Action.INJECT, Selection(), options={"count": 3, "text": text, "source": "test"})
    assert any('"n": 1, "of"' in note for note in plan.notes), plan.notes  # how the first begins is seen before
    result = operations.apply(plan)
    assert result.count(Outcome.DONE) == 3
    for number, one in enumerate(result.items, 1):
        data = (desk.path / "new" / one.name).read_bytes()
        assert data.endswith(b"\xff")
        record = json.loads(data[:-1])
        assert record == {
            "n": number, "of": {"count": 3, "id": one.id}, "from": "test", "at": int(desk.clock.now), "as is": "{n} {m} {}",
        }  # fmt: skip


def test_a_file_is_read_when_the_plan_is_made(desk, tmp_path):
    file = tmp_path / "a message"
    file.write_bytes(b"number {n}\x00\xff")
    operations = desk.operations()
    plan = operations.plan(Action.INJECT, Selection(), options={"count": 2, "file": str(file)})
    assert plan.command == ("spooltop", "inject", str(desk.path), "--count", "2", "--file", str(file))
    file.write_bytes(b"changed since")
    held = {(desk.path / "new" / one.name).read_bytes() for one in operations.apply(plan).items}
    assert held == {b"number 1\x00\xff", b"number 2\x00\xff"}


def test_a_file_that_is_none_is_refused_and_not_waited_for(desk, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "large", "wb") as large:
        large.truncate(10 << 30)
    for name, why in (("fifo", "not a regular file"), ("large", "larger than"), ("", "not a regular file"), ("no", "read")):
        with pytest.raises(UsageError, match=why):
            desk.operations().plan(Action.INJECT, Selection(), options={"file": str(tmp_path / name)})
    with pytest.raises(UsageError, match="cannot be combined"):
        desk.operations().plan(Action.INJECT, Selection(), options={"file": "a", "text": "b"})
    assert not (desk.path / ".spooltop").exists()


def test_a_size_is_a_number_of_bytes(desk):
    [one] = inject(desk, size=100_000).items
    assert (desk.path / "new" / one.name).stat().st_size == 100_000


def test_the_confirmation_counts_what_will_be_put(desk):
    operations = desk.operations()
    confirms = [operations.plan(Action.INJECT, Selection(), options={"count": count}).confirm for count in (9, 10, 100)]
    assert confirms == [Confirm.SMALL, Confirm.LARGE, Confirm.NUMBER]


@pytest.mark.parametrize(
    "options",
    [
        {"count": 0}, {"count": "5"}, {"count": True}, {"size": -1}, {"size": "big"}, {"text": "a", "size": 1},
        {"source": "x" * 41}, {"source": ""},
    ],
)  # fmt: skip
def test_nonsense_is_a_usage_error_before_anything_happens(desk, options):
    with pytest.raises(UsageError):
        desk.operations().plan(Action.INJECT, Selection(), options=options)
    assert not (desk.path / ".spooltop").exists()


@needs("root")
def test_root_leaves_nothing_that_locks_the_owner_out(desk):
    for path in (desk.path, *(desk.path / box for box in ("tmp", "new", "cur"))):
        os.chown(path, 12345, 23456)
    os.chmod(desk.path / "cur", 0o2770)
    os.chmod(desk.path / "new", 0o2770)
    desk.put("job:2,P1", box=Box.CUR)
    operations = desk.operations()
    operations.apply(operations.plan(Action.INJECT, Selection(), options={"count": 1}))
    operations.apply(operations.plan(Action.PURGE, Selection(ids=("job",))))
    [name] = desk.names(Box.NEW)
    found = os.stat(desk.path / "new" / name)
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o660)
    for path in [desk.path / ".spooltop", *(desk.path / ".spooltop").rglob("*")]:
        if path.name == "job:2,P1":
            continue  # the message itself keeps whose it was
        found = path.stat()
        assert (found.st_uid, found.st_gid) == (12345, 23456), path
        assert stat.S_IMODE(found.st_mode) == (0o2770 if path.is_dir() else 0o660), path
    assert not (desk.path / ".spooltop" / "journal.jsonl").exists()
    assert not (desk.path / ".spooltop" / "audit.jsonl").exists()
    [logs] = desk.state.iterdir()
    assert sorted(path.name for path in logs.iterdir()) == ["audit.jsonl", "journal.jsonl"]
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    assert [record.action for record in operations.records()] == [Action.PURGE, Action.INJECT]
