"""The queue of a stream, beyond the contract of every queue: workers on it that are killed, and ``move`` from and to it."""

from __future__ import annotations

import os
import re
import select
import signal
import socket as sockets
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.errors import Refused, SpoolFull, UsageError
from spooltop.model.queue import Queue
from tests.builders import GONE
from tests.cli.streams import Done, contents, finish, put, spooltop, start
from tests.matrix.streams import died
from tests.stream_builders import StreamWorld

from .conftest import key, lease


@pytest.fixture
def queue(world: StreamWorld) -> Any:
    with world.queue() as opened:
        yield opened


def test_a_key_is_remembered_for_days(world: StreamWorld, queue: Queue) -> None:
    queue.put(b"", key="short")
    assert 86_400_000 < world.client.pttl("{jobs}:spooltop:key:short") <= 90 * 86_400_000


def test_what_a_stream_cannot_do_is_refused(queue: Queue) -> None:
    with pytest.raises(UsageError, match="delays"):
        queue.put(b"", not_before=1.0)
    queue.put(b"")
    claim: Any = next(queue.claims())
    with pytest.raises(Refused, match="cannot be changed"):
        claim.release(data=b"other")
    claim.ack()


@pytest.mark.parametrize(("deaths", "why"), [(9, "failed in all of its 10 attempts (exit-1)"), (10, "its consumers died or ")])
def test_the_last_attempt_rejects(world: StreamWorld, queue: Queue, deaths: int, why: str) -> None:
    id = queue.put(b"poison", source="p")
    world.claim_dead()
    for _ in range(deaths - 1):
        world.take("dead", id)
    if queue.recover():
        next(queue.claims()).release(ended="exit-1")
    assert queue.claim() is None and queue.depth() == 0 and world.client.xlen("jobs") == 0
    ((_, fields),) = world.client.xrange(world.key("rejected"))
    assert (fields["data"], fields["source"], fields["~id"], fields["~tries"]) == ("poison", "p", id, "10")
    assert fields["~why"].startswith(why)


def test_close_leaves_no_trace_of_the_consumer(world: StreamWorld, queue: Queue) -> None:
    queue.put(b"1")
    claim: Any = queue.claim()
    queue.close()
    claim.end()
    consumers = {row["name"]: row["pending"] for row in world.client.xinfo_consumers("jobs", world.group)}
    assert consumers == {"~spooltop": 1} and world.client.hkeys(world.key("consumers")) == ["worker"]
    assert [key.rpartition(":")[2] for key in world.client.keys("*lease*")] == ["worker"]


def test_other_groups_keep_their_messages(world: StreamWorld, queue: Queue) -> None:
    world.client.xgroup_create("jobs", "audit", "0")
    queue.put(b"1")
    next(queue.claims()).ack()
    queue.put(b"2")
    next(queue.claims()).reject("no")
    assert [len(entries) for _, entries in world.client.xreadgroup("audit", "a", {"jobs": ">"})] == [2]


def test_depth_counts_where_the_server_has_lost_count(world: StreamWorld, queue: Queue) -> None:
    ids = queue.put_many(b"%d" % number for number in range(1500))
    with next(queue.claims()):
        pass
    world.client.xdel("jobs", ids[700])
    assert queue.depth() == 1498


def test_full_memory_is_told(world: StreamWorld, queue: Queue) -> None:
    world.client.config_set("maxmemory", 1)
    for some in (lambda: queue.put(b"1"), lambda: queue.put_many([b"1", b"2"])):
        with pytest.raises(SpoolFull, match="memory of the server"):
            some()


def test_a_wake_never_waits_for_whoever_is_to_be_woken(queue: Any) -> None:
    """The pipe takes 65,536 bytes; a signal handler that blocked on it would never return."""
    with closing(queue.arrivals()) as arrivals:
        for _ in range(70_000):
            arrivals.wake()
        arrivals.wait(30)
        assert select.select(arrivals.fds, [], [], 0) == ([], [], [])
        arrivals.wake()
        assert select.select(arrivals.fds, [], [], 0)[0] == list(arrivals.fds)


def runs(pid: int) -> bool:
    """Returns whether a process with this number runs, and is not only waited for by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def jobs(jobs: Any) -> Any:
    """The stream ``jobs`` with three messages."""
    for number in range(3):
        jobs.xadd("jobs", {"data": str(number)})
    return jobs


@pytest.fixture
def killed(url: str, tmp_path: Path) -> Iterator[list[int]]:
    """A worker was killed while it had two commands: the pids of the first, and of a child of it that ignores SIGTERM. Before it
    starts a second command, its guard knows of the first."""
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    script = f"trap '' TERM; (sh -c 'echo $SPOOLTOP_ID $PPID $$ > {pids}; exec sleep 600')"
    with start("work", url, "--jobs", "2", "--", "sh", "-c", script, stdin=subprocess.DEVNULL) as process:
        with open(os.open(pids, os.O_RDWR)) as told:
            first, second = sorted(told.readline().split() for _ in range(2))
        process.kill()
    yield [int(word) for word in first[1:]]
    for pid in map(int, (*first[1:], *second[1:])):
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def test_the_command_of_a_killed_worker_ends(killed: list[int]) -> None:
    while any(map(runs, killed)):
        threading.Event().wait(0.05)


def _gone_worker(jobs: Any, milliseconds: int) -> str:
    """Has a worker of this host claimed a message, and ended; its lease runs on."""
    name = f"{sockets.gethostname()}-{GONE}-abcdef"
    jobs.xreadgroup("work", name, {"jobs": ">"}, count=1)
    jobs.hset(key("consumers"), name, f"{sockets.gethostname()} {GONE}")
    jobs.set(lease(name), "1", px=milliseconds)
    return name


def test_a_requeue_of_the_dead_says_why_there_are_none(url: str, jobs: Any) -> None:
    name = _gone_worker(jobs, 590_000)
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=2)
    assert re.search(r"running .* its process is gone, its lease runs 9m more", spooltop("consumers", url).out)
    done = spooltop("requeue", url, "--verdict", "dead", "--yes")
    assert done.code == 4 and "note: 2 not dead: unknown." in done.out
    assert f"note: 1 not dead: {name}: its process is gone, its lease runs 9m" in done.out


def test_a_drain_waits_for_the_lease_of_a_worker_that_is_gone(url: str, jobs: Any) -> None:
    _gone_worker(jobs, 500)
    done = finish(["work", url, "--drain", "--", "cat"])
    assert (done.code, sorted(done.out)) == (0, ["0", "1", "2"])
    assert jobs.xpending("jobs", "work")["pending"] == 0


def test_a_drain_names_the_claims_that_it_leaves(url: str, jobs: Any) -> None:
    jobs.xreadgroup("work", "bob", {"jobs": ">"}, count=1)
    jobs.set(lease("bob"), "1", px=60_000)
    done = finish(["work", url, "--drain", "--", "cat"])
    assert done.code == 0 and "1 claimed by bob is left: its lease runs" in done.err


def test_a_worker_goes_on_where_the_server_lost_its_data(url: str, jobs: Any) -> None:
    with start("work", url, "--", "cat", stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None and process.stderr is not None
        assert sorted(process.stdout.read(3)) == [ord("0"), ord("1"), ord("2")]
        jobs.flushall()
        for line in process.stderr:
            if b"both were made again, empty" in line:
                break
        jobs.xadd("jobs", {"data": "3"})
        assert process.stdout.read(1) == b"3"
        jobs.xgroup_destroy("jobs", "work")
        for line in process.stderr:
            if b"no such group any more; spooltop init makes it again" in line:
                break
        assert spooltop("init", url).code == 0
        jobs.xadd("jobs", {"data": "4"})
        while process.stdout.read(1) != b"4":
            pass  # the message before may come again: its ack may have found no group
        process.terminate()
        assert process.wait() == 0


MOVED = "moved 1 message\n"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    Spool.create(tmp_path / "a").close()
    return str(tmp_path / "a")


def moved(*words: str) -> Done:
    return spooltop("move", *words, "--yes", "--no-durable")


def killed_move(source: str, target: str, *, put: bool, ack: bool = False) -> None:
    """Moves a message in a process that is killed, before or after its put and its ack."""

    def move() -> None:
        from_queue: Any = open_queue(source)
        to_queue = open_queue(target)
        mover = from_queue.mover(to_queue.identity)
        claim = mover.claim()
        if put:
            to_queue.put(claim.data, source=claim.source, key=mover.key(claim))
        if ack:
            claim.ack()
        os._exit(0)

    died(move)


def side_keys(world: StreamWorld, folder: str) -> list[str]:
    """What a move has left beside the two queues."""
    beside = {"jobs", "{jobs}:spooltop:audit", world.key("consumers"), f"{{jobs}}:lease:{world.group}:worker"}
    names = [Path(folder, ".spooltop", name) for name in ("keys", "consumers")]
    workers = [name for name in world.client.hkeys(world.key("consumers")) if name != "worker"]
    keys = sorted(set(world.client.keys()) - beside)
    return keys + workers + [file for name in names if name.is_dir() for file in os.listdir(name)]


def test_an_entry_id_that_comes_again_is_moved_again(world: StreamWorld, folder: str) -> None:
    for content in (b"first", b"second"):
        with Spool(folder) as spool:
            spool.put(content, id="order-17")
        assert moved(folder, world.target).out == MOVED
    assert contents(world.target) == [b"first", b"second"]
    for content in ("first", "second"):
        world.client.delete("jobs")
        world.client.xgroup_create("jobs", world.group, "0", mkstream=True)
        world.client.xadd("jobs", {"data": content}, id="7-1")
        assert moved(world.target, folder).out == MOVED
    assert contents(folder) == [b"first", b"second"]


def test_one_stream_under_two_names_is_refused(world: StreamWorld) -> None:
    world.client.xgroup_create("jobs", "mail", "0")
    link = Path(world.socket).with_suffix(f".{world.group}")
    link.symlink_to(world.socket)
    for other in (world.address(str(link)), world.target.replace(world.group, "mail")):
        done = moved(world.target, other)
        assert done.code == 2 and "both are the same queue, as unix://" in done.err
    with Redis(unix_socket_path=world.socket, db=1) as another:
        another.xgroup_create("jobs", "work", "0", mkstream=True)
    world.put("one")
    assert moved(world.target, f"unix://{world.socket}?db=1#jobs/work").out == MOVED


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("steps", "code", "out"),
    [
        ({"put": False}, 0, MOVED), ({"put": True}, 0, "moved 0 messages; 1 had been put by an earlier run\n"),
        ({"put": True, "ack": True}, 4, ""),
    ],
)  # fmt: skip
def test_what_a_killed_move_held_is_taken_by_the_next_one_alone_and_nothing_is_left_of_either(
    world: StreamWorld, folder: str, back: bool, steps: dict[str, bool], code: int, out: str
) -> None:
    source, target = (world.target, folder) if back else (folder, world.target)
    put(source, b"one")
    killed_move(source, target, **steps)
    world.end_leases()
    assert side_keys(world, folder) != []
    with open_queue(source) as queue:
        assert queue.recover() == [] and queue.claim() is None
    world.lease("worker")
    done = moved(source, target)
    assert (done.code, done.out) == (code, out) and side_keys(world, folder) == [] and contents(target) == [b"one"]


def test_operators_leave_it_to_the_next_move(world: StreamWorld, folder: str, tmp_path: Path) -> None:
    world.put("one")
    killed_move(world.target, folder, put=False)
    running = moved(world.target, folder)
    assert running.code == 1 and "move: 1 is claimed by a running consumer, again in 10 s" in running.err
    world.end_leases()
    Spool.create(tmp_path / "c").close()
    elsewhere = moved(world.target, str(tmp_path / "c"))
    assert elsewhere.code == 1 and f"1 is left of a move to {folder} that was killed" in elsewhere.err
    assert contents(str(tmp_path / "c")) == []
    again = f"a move to {folder} was killed; run the same move again: spooltop move "
    refused = spooltop("requeue", world.target, "ALL", "--yes")
    assert refused.code == 3 and again in refused.out + refused.err
    assert again in spooltop("status", world.target).out
    forced = spooltop("requeue", world.target, "ALL", "--yes", "--force")
    assert forced.code == 0 and f"it may be in {folder} as well" in forced.out


def test_a_mover_without_its_lease_puts_nothing(world: StreamWorld, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped for longer than its lease: the next move may have taken its claim over."""
    world.put("one")
    source: Any = world.queue()
    now = time.clock_gettime
    with source, open_queue(folder) as target, source.mover(target.identity) as mover:
        claim = mover.claim()
        assert mover.holds(claim)
        monkeypatch.setattr(time, "clock_gettime", lambda clock: now(clock) + 3600)
        assert not mover.holds(claim)
        monkeypatch.undo()
        mover.leave(claim)
    assert moved(world.target, folder).out == MOVED


def test_a_record_that_somebody_wrote_does_no_harm(world: StreamWorld, folder: str) -> None:
    for text in ('vm 7 {"role": "move"}', 'vm 7 {"role": "move", "target_marks": [1, {}], "begin": 3}', "vm 7 {", "", "vm"):
        world.client.hset(world.key("consumers"), "vm-7", text)
        world.put("one")
        assert moved(world.target, folder).out == MOVED
