"""The journal is read from its end, and no further than what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.directory.journal.journal import MOVES
from spooltop.backends.directory.journal.summaries import SUMMARIES
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_lines import LogLines
from spooltop.backends.journal.record_log import gather
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import OperationRecord, Outcome
from spooltop.model.vocabulary import Action, Box
from tests.desk import Desk

MANY = 40


class Counting(LogFiles):
    """Counts the bytes that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        self.bytes_read += length
        return super().read_at(fd, length, offset)


def journal(desk: Desk) -> Path:
    return desk.path / ".spooltop" / "journal.jsonl"


def lines(desk: Desk) -> list[bytes]:
    """Newest first."""
    return journal(desk).read_bytes().splitlines()[::-1]


def worked(desk: Desk) -> dict[str, str]:
    """A hold that was undone but for one, a purge that deleted, a requeue of which one failed; the ids of the operations."""
    for number in range(5):
        desk.put(f"m{number}")
    operations = desk.operations()

    def done(action: Action, selection: Selection, **options: object) -> str:
        return operations.apply(operations.plan(action, selection, options=options or None, force=True)).operation  # type: ignore[arg-type]

    ids = {"hold": done(Action.HOLD, Selection(box=Box.NEW, ids=("m0", "m1", "m2")))}
    (desk.path / ".spooltop" / "held" / ids["hold"] / "m1").unlink()
    ids["undo"] = done(Action.UNDO, Selection(), undoes=ids["hold"])
    ids["purge"] = done(Action.PURGE, Selection(box=Box.NEW, ids=("m3",)), now=True)
    desk.put("m5:2,P1", box=Box.CUR)
    plan = operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), force=True)
    desk.put("m5")
    ids["requeue"] = operations.apply(plan).operation
    return ids


def by_id(desk: Desk) -> dict[str, OperationRecord]:
    return {record.operation: record for record in desk.operations().records()}


def test_a_summary_counts_what_the_whole_lines_tell(desk: Desk) -> None:
    ids = worked(desk)
    full, _ = gather(lines(desk), MOVES, trusted=True)
    short, bad = gather(lines(desk), SUMMARIES, trusted=True)
    assert (list(short), bad) == (list(full), 0) == (list(ids.values()), 0)
    for operation, logged in full.items():
        [(batch, outcome)], [(summary, tally)] = logged.steps.values(), short[operation].steps.values()
        assert outcome is not None and tally is not None
        outcomes, _, moved = outcome.columns()
        assert [*tally] == [*(outcomes.count(one) for one in Outcome), sum(moved)]
        assert summary.deletes is batch.deletes is (operation == ids["purge"])
        assert (list(summary.moves()), len(batch)) == ([], len(outcome))
    assert tuple(short[ids["requeue"]].steps[0][1] or ()) == (0, 0, 1, 0)


def earlier(line: bytes) -> bytes:
    """The line as the version before wrote it: an object for each message."""
    value = json.loads(line)
    if value["line"] == "intent":
        [run] = value.pop("moves")
        names = zip(run["names"], run.get("to_names", run["names"]), strict=True)
        common = {"ino": 1, "size": 2, "ctime": 3, "token": None}
        value["items"] = [
            {"from": f"{run['from']}/{name}", "to": run["to"] and f"{run['to']}/{to}", **common} for name, to in names
        ]
    else:
        value["results"] = [{"outcome": "done", "reason": "", "moved": True, "ino": 1, "ctime": 0}] * value.pop("tried")
        for one in value.pop("others"):
            value["results"][one.pop("place")] = one
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize("version", [bytes, earlier])
def test_the_moves_of_a_line_as_it_is_written_are_not_parsed(desk: Desk, version: Callable[[bytes], bytes]) -> None:
    worked(desk)
    written = [version(line) for line in lines(desk)]
    shortened = [SUMMARIES.shorten(line) for line in written]
    for line, short in zip(written, shortened, strict=True):
        failed = b'"outcome":"failed"' in line
        assert failed or len(short) < 340
        assert b"ino\":1" not in short or failed
    found, bad = gather(written, SUMMARIES, trusted=True)
    assert (found, bad) == gather(lines(desk), SUMMARIES, trusted=True)


def test_lines_that_another_program_has_spaced_tell_the_same(desk: Desk) -> None:
    ids = worked(desk)
    before = by_id(desk)
    assert before[ids["hold"]].why_not_undo is None  # one is left of what was held
    spaced = [json.dumps(json.loads(line)) for line in reversed(lines(desk))]
    journal(desk).write_text("\n".join(spaced) + "\n")
    assert by_id(desk) == before


@pytest.mark.parametrize("which", [0, 1], ids=["result", "intent"])
@pytest.mark.parametrize(
    "again", ['"line":"intent"', '"line":"result"', '"operation":"other"', '"batch":7'], ids=["intent", "result", "id", "batch"]
)
def test_a_line_that_names_a_member_twice_is_left_out(desk: Desk, which: int, again: str) -> None:
    """The beginning of a line says which step it is about. Somebody else may have written another one behind it."""
    desk.put("a")
    operations = desk.operations()
    done = operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))
    forged = lines(desk)
    kind = json.loads(forged[which])["line"]
    end = forged[which].rindex(b',"others":' if kind == "result" else b',"moves":')
    forged[which] = forged[which][:end] + f",{again}".encode() + forged[which][end:]
    found, bad = gather(forged, MOVES, trusted=True)
    if f'"line":"{kind}"' == again:
        assert bad == 0 and not found[done.operation].open
    elif kind == "result":
        assert bad == 1 and found[done.operation].open
    else:
        assert (found, bad) == ({}, 1)


def test_only_the_newest_operations_are_read(desk: Desk) -> None:
    for number in range(MANY):
        desk.put(f"m{number}")
        operations = desk.operations()
        operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, ids=(f"m{number}",))))
    everything = desk.operations().records()
    assert len(everything) == MANY
    assert desk.operations().records(most=3) == everything[:3]
    assert desk.operations().records(begins=everything[7].operation) == [everything[7]]
    assert desk.operations().records(begins=everything[7].operation[:9]) == [everything[7]]


def test_nothing_older_than_the_operation_is_read_to_undo_it(desk: Desk) -> None:
    ids = worked(desk)
    size = journal(desk).stat().st_size
    older = b'{"schema":1,"line":"intent","operation":"older",' + b"x" * (8 << 20) + b"]}\n"
    journal(desk).write_bytes(older + journal(desk).read_bytes())
    files = Counting()
    operations = desk.operations(files)
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": ids["hold"]})
    assert [refusal.reason for refusal in plan.refused] == ["no longer in held"]
    assert plan.notes == ("2 of 3 undone already.",)
    assert size < files.bytes_read < 4 << 20


@pytest.mark.parametrize("length", [1, 1000, (1 << 20) - 1, 1 << 20, 3 << 20])
def test_lines_of_any_length_come_whole_and_newest_first(tmp_path: Path, length: int) -> None:
    written = [b"a" * length, b"b", b"c" * length, b"d"]
    (tmp_path / "log").write_bytes(b"\n".join(written) + b"\n\ncut")
    files = LogFiles()
    fd = files.open_dir(str(tmp_path), follow=True)
    try:
        log = LogLines(files, lambda: fd, "log")
        assert (list(log), log.torn, log.unread) == (written[::-1], True, 0)
    finally:
        files.close(fd)
