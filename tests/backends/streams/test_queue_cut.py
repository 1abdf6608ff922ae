"""Cuts the connection of a queue at each command of each operation: a repeated call finishes it, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.errors import ClaimLost, PutUnknown, Unavailable
from tests.backends.streams.conftest import NAMES
from tests.backends.streams.cutting_proxy import Cut, CuttingProxy, cutting_proxy

_COMMANDS = 40
"""Commands that no operation needs: the search for the last one ends there."""


@dataclass
class Case:
    """A queue behind a proxy, one behind none, and what was prepared in them."""

    queue: StreamQueue
    direct: StreamQueue
    server: Any
    claim: Any = None
    id: str = ""


@pytest.fixture
def proxy(socket: str) -> Iterator[CuttingProxy]:
    with TemporaryDirectory(prefix="spooltop-cut-") as folder, cutting_proxy(Path(folder), socket) as made:
        yield made


def _open(path: str) -> StreamQueue:
    # The lease is so long that its thread sends nothing meanwhile: each run sends the same commands.
    return StreamQueue.create(connect(f"unix://{path}"), "jobs", "work", address="redis://here/0#jobs/work", lease=600.0)


def _put(case: Case) -> None:
    case.id = case.queue.put(b"1", key="once")


def _claim(case: Case) -> None:
    case.claim = case.queue.claim()


def _is_new(case: Case) -> None:
    """Demands exactly one message, which can be claimed."""
    claims = list(case.direct.claims())
    assert [claim.data for claim in claims] == [b"1"] and claims[0].id == case.id
    case.direct.ack_many(claims)
    _is_over(case)


def _is_over(case: Case) -> None:
    """Demands that nothing is left in the stream nor claimed."""
    assert case.server.xlen(NAMES.stream) == 0 and case.server.xpending(NAMES.stream, NAMES.group)["pending"] == 0


def _is_claimed(case: Case) -> None:
    assert case.claim is not None and (case.claim.id, case.claim.data) == (case.id, b"1") and case.direct.claim() is None
    case.claim.ack()
    _is_over(case)


def _is_rejected(case: Case) -> None:
    _is_over(case)
    assert [fields[b"~id"].decode() for _, fields in case.server.xrange(NAMES.rejected)] == [case.id]


def _is_recovered(case: Case) -> None:
    case.claim.end()
    _is_new(case)


def _claimed(case: Case) -> None:
    _put(case)
    _claim(case)


def _claimed_by_the_dead(case: Case) -> None:
    _put(case)
    case.claim = case.direct.claim()
    case.direct._consumer._lease.close()
    case.server.delete(NAMES.lease(case.direct._consumer.name))


OPERATIONS: dict[str, tuple[Callable[[Case], None], Callable[[Case], object], Callable[[Case], None]]] = {
    "put": (lambda case: None, _put, _is_new),
    "claim": (_put, _claim, _is_claimed),
    "ack": (_claimed, lambda case: case.claim.ack(), _is_over),
    "release": (_claimed, lambda case: case.claim.release(), _is_new),
    "reject": (_claimed, lambda case: case.claim.reject("no"), _is_rejected),
    "recover": (_claimed_by_the_dead, lambda case: case.queue.recover(), _is_recovered),
}
"""What is prepared, the operation, and what must hold when it was repeated."""


@pytest.mark.parametrize("side", Cut)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_repeated_operation_finishes_what_was_cut(
    operation: str, side: Cut, socket: str, client: Any, proxy: CuttingProxy
) -> None:
    prepare, act, holds = OPERATIONS[operation]
    cuts = 0
    for at in range(1, _COMMANDS):
        client.flushall()
        case = Case(_open(proxy.path), _open(socket), client)
        prepare(case)
        proxy.arm(at, side)
        failed = _raises(act, case)
        was_cut = proxy.disarm()
        assert was_cut or not failed
        if failed:
            assert not _raises(act, case), f"cut {side.value} command {at}"
        holds(case)
        case.queue.close()
        case.direct.close()
        if not was_cut:
            break
        cuts += 1
    assert 0 < cuts < _COMMANDS - 1


def _raises(act: Callable[[Case], object], case: Case) -> bool:
    """Returns True if the answer of the server was lost. A claim that an earlier try has ended is lost: that is no failure."""
    try:
        act(case)
    except Unavailable:
        return True
    except ClaimLost:
        return False
    return False


@pytest.mark.parametrize("side", Cut)
def test_a_put_without_a_key_says_that_it_is_unknown(side: Cut, socket: str, client: Any, proxy: CuttingProxy) -> None:
    queue = _open(proxy.path)
    proxy.arm(1, side)
    with pytest.raises(PutUnknown, match="may or may not have arrived"):
        queue.put(b"1")
    assert proxy.disarm() and client.xlen(NAMES.stream) == (side is Cut.AFTER)
    queue.close()
