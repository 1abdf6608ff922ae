"""The process that claimed is the holder: what a forked child of it does leaves the claim alone."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.errors import ClaimLost
from tests.engine.helpers import claimed, in_child


@pytest.mark.parametrize("error", [None, ValueError, SystemExit])
def test_a_child_that_leaves_the_block_leaves_the_claim_to_its_parent(spool: Spool, error: type[BaseException] | None) -> None:
    async def leave_async() -> None:
        async with claim:
            if error is not None:
                raise error

    def leave() -> None:
        with claim:
            if error is not None:
                raise error

    def child() -> None:
        for block in (leave, lambda: asyncio.run(leave_async())):
            with suppress(ValueError, SystemExit):
                block()

    spool.put(b"hello")
    claim = claimed(spool)
    assert in_child(child) == 0
    assert os.listdir(Path(spool.path, "cur")) == [claim.name] and spool.depth() == 0
    assert claim.data == b"hello"
    claim.ack()


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
