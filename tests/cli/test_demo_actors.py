"""Single actors of the demo, without waiting for their turn."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spooltop.cli.demo import consumers, lockers, pollers, sample_messages, writers
from spooltop.cli.demo.command import goodbye
from spooltop.cli.demo.process_group import Child, ProcessGroup
from spooltop.cli.demo.stages import spool_stage
from spooltop.engine import Claim, CursorFile, Spool
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.vocabulary import Action


@pytest.fixture
def spool(tmp_path: Path) -> str:
    path = str(tmp_path / "spool")
    Spool.create(path, durable=False).close()
    pollers.begin(path)
    return path


@pytest.fixture
def child() -> Iterator[Child]:
    """A demo that runs as long as the test."""
    ends = [*os.pipe(), *os.pipe()]
    yield Child(ends[0], ends[3])
    for fd in ends:
        os.close(fd)


@pytest.fixture
def over() -> Iterator[Child]:
    """A demo that has ended."""
    lifeline, write = os.pipe()
    os.close(write)
    yield Child(lifeline, -1)
    os.close(lifeline)


def depth(spool: str) -> int:
    with Spool(spool, durable=False) as box:
        return box.depth()


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_poll_over_a_file_that_does_not_read_fails_and_says_so(spool: str, text: str) -> None:
    Path(spool, pollers.CURSORS).write_text(text)
    poller = pollers.Poller(spool, "teams")
    poller.newest += 1
    assert (poller.poll(), poller.poll_whole(poller.read_whole())) == (0, 0)
    lines = Path(spool, pollers.LOGS, "poll-teams.log").read_text().splitlines()
    assert lines and all(line.partition(" ")[2].startswith("poll failed: ") for line in lines)
    assert Path(spool, pollers.CURSORS).read_text() == text
    assert depth(spool) == 0


@pytest.mark.parametrize(("value", "new"), [(0, 50), (77000, 50), (77119, 1), (99999999, 0), ("x", 0), (None, 0)])
def test_whatever_a_person_sets_a_cursor_to_few_rows_come(spool: str, value: int | str | None, new: int) -> None:
    CursorFile(os.path.join(spool, pollers.CURSORS)).advance("teams", value)
    assert pollers.Poller(spool, "teams").poll() == new
    assert depth(spool) == new


def test_whoever_holds_a_claim_at_the_end_gives_it_back(spool: str, over: Child) -> None:
    with Spool(spool, durable=False) as box:
        for payload in (sample_messages.row("teams", 1), sample_messages.poison(2)):
            id = box.put(payload)
            consumers.work(over, claimed(box), 60.0)
            assert box.peek() == id
            claimed(box).ack()


def test_a_claim_that_was_taken_away_troubles_nobody(spool: str, child: Child) -> None:
    with Spool(spool, durable=False) as box:
        box.put(sample_messages.row("teams", 1))
        claim = claimed(box)
        os.unlink(os.path.join(spool, "cur", claim.name))
        consumers.work(child, claim, 0.0)
        assert claim.ended and box.depth() == 0
        box.put(sample_messages.row("teams", 2))
        consumers.work(child, claimed(box), 0.0)
        assert os.listdir(os.path.join(spool, "cur")) == []


def test_everybody_ends_when_the_demo_is_over(spool: str, over: Child) -> None:
    began, queue = time.monotonic() + 1000, partial(Spool, spool, durable=False)
    acts = [
        *pollers.pollers(spool, began).values(), consumers.worker(queue, 60, 60), consumers.slow(queue), writers.slow(spool),
        lockers.holder(spool), lockers.waiter(spool),
    ]  # fmt: skip
    for act in acts:
        act(over)  # returns, else the test is stopped
    assert depth(spool) == 0


def test_a_child_goes_by_its_title_and_reports_until_the_group_ends(tmp_path: Path) -> None:
    def act(child: Child) -> None:
        for name in ("comm", "cmdline"):
            (tmp_path / name).write_bytes(Path("/proc/self", name).read_bytes())
        child.report()
        while child.wait(60):
            continue

    assert ProcessGroup.begin("demo-poller email", act, errors=str(tmp_path / "errors")).end() == 1
    assert (tmp_path / "comm").read_text() == "demo-poller\n"
    assert (tmp_path / "cmdline").read_bytes().rstrip(b"\0") == b"demo-poller\0email"
    assert (tmp_path / "errors").read_text() == ""


def test_a_child_that_fails_says_so_and_goes_no_further(tmp_path: Path) -> None:
    def act(child: Child) -> None:
        raise ValueError("broken actor")

    ProcessGroup.begin("parent", act, errors=str(tmp_path / "errors")).end()
    assert "ValueError: broken actor" in (tmp_path / "errors").read_text()


def claimed(box: Spool) -> Claim:
    claim = box.claim()
    assert claim is not None
    return claim


def test_the_goodbye_counts_what_was_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def operation(action: Action, done: int, undone_by: str | None = None) -> OperationRecord:
        return OperationRecord("7f3a", action, 0.0, "me", done, done, undone_by=undone_by)

    monkeypatch.chdir(tmp_path)
    with spool_stage(None) as stage:
        records = [operation(Action.REQUEUE, 2), operation(Action.REQUEUE, 1), operation(Action.PURGE, 9)]
        assert goodbye(records, 5, stage).startswith("demo over: you requeued 3 of 5 dead claims; the spool is removed. ")
        assert "requeued 0 of 1 dead claims;" in goodbye([operation(Action.REQUEUE, 1, undone_by="99aa")], 1, stage)
    with spool_stage("my spool") as stage:
        assert "the spool is kept: spooltop 'my spool'." in goodbye([], 0, stage)
