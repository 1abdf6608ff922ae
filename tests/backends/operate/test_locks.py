"""Removing stale locks and tickets of the dead: only what is shown goes, the living keep theirs, an undo puts it back."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock
import pytest

from spooltop.control import Control
from spooltop.engine import FileTicketQueue
from spooltop.errors import AuditFailed
from spooltop.locks import operator
from spooltop.model.plan import Confirm, Outcome, Plan, Selection
from spooltop.model.vocabulary import Action
from tests.backends.conftest import Interpose
from tests.builders import GONE, LockWorld
from tests.clock import NOW, Clock

HOST = os.uname().nodename
STALE, ALIVE = f"{GONE}\n{HOST}\n1\n", os.getpid()
IMPOSSIBLE = 9_999_999_999
"""A pid of which nobody can tell whether a process has it."""


class Locks(LockWorld):
    """Lock files, at a clock that stands still, and a Control that knows all pids of this machine."""

    def control(self, **options: Any) -> Control:
        return super().control(**{"clock": Clock(), **options})

    def plan(self, *names: str, force: bool = False) -> Plan:
        with self.control() as control:
            return control.plan(Action.UNLOCK, Selection(ids=names), force=force)

    def unlock(self, *names: str, force: bool = False) -> tuple[str, list[Outcome]]:
        plan, result = self.do(Action.UNLOCK, Selection(ids=names), force=force)
        return plan.operation, [one.outcome for one in result.items]

    def lock(self, name: str, content: str, age: float = 400) -> Path:
        file = self.write(name, content)
        os.utime(file, (NOW - age, NOW - age))
        return file

    def paths(self) -> list[str]:
        names = (str(path.relative_to(self.path)) for path in self.path.rglob("*"))
        return sorted(name for name in names if not name.startswith(".spooltop"))

    def journal(self) -> Path:
        [journal] = (path for logs in (self.state, *self.logs_of_root()) for path in logs.rglob("locks.jsonl"))
        return journal


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locks]:
    monkeypatch.setattr("spooltop.backends.directory.processes.Processes.in_first_namespace", lambda self: True)
    with Locks(tmp_path) as world:
        yield world


def test_what_was_taken_anew_after_the_last_look_stays_and_its_place_is_never_empty(locks: Locks, before_call: Interpose) -> None:
    file = locks.soft_lock("leader.lock")

    def take(*_: object) -> None:
        file.unlink()
        file.write_text(f"{ALIVE}\n{HOST}\n2\n")

    with locks.control() as control:
        plan = control.plan(Action.UNLOCK, Selection(ids=("leader.lock",)))
        before_call("swap", take)
        [one] = control.apply(plan).items
    assert (one.outcome, one.reason) == (Outcome.SKIPPED, "it was taken again since the list was made")
    assert (file.read_text(), locks.paths()) == (f"{ALIVE}\n{HOST}\n2\n", ["leader.lock"])


def test_the_pid_of_one_holder_is_not_pinned_to_the_file_of_the_next(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    locks.lock("a.lock", STALE)
    read = operator.read_marker

    def then_taken_again(name: str, folder: int) -> Any:
        marker = read(name, folder)
        (locks.path / name).unlink()
        locks.lock(name, f"{ALIVE}\n{HOST}\n1\n")
        return marker

    monkeypatch.setattr(operator, "read_marker", then_taken_again)
    plan = locks.plan("a.lock")
    assert (len(plan.items), [refusal.reason for refusal in plan.refused]) == (0, ["it was taken again meanwhile"])



@pytest.mark.parametrize("form", ["SoftFileLock", "SoftFileLease", "StrictSoftFileLock"])
def test_the_forms_of_filelock_can_be_had_after_it(locks: Locks, form: str) -> None:
    """Left by a real dead process; afterwards filelock takes it at once. Put back, it stands there again."""
    path = locks.path / "x.lock"
    code = f"import filelock, os; l = filelock.{form}({str(path)!r}); l.acquire(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    operation, outcomes = locks.unlock("x.lock", force=True)
    locks.undo(operation)
    assert outcomes == locks.unlock("x.lock", force=True)[1] == [Outcome.DONE]
    with getattr(filelock, form)(path, timeout=0) as lock:
        assert lock.is_locked


def test_locks_of_each_form_go_and_come_back_as_they_were(locks: Locks) -> None:
    element = locks.lock("6b00e5b7c2149f", "m")
    (locks.path / "6b00e5b7c2149f.lck").hardlink_to(element)
    locks.soft_lock("soft.lock").chmod(0o640)
    before = (locks.path / "soft.lock").stat()
    (locks.path / "sym.lock").symlink_to(f"ann@{HOST}.{GONE}:1795")
    os.utime(locks.path / "sym.lock", (NOW - 400, NOW - 400), follow_symlinks=False)
    locks.lock("leader.lock", json.dumps({"ownerId": "8131", "expiresAt": 1000 * (NOW - 400)}))
    everything = locks.paths()
    assert "does not name its owner" in locks.plan("6b00e5b7c2149f.lck").refused[0].reason
    operation, outcomes = locks.unlock("6b00e5b7c2149f.lck", "sym.lock", "leader.lock", "soft.lock", force=True)
    assert outcomes == [Outcome.DONE] * 4 and locks.paths() == ["6b00e5b7c2149f"]
    locks.undo(operation)
    assert locks.paths() == everything and (locks.path / "6b00e5b7c2149f.lck").samefile(element)
    assert os.readlink(locks.path / "sym.lock") == f"ann@{HOST}.{GONE}:1795"
    after = (locks.path / "soft.lock").stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)


def test_a_lock_comes_back_with_its_permissions_and_no_bits_besides(locks: Locks) -> None:
    file = locks.soft_lock("soft.lock")
    file.chmod(0o3640)
    operation, outcomes = locks.unlock("soft.lock", force=True)
    locks.undo(operation)
    assert outcomes == [Outcome.DONE] and stat.S_IMODE(file.stat().st_mode) == 0o640


# Tickets

QUEUE = "job.lock.queue"


def test_tickets_of_the_dead_at_the_head_go_and_the_living_have_their_turn(locks: Locks) -> None:
    first, second, third, fourth = (locks.ticket(number, ALIVE if number == 3 else GONE) for number in (1, 2, 3, 4))
    locks.write("job.lock", "")
    os.utime(third, (1.0, 1.0))
    plan, _ = locks.do(Action.UNLOCK, Selection(ids=(QUEUE,)))
    assert [item.words.split(" in ")[0] for item in plan.items] == [f"ticket {number} of pid {GONE}" for number in (1, 2)]
    assert plan.notes == ("The next waiter then gets the lock.",)
    assert "an orphan ticket on a free lock, job.lock" in plan.items[0].row.evidence
    assert [path.exists() for path in (first, second, third, fourth)] == [False, False, True, True]
    assert FileTicketQueue(locks.path / QUEUE).is_head(3)
    assert third.stat().st_mtime == NOW  # who waited long behind the dead is not stale for it
    back, _ = locks.undo(plan.operation)
    assert "blocks them" in back.items[0].warning and first.exists() and second.exists()


@pytest.mark.parametrize(
    ("pids", "force", "taken", "reason"),
    [
        ((GONE, IMPOSSIBLE, GONE), False, 1, ""), ((IMPOSSIBLE, IMPOSSIBLE), False, 0, ""),
        ((IMPOSSIBLE, IMPOSSIBLE), True, 1, ""),
        ((ALIVE, GONE), True, 0, f"pid {ALIVE} is running and has the first ticket"),
    ],
    ids=["gone", "unknown", "unknown by force", "running by force"],
)  # fmt: skip
def test_a_ticket_of_an_unknown_or_living_holder_ends_the_dead_before_it(
    locks: Locks, pids: tuple[int, ...], force: bool, taken: int, reason: str
) -> None:
    """Force takes a head that is not known to be gone, and no second one."""
    for number, pid in enumerate(pids, 1):
        locks.ticket(number, pid)
    plan = locks.plan(QUEUE, force=force)
    assert [item.row.id for item in plan.items] == [f"{QUEUE}/1"] * taken
    assert not reason or plan.refused[0].reason == reason


def test_where_pids_are_hidden_force_takes_the_head_alone_and_the_number_is_typed(
    locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.backends.directory.processes.Processes.in_first_namespace", lambda self: False)
    first, second = locks.ticket(1), locks.ticket(2)
    with locks.control() as control:
        [refusal] = control.plan(Action.UNLOCK, Selection(ids=(QUEUE,))).refused
        forced = control.plan(Action.UNLOCK, Selection(ids=(QUEUE,)), force=True)
        assert refusal.forceable and forced.confirm is Confirm.NUMBER
        control.apply(forced)
    assert (first.exists(), second.exists()) == (False, True)


def test_a_ticket_does_not_come_back_into_a_queue_that_began_anew(locks: Locks) -> None:
    locks.ticket(7)
    operation, _ = locks.unlock(QUEUE)
    locks.write(f"{QUEUE}/seq", "3")
    assert "started again" in locks.undo(operation)[0].refused[0].reason


def test_in_a_directory_that_took_the_place_of_the_one_that_was_shown_nothing_goes(locks: Locks) -> None:
    """Though the very file lies there under its name, and a ticket's name is never used twice."""
    ticket = locks.ticket(1)
    with locks.control() as control:
        plan = control.plan(Action.UNLOCK, Selection(ids=(QUEUE,)))
        kept = locks.path.rename(locks.path.with_name("before"))
        (locks.path / QUEUE).mkdir(parents=True)
        ticket.hardlink_to(kept / QUEUE / ticket.name)
        [one] = control.apply(plan).items
    assert (one.outcome, one.reason) == (Outcome.SKIPPED, "the directory was replaced since the list was made")
    assert ticket.exists()


# The journal, and who may


def test_what_cannot_be_written_down_does_not_happen(locks: Locks, before_call: Interpose) -> None:
    locks.soft_lock("a.lock")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before_call("write", fail)
    with pytest.raises(AuditFailed):
        locks.unlock("a.lock")
    assert locks.paths() == ["a.lock"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("PATH", "OUTSIDE"), ('"below":""', '"below":".."'), ('["a.lock"]', '["../outside/a.lock"]'),
        *(('"content":"', f'"content":"{text}') for text in ("!", "A", "\\u00e9")),
        *(('"mtime":1', f'"mtime":{time},"x":1') for time in ('"soon"', "null", "1e300")),
    ],
)  # fmt: skip
def test_a_forged_record_leads_nowhere(locks: Locks, tmp_path: Path, old: str, new: str) -> None:
    locks.soft_lock("a.lock")
    operation, _ = locks.unlock("a.lock")
    outside = tmp_path / "outside"
    outside.mkdir()
    old, new = old.replace("PATH", str(locks.path)), new.replace("OUTSIDE", str(outside))
    text = locks.journal().read_text().replace("\0", "")
    assert old in text
    locks.journal().write_text(text.replace(old, new))
    with locks.control() as control:
        listed = [record for record in control.operations() if record.why_not_undo is None]
    assert not listed or locks.undo(operation)[0].count == 0
    assert list(outside.iterdir()) == [] and locks.paths() == []
