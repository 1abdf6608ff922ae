"""The process that claimed is the holder: what a forked child of it does leaves the claim alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool
from spooltop.errors import ClaimLost
from tests.engine.helpers import in_child


def held(spool: Spool) -> Claim:
    spool.put(b"hello")
    claim = spool.claim()
    assert claim is not None
    return claim


def leaves_normally() -> None:
    return


def leaves_by_an_error() -> None:
    raise ValueError("bad")


def leaves_by_exit() -> None:
    sys.exit(3)


ENDS: list[Callable[[], None]] = [leaves_normally, leaves_by_an_error, leaves_by_exit]


@pytest.mark.parametrize("leave", ENDS)
def test_a_child_that_leaves_the_block_leaves_the_claim_to_its_parent(spool: Spool, leave: Callable[[], None]) -> None:
    def child() -> None:
        try:
            with claim:
                leave()
        except (ValueError, SystemExit):
            return

    claim = held(spool)
    assert in_child(child) == 0
    assert os.listdir(Path(spool.path, "cur")) == [claim.name] and spool.depth() == 0
    assert claim.data == b"hello"
    claim.ack()


@pytest.mark.parametrize("leave", ENDS)
def test_the_same_in_asyncio(spool: Spool, leave: Callable[[], None]) -> None:
    async def block() -> None:
        async with claim:
            leave()

    def child() -> None:
        try:
            asyncio.run(block())
        except (ValueError, SystemExit):
            return

    claim = held(spool)
    assert in_child(child) == 0
    claim.ack()


STEPS: dict[str, Callable[[Spool, Claim], object]] = {
    "data": lambda _spool, claim: claim.data,
    "open": lambda _spool, claim: claim.open(),
    "ack": lambda _spool, claim: claim.ack(),
    "ack_many": lambda spool, claim: spool.ack_many([claim]),
    "release": lambda _spool, claim: claim.release(),
    "release at the limit": lambda _spool, claim: claim.release(),
    "release with data": lambda _spool, claim: claim.release(data=b"other"),
    "reject": lambda _spool, claim: claim.reject("no"),
}


@pytest.mark.parametrize("step", STEPS)
def test_no_step_of_a_claim_works_in_a_child(tmp_path: Path, step: str) -> None:
    with Spool.create(tmp_path, durable=False, max_attempts=1 if "limit" in step else 10) as spool:
        claim = held(spool)
        parent = os.getpid()

        def child() -> None:
            spool.peek()  # a step of the child's own changes nothing in that
            with pytest.raises(ClaimLost, match=f"claimed by pid {parent}; this is its child") as lost:
                STEPS[step](spool, claim)
            assert lost.value.names == (claim.name,) and claim.ended

        assert in_child(child) == 0
        assert claim.data == b"hello" and not claim.ended
        claim.ack()


def test_a_child_cannot_ack_when_its_parent_is_dead(spool: Spool) -> None:
    id = spool.put(b"")
    reading, writing = os.pipe()
    dead, killed = os.pipe()

    def parent() -> None:
        claim = Spool(spool.path, durable=False).claim()
        assert claim is not None
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
    assert spool.recover() == [id]


def test_an_iteration_does_not_go_on_in_a_child(spool: Spool) -> None:
    ids = spool.put_many([b"", b""])
    parent, claims = os.getpid(), spool.claims()
    claim = next(claims)

    def child() -> None:
        with pytest.raises(ClaimLost, match=f"iterated by pid {parent}; this is its child"):
            next(claims)
        with spool.claim() as mine:  # type: ignore[union-attr]  # a claim of its own
            assert mine.id == ids[1]

    assert in_child(child) == 0
    claim.ack()
    assert list(claims) == []


def test_an_asynchronous_iteration_does_not_go_on_in_a_child(spool: Spool) -> None:
    spool.put_many([b"", b""])
    claims = aiter(spool.aclaims())

    def step() -> None:
        anext(claims).send(None)  # type: ignore[attr-defined]  # no event loop: nothing is waited for

    with pytest.raises(StopIteration) as stepped:
        step()

    def child() -> None:
        with pytest.raises(ClaimLost, match="this is its child"):
            step()

    assert in_child(child) == 0
    stepped.value.value.ack()


def test_a_handler_whose_child_returns_ends_the_loop_of_the_child(spool: Spool) -> None:
    """It would be a second consumer that nobody started."""
    ids = spool.put_many([b"1", b"2"])
    children: list[int] = []
    handled: list[str] = []

    def handler(claim: Claim) -> None:
        handled.append(claim.id)
        if len(handled) == 1:
            children.append(os.fork())

    def consume() -> None:
        try:
            spool.consume(handler)
        except ClaimLost:
            assert children == [0]
            os._exit(7)
        assert handled == ids and os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7

    assert in_child(consume) == 0
    assert spool.depth() == 0
