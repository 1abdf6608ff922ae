"""The journal, which is the audit log as well: a true account, whatever cut it short and whoever writes into it."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import Spool
from spooltop.errors import AuditFailed
from spooltop.model.plan import BATCH, OperationRecord, Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld
from tests.cli.streams import finish

NEW = Selection(box=Box.NEW, everything=True)


def journal(world: SpoolWorld) -> Path:
    return world.path / ".spooltop/journal.jsonl"


def lines(world: SpoolWorld) -> list[bytes]:
    """Returns the lines of the journal, oldest first, without the room that is reserved behind them."""
    return [line for line in journal(world).read_bytes().splitlines(keepends=True) if line.strip(b"\0")]


def held(world: SpoolWorld, count: int = 1) -> str:
    """Holds ``count`` messages; returns the operation."""
    for number in range(count):
        world.put(f"m{number:05}")
    plan, result = world.do(Action.HOLD, NEW)
    assert result.count(Outcome.DONE) == count
    return plan.operation


def records(world: SpoolWorld, **limits: Any) -> list[OperationRecord]:
    with world.control() as control:
        return control.operations(**limits)


def test_an_operation_that_was_killed_between_two_batches_is_not_finished(world: SpoolWorld) -> None:
    held(world, BATCH + 2)
    [record] = records(world)
    assert not record.open and len(lines(world)) == 4
    journal(world).write_bytes(b"".join(lines(world)[:2]))
    [record] = records(world)
    assert (record.open, record.done, record.count) == (True, BATCH, BATCH + 2)
    assert "2 were not attempted" in record.words


@pytest.mark.parametrize("good", range(4))
def test_a_log_that_fails_ends_the_operation_and_the_result_says_what_was_done(
    world: SpoolWorld, before_call: Interpose, good: int
) -> None:
    writes = 0

    def fail(fd: int, *_: object) -> None:
        nonlocal writes
        if "/journal.jsonl" in os.readlink(f"/proc/self/fd/{fd}"):
            writes += 1
            if writes > good:
                raise OSError(5, "Input/output error")

    for number in range(2 * BATCH):
        world.put(f"m{number:05}")
    before_call("write", fail)
    try:
        _, result = world.do(Action.HOLD, NEW)
    except AuditFailed:
        assert good == 0 and len(world.names(Box.NEW)) == 2 * BATCH
        return
    moved = len(world.names(Box.HELD))
    assert moved == 2 * BATCH or (moved == BATCH and result.stopped)
    assert (len(result.items), result.untried) == (moved, 2 * BATCH - moved)
    assert result.undo and any("Input/output error" in note for note in result.notes)


def test_the_first_result_of_a_batch_counts(world: SpoolWorld) -> None:
    held(world)
    other = {"place": 0, "outcome": "failed", "reason": "", "moved": False, "ino": 0, "ctime": 0}
    forged = json.dumps({**json.loads(lines(world)[1]), "others": [other]}).encode() + b"\n"
    journal(world).write_bytes(b"".join(lines(world)) + forged)
    [record] = records(world)
    assert (record.done, record.failed) == (1, 0)


OUTCOME = {"place": 0, "outcome": "done", "reason": "", "moved": True, "ino": 0, "ctime": 0}
FORGED: list[dict[str, Any]] = [
    {},  # each line is only spaced otherwise
    *({name: value} for name in ("count", "first") for value in (True, -1, 1.5, 1 << 64, "0", None)),
    *({"time": value} for value in (True, -1.0, 1e300)), {"operation": "../../a4"},
    *({"moves": [{"from": place}]} for place in ("cur/..", "etc", "new/x", "trash/../x", "trash", "../new", 5)),
    *({"moves": [{"to": place}]} for place in ("cur/..", "etc", "new/x", "trash/../x", "trash")),
    *({"moves": [{"names": names}]} for names in ([".."], ["a/b"], ["\\x00"], ["\\x2f"], [""], "m", [1], None)),
    *({"moves": [{"inos": inos}]} for inos in (True, -1, 1.5, 1 << 64, "1", [None], [1, 2])),
    *({"moves": [{name: value}]} for name, value in (("sizes", None), ("ctimes", [[]]), ("tokens", 5), ("meta", "held"))),
    *({"tried": value} for value in (-1, True, 1 << 32)), *({"between": value} for value in ([1], 5, [1, -2])),
    *({"others": value} for value in (5, [{**OUTCOME, "place": 4}], [{**OUTCOME, "outcome": "eaten"}], [OUTCOME, OUTCOME])),
]  # fmt: skip


@pytest.mark.parametrize("forged", FORGED, ids=lambda forged: json.dumps(forged)[:60])
def test_a_line_with_a_value_that_it_cannot_have_is_left_out(world: SpoolWorld, forged: dict[str, Any]) -> None:
    held(world)
    values = [json.loads(line) for line in lines(world)]
    place = int(not forged.keys() & {"count", "time", "operation", "moves", "first"})
    if "moves" in forged:
        [moves] = values[0]["moves"]
        forged = {"moves": [{**moves, **forged["moves"][0]}]}
    values[place] |= forged
    journal(world).write_text("".join(json.dumps(value) + "\n" for value in values))
    assert [record.open for record in records(world)] == ([] if place == 0 else [bool(forged)])


def test_an_operation_is_found_before_others_whose_lines_are_spaced_otherwise(world: SpoolWorld) -> None:
    operations = [held(world) for _ in range(2)]
    journal(world).write_text("".join(json.dumps(json.loads(line)) + "\n" for line in lines(world)))
    assert [[one.operation for one in records(world, begins=one, most=1)] for one in operations] == [[one] for one in operations]


def test_a_result_that_says_to_have_tried_billions_is_not_counted_one_by_one(world: SpoolWorld) -> None:
    held(world)
    intent, result = (json.loads(line) for line in lines(world))
    journal(world).write_text("".join(json.dumps(line) + "\n" for line in (intent, {**result, "tried": (1 << 32) - 1})))
    assert [record.count for record in records(world)] == [1]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": 1}', "null", "x" * (3 << 20), "\udcff"])
def test_a_line_that_is_none_hides_no_other(world: SpoolWorld, text: str) -> None:
    operation = held(world)
    journal(world).write_bytes(text.encode("utf-8", "surrogateescape") + b"\n" + b"".join(lines(world)))
    assert [record.operation for record in records(world)] == [operation]


@pytest.mark.parametrize("kind", ["intent", "result"])
@pytest.mark.parametrize("again", ['"line":"intent"', '"line":"result"', '"operation":"other"', '"first":7'])
def test_a_line_that_names_a_member_twice_is_left_out(world: SpoolWorld, kind: str, again: str) -> None:
    """The beginning of a line says which step it is about. Somebody else may have written another one behind it."""
    held(world)
    forged = lines(world)
    place = int(kind == "result")
    end = forged[place].rindex(b',"others":' if place else b',"moves":')
    forged[place] = forged[place][:end] + f",{again}".encode() + forged[place][end:]
    journal(world).write_bytes(b"".join(forged))
    is_same = f'"line":"{kind}"' == again
    assert [record.open for record in records(world)] == ([False] if is_same else [True] if place else [])


def test_only_the_newest_operations_are_read_and_what_is_not_read_is_said(
    world: SpoolWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = [held(world) for _ in range(5)][::-1]
    assert [record.operation for record in records(world, most=3)] == operations[:3]
    for beginning in (operations[3], operations[3][:9]):
        assert [record.operation for record in records(world, begins=beginning)] == [operations[3]]
    with open(journal(world), "ab") as file:
        file.write(b"x" * 100_000 + b"\n")
    last = held(world)
    monkeypatch.setattr("spooltop.backends.log_store.LogFiles.read_at_most", 50_000)
    assert [record.operation for record in records(world)] == [last]
    plan, _ = world.undo(last)
    assert plan.count == 1 and any("not read" in note for note in plan.notes)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "fifo": lambda log, other: os.mkfifo(log), "link": Path.symlink_to, "hard link": Path.hardlink_to,
    "directory": lambda log, other: log.mkdir(),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("draft", [False, True])
def test_nothing_is_changed_where_something_else_stands_in_place_of_a_log(
    world: SpoolWorld, tmp_path: Path, planted: str, draft: bool
) -> None:
    """A log that is being replaced has its draft as its second name, and no other."""
    own, other = world.path / ".spooltop", tmp_path / "other"
    own.mkdir()
    other.write_text("mine\n")
    PLANTED[planted](own / "journal.jsonl", other)
    if draft:
        (own / ".journal.jsonl.1").hardlink_to(other)
    world.put("one")
    with pytest.raises(AuditFailed, match=r"journal\.jsonl"):
        world.do(Action.PURGE, NEW)
    assert world.names(Box.NEW) == ["one"] and other.read_text() == "mine\n"


@pytest.mark.long
@pytest.mark.early
def test_without_descriptors_a_list_is_whole_or_says_that_it_is_not(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        spool.put(b"x")
    assert finish(["hold", tmp_path / "s", "ALL", "--yes"]).code == 0
    codes = set()
    for limit in range(8, 16):
        done = finish(
            ["ls", tmp_path / "s", "--box", "held", "--json"],
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        )
        if done.code == 0:
            assert json.loads(done.out)["box"] == "held"
        else:
            assert done.out == "" and done.err.startswith("spooltop: ") and done.err.count("\n") == 1, done.err
        codes.add(done.code == 0)
    assert codes == {True, False}
