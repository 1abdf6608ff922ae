"""Removing stale locks and tickets of the dead: only what is shown goes, the living keep theirs, an undo puts it back."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import filelock
import pytest

from spooltop.backends.directory.liveness.processes import Process, Processes
from spooltop.backends.directory.locks.operator import LockOperator
from spooltop.backends.directory.locks.soft_lock_liveness import Judge
from spooltop.backends.directory.locks.ticket_queues import ticket_queue
from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_store import StateLogs
from spooltop.control import open_control
from spooltop.engine import FileTicketQueue, Spool
from spooltop.errors import AuditFailed, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome, Plan, Result
from spooltop.model.vocabulary import Action
from spooltop.operate.operations import Operations
from tests.clock import NOW, Clock
from tests.needs import needs
from tests.worlds import opening

DEAD, ALIVE, IMPOSSIBLE = 77, 78, 9_999_999_999
needs_root = needs("root")


class Table(Processes):
    """``pids`` live on the host "here" and nobody else does; ``first``: in the first pid namespace."""

    def __init__(self, *pids: int) -> None:
        super().__init__()
        self.pids = set(pids)
        self.first = True

    def host(self) -> str:
        return "here"

    def in_first_namespace(self) -> bool:
        return self.first

    def exists(self, pid: int) -> bool | None:
        return None if pid == IMPOSSIBLE else pid in self.pids

    def process(self, pid: int, *, described: bool = False) -> Process | None:
        return Process(pid, 0.0) if pid in self.pids else None

    def namesakes(self, pids: Iterable[int]) -> dict[int, list[Process]]:
        return {pid: [Process(pid, 0.0)] if pid in self.pids else [] for pid in pids}

    def locks(self) -> bytes | None:
        return b""


class Meddling(LogFiles):
    """Does something else just before the exchange, or has none."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None
        self.unsupported = False

    def swap(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        meddle, self.before = self.before, lambda: None
        meddle()
        if self.unsupported:
            raise OSError(22, "Invalid argument")
        super().swap(name, dir_fd, to, to_fd)


class LockDesk:
    """Operations on the locks in ``path``, where ``DEAD`` is gone and ``ALIVE`` lives; the logs are in ``state``."""

    def __init__(self, path: Path, state: Path) -> None:
        self.path = path
        self.state = state
        self.clock = Clock()
        self.table = Table(ALIVE)
        self.files = Meddling()
        self.operations = self.operating()

    def operating(self, **more: Any) -> Operations:
        logs = StateLogs(str(self.path), LogFiles(), state_dir=str(self.state))
        options, world, rest = opening({"files": self.files, "processes": self.table, "clock": self.clock, **more})
        operator = LockOperator(str(self.path), logs, options, world, user="ann", **rest)
        return Operations(operator, str(self.path), self.clock)

    def lock(self, name: str, content: str, age: float = 400) -> Path:
        file = self.path / name
        file.write_text(content)
        os.utime(file, (NOW - age, NOW - age))
        return file

    def ticket(self, number: int, pid: int, queue: str = "job.lock.queue") -> Path:
        (self.path / queue).mkdir(exist_ok=True)
        (self.path / queue / "seq").write_text("9")
        file = self.path / queue / f"{number:020d}.{pid}.{number:032x}"
        file.write_text("0")
        return file

    def plan(self, *names: str, force: bool = False) -> Plan:
        return self.operations.plan(Action.UNLOCK, Selection(ids=names), force=force)

    def unlock(self, *names: str, force: bool = False) -> Result:
        return self.operations.apply(self.plan(*names, force=force))

    def undo(self, operation: str) -> Plan:
        return self.operations.plan(Action.UNDO, Selection(), options={"undoes": operation})

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


@pytest.fixture
def desk(tmp_path: Path) -> LockDesk:
    (tmp_path / "spool").mkdir()
    return LockDesk(tmp_path / "spool", tmp_path / "state")


STALE = f"{DEAD}\nhere\n1\n"


def test_a_stale_lock_goes_and_undo_puts_it_back_as_it_was(desk: LockDesk) -> None:
    file = desk.lock("leader.lock", STALE)
    file.chmod(0o640)
    before = file.stat()
    plan = desk.plan("leader.lock")
    assert (plan.count, plan.confirm, plan.items[0].words) == (1, Confirm.SMALL, f"soft lock {file} of pid {DEAD}")
    assert plan.command == ("spooltop", "unlock", str(desk.path), str(file))
    assert plan.notes == ("The next process that asks for it then gets it.",)
    assert desk.names() == ["leader.lock"]
    done = desk.operations.apply(plan)
    assert (done.items[0].outcome, desk.names()) == (Outcome.DONE, [])
    back = desk.undo(done.operation)
    assert desk.operations.apply(back).items[0].outcome is Outcome.DONE
    after = file.stat()
    assert file.read_text() == STALE
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)
    assert desk.names() == ["leader.lock"]
    assert desk.undo(done.operation).count == 0
    records = {record.operation: record for record in desk.operations.records()}
    assert records[done.operation].undone_by == back.operation
    assert desk.unlock("leader.lock").items[0].outcome is Outcome.DONE  # it can be removed again


def test_the_stale_lock_of_a_message_goes_and_what_is_a_message_alone_stays(desk: LockDesk) -> None:
    (desk.path / "cur").mkdir()
    (desk.path / "cur/a:2,P77").write_text("data")
    desk.lock("cur/a.lock", STALE)
    desk.lock("cur/b.lock", STALE)  # no message is called b
    assert desk.plan("b.lock").count == 0
    done = desk.operations.apply(desk.operations.plan(Action.UNLOCK, Selection(everything=True)))
    assert [one.outcome for one in done.items] == [Outcome.DONE]
    assert desk.names() == ["cur", "cur/a:2,P77", "cur/b.lock"]
    assert desk.operations.apply(desk.undo(done.operation)).items[0].outcome is Outcome.DONE
    assert (desk.path / "cur/a.lock").read_text() == STALE


def test_locks_of_one_name_in_two_boxes_are_put_back_one_by_one(desk: LockDesk) -> None:
    for box in ("cur", "new"):
        (desk.path / box).mkdir()
        (desk.path / box / "a").touch()
        desk.lock(f"{box}/a.lock", STALE)
    done = desk.operations.apply(desk.operations.plan(Action.UNLOCK, Selection(everything=True)))
    assert [one.outcome for one in done.items] == [Outcome.DONE] * 2
    (desk.path / "cur/a.lock").touch()
    assert [one.outcome for one in desk.operations.apply(desk.undo(done.operation)).items] == [Outcome.DONE]
    (desk.path / "cur/a.lock").unlink()
    assert [one.outcome for one in desk.operations.apply(desk.undo(done.operation)).items] == [Outcome.DONE]
    assert desk.names() == ["cur", "cur/a", "cur/a.lock", "new", "new/a", "new/a.lock"]


@pytest.mark.parametrize("exchange", [True, False])
def test_what_was_taken_anew_stays(desk: LockDesk, exchange: bool) -> None:
    """Also between the last look and the removal, where the file system can exchange."""
    file = desk.lock("leader.lock", STALE)
    plan = desk.plan("leader.lock")

    def taken() -> None:
        file.unlink()
        file.write_text(f"{ALIVE}\nhere\n2\n")

    if exchange:
        desk.files.before = taken
    else:
        taken()
    (one,) = desk.operations.apply(plan).items
    assert (one.outcome, one.reason) == (Outcome.SKIPPED, "it was taken again since the list was made")
    assert (file.read_text(), desk.names()) == (f"{ALIVE}\nhere\n2\n", ["leader.lock"])


def test_the_place_is_never_empty_for_a_third_while_it_is_looked_at(desk: LockDesk) -> None:
    """The lock stays with the first comer: the file found in its place meanwhile is a lock of this process."""
    file = desk.lock("leader.lock", STALE)
    seen: list[str] = []

    class Spying(LogFiles):
        def swap(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
            super().swap(name, dir_fd, to, to_fd)
            seen.append(file.read_text())

    desk.files = Spying()  # type: ignore[assignment]
    desk.operations = desk.operating()
    desk.unlock("leader.lock")
    assert seen == [f"{os.getpid()}\nhere\n"]
    assert desk.names() == []


def test_where_nothing_can_be_exchanged_it_goes_all_the_same(desk: LockDesk) -> None:
    desk.lock("leader.lock", STALE)
    desk.files.unsupported = True
    assert desk.unlock("leader.lock").items[0].outcome is Outcome.DONE
    assert desk.names() == []


@pytest.mark.parametrize(
    ("name", "content", "age", "reason", "forceable"),
    [
        ("x.lock", "", 400, "if its existence is the lock", False),
        ("x.lock", f"{ALIVE}\nhere\n1\n", 400, f"pid {ALIVE} is running and has it", False),
        ("x.lock", f"{DEAD}\nthere\n1\n", 400, "taken on host there, ask there", True),
        ("x.lock", STALE, 200, "counts as stale after 5m", True),
        ("x.lock", '{"ownerId": "8131", "expiresAt": 1795222969000}', 400, "it is held: a lease until", False),
    ],
)
def test_what_is_not_removed_says_why(desk: LockDesk, name: str, content: str, age: float, reason: str, forceable: bool) -> None:
    file = desk.lock(name, content, age)
    (refusal,) = desk.plan(name).refused
    assert reason in refusal.reason
    assert refusal.forceable is forceable
    forced = desk.plan(name, force=True)
    assert forced.count == int(forceable)
    assert forced.confirm is ((Confirm.NUMBER if "there" in content else Confirm.SMALL) if forceable else Confirm.NOTHING)
    assert file.exists()


@pytest.mark.parametrize("how", [fcntl.flock, fcntl.lockf])
def test_a_kernel_lock_is_never_removed_held_or_not(tmp_path: Path, how: Callable[[int, int], None]) -> None:
    (tmp_path / "spool").mkdir()
    path = tmp_path / "spool" / "import.lock"
    logs = StateLogs(str(path.parent), LogFiles(), state_dir=str(tmp_path / "state"))
    operations = Operations(LockOperator(str(path.parent), logs), str(path.parent))
    with path.open("w") as file:
        how(file.fileno(), fcntl.LOCK_EX)
        held = operations.plan(Action.UNLOCK, Selection(ids=("import.lock",)), force=True)
    free = operations.plan(Action.UNLOCK, Selection(ids=("import.lock",)), force=True)
    assert held.count == free.count == 0
    assert held.refused[0].reason.startswith(f"pid {os.getpid()} holds it")
    assert free.refused[0].reason.startswith("no kernel lock; if its existence is the lock")


def test_who_came_to_life_keeps_it(desk: LockDesk) -> None:
    desk.lock("leader.lock", STALE)
    plan = desk.plan("leader.lock")
    desk.table.pids.add(DEAD)
    assert desk.operations.apply(plan).items[0].reason == f"pid {DEAD} is running"
    assert desk.names() == ["leader.lock"]


@pytest.mark.parametrize("form", ["SoftFileLock", "SoftFileLease", "StrictSoftFileLock"])
def test_the_forms_of_filelock_can_be_had_after_it(tmp_path: Path, form: str) -> None:
    """Left by a real dead process; afterwards filelock takes it at once. Put back, it stands there again."""
    path = tmp_path / "x.lock"
    code = f"import filelock, os; l = filelock.{form}({str(path)!r}); l.acquire(); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    logs = StateLogs(str(tmp_path), LogFiles(), state_dir=str(tmp_path / "state"))
    operations = Operations(LockOperator(str(tmp_path), logs, OpenOptions(stale_after=-1.0)), str(tmp_path))
    done = operations.apply(operations.plan(Action.UNLOCK, Selection(ids=("x.lock",)), force=True))
    assert [one.outcome for one in done.items] == [Outcome.DONE]
    operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": done.operation}))
    again = operations.apply(operations.plan(Action.UNLOCK, Selection(ids=("x.lock",)), force=True))
    assert [one.outcome for one in again.items] == [Outcome.DONE]
    with getattr(filelock, form)(path, timeout=0) as lock:
        assert lock.is_locked


def test_links_and_leaders_go_and_come_back(desk: LockDesk) -> None:
    element = desk.lock("6b00e5b7c2149f", "m")
    (desk.path / "6b00e5b7c2149f.lck").hardlink_to(element)
    (desk.path / "sym.lock").symlink_to(f"ann@here.{DEAD}:1795")
    os.utime(desk.path / "sym.lock", (NOW - 400, NOW - 400), follow_symlinks=False)
    desk.lock("leader.lock", json.dumps({"ownerId": "8131", "expiresAt": 1000 * (NOW - 400)}))
    everything = desk.names()
    assert "does not name its owner" in desk.plan("6b00e5b7c2149f.lck").refused[0].reason
    done = desk.unlock("6b00e5b7c2149f.lck", "sym.lock", "leader.lock", force=True)
    assert [one.outcome for one in done.items] == [Outcome.DONE] * 3
    assert desk.names() == ["6b00e5b7c2149f"]
    assert [one.outcome for one in desk.operations.apply(desk.undo(done.operation)).items] == [Outcome.DONE] * 3
    assert desk.names() == everything
    assert (desk.path / "6b00e5b7c2149f.lck").samefile(element)
    assert os.readlink(desk.path / "sym.lock") == f"ann@here.{DEAD}:1795"


def test_tickets_of_the_dead_at_the_head_go_and_the_living_have_their_turn(desk: LockDesk) -> None:
    first, second, third, fourth = (desk.ticket(n, DEAD if n != 3 else ALIVE) for n in (1, 2, 3, 4))
    (desk.path / "job.lock").touch()
    os.utime(third, (1.0, 1.0))
    plan = desk.plan("job.lock.queue")
    assert [item.words.split(" in ")[0] for item in plan.items] == ["ticket 1 of pid 77", "ticket 2 of pid 77"]
    assert plan.notes == ("The next waiter then gets the lock.",)
    assert "an orphan ticket on a free lock, job.lock" in plan.items[0].row.evidence
    done = desk.operations.apply(plan)
    assert (first.exists(), second.exists(), third.exists(), fourth.exists()) == (False, False, True, True)
    assert FileTicketQueue(desk.path / "job.lock.queue").is_head(3)
    assert third.stat().st_mtime == NOW  # who waited long behind the dead is not stale for it
    back = desk.undo(done.operation)
    assert "blocks them" in back.items[0].warning
    desk.operations.apply(back)
    assert first.exists() and second.exists()


def test_a_ticket_whose_pid_nobody_can_have_ends_the_dead_before_it(desk: LockDesk) -> None:
    """The ticket is not removed with the dead ones, because nobody can know whether its holder is alive."""
    desk.ticket(1, DEAD)
    desk.ticket(2, IMPOSSIBLE)
    desk.ticket(3, DEAD)
    assert [item.words.split(" in ")[0] for item in desk.plan("job.lock.queue").items] == ["ticket 1 of pid 77"]


def test_in_a_directory_that_took_the_place_of_the_one_that_was_shown_nothing_goes(desk: LockDesk) -> None:
    """Though the very file lies there under its name, and a ticket's name is never used twice."""
    ticket = desk.ticket(1, DEAD)
    plan = desk.plan("job.lock.queue")
    desk.path.rename(desk.path.with_name("before"))
    (desk.path / "job.lock.queue").mkdir(parents=True)
    ticket.hardlink_to(desk.path.with_name("before") / "job.lock.queue" / ticket.name)
    (one,) = desk.operations.apply(plan).items
    assert (one.outcome, one.reason) == (Outcome.SKIPPED, "the directory was replaced since the list was made")
    assert ticket.exists() and (desk.path.with_name("before") / "job.lock.queue" / ticket.name).exists()


@pytest.mark.parametrize(("goes", "outcome"), [("intent", Outcome.DONE), ("held", Outcome.SKIPPED)])
def test_a_lock_of_two_names_is_gone_by_itself_where_the_first_is(desk: LockDesk, goes: str, outcome: Outcome) -> None:
    """Between the last look and the removal. Without its second name it is still there to be removed."""
    (desk.path / "x.lock").write_bytes(b"1\nfilelock-strict-v1\0\n0\n")
    claims = desk.path / "x.lock.filelock" / "claims"
    claims.mkdir(parents=True)
    (claims / "held-v1-0f.claim").write_text(f"filelock-strict-v1\n0f\n{DEAD}\n{b'here'.hex()}\n1\n")
    (claims / "intent-v1-0f.claim").hardlink_to(claims / "held-v1-0f.claim")
    os.utime(claims / "held-v1-0f.claim", (NOW - 400, NOW - 400))

    class Vanishing(LogFiles):
        def unlink(self, name: str, dir_fd: int) -> None:
            if name.startswith("held"):
                (claims / f"{goes}-v1-0f.claim").unlink()
            super().unlink(name, dir_fd)

    desk.files = Vanishing()  # type: ignore[assignment]
    desk.operations = desk.operating()
    (one,) = desk.unlock("x.lock").items
    assert one.outcome is outcome
    assert one.reason == ("it was removed meanwhile" if goes == "held" else "")
    assert sorted(os.listdir(claims)) == (["intent-v1-0f.claim"] if goes == "held" else [])


def test_a_ticket_that_was_served_meanwhile_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q").mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    served = f"{1:020d}.{ALIVE}.{1:032x}"
    monkeypatch.setattr("spooltop.backends.directory.locks.ticket_queues.os.listdir", lambda fd: ["seq", served])
    lock = ticket_queue("q", "q", folder, Judge(Table(ALIVE)), local=True)
    assert lock is not None and (lock.verdict, lock.holders, lock.waiters) == ("free", (), ())
    os.close(folder)


def test_a_living_head_is_not_evicted_by_force(desk: LockDesk) -> None:
    desk.ticket(1, ALIVE)
    desk.ticket(2, DEAD)
    plan = desk.plan("job.lock.queue", force=True)
    assert (plan.count, plan.refused[0].reason) == (0, f"pid {ALIVE} is running and has the first ticket")


def test_force_takes_a_head_that_is_not_known_to_be_gone_and_no_second_one(desk: LockDesk) -> None:
    desk.ticket(1, IMPOSSIBLE)
    desk.ticket(2, IMPOSSIBLE)
    assert desk.plan("job.lock.queue").count == 0
    forced = desk.plan("job.lock.queue", force=True)
    assert forced.count == 1 and forced.items[0].row.id == "job.lock.queue/1"


def test_a_ticket_does_not_come_back_into_a_queue_that_began_anew(desk: LockDesk) -> None:
    desk.ticket(7, DEAD)
    done = desk.unlock("job.lock.queue")
    (desk.path / "job.lock.queue" / "seq").write_text("3")
    assert "started again" in desk.undo(done.operation).refused[0].reason


def test_where_pids_are_hidden_force_takes_the_head_alone_and_the_number_is_typed(desk: LockDesk) -> None:
    desk.table.first = False
    first, second = desk.ticket(1, DEAD), desk.ticket(2, DEAD)
    (refusal,) = desk.plan("job.lock.queue").refused
    assert refusal.forceable
    assert desk.plan("job.lock.queue", force=True).confirm is Confirm.NUMBER
    desk.unlock("job.lock.queue", force=True)
    assert (first.exists(), second.exists()) == (False, True)


def test_all_are_the_stale_ones(desk: LockDesk) -> None:
    desk.lock("a.lock", STALE)
    desk.lock("b.lock", f"{ALIVE}\nhere\n1\n")
    desk.ticket(1, DEAD)
    plan = desk.operations.plan(Action.UNLOCK, Selection(everything=True))
    assert (plan.count, plan.refused) == (2, [])
    with pytest.raises(UsageError, match="which lock"):
        desk.plan()
    assert desk.plan("nope").missing == ("nope",)


def test_what_cannot_be_written_down_does_not_happen(desk: LockDesk) -> None:
    desk.lock("a.lock", STALE)
    desk.state.write_text("a file where the logs should be")
    with pytest.raises(AuditFailed):
        desk.unlock("a.lock")
    assert desk.names() == ["a.lock"]


def test_a_forged_journal_leads_nowhere(desk: LockDesk, tmp_path: Path) -> None:
    desk.lock("a.lock", STALE)
    done = desk.unlock("a.lock")
    (folder,) = desk.state.iterdir()
    journal = folder / "locks.jsonl"
    records = journal.read_text()
    outside = tmp_path / "outside"
    outside.mkdir()
    for old, new in (
        (str(desk.path), str(outside)), ('"below":""', '"below":".."'), ('["a.lock"]', '["../outside/a.lock"]'),
    ):  # fmt: skip
        journal.write_text(records.replace(old, new))
        if done.operation in [record.operation for record in desk.operations.records()]:
            assert desk.undo(done.operation).count == 0
    assert list(outside.iterdir()) == []
    assert desk.names() == []


@pytest.mark.parametrize("content", ["YWJj!YWJj", "YWJ", "YWJj\\u00e9"])
def test_a_record_of_a_lock_whose_content_is_spoilt_is_none(desk: LockDesk, content: str) -> None:
    desk.lock("a.lock", STALE)
    done = desk.unlock("a.lock")
    (folder,) = desk.state.iterdir()
    journal = folder / "locks.jsonl"
    lines = [json.loads(line) for line in journal.read_text().replace("\0", "").splitlines()]
    for line in lines:
        if "content" in line:
            line["content"] = content.encode().decode("unicode_escape")
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert done.operation not in [record.operation for record in desk.operations.records()]


@needs_root
def test_who_may_not_is_told_whose_it_is(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="spooltop-locks-") as folder:  # pytest's own are closed to others
        os.chmod(folder, 0o755)
        desk = LockDesk(Path(folder), tmp_path)
        desk.lock("a.lock", STALE)
        try:
            os.seteuid(65534)
            (refusal,) = desk.plan("a.lock").refused
        finally:
            os.seteuid(0)
    assert "belongs to root" in refusal.reason and "Try: sudo -u root spooltop unlock" in refusal.reason


@needs_root
@pytest.mark.parametrize(
    ("kind", "above", "own", "may"),
    [
        ("locks", 0o755, 0o755, False), ("locks", 0o777, 0o755, False), ("locks", 0o755, 0o777, True),
        ("tickets", 0o755, 0o755, False), ("tickets", 0o777, 0o755, True), ("tickets", 0o755, 0o777, True),
    ],
)  # fmt: skip
def test_where_the_directory_is_closed_the_view_says_whose_it_is(kind: str, above: int, own: int, may: bool) -> None:
    """SideFiles a directory of tickets stands the lock that they are for."""
    with tempfile.TemporaryDirectory(prefix="spooltop-locks-") as folder:  # pytest's own are closed to others
        desk = LockDesk(Path(folder), Path(folder))
        path = desk.path / ("job.lock.queue" if kind == "tickets" else "locks")
        if kind == "tickets":
            desk.ticket(1, DEAD)
            desk.lock("job.lock", STALE)
        else:
            path.mkdir()
            desk.lock("locks/a.lock", STALE)
        with open_control(str(path), settings={}, watch=False) as control:
            assert control.look().observation.capabilities.why_not(Action.UNLOCK) is None
            desk.path.chmod(above)
            path.chmod(own)
            try:
                os.seteuid(65534)
                capabilities = control.look().observation.capabilities
            finally:
                os.seteuid(0)
    for action in (Action.UNLOCK, Action.UNDO):
        why = capabilities.why_not(action)
        assert why is None if may else f"the directory belongs to root 0755. Try: sudo -u root spooltop {path}" in (why or "")


def test_in_a_spool_and_in_a_queue_alone_it_is_an_operation_like_any_other(tmp_path: Path, clock: Any) -> None:
    Spool.create(tmp_path / "spool").close()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    queue = FileTicketQueue(tmp_path / "spool" / "job.lock.queue")
    _, member = queue.register()
    (tmp_path / "spool" / "job.lock.queue" / member).rename(
        tmp_path / "spool" / "job.lock.queue" / member.replace(f".{os.getpid()}.", f".{gone.pid}.")
    )
    path = str(tmp_path / "spool" / "job.lock.queue")
    for target, state in ((tmp_path / "spool", {}), (Path(path), {"XDG_STATE_HOME": str(tmp_path / "home")})):
        with open_control(str(target), settings=state, watch=False, clock=clock) as control:
            observation = control.look().observation
            if next(lock.verdict for lock in observation.locks if lock.path == path) != "stale":
                pytest.skip("outside the first pid namespace nobody can tell who is gone")
            assert observation.capabilities.why_not(Action.UNLOCK) is None
            done = control.apply(control.plan(Action.UNLOCK, Selection(keys=(path,))))
            assert queue.is_empty()
            clock.advance(1)
            control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": done.operation}))
            assert not queue.is_empty()
            assert [record.action for record in control.operations()] == [Action.UNDO, Action.UNLOCK]
            assert "ticket 1 of pid" in str(control.audit(done.operation))
        with open_control(str(target), settings=state, watch=False, read_only=True) as control:
            assert control.look().observation.capabilities.why_not(Action.UNLOCK)


def test_a_removal_that_failed_is_told_as_failed_and_changed_nothing(desk: LockDesk) -> None:
    file = desk.lock("leader.lock", STALE)

    def refuse() -> None:
        raise OSError(5, "Input/output error")

    desk.files.before = refuse
    result = desk.unlock("leader.lock")
    assert [(one.outcome, one.reason) for one in result.items] == [(Outcome.FAILED, "Input/output error")]
    (record,) = desk.operations.records()
    assert (record.done, record.skipped, record.failed, record.open) == (0, 0, 1, False)
    assert record.why_not_undo == "it changed nothing"
    assert (file.read_text(), desk.names()) == (STALE, ["leader.lock"])
