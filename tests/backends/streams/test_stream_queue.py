"""The queue of a stream, beyond the contract of every queue: what a server holds of it, and what a stream cannot do."""

from __future__ import annotations

import select
import threading
from typing import Any, cast

import pytest

from spooltop import open_queue
from spooltop.backends.redis.queue.arrivals import StreamArrivals
from spooltop.errors import NotASpool, Refused, SpoolFull, UsageError
from spooltop.model.queue import Queue
from tests.stream_builders import StreamWorld


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


def test_the_last_attempt_rejects(world: StreamWorld, queue: Queue) -> None:
    id = queue.put(b"poison", source="p")
    world.claim_dead()
    for _ in range(8):
        world.take("dead", id)
    assert queue.recover() == [id]
    next(queue.claims()).release(ended="exit-1")
    assert queue.claim() is None and queue.depth() == 0 and world.client.xlen("jobs") == 0
    ((_, fields),) = world.client.xrange(world.key("rejected"))
    assert (fields["data"], fields["source"], fields["~id"], fields["~tries"]) == ("poison", "p", id, "10")
    assert fields["~why"] == "failed in all of its 10 attempts (exit-1)"


def test_recovery_rejects_what_kills_its_consumers(world: StreamWorld, queue: Queue) -> None:
    id = queue.put(b"killer")
    world.claim_dead()
    for _ in range(9):
        world.take("dead", id)
    assert queue.recover() == []
    ((_, fields),) = world.client.xrange(world.key("rejected"))
    assert fields["~why"] == "its consumers died or gave it back 10 times"


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


def test_entries_of_others_are_json(world: StreamWorld, queue: Queue) -> None:
    world.client.xadd("jobs", {"task": "mail", "to": "bob"})
    with next(queue.claims()) as claim:
        assert claim.data == b'{"task": "mail", "to": "bob"}' and claim.source is None


def test_depth_counts_where_the_server_has_lost_count(world: StreamWorld, queue: Queue) -> None:
    ids = queue.put_many(b"%d" % number for number in range(1500))
    with next(queue.claims()):
        pass
    world.client.xdel("jobs", ids[700])
    assert queue.depth() == 1498


def test_a_stream_that_is_not_there_is_named(client: Any, socket: str) -> None:
    jobs = f"unix://{socket}#jobs"
    with pytest.raises(NotASpool, match="no such key"):
        open_queue(jobs)
    client.xadd("jobs", {"a": "b"})
    with pytest.raises(NotASpool, match="no consumer group"):
        open_queue(jobs)
    client.xgroup_create("jobs", "one", "0")
    with open_queue(jobs) as queue:
        assert queue.depth() == 1
    client.xgroup_create("jobs", "two", "0")
    with pytest.raises(NotASpool, match="one, two"):
        open_queue(jobs)
    client.set("text", "1")
    with pytest.raises(NotASpool, match="WRONGTYPE"):
        open_queue(f"unix://{socket}#text")


def test_full_memory_is_told(world: StreamWorld, queue: Queue) -> None:
    world.client.config_set("maxmemory", 1)
    for put in (lambda: queue.put(b"1"), lambda: queue.put_many([b"1", b"2"])):
        with pytest.raises(SpoolFull, match="memory of the server"):
            put()


def test_a_wake_never_waits_for_whoever_is_to_be_woken() -> None:
    """The pipe takes 65,536 bytes; a signal handler that blocked on it would never return."""
    ended = threading.Event()

    class Silent:
        def execute_command(self, *words: object) -> list[object]:
            ended.wait(30)
            return []

    arrivals = StreamArrivals(cast("Any", Silent()), "s", "redis://x#s")
    for _ in range(70_000):
        arrivals.wake()
    arrivals.wait(30)
    assert select.select(arrivals.fds, [], [], 0) == ([], [], [])
    arrivals.wake()
    assert select.select(arrivals.fds, [], [], 0)[0] == list(arrivals.fds)
    ended.set()
    arrivals.close()
