"""Single actors of the demo, without waiting for their turn."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from spooltop.cli.demo import consumers, lockers, pollers, sample_messages, speed, writers
from spooltop.cli.demo.command import goodbye
from spooltop.cli.demo.process_group import Child, ProcessGroup, fork
from spooltop.cli.demo.stages import BANNER, BANNER_KEPT, STREAM_BANNER, spool_stage
from spooltop.engine import Claim, CursorFile, Spool
from spooltop.engine import names as grammar
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.vocabulary import Action
from spooltop.observe.thresholds import Thresholds


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


def cursors(spool: str) -> dict[str, object]:
    return dict(CursorFile(os.path.join(spool, pollers.CURSORS)).read())


def payloads(spool: str) -> list[dict[str, object]]:
    with Spool(spool, durable=False) as box:
        found = []
        for claim in box.claims():
            found.append(json.loads(claim.data))
            claim.ack()
        return found


def log(spool: str, source: str) -> list[str]:
    lines = Path(spool, pollers.LOGS, f"poll-{source}.log").read_text().splitlines()
    return [line.partition(" ")[2] for line in lines]


def test_a_poll_puts_the_new_rows_and_saves_the_cursor(spool: str) -> None:
    poller = pollers.Poller(spool, "imessage")
    poller.newest += 4
    assert (poller.poll(), poller.poll()) == (4, 0)
    assert cursors(spool)["imessage"] == {"cursor": 89636}
    assert [(row["source"], row["rowid"]) for row in payloads(spool)] == [("imessage", 89633 + n) for n in range(4)]
    assert log(spool, "imessage") == ["poll ok: 4 new (cursor 89632 -> 89636)", "poll ok: 0 new (cursor=89636)"]


def test_writing_the_whole_file_puts_the_others_back(spool: str) -> None:
    email, imessage = pollers.Poller(spool, "email"), pollers.Poller(spool, "imessage")
    read = email.read_whole()
    imessage.newest += 4
    imessage.poll()
    email.newest += 1
    seen: list[bool] = []
    assert email.poll_whole(read, lambda: seen.append(os.path.exists(os.path.join(spool, "cursors.json.tmp")))) == 1
    assert seen == [True]
    assert (cursors(spool)["imessage"], cursors(spool)["email"]) == ({"cursor": 89632}, {"uid": 204511})
    assert imessage.poll() == 4  # the same rows again
    assert not os.path.exists(os.path.join(spool, "cursors.json.tmp"))


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_poll_over_a_file_that_does_not_read_fails_and_says_so(spool: str, text: str) -> None:
    Path(spool, pollers.CURSORS).write_text(text)
    poller = pollers.Poller(spool, "teams")
    poller.newest += 1
    assert (poller.poll(), poller.poll_whole(poller.read_whole())) == (0, 0)
    assert all(line.startswith("poll failed: ") for line in log(spool, "teams"))
    assert Path(spool, pollers.CURSORS).read_text() == text
    assert payloads(spool) == []


@pytest.mark.parametrize(("value", "new"), [(0, 50), (77000, 50), (77119, 1), (99999999, 0), ("x", 0), (None, 0)])
def test_whatever_a_person_sets_a_cursor_to_few_rows_come(spool: str, value: int | str | None, new: int) -> None:
    CursorFile(os.path.join(spool, pollers.CURSORS)).advance("teams", value)
    assert pollers.Poller(spool, "teams").poll() == new
    assert len(payloads(spool)) == new


def test_a_log_starts_anew_where_it_has_grown_long(spool: str) -> None:
    poller = pollers.Poller(spool, "signal")
    path = Path(spool, pollers.LOGS, "poll-signal.log")
    path.write_text("x" * 70_000)
    poller.log("poll ok: 0 new (cursor=5120)")
    assert path.stat().st_size < 100
    assert path.with_suffix(".log.1").stat().st_size == 70_000


def test_the_same_row_always_reads_the_same() -> None:
    assert sample_messages.row("signal", 5121) == sample_messages.row("signal", 5121)
    assert set(json.loads(sample_messages.row("email", 7))) == {"source", "rowid", "from", "text"}
    assert consumers.is_poison(sample_messages.poison(1))
    assert not any(map(consumers.is_poison, (sample_messages.row("teams", 1), b"\xff", b"[]", b"")))


def test_a_worker_acks_until_the_demo_is_over(spool: str, child: Child) -> None:
    with Spool(spool, durable=False) as box:
        box.put(sample_messages.row("teams", 1))
        consumers.work(child, claimed(box), 0.0)
        assert os.listdir(os.path.join(spool, "cur")) == []


def test_whoever_holds_a_claim_at_the_end_gives_it_back(spool: str, over: Child) -> None:
    with Spool(spool, durable=False) as box:
        for payload in (sample_messages.row("teams", 1), sample_messages.poison(2)):
            id = box.put(payload)
            consumers.work(over, claimed(box), 60.0)
            assert box.peek() == id
            claimed(box).ack()


def test_the_poison_kills_whoever_takes_it_and_nobody_recovers_it(spool: str, child: Child) -> None:
    with Spool(spool, durable=False) as box:
        box.put(sample_messages.poison(1))

    def act() -> None:
        with Spool(spool, durable=False) as box:
            consumers.work(child, claimed(box), 0.0, poison=0.0)

    pid = fork("worker.py", act)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (name,) = os.listdir(os.path.join(spool, "cur"))
    assert grammar.parse(name, claimed=True).pid == pid


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


def test_a_writer_dies_in_tmp(spool: str, child: Child) -> None:
    pid = fork("fetch_mail.py", lambda: writers.dying(spool)(child))
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    (name,) = os.listdir(os.path.join(spool, "tmp"))
    assert f".P{pid}R" in name
    assert os.listdir(os.path.join(spool, "new")) == []


def test_everybody_ends_when_the_demo_is_over(spool: str, over: Child) -> None:
    began, queue = time.monotonic() + 1000, partial(Spool, spool, durable=False)
    acts = [
        *pollers.pollers(spool, began).values(), consumers.worker(queue, 60, 60), consumers.slow(queue), writers.slow(spool),
        lockers.holder(spool), lockers.waiter(spool),
    ]  # fmt: skip
    for act in acts:
        act(over)  # returns, else the test is stopped
    assert payloads(spool) == []


def test_a_family_ends_and_counts(tmp_path: Path) -> None:
    def act(child: Child) -> None:
        child.report()
        child.report()
        fork("sleeper", lambda: wait_for_ever(child))
        wait_for_ever(child)

    family = ProcessGroup.begin("parent", act, errors=str(tmp_path / "errors"))
    assert family.end() == 2
    assert (tmp_path / "errors").read_text() == ""


def test_a_child_goes_by_its_title(tmp_path: Path) -> None:
    def act(kin: Child) -> None:
        for name in ("comm", "cmdline"):
            (tmp_path / name).write_bytes(Path("/proc/self", name).read_bytes())

    ProcessGroup.begin("demo-poller email", act, errors=str(tmp_path / "errors")).end()
    assert (tmp_path / "comm").read_text() == "demo-poller\n"
    assert (tmp_path / "cmdline").read_bytes().rstrip(b"\0") == b"demo-poller\0email"


def test_a_child_that_fails_says_so_and_goes_no_further(tmp_path: Path) -> None:
    def act(child: Child) -> None:
        raise ValueError("broken actor")

    ProcessGroup.begin("parent", act, errors=str(tmp_path / "errors")).end()
    assert "ValueError: broken actor" in (tmp_path / "errors").read_text()


def wait_for_ever(child: Child) -> None:
    while child.wait(60):
        continue


def claimed(box: Spool) -> Claim:
    claim = box.claim()
    assert claim is not None
    return claim


@pytest.mark.parametrize("banner", [BANNER, BANNER_KEPT, STREAM_BANNER])
def test_the_last_line_fits_80_columns(banner: str) -> None:
    assert len(banner) <= 80


def test_the_settings_are_thresholds_below_the_usual() -> None:
    fast, usual = Thresholds.from_settings(speed.SETTINGS), Thresholds()
    assert (fast.tmp_old, fast.claim_long) == (5.0, 15.0)
    for name in speed.SETTINGS:
        field = name.removeprefix("SPOOLTOP_").lower()
        assert getattr(fast, field) < getattr(usual, field)


def operation(action: Action, done: int, undone_by: str | None = None) -> OperationRecord:
    return OperationRecord("7f3a", action, 0.0, "me", done, done, undone_by=undone_by)


def test_the_goodbye_counts_what_was_requeued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [operation(Action.REQUEUE, 2), operation(Action.REQUEUE, 1), operation(Action.PURGE, 9)]
    monkeypatch.chdir(tmp_path)
    with spool_stage(None) as stage:
        assert goodbye(records, 5, stage) == (
            "demo over: you requeued 3 of 5 dead claims; the spool is removed. "
            "Yours: spooltop PATH, or make one: spooltop init PATH"
        )
        assert "requeued 0 of 1 dead claims;" in goodbye([operation(Action.REQUEUE, 1, undone_by="99aa")], 1, stage)
    with spool_stage("my spool") as stage:
        assert "the spool is kept: spooltop 'my spool'." in goodbye([], 0, stage)


def test_a_consumer_rejects_and_tries_again(spool: str, child: Child) -> None:
    with Spool(spool, durable=False) as box:
        box.put(sample_messages.row("email", 1, encoding="utf-7"))
        consumers.work(child, claimed(box), 0.0)
        assert os.listdir(os.path.join(spool, ".spooltop", "rejected")) != []
        box.put(sample_messages.row("signal", 2, picture="x.jpg"))
        claim = claimed(box)
        consumers.work(child, claim, 0.0)
        assert claim.ended and box.claim() is None and box.depth() == 1  # it waits for its delay
