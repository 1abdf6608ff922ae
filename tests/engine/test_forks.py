"""The process that claimed is the holder: what a forked child of it does leaves the claim alone."""

from __future__ import annotations

import asyncio
import os
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
