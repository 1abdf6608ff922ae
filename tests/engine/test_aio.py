from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool
from tests.engine.helpers import places


async def test_a_waiting_loop_gets_what_comes(spool: Spool) -> None:
    async def produce() -> None:
        for number in range(3):
            await asyncio.sleep(0)
            await asyncio.to_thread(spool.put, b"%d" % number)

    producer = asyncio.create_task(produce())
    got = []
    async for claim in spool.aclaims(timeout=60):
        async with claim:
            got.append(claim.data)
        if len(got) == 3:
            spool.wake()
    await producer
    assert got == [b"0", b"1", b"2"] and places(Path(spool.path)) == {}


async def test_an_exception_gives_it_back(spool: Spool) -> None:
    spool.put(b"")
    with pytest.raises(ZeroDivisionError):
        async for claim in spool.aclaims():
            async with claim:
                _ = 1 / 0
    assert spool.depth() == 1 and spool.claim() is None


async def test_wake_ends_a_wait_without_end_and_cancelling_loses_nothing(spool: Spool) -> None:
    got: list[Claim] = []

    async def wait() -> None:
        async for claim in spool.aclaims(timeout=None):
            got.extend([claim])

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    spool.wake()
    await waiting
    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    spool.put(b"")
    assert got == [] and spool.depth() == 1


async def test_no_descriptor_stays_open(spool: Spool) -> None:
    spool.put_many([b"", b""])
    before = os.listdir("/proc/self/fd")
    _ = spool.aclaims(timeout=None)
    claims = spool.aclaims(timeout=None)
    async for claim in claims:
        claim.ack()
        break
    await claims.aclose()  # type: ignore[attr-defined]  # an async generator is more than an iterator
    rest = spool.claim()
    assert rest is not None
    rest.ack()
    presence = 2  # the consumer's own, and the directory that it lies in
    assert len(os.listdir("/proc/self/fd")) <= len(before) + presence + 1
