"""Who consumes: from claims, presence files and the process table, never more than can be seen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from spooltop.backends.directory.liveness import consumers
from spooltop.backends.directory.liveness.consumers import ConsumerGatherer, claiming
from spooltop.backends.directory.liveness.pid_liveness import Certainty
from spooltop.backends.directory.liveness.processes import Processes, ProcessUse
from spooltop.engine import presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import PresenceLock
from spooltop.model.look.consumers import ConsumerList
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict
from tests.desk import Desk, new_desk

from .conftest import Opened
from .table import FakeProcesses

SURE = Certainty(local=True, all_pids=True)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN


def claim(number: int, tail: str, verdict: Verdict = ALIVE, *, pid: int | None = 77, user: str | None = "ann") -> Row:
    name = f"{1795220920443125 + number}.P9R{number:016x}.vm{tail}"
    owner = Owner("vm", pid, 5.0, "worker.py", user)
    since = 1_000.0 + number
    return Row(("cur", number), Box.CUR, f"m{number}", name, in_box_since=since, verdict=verdict, evidence="as told", owner=owner)


def own(number: int, digit: str, verdict: Verdict = ALIVE, *, pid: int = 77) -> Row:
    return claim(number, f",c={digit * 32}.{1795220925443125 + number}:2,P{pid}", verdict, pid=pid)


def test_claims_of_one_token_are_one_consumer() -> None:
    found, nameless = claiming([own(1, "a"), own(2, "b", pid=78), own(3, "a")])
    assert [(one.token, one.claims, one.claimed_at, one.last_claim_at, one.ids) for one in found] == [
        ("a" * 32, 2, 1_001.0, 1_003.0, ("m1", "m3")), ("b" * 32, 1, 1_002.0, 1_002.0, ("m2",)),
    ]  # fmt: skip
    assert nameless == 0


def test_a_pid_that_was_given_again_is_two_consumers() -> None:
    found, _ = claiming([claim(1, ":2,P77", DEAD), claim(2, ":2,P77"), claim(3, ":P77")])
    assert [(one.word, one.claims, one.key) for one in found] == [("DEAD", 1, "P77 dead"), ("running", 2, "P77 alive")]


def test_claims_that_name_nobody_are_counted_apart() -> None:
    assert claiming([claim(1, "", UNKNOWN, pid=None)]) == ([], 1)


def test_nobody_is_nobody() -> None:
    assert claiming([]) == ([], 0)


@contextmanager
def gathering(path: Path, table: Processes) -> Iterator[tuple[ConsumerGatherer, SpoolDirs]]:
    with SpoolDirs(path) as dirs:
        yield ConsumerGatherer(table), dirs


def test_the_use_of_a_processor_is_known_from_the_second_sample_on(spool: Path) -> None:
    table = FakeProcesses()
    table.uses = {77: ProcessUse(900.0, 10.0, 41_000_000, stopped=False)}
    rows = (own(1, "a"),)
    with gathering(spool, table) as (gatherer, dirs):
        [one] = gatherer.gather(dirs, rows, SURE, 5.0).consumers
        assert one.usage is not None
        assert (one.usage.cpu, one.usage.memory, one.usage.command) == (None, 41_000_000, "python3 /srv/worker.py --of 77")
        table.boot += 0.5
        table.uses = {77: ProcessUse(900.0, 10.5, 41_000_000, stopped=False)}
        assert gatherer.gather(dirs, rows, SURE, 5.5).consumers == (one,)  # half a second is no sample
        table.boot += 1.5
        [one] = gatherer.gather(dirs, rows, SURE, 7.0).consumers
        assert one.usage is not None and one.usage.cpu == 0.25
        table.boot += 2
        table.uses = {77: ProcessUse(1_001.0, 0.5, 9_000_000, stopped=True)}  # the number was given to another process
        [one] = gatherer.gather(dirs, rows, SURE, 9.0).consumers
        assert one.usage is not None and (one.usage.cpu, one.word) == (None, "stopped")


def test_what_is_not_visible_is_not_guessed(spool: Path) -> None:
    table = FakeProcesses(hidden=[77])
    table.uses = {77: ProcessUse(900.0, 10.0, 1, stopped=False)}
    rows = (claim(1, ":2,P77", user=None), claim(2, ":2,P78", pid=78))
    with gathering(spool, table) as (gatherer, dirs):
        found = gatherer.gather(dirs, rows, SURE, 5.0).consumers
        assert [(one.word, one.usage) for one in found] == [("running", None), ("running", None)]


def test_the_dead_come_first_then_who_holds_longest(spool: Path) -> None:
    rows = (own(1, "a"), own(2, "b", DEAD), own(3, "c", UNKNOWN), own(4, "d", DEAD), own(5, "e"))
    with gathering(spool, FakeProcesses()) as (gatherer, dirs):
        found = gatherer.gather(dirs, rows, SURE, 5.0)
    assert "".join((one.token or "?")[0] for one in found.consumers) == "bdcae"


def test_very_many_are_counted_and_not_listed(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_LISTED", 3)
    rows = tuple(own(number, f"{number:x}") for number in range(5))
    with gathering(spool, FakeProcesses()) as (gatherer, dirs):
        found = gatherer.gather(dirs, rows, SURE, 5.0, complete=False)
    assert (len(found.consumers), found.more, found.error) == (3, 2, "only the first 5 claims are counted")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = new_desk(tmp_path)
    yield one
    one.close()


def gathered(desk: Desk, opened: Opened) -> ConsumerList:
    reader = opened(desk.path)
    reader.see()
    return reader.consumers()


def test_who_holds_who_waits_and_who_died(desk: Desk, opened: Opened) -> None:
    for number in range(3):
        desk.put(desk.id(number))
    desk.claim_and_die(desk.id(0), desk.id(1))
    living, _ = desk.claim(desk.id(2))
    with SpoolDirs(desk.path) as dirs:
        idle = PresenceLock.take(dirs, now=7.0, command="python3 idler.py")
        try:
            dead, running, waiting = gathered(desk, opened).consumers
        finally:
            idle.drop(dirs, remove=True)
    assert (dead.word, dead.claims, dead.evidence, dead.usage) == ("DEAD", 2, "exited", None)
    assert (running.word, running.claims, running.owner.pid) == ("running", 1, living.pid)
    assert running.usage is not None and running.usage.memory and "PresenceLock" in running.usage.command
    assert (waiting.word, waiting.claims, waiting.owner.pid, waiting.claimed_at) == ("running", 0, os.getpid(), None)
    assert gathered(desk, opened).count("running") == 1


def test_one_that_died_without_a_claim_stands_last_and_is_no_alarm(desk: Desk, opened: Opened) -> None:
    desk.put(desk.id(0))
    claimed = desk.claim_and_die(desk.id(0))
    (desk.path / "cur" / claimed[0]).unlink()
    [one] = gathered(desk, opened).consumers
    assert (one.verdict, one.word, one.exited) == (DEAD, "exited", True)


def test_a_consumer_of_another_machine_is_unknown(desk: Desk, opened: Opened) -> None:
    with SpoolDirs(desk.path) as dirs:
        there = replace(Processes().machine(), host="elsewhere", boot_id="0" * 36, machine_id="f" * 32)
        lock = PresenceLock.take(dirs, now=7.0, machine=there, command="worker.py")
        lock.drop(dirs, remove=False)
    [one] = gathered(desk, opened).consumers
    assert (one.word, one.owner.host, one.usage) == ("unknown", "elsewhere", None)
    assert "another machine" in one.evidence


def test_a_spool_that_is_gone_has_no_consumers(desk: Desk, opened: Opened) -> None:
    reader = opened(desk.path / "missing")
    reader.see()
    assert reader.consumers().consumers == ()


def test_presence_files_that_cannot_be_listed_are_said_to_be_so(desk: Desk, opened: Opened) -> None:
    (desk.path / ".spooltop").mkdir()
    (desk.path / ".spooltop" / presence.CONSUMERS).write_text("no directory")
    assert "consumers without a claim are not visible" in gathered(desk, opened).error


def test_a_process_that_ended_uses_nothing() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert Processes().use(pid) is None  # a zombie
    os.waitpid(pid, 0)
    assert (Processes().use(pid), Processes().command_line(pid)) == (None, "")
    mine = Processes().use(os.getpid())
    assert mine is not None and mine.memory > 1_000_000 and mine.cpu > 0 and not mine.stopped
