"""A consumer that lives is never called dead: the table of protocol cases, with a process table that a test sets."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from spooltop.backends.directory.liveness.claim_liveness import ClaimJudge
from spooltop.backends.directory.liveness.pid_liveness import BootClock, Certainty, judge_pid
from spooltop.backends.directory.liveness.processes import Process, Processes
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Stopped
from spooltop.model.operations.progress import EVERY, Progress
from spooltop.model.row import Row
from spooltop.model.vocabulary import Verdict

from .table import FakeProcesses

SURE = Certainty(local=True, all_pids=True)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN
BEFORE, AFTER = Process(4242, 900.0), Process(4242, 1_003.0)


@pytest.mark.parametrize(
    ("there", "process", "namesakes", "sure", "expected"),
    [
        (True, BEFORE, [BEFORE], SURE, (ALIVE, "running")),
        (True, None, None, SURE, (ALIVE, "running")),  # hidepid: kill says EPERM, nothing is shown
        (True, Process(4242, 1_001.9), [], SURE, (ALIVE, "running")),  # within the margin it may be the claimer
        (True, AFTER, [AFTER], SURE, (DEAD, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER, BEFORE], SURE, (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, None, SURE, (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER], Certainty(False, True), (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, Process(4242, 900.0, zombie=True), [], SURE, (UNKNOWN, "pid 4242 has exited, its parent has not noticed")),
        (False, None, [], SURE, (DEAD, "exited")),
        (False, None, [], Certainty(True, False), (UNKNOWN, "no pid 4242 here")),
        (False, None, [], Certainty(False, True), (UNKNOWN, "no pid 4242 here")),
        (False, None, None, SURE, (UNKNOWN, "no pid 4242 here")),
        (False, None, [Process(77, 900.0)], SURE, (UNKNOWN, "no pid 4242 here; in a container it is pid 77")),
        (False, None, [Process(77, 1_003.0)], SURE, (DEAD, "exited")),
        (None, None, [], SURE, (UNKNOWN, "no process can have pid 4242")),
        (False, None, None, Certainty(True, False, True), (DEAD, "exited; claims.pids is this-host")),
        (False, None, None, Certainty(False, True, True), (DEAD, "exited; claims.pids is this-host")),
        (False, None, None, Certainty(True, True, True), (DEAD, "exited; claims.pids is this-host")),  # hidepid
        (False, None, [], Certainty(True, True, True), (DEAD, "exited")),
        (False, None, [Process(77, 900.0)], Certainty(True, True, True),
         (UNKNOWN, "no pid 4242 here; in a container it is pid 77")),
        (True, BEFORE, None, Certainty(False, False, True), (ALIVE, "running")),
        (True, AFTER, None, Certainty(True, False, True),
         (DEAD, "pid 4242 is running, but started after the claim; claims.pids is this-host")),
        (True, AFTER, None, Certainty(False, True, True), (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (True, AFTER, [AFTER, BEFORE], Certainty(True, True, True),
         (UNKNOWN, "pid 4242 is running, but started after the claim")),
        (None, None, None, Certainty(True, False, True), (UNKNOWN, "no process can have pid 4242")),
    ],
)  # fmt: skip
def test_verdict_of_a_pid(
    there: bool | None, process: Process | None, namesakes: list[Process] | None, sure: Certainty, expected: tuple[Verdict, str]
) -> None:
    assert judge_pid(4242, there, process, namesakes, 1_000.0, sure) == expected


@contextmanager
def looking(path: Path, table: Processes) -> Iterator[tuple[ClaimJudge, SpoolDirs, BootClock]]:
    boot_clock = BootClock(table)
    with SpoolDirs(path) as dirs:
        yield ClaimJudge(table, boot_clock), dirs, boot_clock


def look(judge: ClaimJudge, dirs: SpoolDirs, scan: int, sure: Certainty = SURE) -> list[Row]:
    names = sorted(os.listdir(os.path.join(dirs.path, "cur")))
    rows, whole = judge.look(dirs, names, len(names), scan, sure)
    assert whole
    return list(rows)


def claim(spool: Path, name: str) -> Path:
    path = spool / "cur" / name
    path.write_text("m")
    return path


FOREIGN = "1795220920443125.9155.vm:2,P4242"
TOKEN = "ab" * 16


def test_row_of_a_foreign_claim(spool: Path) -> None:
    claim(spool, FOREIGN)
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        (row,) = look(judge, dirs, 1)
    assert (row.id, row.verdict, row.evidence, row.attempt) == ("1795220920443125.9155.vm", DEAD, "exited", None)
    assert row.since_is_bound and row.owner is not None and row.owner.pid == 4242
    assert row.enqueued_at == 1_795_220_920.443125


def test_the_dead_are_not_asked_for_again(spool: Path) -> None:
    claim(spool, FOREIGN)
    table = FakeProcesses()
    with looking(spool, table) as (judge, dirs, _):
        look(judge, dirs, 1)
        table.pids[4242] = Process(4242, 5_000.0)
        (row,) = look(judge, dirs, 2)
    assert (row.verdict, table.sweeps) == (DEAD, 1)


def test_reused_pid_is_seen_to_be_another_process(spool: Path) -> None:
    claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: BEFORE})
    with looking(spool, table) as (judge, dirs, _):
        assert look(judge, dirs, 1)[0].verdict is ALIVE
        table.boot += 60
        table.pids[4242] = Process(4242, table.boot - 1)
        assert look(judge, dirs, 1)[0].evidence == "pid 4242 is running, but started after the claim"
        assert look(judge, dirs, 1)[0].verdict is DEAD


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_a_step_of_the_clock_makes_nobody_dead(spool: Path, step: float) -> None:
    table = FakeProcesses(pids={4242: BEFORE})
    table.offset = os.stat(claim(spool, FOREIGN)).st_ctime - table.boot
    with looking(spool, table) as (judge, dirs, boot_clock):
        assert look(judge, dirs, 1)[0].verdict is ALIVE
        table.offset += step
        boot_clock.look()
        assert boot_clock.jumped == pytest.approx(step)
        assert look(judge, dirs, 2)[0].verdict is ALIVE


def test_a_clock_set_before_the_first_look_makes_nobody_dead(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: Process(4242, 900.0)})
    # Stamped by a clock that has since been put forward by an hour: by the clock of now its owner started after the claim.
    table.offset = os.stat(path).st_ctime + 3_600 - table.boot
    with looking(spool, table) as (judge, dirs, _):
        assert look(judge, dirs, 1)[0].verdict is ALIVE


def test_claim_that_ended_while_we_looked_is_not_dead(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        names = [FOREIGN]
        judge.look(dirs, [], 0, 1, SURE)
        path.unlink()
        assert judge.look(dirs, names, 1, 2, SURE) == ((), True)


class Acking(FakeProcesses):
    """A consumer that ends its claim and then itself, just before it is asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def exists(self, pid: int) -> bool | None:
        self._path.unlink()
        return False


def test_claim_that_ended_between_listing_and_test_is_not_dead(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    with looking(spool, Acking(path)) as (judge, dirs, _):
        assert look(judge, dirs, 1) == []


def test_what_names_no_holder_is_not_judged_and_what_names_an_impossible_one_is_unknown(spool: Path) -> None:
    claim(spool, "nobody")
    claim(spool, "x:2,P0")
    claim(spool, "mail:2,S")
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        rows = look(judge, dirs, 1)
    found = {row.name: (row.verdict, row.evidence) for row in rows}
    assert found == {
        "nobody": (None, "not a claim that spooltop knows: no holder in its name"),
        "mail:2,S": (UNKNOWN, "no holder in its name"),
        "x:2,P0": (UNKNOWN, "no process can have pid 0"),
    }


def test_strange_things_are_no_claims(spool: Path) -> None:
    os.mkfifo(spool / "cur" / "fifo:2,P1")
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        assert look(judge, dirs, 1) == []
        assert [row.note for row in judge.irregular] == ["a fifo, not a message"]


def presence(spool: Path, boot_id: str | None, **more: str) -> int:
    """A presence file as an older version made it; the descriptor holds its lock."""
    folder = spool / ".spooltop" / "consumers"
    folder.mkdir(parents=True, exist_ok=True)
    namespace = os.readlink("/proc/self/ns/pid")
    record = {"host": "here", "boot_id": boot_id, "pid_ns": namespace, "pid": os.getpid(), "command": "work", **more}
    fd = os.open(folder / TOKEN, os.O_RDWR | os.O_CREAT)
    os.write(fd, json.dumps(record).encode())
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def test_own_claim_follows_the_presence_lock(spool: Path) -> None:
    claim(spool, f"order-17,s=email,n=3,c={TOKEN}.1795220920443125:2,P7")
    table = FakeProcesses(first=False, pids={os.getpid(): Process(os.getpid(), 1.0)})
    fd = presence(spool, table.boot_id())
    with looking(spool, table) as (judge, dirs, _):
        (row,) = look(judge, dirs, 1)
        assert (row.verdict, row.evidence, row.attempt, row.source) == (ALIVE, "running", 4, "email")
        assert (row.in_box_since, row.since_is_bound) == (1_795_220_920.443125, False)
        assert judge.count_running(dirs, SURE) == 1
        os.close(fd)
        (row,) = look(judge, dirs, 1)
        assert (row.verdict, row.evidence) == (DEAD, "exited")
        assert judge.count_running(dirs, SURE) == 0


def test_own_claim_without_presence_file_is_unknown(spool: Path) -> None:
    claim(spool, f"a,n=0,c={TOKEN}.1795220920443125:2,P7")
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        assert look(judge, dirs, 1)[0].verdict is UNKNOWN
        assert judge.count_running(dirs, SURE) is None


@pytest.mark.parametrize(("local", "verdict"), [(True, DEAD), (False, UNKNOWN)])
def test_own_claim_from_before_the_restart(spool: Path, local: bool, verdict: Verdict) -> None:
    claim(spool, f"a,n=0,c={TOKEN}.1795220920443125:2,P7")
    table = FakeProcesses()
    os.close(presence(spool, "another boot", machine_id=table.machine().machine_id))
    with looking(spool, table) as (judge, dirs, _):
        assert look(judge, dirs, 1, Certainty(local, True))[0].verdict is verdict


def test_a_free_lock_that_proves_nothing_is_asked_again(spool: Path) -> None:
    """A client's lock looks free until the restarted server has it back."""
    claim(spool, f"a,n=0,c={TOKEN}.1795220920443125:2,P7")
    os.close(presence(spool, "another boot"))
    with looking(spool, FakeProcesses()) as (judge, dirs, _):
        assert (look(judge, dirs, 1)[0].verdict, judge.count_running(dirs, SURE)) == (UNKNOWN, 0)
        with open(spool / ".spooltop" / "consumers" / TOKEN) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert (look(judge, dirs, 1)[0].verdict, judge.count_running(dirs, SURE)) == (ALIVE, 1)


def held_by(judge: ClaimJudge, dirs: SpoolDirs, table: FakeProcesses, seconds: float) -> str:
    """The evidence on the one claim after so many seconds, looked at every second."""
    evidence = ""
    for _ in range(int(seconds)):
        table.boot += 1
        evidence = look(judge, dirs, 1)[0].evidence
    return evidence


def test_a_living_holder_that_does_nothing_for_a_minute_is_said_to(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: BEFORE})
    table.offset = os.stat(path).st_ctime - table.boot + 61
    table.used[4242] = 7.0
    with looking(spool, table) as (judge, dirs, _):
        assert held_by(judge, dirs, table, 60) == "running"
        assert held_by(judge, dirs, table, 11) == "running · no CPU for 1m"
        assert held_by(judge, dirs, table, 240) == "running · no CPU for 5m"
        assert table.asked_cpu <= 32
        table.used[4242] += 0.01
        assert held_by(judge, dirs, table, 11) == "running"


def test_a_look_that_stands_alone_asks_nobody_what_it_does(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: BEFORE})
    table.offset = os.stat(path).st_ctime - table.boot + 61
    with SpoolDirs(spool) as dirs:
        judge = ClaimJudge(table, BootClock(table), watch=False)
        assert held_by(judge, dirs, table, 60) == "running"
    assert table.asked_cpu == 0


def test_nobody_is_asked_what_it_does_with_a_claim_just_taken(spool: Path) -> None:
    path = claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: BEFORE})
    table.offset = os.stat(path).st_ctime - table.boot
    with looking(spool, table) as (judge, dirs, _):
        assert held_by(judge, dirs, table, 50) == "running"
    assert table.asked_cpu == 0


def test_the_owner_of_a_claim_is_described(spool: Path) -> None:
    claim(spool, f"a:2,P{os.getpid()}")
    with SpoolDirs(spool) as dirs:
        processes = Processes()
        judge = ClaimJudge(processes, BootClock(processes))
        (row,) = look(judge, dirs, 1)
    assert row.verdict is ALIVE and row.owner is not None
    assert (row.owner.pid, row.owner.user) == (os.getpid(), pwd.getpwuid(os.geteuid()).pw_name)
    assert row.owner.start == pytest.approx(psutil.Process().create_time(), abs=0.1)
    assert row.owner.command


def test_the_cpu_of_children_counts() -> None:
    with subprocess.Popen(["sh", "-c", "read x; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read y"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:  # fmt: skip
        assert child.stdin is not None and child.stdout is not None
        before = {pid: used for pid, _, used in Processes().cpu(os.getpid()) or ()}
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"\n"
        after = {pid: used for pid, _, used in Processes().cpu(os.getpid()) or ()}
        assert before.keys() >= {os.getpid(), child.pid} and after[child.pid] > before[child.pid]
        child.stdin.write(b"\n")
    assert Processes().cpu(child.pid) is None


@pytest.mark.parametrize("own", [True, False])
def test_a_stopped_holder_lives_and_is_said_to_be_stopped(spool: Path, own: bool) -> None:
    """Nothing but SIGCONT brings it on: who waits for it must be told."""
    code = (
        "import sys, os; from spooltop.engine import Spool; s = Spool(sys.argv[1], durable=False); s.put(b'm'); c = s.claim()\n"
        "print('claimed', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(spool)], stdin=PIPE, stdout=PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "claimed\n"
        if not own:
            for held in (spool / "cur").iterdir():
                held.unlink()
            claim(spool, f"1795220920443125.9155.vm:2,P{holder.pid}")
        with looking(spool, Processes()) as (judge, dirs, _):
            assert look(judge, dirs, 1)[0].evidence == "running"
            holder.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
            row = look(judge, dirs, 2)[0]
            assert (row.verdict, row.evidence) == (ALIVE, "running · stopped (T)")
            holder.send_signal(signal.SIGCONT)
            os.waitid(os.P_PID, holder.pid, os.WCONTINUED | os.WNOWAIT)
            assert look(judge, dirs, 3)[0].evidence == "running"
        holder.communicate("")


def test_a_look_that_was_stopped_on_the_way_is_made_anew_by_the_next(spool: Path) -> None:
    for number in range(2 * EVERY):
        pid = 4242 if number < EVERY - 1 else 7  # all of 4242 are judged again before it is asked
        (spool / "cur" / f"1795220920{number:06}.9155.vm:2,P{pid}").touch()
    names = sorted(os.listdir(spool / "cur"))
    table = FakeProcesses(pids={4242: Process(4242, 1.0), 7: Process(7, 1.0)})
    with looking(spool, table) as (judge, dirs, _):
        assert {row.verdict for row in look(judge, dirs, 1)} == {ALIVE}
        del table.pids[4242]
        asked = iter([False, True])
        with pytest.raises(Stopped):
            judge.look(dirs, names, len(names), 1, SURE, Progress(lambda: next(asked)))
        assert {row.name.rpartition("P")[2]: row.verdict for row in look(judge, dirs, 1)} == {"4242": DEAD, "7": ALIVE}


def test_a_clock_set_back_while_watching_makes_nobody_dead(spool: Path) -> None:
    """By the clock of before, its owner was started after the claim."""
    table = FakeProcesses()
    with looking(spool, table) as (judge, dirs, boot_clock):
        table.boot += 1_000
        table.offset -= 500
        boot_clock.look()
        table.pids[4242] = Process(4242, table.boot + 100)
        path = claim(spool, FOREIGN)
        # The file system stamps by the clock of now: a second after its owner was started.
        table.boot = os.stat(path).st_ctime - 1_795_000_000.0 + 500
        table.pids[4242] = Process(4242, table.boot - 1)
        assert boot_clock.jumped == pytest.approx(-500)
        assert look(judge, dirs, 1)[0].verdict is ALIVE


def test_a_foreign_claim_that_was_made_anew_under_its_name_is_looked_up_again(spool: Path) -> None:
    """The same process took the same message again."""
    path = claim(spool, FOREIGN)
    table = FakeProcesses(pids={4242: BEFORE})
    with looking(spool, table) as (judge, dirs, _):
        assert [row.size for row in look(judge, dirs, 1)] == [1]
        (spool / "new" / "again").write_text("longer")
        os.rename(spool / "new" / "again", path)
        assert [row.size for row in look(judge, dirs, 2)] == [6]
