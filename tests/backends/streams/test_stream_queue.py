"""The engine's words on a stream: what ``engine.Spool`` promises, on Redis and on Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.errors import Closed, NotASpool, PutUnknown, Refused, SpoolFull, Unavailable, UsageError
from tests.stream_servers import KINDS, running

Opener = Callable[..., StreamQueue]
NAMES = StreamNames("jobs", "work")


@pytest.fixture
def url(socket: str) -> str:
    return f"unix://{socket}"


@pytest.fixture
def server(url: str) -> Iterator[Any]:
    with connect(url) as client:
        client.flushall()
        client.config_set("maxmemory", 0)
        yield client


@pytest.fixture
def opened(server: Any, url: str) -> Iterator[Opener]:
    """Opens queues on the stream ``jobs``, each with its own connection."""
    made: list[StreamQueue] = []

    def open_one(**options: Any) -> StreamQueue:
        made.append(StreamQueue.create(connect(url), "jobs", "work", address="redis://here/0#jobs/work", **options))
        return made[-1]

    yield open_one
    for queue in made:
        queue.close()


def _die(queue: StreamQueue, server: Any) -> None:
    """Ends the lease of a consumer as a killed process does, but at once."""
    queue._consumer._lease.close()
    server.delete(NAMES.lease(queue._consumer.name))


def test_a_key_is_remembered_as_long_as_said(opened: Opener, server: Any) -> None:
    opened(key_window=60).put(b"", key="short")
    opened(key_window=None).put(b"", key="ever")
    assert 0 < server.pttl(NAMES.put_key("short")) <= 60_000 and server.pttl(NAMES.put_key("ever")) == -1


def test_what_a_stream_cannot_do_is_refused(opened: Opener) -> None:
    queue = opened()
    with pytest.raises(UsageError, match="ids itself"):
        queue.put(b"", id="mine")
    with pytest.raises(UsageError, match="delays"):
        queue.put(b"", not_before=1.0)
    with pytest.raises(TypeError):
        queue.put("text")  # type: ignore[arg-type]
    queue.put(b"")
    claim = next(queue.claims())
    with pytest.raises(Refused, match="cannot be changed"):
        claim.release(data=b"other")
    claim.ack()


def test_the_last_attempt_rejects(opened: Opener, server: Any) -> None:
    queue = opened(max_attempts=2)
    id = queue.put(b"poison", source="p")
    next(queue.claims()).release()
    next(queue.claims()).release(ended="exit-1")
    assert queue.claim() is None and queue.depth() == 0 and server.xlen("jobs") == 0
    ((_, fields),) = server.xrange(NAMES.rejected)
    assert fields[b"data"] == b"poison" and fields[b"source"] == b"p" and fields[b"~id"] == id.encode()
    assert fields[b"~why"] == b"failed in all of its 2 attempts (exit-1)" and fields[b"~tries"] == b"2"


def test_recovery_rejects_what_kills_its_consumers(opened: Opener, server: Any) -> None:
    queue = opened(max_attempts=2)
    queue.put(b"killer")
    for _ in range(2):
        victim = opened()
        claim = victim.claim()
        assert claim is not None
        _die(victim, server)
        claim.end()
        found = queue.recover()
    assert found == [] and [fields[b"~why"] for _, fields in server.xrange(NAMES.rejected)] == [
        b"its consumers died or gave it back 2 times"
    ]


def test_close_hands_back_and_leaves(opened: Opener, server: Any) -> None:
    queue = opened()
    queue.put(b"1")
    claim = queue.claim()
    assert claim is not None
    queue.close()
    queue.close()
    claim.end()
    consumers = {one["name"]: one["pending"] for one in server.xinfo_consumers("jobs", "work")}
    assert consumers == {b"~spooltop": 1} and server.hlen(NAMES.consumers) == 0 and server.keys("*lease*") == []
    for call in (queue.claim, queue.depth, queue.recover, queue.arrivals, lambda: queue.put(b"")):
        with pytest.raises(Closed):
            call()


def test_other_groups_keep_their_messages(opened: Opener, server: Any) -> None:
    queue = opened()
    server.xgroup_create("jobs", "audit", "0")
    queue.put(b"1")
    next(queue.claims()).ack()
    queue.put(b"2")
    next(queue.claims()).reject("no")
    assert [len(entries) for _, entries in server.xreadgroup("audit", "a", {"jobs": ">"})] == [2]


def test_entries_of_others_are_json(opened: Opener, server: Any) -> None:
    server.xadd("jobs", {"task": "mail", "to": "bob"})
    queue = opened()
    claim = next(queue.claims())
    assert claim.data == b'{"task": "mail", "to": "bob"}' and claim.source is None
    claim.ack()


def test_depth_counts_where_the_server_has_lost_count(opened: Opener, server: Any) -> None:
    queue = opened()
    ids = queue.put_many(b"%d" % number for number in range(1500))
    with next(queue.claims()):
        pass
    server.xdel("jobs", ids[700])
    assert queue.depth() == 1498


def test_a_stream_that_is_not_there_is_named(opened: Opener, server: Any, url: str) -> None:
    with pytest.raises(NotASpool, match="no such key"):
        StreamQueue(connect(url), "jobs", address="redis://here/0#jobs")
    server.xadd("jobs", {"a": "b"})
    with pytest.raises(NotASpool, match="no consumer group"):
        StreamQueue(connect(url), "jobs", address="redis://here/0#jobs")
    server.xgroup_create("jobs", "one", "0")
    assert StreamQueue(connect(url), "jobs", address="redis://here/0#jobs").depth() == 1
    server.xgroup_create("jobs", "two", "0")
    with pytest.raises(NotASpool, match="one, two"):
        StreamQueue(connect(url), "jobs", address="redis://here/0#jobs")
    server.set("text", "1")
    with pytest.raises(NotASpool, match="WRONGTYPE"):
        StreamQueue(connect(url), "text", address="redis://here/0#text")


def test_full_memory_is_told(opened: Opener, server: Any) -> None:
    queue = opened()
    server.config_set("maxmemory", 1)
    with pytest.raises(SpoolFull, match="memory of the server"):
        queue.put(b"1")
    with pytest.raises(SpoolFull):
        queue.put_many([b"1", b"2"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_away_is_told(kind: str) -> None:
    with TemporaryDirectory(prefix="spooltop-away-") as folder, running(kind, Path(folder)) as path:
        queue = StreamQueue.create(connect(f"unix://{path}"), "jobs", "work", address="redis://here/0#jobs/work")
        queue.put(b"1")
        claim = queue.claim()
        assert claim is not None
    with pytest.raises(Unavailable, match="no answer"):
        claim.ack()
    assert not claim.ended
    with pytest.raises((Unavailable, PutUnknown)):
        queue.put(b"2")
    with pytest.raises(Unavailable):
        queue.claim()
    claim.end()
    queue.close()


def test_names_lie_in_the_slot_of_the_stream() -> None:
    assert StreamNames("a", "g").prefix == "{a}" and StreamNames("{a}:jobs", "g").prefix == "{a}:jobs"
    assert StreamNames("{}jobs", "g").prefix == "{{}jobs}" and StreamNames("a{b", "g").prefix == "{a{b}"
