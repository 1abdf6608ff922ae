"""Consumers: quick ones and a slow one, and the effect of a poison message on each of them."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable

from spooltop.errors import ClaimLost
from spooltop.model.queue import Queue, QueueClaim

from . import speed
from .process_group import Child

__all__ = ["OpenQueue", "is_poison", "slow", "work", "worker"]

OpenQueue = Callable[[], Queue]
"""Opens the queue in the process of the consumer."""

_MISSING = 2
"""Attempts at which a picture is missing."""
_AWAKE = 1.0
"""Seconds after which a consumer that finds nothing checks whether the demo is still running."""


def worker(queue: OpenQueue, quickest: float, slowest: float) -> Callable[[Child], None]:
    """Consumes messages, with ``quickest`` to ``slowest`` seconds for each."""

    def act(child: Child) -> None:
        with queue() as box:
            while child.wait(0):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, random.uniform(quickest, slowest))

    return act


def slow(queue: OpenQueue) -> Callable[[Child], None]:
    """Holds a message for a minute, alive and without using the processor, then the next."""

    def act(child: Child) -> None:
        with queue() as box:
            while child.wait(speed.SLOW_CLAIM_PAUSE):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, speed.SLOW_CLAIM)

    return act


def is_poison(data: bytes) -> bool:
    """True for a message whose attachment needs more memory than there is."""
    return _kills(_record(data))


def work(child: Child, claim: QueueClaim, seconds: float, *, poison: float = speed.POISON_WORK) -> None:
    """Acks after ``seconds``; rejects a message in an unknown encoding, and gives one back whose picture is still missing, to be
    tried again. A poison message kills the process after ``poison`` seconds. Gives the claim back if the demo ends before
    that."""
    try:
        record = _record(claim.data)
        if _kills(record):
            if child.wait(poison):
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does with one that takes too much memory
            claim.release()
        elif not child.wait(seconds):
            claim.release()
        elif "encoding" in record:
            claim.reject(f"unknown encoding {record['encoding']}")
        elif "picture" in record and claim.attempt <= _MISSING:
            claim.release(delay=speed.RETRY)
        else:
            claim.ack()
    except ClaimLost:
        return  # somebody took it away with f: it is theirs now


def _kills(record: dict[str, object]) -> bool:
    return isinstance(record.get("attachment"), dict)


def _record(data: bytes) -> dict[str, object]:
    try:
        record = json.loads(data)
    except ValueError:
        return {}  # what a person puts into a demo need not be JSON
    return record if isinstance(record, dict) else {}
