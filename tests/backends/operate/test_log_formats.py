"""The logs of cursors and locks on disk: lines of an earlier version are read and undone, and new lines have the same bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spooltop.backends.directory.cursors.operator import CursorOperator
from spooltop.backends.directory.locks.operator import LockOperator
from spooltop.backends.directory.world import World
from spooltop.backends.journal.log_files import LogFiles, state_of
from spooltop.backends.journal.log_store import StateLogs
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action
from spooltop.operate.operations import Operations

WRITTEN = 1_800_000_000.0
SET = (
    r'{"schema":1,"line":"intent","operation":"OP","action":"set-cursor","time":1800000000.0,"user":"a\u00fcnn","undoes":null,'
    r'"file":"DIR/cursors.json","source":"b\u00e9","had":true,"before":7,"after":"ne\u00fc"}'
    "\n"
    r'{"schema":1,"line":"result","operation":"OP","time":1800000000.0,"outcome":"done","reason":""}'
    "\n"
)
UNLOCKED = (
    r'{"schema":1,"line":"intent","operation":"OP","item":0,"action":"unlock","time":1800000000.0,"user":"a\u00fcnn",'
    r'"undoes":null,"path":"DIR/b\u00fc.lock","folder":"DIR","below":"","names":["b\u00fc.lock"],'
    r'"content":"eyJvd25lcklkIjogImdvbmUiLCAiZXhwaXJlc0F0IjogMTcwMDAwMDAwMDAwMH0=","link":"","element":"","mode":420,'
    r'"uid":UID,"gid":GID,"mtime":1000000000.0,"words":"soft lock DIR/b\u00fc.lock"}'
    "\n"
    r'{"schema":1,"line":"result","operation":"OP","item":0,"time":1800000000.0,"outcome":"done","reason":""}'
    "\n"
)
LEASE = b'{"ownerId": "gone", "expiresAt": 1700000000000}'


class LogDesk:
    """Operations on ``path``; the logs lie below ``state``."""

    def __init__(self, root: Path) -> None:
        self.path = root / "target"
        self.path.mkdir()
        self.state = str(root / "state")
        self.logs = Path(state_of(self.state, str(self.path)))
        store = StateLogs(str(self.path), LogFiles(), state_dir=self.state)
        world = World(clock=lambda: WRITTEN)
        self.cursors = self.operations(CursorOperator(str(self.path), store, None, world, above=False, user="aünn"))
        self.locks = self.operations(LockOperator(str(self.path), store, None, world, above=False, user="aünn"))

    def operations(self, operator: CursorOperator | LockOperator) -> Operations:
        return Operations(operator, str(self.path), lambda: WRITTEN)

    def lines(self, text: str, operation: str) -> str:
        ids = {"UID": str(os.geteuid()), "GID": str(os.getegid()), "DIR": str(self.path), '"OP"': f'"{operation}"'}
        for name, value in ids.items():
            text = text.replace(name, value)
        return text

    def write_log(self, name: str, text: str) -> None:
        """As an earlier version left it."""
        self.logs.mkdir(parents=True, mode=0o700)
        (self.logs / name).write_text(self.lines(text, "20270115-080000-1-abcd"))


@pytest.fixture
def desk(tmp_path: Path) -> LogDesk:
    return LogDesk(tmp_path)


def undo(operations: Operations) -> list[Outcome]:
    [record] = operations.records()
    assert (record.count, record.done, record.open, record.why_not_undo) == (1, 1, False, None)
    plan = operations.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
    return [item.outcome for item in operations.apply(plan).items]


def test_a_cursor_that_an_earlier_version_set_is_set_back(desk: LogDesk) -> None:
    file = desk.path / "cursors.json"
    file.write_text(json.dumps({"bé": "neü", "other": 1}))
    desk.write_log("cursors.jsonl", SET)
    assert undo(desk.cursors) == [Outcome.DONE]
    assert json.loads(file.read_text()) == {"bé": 7, "other": 1}


def test_a_lock_that_an_earlier_version_removed_is_put_back(desk: LogDesk) -> None:
    desk.write_log("locks.jsonl", UNLOCKED)
    assert undo(desk.locks) == [Outcome.DONE]
    lock = desk.path / "bü.lock"
    assert (lock.read_bytes(), lock.stat().st_mtime, lock.stat().st_mode & 0o777) == (LEASE, 1e9, 0o644)


def test_a_set_cursor_is_written_in_the_same_bytes(desk: LogDesk) -> None:
    (desk.path / "cursors.json").write_text(json.dumps({"bé": 7}))
    plan = desk.cursors.plan(Action.SET_CURSOR, Selection(), options={"source": "bé", "value": "neü", "type": "text"})
    desk.cursors.apply(plan)
    assert (desk.logs / "cursors.jsonl").read_text() == desk.lines(SET, plan.operation)


def test_a_removed_lock_is_written_in_the_same_bytes(desk: LogDesk) -> None:
    lock = desk.path / "bü.lock"
    lock.write_bytes(LEASE)
    lock.chmod(0o644)
    os.utime(lock, (1e9, 1e9))
    plan = desk.locks.plan(Action.UNLOCK, Selection(everything=True))
    desk.locks.apply(plan)
    assert (desk.logs / "locks.jsonl").read_text() == desk.lines(UNLOCKED, plan.operation)


@pytest.mark.parametrize("time", ['"soon"', "null", "1e300"])
def test_a_lock_whose_time_is_invalid_is_not_put_back(desk: LogDesk, time: str) -> None:
    valid = '"mtime":1000000000.0'
    assert valid in UNLOCKED
    desk.write_log("locks.jsonl", UNLOCKED.replace(valid, f'"mtime":{time}'))
    assert [record for record in desk.locks.records() if record.why_not_undo is None] == []
