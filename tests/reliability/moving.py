"""``spooltop move`` under kill -9: from a directory to a stream and back, killed before and after each step."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.engine import Spool
from spooltop.moving import KEYS_KEPT, Moved, move_messages

from .figures import Figure
from .tickets import redis_server

__all__ = ["BAR", "NAME", "run"]

NAME = "move: a directory to a Redis stream and back, killed"
BAR = "every message arrives once, with its content and source"

LEASE = 0.3
"""Seconds: so long the claims of a killed mover of a stream wait."""
_STEPS = 3
"""Steps of a message: claim, put, ack."""


class Dying:
    """A queue whose process is killed at the ``at``-th step, just before or just after it."""

    def __init__(self, queue: Any, countdown: list[int]) -> None:
        self._queue = queue
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def _step(self, what: Callable[[], Any]) -> Any:
        self._tick()
        found = what()
        self._tick()
        return found

    def _tick(self) -> None:
        self._countdown[0] -= 1
        if self._countdown[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def claim(self) -> Any:
        claim = self._step(self._queue.claim)
        return None if claim is None else DyingClaim(claim, self._step)

    def put(self, *words: Any, **named: Any) -> Any:
        return self._step(lambda: self._queue.put(*words, **named))


class DyingClaim:
    """A claim whose ack is a step."""

    def __init__(self, claim: Any, step: Callable[[Callable[[], Any]], Any]) -> None:
        self._claim = claim
        self._step = step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def ack(self) -> None:
        self._step(self._claim.ack)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Runs the proof on a server of its own."""
    whole, kills = (40, 12) if quick else (600, 200)
    dice = random.Random(7)
    with ExitStack() as stack:
        path = stack.enter_context(redis_server())
        if path is None:
            return Figure(NAME, BAR, 0, 0, whole, "", "no redis-server here")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-move-")))
        url = f"unix://{path}"
        StreamQueue.create(connect(url), "jobs", "work", address=url).close()
        wanted = Counter((b"message %d" % number, f"s{number % 3}") for number in range(whole))
        with Spool.create(folder / "a", durable=False) as spool:
            for data, source in wanted:
                spool.put(data, source=source)

        def stream() -> StreamQueue:
            return StreamQueue(connect(url), "jobs", "work", address=url, lease=LEASE, key_window=KEYS_KEPT)

        def directory(name: str) -> Callable[[], Spool]:
            return lambda: Spool.create(folder / name, durable=False, key_window=KEYS_KEPT)

        killed = _moved(directory("a"), stream, "a", kills // 2, whole, dice)
        killed += _moved(stream, directory("b"), "jobs", kills - kills // 2, whole, dice)
        with directory("b")() as spool:
            claims = list(spool.claims())
            found = Counter((claim.data, claim.source) for claim in claims)
            spool.ack_many(claims)
    lost, extra = wanted - found, found - wanted
    say(f"{found.total():,} arrived, {killed} movers killed, {lost.total()} lost, {extra.total()} too many")
    return Figure(NAME, BAR, whole, lost.total() + extra.total(), 0, f"{killed} movers killed")


def _moved(source: Callable[[], Any], target: Callable[[], Any], name: str, kills: int, whole: int, dice: random.Random) -> int:
    """Moves everything with movers of which ``kills`` are killed, and returns how many were."""
    killed = 0
    most = max(2, 2 * _STEPS * whole // kills)
    while killed < kills:
        child = os.fork()
        if child == 0:
            try:
                countdown = [dice.randrange(1, most)]
                with source() as from_queue, target() as to_queue:
                    move_messages(Dying(from_queue, countdown), Dying(to_queue, countdown), name)
            finally:
                os._exit(0)
        dice.random()
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break  # everything was moved before the steps were over
        killed += 1
    done = Moved(0, 0, 1, False)
    idle = 0
    while done.left or done.moved or done.known or idle < 2:
        time.sleep(LEASE)  # until the leases of the killed have ended
        with source() as from_queue, target() as to_queue:
            done = move_messages(from_queue, to_queue, name)
        idle = 0 if done.moved or done.known else idle + 1
    return killed
