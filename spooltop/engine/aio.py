"""Claims in an asyncio program: the event loop waits, and no thread does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from .waiting import ArrivalWatch

if TYPE_CHECKING:
    from .claim import Claim

__all__ = ["aclaims"]


async def aclaims(
    take: Callable[[], Claim | None],
    opened: Callable[[], ArrivalWatch],
    due: Callable[[], float | None],
    settle: Callable[[], None],
    timeout: float | None,
) -> AsyncIterator[Claim]:
    """Implements ``Spool.aclaims``. ``take`` returns a claim or None at once, ``due`` the seconds until a delayed message may be
    claimed; ``settle`` raises if the boxes have been replaced. ``opened`` is called only at the first step, so that a generator
    that is never iterated holds nothing; the watch that it returns is freed with the generator."""
    watch = opened()
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
        soon = due()
        await _wait(watch, min(left, watch.longest) if soon is None else min(left, watch.longest, soon))
        settle()


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
