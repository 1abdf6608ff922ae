"""Claims in an asyncio program: the event loop waits, and no thread does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from .waiting import ArrivalWatch

if TYPE_CHECKING:
    from .claim import Claim
    from .claim_waiter import ClaimWaiter

__all__ = ["aclaims"]


async def aclaims(
    waiter: ClaimWaiter, take: Callable[[], Claim | None], timeout: float | None
) -> AsyncIterator[Claim]:
    """Implements ``Spool.aclaims``. ``take`` returns a claim or None at once. A generator that is never iterated holds nothing:
    its watch begins at the first step, and is freed with the generator."""
    watch = waiter.new_watch()
    ends = None if timeout is None else time.monotonic() + timeout
    wakes = watch.wakes
    while True:
        claim = take()
        if claim is not None:
            yield claim
            del claim  # one that the caller has dropped is not kept alive here
            ends = None if timeout is None else time.monotonic() + timeout
            continue
        left = float("inf") if ends is None else ends - time.monotonic()
        if left <= 0 or watch.wakes != wakes:
            return
        soon = waiter.due_in()
        await _wait(watch, min(left, watch.longest) if soon is None else min(left, watch.longest, soon))
        waiter.check_boxes()


async def _wait(watch: ArrivalWatch, seconds: float) -> None:
    loop, something = asyncio.get_running_loop(), asyncio.Event()
    for fd in watch.fds:
        loop.add_reader(fd, something.set)
    try:
        await asyncio.wait_for(something.wait(), max(0.0, seconds))
    except TimeoutError:
        return
    finally:
        for fd in watch.fds:
            loop.remove_reader(fd)
        watch.drain()
