"""A consumer that lives is never called dead: verdicts on claims, with their evidence, by a process table that a test sets."""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
import struct
from itertools import count
from pathlib import Path

import psutil
import pytest

from spooltop.control import Control
from spooltop.model.vocabulary import Box, Row, Verdict
from tests.builders import SpoolWorld, message_id

from .conftest import Opened
from .table import FakeProcesses, Process, presence, see

ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN
FOREIGN = "1795220920443125.9155.vm:2,P4242"
OWN = f"order-17,n=3,c={'ab' * 16}.1795220920443125:2,P7"
OFD_SETLK = 37
BEFORE = Process(4242, -1e9)


def claim(spool: Path, name: str = FOREIGN) -> Path:
    path = spool / "cur" / name
    path.write_text("m")
    return path


def judged(control: Control) -> Row:
    (row,) = control.look().observation.claims
    return row


@pytest.mark.parametrize(
    ("name", "table", "expected"),
    [
        (FOREIGN, FakeProcesses(), (DEAD, "exited")),
        (FOREIGN, FakeProcesses(pids={4242: BEFORE}), (ALIVE, "running")),
        (FOREIGN, FakeProcesses(pids={4242: Process(4242, 1e9)}), (DEAD, "pid 4242 is running, but started after the claim")),
        (FOREIGN, FakeProcesses(hidden=[4242]), (ALIVE, "running")),
        (FOREIGN, FakeProcesses(hidden=[1]), (UNKNOWN, "no pid 4242 here")),
        (FOREIGN, FakeProcesses(first=False), (UNKNOWN, "no pid 4242 here")),
        (FOREIGN, FakeProcesses(contained={4242: Process(77, -1e9)}), (UNKNOWN, "no pid 4242 here; in a container it is pid 77")),
        ("nobody", FakeProcesses(), (None, "not a claim that spooltop knows: no holder in its name")),
        ("x:2,P0", FakeProcesses(), (UNKNOWN, "no process can have pid 0")),
        ("mail:2,S", FakeProcesses(), (UNKNOWN, "no holder in its name")),
        (OWN, FakeProcesses(), (UNKNOWN, "its presence file is missing")),
    ],
)  # fmt: skip
def test_verdict_and_evidence_of_a_claim(
    spool: Path, opened: Opened, name: str, table: FakeProcesses, expected: tuple[Verdict | None, str]
) -> None:
    claim(spool, name)
    row = judged(opened(spool, processes=table, as_kind="spool"))
    assert (row.verdict, row.evidence) == expected
    if name == FOREIGN:
        assert (row.id, row.attempt, row.enqueued_at) == ("1795220920443125.9155.vm", None, 1_795_220_920.443125)
        assert row.since_is_bound and row.owner is not None and row.owner.pid == 4242


def test_reused_pid_is_seen_to_be_another_process(spool: Path, opened: Opened) -> None:
    path = claim(spool)
    table = FakeProcesses(pids={4242: BEFORE})
    control = opened(spool, processes=table)
    assert judged(control).verdict is ALIVE
    table.boot = os.stat(path).st_ctime - table.offset + 60
    table.pids[4242] = Process(4242, table.boot - 1)
    assert judged(control).evidence == "pid 4242 is running, but started after the claim"
    del table.pids[4242]
    assert judged(control).verdict is DEAD
    table.pids[4242] = Process(4242, table.boot)
    assert judged(control).verdict is DEAD


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
def test_a_step_of_the_clock_makes_nobody_dead(spool: Path, opened: Opened, step: float, before: bool) -> None:
    """Also a step before the first look: by the clock of now the holder started after the claim."""
    table = FakeProcesses(pids={4242: Process(4242, 900.0)})
    table.offset = os.stat(claim(spool)).st_ctime - table.boot + step * before
    control = opened(spool, processes=table)
    assert judged(control).verdict is ALIVE
    if not before:
        table.offset += step
        observation = see(control)
        assert observation.clock_jumped == pytest.approx(step) and observation.claims[0].verdict is ALIVE


def test_a_step_of_the_clock_is_told_while_the_spool_is_missing(spool: Path, opened: Opened) -> None:
    table = FakeProcesses()
    control = opened(spool, processes=table)
    see(control)
    spool.rename(spool.with_name("away"))
    table.offset += 3_600
    assert see(control).clock_jumped == pytest.approx(3_600)


def test_a_clock_set_back_while_watching_makes_nobody_dead(spool: Path, opened: Opened) -> None:
    """By the clock of before, its owner was started after the claim."""
    table = FakeProcesses()
    control = opened(spool, processes=table)
    see(control)
    table.boot += 1_000
    table.offset -= 500
    assert see(control).clock_jumped == pytest.approx(-500)
    path = claim(spool)
    # The file system stamps by the clock of now: a second after its owner was started.
    table.boot = os.stat(path).st_ctime - 1_795_000_000.0 + 500
    table.pids[4242] = Process(4242, table.boot - 1)
    assert see(control).claims[0].verdict is ALIVE


def test_claim_that_ended_between_listing_and_test_is_not_dead(spool: Path, opened: Opened) -> None:
    path = claim(spool)

    class Acking(FakeProcesses):
        """A consumer that ends its claim and then itself, just before it is asked for."""

        def exists(self, pid: int) -> bool | None:
            path.unlink()
            return False

    assert opened(spool, processes=Acking()).look().observation.claims == ()


def test_a_foreign_claim_that_was_made_anew_under_its_name_is_looked_up_again(spool: Path, opened: Opened) -> None:
    """The same process took the same message again."""
    path = claim(spool)
    control = opened(spool, processes=FakeProcesses(pids={4242: BEFORE}))
    assert judged(control).size == 1
    (spool / "new" / "again").write_text("longer")
    os.rename(spool / "new" / "again", path)
    assert see(control).claims[0].size == 6


def test_own_claim_follows_the_presence_lock(spool: Path, opened: Opened) -> None:
    control = opened(spool, monotonic=count().__next__)
    with presence(spool) as token:
        claim(spool, f"order-17,s=email,n=3,c={token}.1795220920443125:2,P7")
        row = judged(control)
        assert (row.verdict, row.evidence, row.attempt, row.source) == (ALIVE, "running", 4, "email")
        assert (row.in_box_since, row.since_is_bound) == (1_795_220_920.443125, False)
        assert control.look().observation.consumers == 1
    observation = control.look().observation
    assert [(row.verdict, row.evidence) for row in observation.claims] == [(DEAD, "exited")] and observation.consumers == 0


@pytest.mark.parametrize(
    ("elsewhere", "verdict"),
    [({"boot_id": "f" * 36}, DEAD), ({"boot_id": "f" * 36, "machine_id": "f" * 32}, UNKNOWN)],
    ids=["same machine", "another"],
)
def test_own_claim_from_before_the_restart(spool: Path, opened: Opened, elsewhere: dict[str, str], verdict: Verdict) -> None:
    """Where a free lock proves nothing it is asked again: a client's looks free until the restarted server has it back."""
    with presence(spool, **elsewhere) as token:
        claim(spool, f"order-17,n=3,c={token}.1795220920443125:2,P7")
    control = opened(spool, processes=FakeProcesses(), monotonic=count().__next__)
    assert (judged(control).verdict, control.look().observation.consumers) == (verdict, 0)
    if verdict is UNKNOWN:
        with open(spool / ".spooltop" / "consumers" / token, "r+") as file:
            fcntl.fcntl(file, OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            assert (judged(control).verdict, control.look().observation.consumers) == (ALIVE, 1)


def test_a_living_holder_that_does_nothing_for_a_minute_is_said_to(spool: Path, opened: Opened) -> None:
    table = FakeProcesses(pids={4242: BEFORE})
    table.offset = os.stat(claim(spool)).st_ctime - table.boot + 61
    table.used[4242] = 7.0

    def held(control: Control, seconds: int) -> str:
        """Returns the evidence on the one claim after so many seconds, looked at every second."""
        for _ in range(seconds):
            table.boot += 1
            evidence = judged(control).evidence
        return evidence

    control = opened(spool, processes=table, watch=True)
    for seconds, evidence in ((60, "running"), (11, "running · no CPU for 1m"), (240, "running · no CPU for 5m")):
        assert held(control, seconds) == evidence
    table.used[4242] += 0.01
    assert held(control, 11) == "running"
    assert held(opened(spool, processes=table), 100) == "running"  # each look stands alone there


@pytest.mark.parametrize("own", [True, False])
def test_a_holder_is_described_and_one_that_is_stopped_is_said_to_be(tmp_path: Path, opened: Opened, own: bool) -> None:
    """Nothing but SIGCONT brings it on: who waits for it must be told."""
    with SpoolWorld(tmp_path) as world:
        world.put(message_id(1))
        holder, names = world.claim_living()
        if not own:
            (world.path / "cur" / names[0]).unlink()
            world.claim_foreign(message_id(1), pid=holder.pid)
        control = opened(world.path)
        owner = judged(control).owner
        assert owner is not None and owner.command
        assert (owner.pid, owner.user) == (holder.pid, pwd.getpwuid(os.geteuid()).pw_name)
        assert owner.start == pytest.approx(psutil.Process(holder.pid).create_time(), abs=0.1)
        for sent, waited, evidence in (
            (signal.SIGSTOP, os.WSTOPPED, "running · stopped (T)"),
            (signal.SIGCONT, os.WCONTINUED, "running"),
        ):
            holder.send_signal(sent)
            os.waitid(os.P_PID, holder.pid, waited | os.WNOWAIT)
            row = judged(control)
            assert (row.verdict, row.evidence, row.box) == (ALIVE, evidence, Box.CUR)
