"""Who consumes: from claims, presence files and the process table, never more than can be seen."""

from __future__ import annotations

import os
from pathlib import Path

from spooltop.control import Control
from spooltop.model.snapshot import ConsumerList, ConsumerRow
from spooltop.model.vocabulary import Verdict
from tests.builders import SpoolWorld, message_id

from .conftest import Opened
from .table import FakeProcesses, Process, ProcessUse, presence, see


def gathered(control: Control) -> ConsumerList:
    see(control)
    return control.consumers()


def claims(spool: Path, *pids: int) -> None:
    """Makes a claim of a foreign consumer for each pid, the oldest first."""
    for number, pid in enumerate(pids):
        path = spool / "cur" / f"{message_id(number)}:2,P{pid}"
        path.touch()
        os.utime(path, (1_000 + number, 1_000 + number))


def test_claims_of_one_holder_are_one_consumer_the_dead_first(spool: Path, opened: Opened) -> None:
    claims(spool, 77, 78, 77, 79)
    (spool / "cur" / "nobody").touch()
    table = FakeProcesses(pids={pid: Process(pid, -1e9, command="worker.py", user="ann") for pid in (77, 78)})
    consumers = gathered(opened(spool, processes=table)).consumers
    assert [(one.word, one.owner.pid, one.claims, one.ids) for one in consumers] == [
        ("DEAD", 79, 1, (message_id(3),)), ("running", 77, 2, (message_id(0), message_id(2))),
        ("running", 78, 1, (message_id(1),)),
    ]  # fmt: skip


def test_the_use_of_a_processor_is_known_from_the_second_sample_on(spool: Path, opened: Opened) -> None:
    claims(spool, 77)
    table = FakeProcesses(pids={77: Process(77, -1e9, user="ann")})
    control = opened(spool, processes=table)

    def sampled(seconds: float, use: ProcessUse) -> ConsumerRow:
        table.boot += seconds
        table.uses = {77: use}
        (row,) = gathered(control).consumers
        return row

    first = sampled(0, ProcessUse(900.0, 10.0, 41_000_000, stopped=False))
    assert first.usage is not None
    assert (first.usage.cpu, first.usage.memory, first.usage.command) == (None, 41_000_000, "python3 /srv/worker.py --of 77")
    assert sampled(0.5, ProcessUse(900.0, 10.5, 41_000_000, stopped=False)) == first  # half a second is no sample
    third = sampled(1.5, ProcessUse(900.0, 10.5, 41_000_000, stopped=False))
    assert third.usage is not None and third.usage.cpu == 0.25
    other = sampled(2, ProcessUse(1_001.0, 0.5, 9_000_000, stopped=True))  # the number was given to another process
    assert other.usage is not None and (other.usage.cpu, other.word) == (None, "stopped")


def test_what_is_not_visible_is_not_guessed(spool: Path, opened: Opened) -> None:
    claims(spool, 77, 78)
    table = FakeProcesses(hidden=[77, 78], uses={77: ProcessUse(900.0, 10.0, 1, stopped=False)})
    rows = gathered(opened(spool, processes=table)).consumers
    assert [(row.word, row.usage) for row in rows] == [("running", None), ("running", None)]


def test_very_many_are_counted_and_not_listed(spool: Path, opened: Opened) -> None:
    claims(spool, *range(10_000, 12_003))
    found = gathered(opened(spool, processes=FakeProcesses(), judged_at_most=2_002))
    assert (len(found.consumers), found.more, found.error) == (2_000, 2, "only the first 2,002 claims are counted")


def test_who_holds_who_waits_and_who_died(memory: Path, opened: Opened) -> None:
    with SpoolWorld(memory) as world:
        for number in range(3):
            world.put(message_id(number))
        world.claim_dead(2)
        living, _ = world.claim_living()
        control = opened(world.path)
        with presence(world.path):
            dead, running, waiting = gathered(control).consumers
        assert (dead.word, dead.claims, dead.evidence, dead.usage) == ("DEAD", 2, "exited", None)
        assert (running.word, running.claims, running.owner.pid) == ("running", 1, living.pid)
        assert running.usage is not None and running.usage.memory and "Spool" in running.usage.command
        assert (waiting.word, waiting.claims, waiting.owner.pid, waiting.claimed_at) == ("running", 0, os.getpid(), None)
        assert gathered(opened(world.path)).count("running") == 1


def test_a_consumer_that_left_its_presence_is_no_alarm_and_of_another_machine_nothing_is_known(
    spool: Path, opened: Opened
) -> None:
    with presence(spool), presence(spool, host="elsewhere", boot_id="0" * 36, machine_id="f" * 32):
        pass
    control = opened(spool, processes=FakeProcesses())
    unknown, exited = sorted(gathered(control).consumers, key=lambda row: row.exited)
    assert (exited.verdict, exited.word) == (Verdict.DEAD, "exited")
    assert (unknown.word, unknown.owner.host, unknown.usage) == ("unknown", "elsewhere", None)
    assert "another machine" in unknown.evidence
    spool.rename(spool.with_name("gone"))
    assert gathered(control).consumers == ()


def test_presence_files_that_cannot_be_listed_are_said_to_be_so(spool: Path, opened: Opened) -> None:
    (spool / ".spooltop").mkdir()
    (spool / ".spooltop/consumers").write_text("no directory")
    assert "consumers without a claim are not visible" in gathered(opened(spool)).error
