"""Consumers: quick ones and a slow one, and the effect of a poison message on each of them."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable

from spooltop.engine import Claim, Spool
from spooltop.errors import ClaimLost

from . import speed
from .process_group import Child

__all__ = ["is_poison", "slow", "work", "worker"]

_AWAKE = 1.0
"""Seconds after which a consumer that finds nothing checks whether the demo is still running."""


def worker(spool: str, quickest: float, slowest: float) -> Callable[[Child], None]:
    """Consumes messages, with ``quickest`` to ``slowest`` seconds for each."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            while child.wait(0):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, random.uniform(quickest, slowest))

    return act


def slow(spool: str) -> Callable[[Child], None]:
    """Holds a message for a minute, alive and without using the processor, then the next."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            while child.wait(speed.SLOW_CLAIM_PAUSE):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, speed.SLOW_CLAIM)

    return act


def is_poison(data: bytes) -> bool:
    """True for a message whose attachment needs more memory than there is."""
    try:
        record = json.loads(data)
    except ValueError:
        return False  # what a person puts into a demo need not be JSON
    return isinstance(record, dict) and isinstance(record.get("attachment"), dict)


def work(child: Child, claim: Claim, seconds: float, *, poison: float = speed.POISON_WORK) -> None:
    """Acks after ``seconds``. A poison message instead kills the process after ``poison`` seconds. Gives the claim back if the
    demo ends before that."""
    try:
        if is_poison(claim.data):
            if child.wait(poison):
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does with one that takes too much memory
            claim.release()
        elif child.wait(seconds):
            claim.ack()
        else:
            claim.release()
    except ClaimLost:
        return  # somebody took it away with f: it is theirs now
