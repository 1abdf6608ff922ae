"""Queues are operated while their programs' own consumers work on them. Afterwards the programs are asked: counts agree, nothing
is lost, nothing comes twice."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Outcome, Result, Selection
from spooltop.model.vocabulary import Action, Box, Verdict

from .actor import DRIVERS, Actor, job_queue, library, nq, wait_for
from .installed import PACKAGES, python_with
from .postfix import Postfix

pytestmark = [pytest.mark.programs, pytest.mark.timeout(600)]
MANY = 500
HELD, PURGED, UNDONE = 15, 15, 15


def opened(spool: Path) -> Control:
    return open_control(str(spool), watch=False, settings={})


def keys_in(control: Control, box: Box) -> list[object]:
    control.look(rescan=True)
    return [row.key for row in control.listing(ListQuery(box)).window(0, 9_999)]


def act(control: Control, action: Action, keys: Sequence[object], box: Box, *, force: bool = False) -> Result:
    """Plans and applies an action on rows as they were listed."""
    return control.apply(control.plan(action, Selection(box=box, keys=tuple(keys)), force=force))  # type: ignore[arg-type]


def changed(control: Control) -> tuple[int, int]:
    """Holds some of what waits and releases it, purges some and takes that back, and purges some for good, each time the last in
    the queue. Returns how many were purged, and how many times somebody was faster."""
    held = act(control, Action.HOLD, keys_in(control, Box.NEW)[-HELD:], Box.NEW)
    undone = act(control, Action.PURGE, keys_in(control, Box.NEW)[-UNDONE:], Box.NEW)
    purged = act(control, Action.PURGE, keys_in(control, Box.NEW)[-PURGED:], Box.NEW)
    back = control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": undone.operation}))
    set_aside = keys_in(control, Box.HELD)
    assert len(set_aside) == done(held)
    released = act(control, Action.RELEASE, set_aside, Box.HELD)
    for one in (held, undone, purged, back, released):
        assert not one.count(Outcome.FAILED), one
    assert (done(back), done(released)) == (done(undone), done(held)), (back.items, released.items)
    return done(purged), sum(one.count(Outcome.SKIPPED) for one in (held, undone, purged))


def done(result: Result) -> int:
    return result.count(Outcome.DONE)


def drained(consumer: Actor, taken: list[str], stopped: threading.Event) -> None:
    """Takes until nothing is left after ``stopped``."""
    while True:
        over = stopped.is_set()
        data = consumer.ask("take")
        if data is not None:
            taken.append(data)
            stopped.wait(0.02)
        elif over:
            return


@pytest.mark.parametrize("driver", ["dirq_simple", "dirq_normal", "huey_files", "kombu_files", "mailman_queue"])
def test_a_queue_is_operated_while_two_consumers_take_from_it(driver: str, tmp_path: Path) -> None:
    spool = tmp_path / "queue"
    env = {"MAILMAN_HOME": str(tmp_path / "home")}
    with ExitStack() as stack:
        actors = []
        for _ in range(3):
            actors.append(stack.enter_context(library(driver, spool, **env)))
            assert actors[-1].ask("size") == 0
        producer, *consumers = actors
        for number in range(MANY):
            producer.ask("put", data=f"message {number}")
        stopped, taken = threading.Event(), [list[str]() for _ in consumers]
        threads = [threading.Thread(target=drained, args=(*each, stopped)) for each in zip(consumers, taken, strict=True)]
        with opened(spool) as control:
            for thread in threads:
                thread.start()
            try:
                purged, late = changed(control)
            finally:
                stopped.set()
                for thread in threads:
                    thread.join()
            assert [data for data, times in Counter(taken[0] + taken[1]).items() if times > 1] == []
            assert len(taken[0]) + len(taken[1]) + purged == MANY, late
            assert producer.ask("size") == 0
            assert keys_in(control, Box.NEW) == [] and control.look().observation.findings == ()
    if driver == "huey_files":  # the others ship no tests, or those of Mailman need its own runner of them
        own = [str(python_with(*PACKAGES)), str(DRIVERS / "huey_own_tests.py"), str(spool), str(tmp_path / "copy")]
        assert (spool / ".spooltop").is_dir()
        ran = subprocess.run(own, capture_output=True, text=True, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr


def test_job_queue_is_operated_while_two_workers_work(tmp_path: Path) -> None:
    spool = tmp_path / "queue"
    with ExitStack() as stack:
        producer, *workers = (stack.enter_context(job_queue(spool, f"worker-{n}")) for n in range(3))
        ids = [f"job-{number}" for number in range(MANY)]
        for id in ids:
            assert producer.ask("put", id=id, payload={"result": id})["status"] == "queued"
        with opened(spool) as control:
            for worker in workers:
                worker.ask("work")
            changed(control)
            wait_for(lambda: not keys_in(control, Box.NEW) and not keys_in(control, Box.CUR))
            wait_for(lambda: not [*(spool / "queue").glob("*.msg")] and not [*(spool / "processing").glob("*/*.msg")])
            finished = Counter(id for worker in workers for id in worker.ask("finished"))
            purged = {id for id in ids if producer.ask("status", id=id) is None}
            assert max(finished.values()) == 1 and finished.keys().isdisjoint(purged)
            assert finished.keys() | purged == set(ids)
            assert len(purged) <= PURGED
            assert control.look().observation.findings == ()
        for id in sorted(purged):
            assert producer.ask("put", id=id, payload={"result": id})["status"] == "queued", "refused as a duplicate"


@pytest.mark.parametrize("driver", ["dirq_simple", "dirq_normal"])
def test_an_element_that_a_killed_consumer_locked_is_unlocked_by_force(driver: str, tmp_path: Path) -> None:
    with library(driver, tmp_path / "queue") as one:
        for number in range(3):
            one.ask("put", data=f"message {number}")
        with library(driver, tmp_path / "queue") as killed:
            assert killed.ask("lock", name=one.ask("names")[0])
            killed.kill()
        with opened(tmp_path / "queue") as control:
            (locked,) = keys_in(control, Box.CUR)
            assert done(act(control, Action.REQUEUE, [locked], Box.CUR)) == 0
            assert done(act(control, Action.REQUEUE, [locked], Box.CUR, force=True)) == 1
        assert one.ask("size") == 3
        assert sorted(one.ask("take") for _ in range(3)) == [f"message {number}" for number in range(3)]
        assert one.ask("size") == 0


def test_what_kombu_delivered_is_put_back(tmp_path: Path) -> None:
    with library("kombu_files", tmp_path / "queue") as one:
        one.ask("put", data="a")
        assert one.ask("take") == "a" and one.ask("size") == 0
        with opened(tmp_path / "queue") as control:
            result = act(control, Action.REQUEUE, keys_in(control, Box.DELIVERED), Box.DELIVERED, force=True)
            assert done(result) == 1 and one.ask("size") == 1
        assert one.ask("take") == "a" and one.ask("take") is None


def test_tasks_of_a_dequeue_and_of_a_schedule_that_died_come_back(tmp_path: Path) -> None:
    with library("huey_files", tmp_path / "queue") as one:
        one.ask("put", data="later", delay=60)
        one.ask("take")
        one.ask("put", data="now")
        for act_of, cut in (("take", {}), ("due", {"after": 120.0})):
            with library("huey_files", tmp_path / "queue") as killed:
                killed.ask("cut", name="rename")
                killed.dies(act_of, **cut)
        assert one.ask("size") == 0
        with opened(tmp_path / "queue") as control:
            control.look()
            left = control.listing(ListQuery(Box.TMP)).window(0, 9)
            assert [row.verdict for row in left] == [Verdict.ABANDONED] * 2
            assert done(act(control, Action.REQUEUE, [row.key for row in left], Box.TMP)) == 2
        assert one.ask("size") == 2 and len(one.ask("due", after=120.0)) == 1
        assert {one.ask("take"), one.ask("take")} == {"now", None}  # what is not due goes back to the schedule
        assert one.ask("size") == 1


def test_finished_jobs_of_nq_are_purged_while_others_wait(tmp_path: Path) -> None:
    spool = tmp_path / "queue"
    ended = [nq(spool, "true"), nq(spool, "false")]
    wait_for(lambda: all("[exited" in (spool / id).read_text() for id in ended))
    go = tmp_path / "go"
    others = [nq(spool, "sh", "-c", f"while ! [ -e {go} ]; do sleep 0.05; done"), nq(spool, "true")]
    wait_for(lambda: (spool / others[0]).stat().st_mode & 0o100)
    with opened(spool) as control:
        assert done(act(control, Action.PURGE, keys_in(control, Box.DELIVERED), Box.DELIVERED)) == 2
        go.touch()
        wait_for(lambda: all("[exited with status 0.]" in (spool / id).read_text() for id in others))
        assert len(keys_in(control, Box.DELIVERED)) == 2 and sorted(path.name for path in spool.glob(",*")) == sorted(others)


def test_the_commands_of_postfix_do_what_they_say(tmp_path: Path) -> None:
    with Postfix(tmp_path / "home") as postfix:
        for number in range(2):
            postfix.mail(f"news{number}@letter.example", "ann@away.example")
        wait_for(lambda: len(postfix.in_queue("deferred")) == 2)
        first, second = postfix.in_queue("deferred")
        with opened(postfix.queue) as control:
            can = control.look().observation.capabilities

            def do(action: Action, id: str) -> None:
                program, *words = can.command(action, id).split()
                postfix.run(program, "-c", str(postfix.settings), *words)

            do(Action.HOLD, first)
            assert postfix.in_queue("hold") == [first] and len(keys_in(control, Box.HELD)) == 1
            do(Action.RELEASE, first)
            assert len(keys_in(control, Box.HELD)) == 0
            wait_for(lambda: len(postfix.in_queue("deferred")) == 2)
            tried = (postfix.queue / "deferred" / second[0] / second).stat().st_ctime_ns
            do(Action.REQUEUE, second)
            again = postfix.queue / "deferred" / second[0] / second
            wait_for(lambda: again.exists() and again.stat().st_ctime_ns != tried)
            do(Action.PURGE, first)
            assert [one["queue_id"] for one in postfix.listed()] == [second] and len(keys_in(control, Box.NEW)) == 1


def test_an_id_whose_message_is_lost_is_free_again_once_its_state_is_purged(tmp_path: Path) -> None:
    spool = tmp_path / "queue"
    with job_queue(spool, "worker-1", VISIBILITY="200") as stopped:
        stopped.ask("work")
        stopped.ask("put", id="gone-1", payload={"hang": True})
        stopped.ask("wait", id="gone-1", event="begun")
        stopped.ask("stop")  # job-queue itself removes the folder of its claims
    state = spool / "jobs" / "gone-1.state"
    wait_for(lambda: time.time() - state.stat().st_mtime > 5.1)
    with job_queue(spool, "worker-2", QUICK="1") as other, opened(spool) as control:
        assert other.ask("put", id="gone-1", payload={"result": 7})["status"] == "duplicate"
        (lost,) = control.look().observation.findings
        assert (lost.code, lost.ids) == ("lost", ("gone-1",))
        assert done(control.apply(control.plan(Action.PURGE, Selection(ids=("gone-1",))))) == 1
        assert control.look().observation.findings == ()
        assert other.ask("put", id="gone-1", payload={"result": 7})["status"] == "queued"
        other.ask("work")
        assert other.ask("wait", id="gone-1", event="completed") and other.ask("result", id="gone-1") == 7


def test_a_lock_without_its_element_is_removed(tmp_path: Path) -> None:
    spool = tmp_path / "queue"
    with library("dirq_simple", spool) as one:
        one.ask("put", data="a")
        name = one.ask("put", data="b")
        with library("dirq_simple", spool) as other:
            other.ask("lock", name=name)
            other.ask("cut", name="unlink")
            other.dies("remove", name=name)
        lock = spool / f"{name}.lck"
        os.utime(lock, (time.time() - 900,) * 2)
        with opened(spool) as control:
            (found,) = control.look().observation.locks
            assert done(control.apply(control.plan(Action.UNLOCK, Selection(ids=(found.path,))))) == 1
        assert not lock.exists() and one.ask("size") == 1
        assert one.ask("take") == "a" and one.ask("take") is None
