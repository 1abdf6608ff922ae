"""A forked child of a consumer of a stream: the process that claimed is the holder."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_claim import StreamClaim
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.errors import ClaimLost
from tests.engine.helpers import in_child

# Python 3.12 warns of any fork beside a thread, here the one that renews the lease.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def opened(url: str) -> StreamQueue:
    return StreamQueue.create(connect(url), "jobs", "work", address="redis://here/0#jobs/work")


@pytest.fixture
def url(socket: str, client: Any) -> str:
    return f"unix://{socket}"


@pytest.fixture
def queue(url: str) -> Iterator[StreamQueue]:
    with opened(url) as queue:
        yield queue


def held(queue: StreamQueue) -> StreamClaim:
    queue.put(b"hello")
    claim = queue.claim()
    assert claim is not None
    return claim


def pending(client: Any) -> list[tuple[str, int]]:
    return [
        (entry["consumer"].decode(), entry["times_delivered"]) for entry in client.xpending_range("jobs", "work", "-", "+", 9)
    ]


def leaves_by_an_error() -> None:
    raise ValueError("bad")


@pytest.mark.parametrize("leave", [int, leaves_by_an_error, sys.exit])
def test_a_child_that_leaves_the_block_leaves_the_claim_to_its_parent(
    queue: StreamQueue, client: Any, leave: Callable[[], object]
) -> None:
    def child() -> None:
        try:
            with queue, claim:  # the child closes its queue as well
                leave()
        except (ValueError, SystemExit):
            return

    claim = held(queue)
    before = pending(client)
    assert in_child(child) == 0
    assert pending(client) == before != []
    claim.ack()
    assert client.xlen("jobs") == 0


def test_no_step_of_a_claim_works_in_a_child(queue: StreamQueue, client: Any) -> None:
    parent, claim = os.getpid(), held(queue)
    steps: list[Callable[[], object]] = [
        lambda: claim.data, claim.open, claim.ack, claim.release, lambda: claim.reject("no"), lambda: queue.ack_many([claim])
    ]  # fmt: skip

    def child() -> None:
        for step in steps:
            with pytest.raises(ClaimLost, match=f"claimed by pid {parent}; this is its child") as lost:
                step()
            assert lost.value.names == (claim.name,)

    before = pending(client)
    assert in_child(child) == 0
    assert pending(client) == before and claim.data == b"hello"
    claim.ack()


def test_a_child_is_a_consumer_of_its_own(queue: StreamQueue, client: Any) -> None:
    first = held(queue)
    second = queue.put(b"")
    names = {pending(client)[0][0]}

    def child() -> None:
        mine = queue.claim()
        assert mine is not None and mine.id == second
        names.update(consumer for consumer, _ in pending(client))
        assert len(names) == 2 and all(f"-{pid}-" in "".join(names) for pid in (os.getpid(), os.getppid()))
        assert queue.recover() == []
        mine.ack()

    assert in_child(child) == 0
    assert [consumer for consumer, _ in pending(client)] == list(names)
    first.ack()


def test_a_claim_that_a_child_drops_is_not_handed_back(queue: StreamQueue, client: Any) -> None:
    claims = [held(queue)]

    def child() -> None:
        claims.clear()
        gc.collect()
        assert queue.claim() is None  # the next call hands back what was dropped

    before = pending(client)
    assert in_child(child) == 0
    assert pending(client) == before
    claims[0].ack()


def test_a_child_cannot_ack_when_its_parent_is_dead(url: str, client: Any) -> None:
    reading, writing = os.pipe()
    dead, killed = os.pipe()

    def parent() -> None:
        claim = held(opened(url))
        if os.fork() == 0:
            os.close(killed)
            os.read(dead, 1)  # until every copy is closed: the parent's with its life
            try:
                claim.ack()
            except ClaimLost as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(parent) == signal.SIGKILL
    os.close(killed)
    os.close(writing)
    with open(reading, "rb") as said:
        assert b"this is its child" in said.read()
    os.close(dead)
    assert len(pending(client)) == 1


def test_an_iteration_does_not_go_on_in_a_child(queue: StreamQueue) -> None:
    queue.put_many([b"", b""])
    parent, claims = os.getpid(), queue.claims()
    claim = next(claims)

    def child() -> None:
        with pytest.raises(ClaimLost, match=f"iterated by pid {parent}; this is its child"):
            next(claims)

    assert in_child(child) == 0
    queue.ack_many([claim, *claims])
    assert queue.depth() == 0
