"""The moves of a batch in the lines of the journal: by columns, and as an earlier version wrote them."""

from __future__ import annotations

import json

import pytest

from spooltop.backends.directory.journal.moves import MoveColumns, decode_moves, decode_outcome, encode_moves, encode_outcome_line
from spooltop.backends.directory.journal.outcomes import BatchOutcome, MoveOutcome
from spooltop.backends.directory.storage.location import Place
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box

NAMES = ["1.P1R1.a,s=mail", 'quo"ted\\', "caf\xe9", "\udcff raw", "\x1b[31m"]
META = {"origin": "new", "reason": "hold by ann", "at": 1.5, "who": "ann", "operation": "a1"}
COLUMNS = MoveColumns(
    (Box.CUR, ""), (Box.TRASH, "b2"), META, NAMES, [f"{name}x" for name in NAMES], [1, 2, 3, 4, 5], [0] * 5, [7, 7, 7, 7, 8],
    ["t", None, "t", "t", "t"],
)  # fmt: skip


@pytest.mark.parametrize(
    "columns",
    [
        COLUMNS, COLUMNS._replace(to_names=NAMES), COLUMNS._replace(target=None, to_names=NAMES), COLUMNS._replace(meta=None),
        COLUMNS._replace(source=None, inos=[0] * 5, tokens=[None] * 5), COLUMNS._replace(source=(Box.HELD, "c3")),
    ],
)  # fmt: skip
def test_columns_are_read_as_they_were_written(columns):
    text = encode_moves(columns)
    assert text.isascii() and text.isprintable()
    [read] = decode_moves({"moves": [json.loads(text)]})
    assert read == columns
    moves = list(read.moves())
    assert [move.ino for move in moves] == columns.inos
    assert [move.source and move.source.name for move in moves] == (columns.names if columns.source else [None] * 5)
    assert [move.target and move.target.name for move in moves] == (columns.to_names if columns.target else [None] * 5)
    for place in (place for move in moves for place in (move.source, move.target) if place is not None):
        assert Place.parse(str(place)) == place


def test_a_run_of_the_same_messages_takes_less_than_one_line_each_in_an_earlier_version():
    names = [f"{number:016d}.P4290R{number:016x}.host" for number in range(100)]
    one = {"from": f"new/{names[0]}", "to": f"held/a1/{names[0]}", "ino": 1, "size": 2, "ctime": 3, "token": None}
    run = MoveColumns((Box.NEW, ""), (Box.HELD, "a1"), None, names, names, [1] * 100, [2] * 100, [3] * 100, [None] * 100)
    assert len(encode_moves(run)) * 2 < len(json.dumps(one)) * 100


def test_an_outcome_is_read_as_it_was_written():
    others = {1: MoveOutcome(Outcome.SKIPPED, 'changed "since"'), 3: MoveOutcome(Outcome.FAILED, "moved, but", True, 9, 5, 5)}
    line = encode_outcome_line({"schema": 1}, BatchOutcome(4, others, (10, 20)))
    read = decode_outcome(json.loads(line))
    assert [read.at(place, ino) for place, ino in enumerate((6, 7, 8, 9))] == [
        MoveOutcome(Outcome.DONE, "", True, 6, 10, 20), MoveOutcome(Outcome.SKIPPED, 'changed "since"'),
        MoveOutcome(Outcome.DONE, "", True, 8, 10, 20), others[3],
    ]  # fmt: skip
    assert len(read) == 4 and line.endswith(b"]}\n"), "by this the lines without a result are found"


@pytest.mark.parametrize(
    "more",
    [
        {"from": None, "to": None}, {"from": "cur/.."}, {"from": "etc"}, {"to": "trash"}, {"to": "trash/../x"}, {"to": "new/x"},
        {"names": [".."] * 5}, {"names": ["a/b"] * 5}, {"names": ["\\x00"] * 5}, {"names": ["\\x2f"] * 5}, {"names": [""] * 5},
        {"names": "a"}, {"names": [1] * 5}, {"names": NAMES[:1]}, {"to_names": ["a/b"] * 5}, {"to_names": ["a"]},
        {"inos": [1]}, {"inos": True}, {"inos": -1}, {"inos": 1.5}, {"inos": 1 << 64}, {"inos": "1"},
        {"inos": [1, 2, 3, 4, None]}, {"sizes": None}, {"ctimes": [[]] * 5}, {"tokens": 5}, {"tokens": [None]}, {"meta": "held"},
    ],
)  # fmt: skip
def test_columns_that_are_none_are_refused(more):
    value = json.loads(encode_moves(COLUMNS))
    with pytest.raises(ValueError):
        decode_moves({"moves": [{**value, **more}]})


@pytest.mark.parametrize("key", ["from", "to", "names", "inos", "sizes", "ctimes"])
def test_columns_without_one_that_all_have_are_refused(key):
    value = json.loads(encode_moves(COLUMNS))
    del value[key]
    with pytest.raises(ValueError):
        decode_moves({"moves": [value]})


@pytest.mark.parametrize(
    "more",
    [
        {"tried": -1}, {"tried": True}, {"tried": 1 << 32}, {"between": [1]}, {"between": 5}, {"between": [1, -2]}, {"others": 5},
        {"others": [{"place": 4, "outcome": "done", "reason": "", "moved": True, "ino": 0, "ctime": 0}]},
        {"others": [{"place": 0, "outcome": "eaten", "reason": "", "moved": True, "ino": 0, "ctime": 0}]},
    ],
)  # fmt: skip
def test_an_outcome_that_is_none_is_refused(more):
    with pytest.raises(ValueError):
        decode_outcome({"tried": 4, "others": [], **more})


def of_an_earlier_version(journal):
    """Writes the lines of a journal as the version before columns did."""
    lines = []
    for line in map(json.loads, journal.read_bytes().rstrip(b"\0").splitlines()):
        if line["line"] == "intent":
            runs = decode_moves(line)
            inos = [ino for run in runs for ino in run.inos]
            line["items"] = [
                {
                    "from": move.source and str(move.source), "to": move.target and str(move.target), "ino": move.ino,
                    "size": move.size, "ctime": move.ctime_ns, "token": move.token,
                    **({} if move.meta is None else {"meta": move.meta}),
                }
                for run in runs for move in run.moves()
            ]  # fmt: skip
            del line["moves"]
        else:
            outcome = decode_outcome(line)
            line["results"] = [
                {
                    "outcome": one.outcome, "reason": one.reason, "moved": one.moved, "ino": one.ino,
                    "ctime": None if one.until_ns and place not in outcome.others else one.ctime_ns,
                }
                for place, one in enumerate(map(outcome.at, range(len(outcome)), inos))
            ]  # fmt: skip
            del line["tried"], line["others"]
        lines.append(json.dumps(line) + "\n")
    journal.write_text("".join(lines))


@pytest.mark.parametrize(
    ("action", "box"), [(Action.HOLD, Box.NEW), (Action.REQUEUE, Box.CUR), (Action.RELEASE, Box.HELD), (Action.PURGE, Box.HELD)]
)
def test_an_operation_of_an_earlier_version_is_listed_and_undone(desk, action, box):
    for number in range(4):
        desk.put(f"{desk.id(number)}:2,P4290" if box is Box.CUR else desk.id(number), box=Box.CUR if box is Box.CUR else Box.NEW)
    operations = desk.operations()
    if box is Box.HELD:
        operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
    before = desk.census()
    done = operations.apply(operations.plan(action, Selection(box=box, everything=True)))
    assert done.count(Outcome.DONE) == 4
    listed = operations.records()
    of_an_earlier_version(desk.path / ".spooltop" / "journal.jsonl")
    assert operations.records() == listed
    undo = operations.plan(Action.UNDO, Selection(), options={"undoes": done.operation})
    assert operations.apply(undo).count(Outcome.DONE) == 4
    assert desk.census() == before
