"""The actors of the demo on a stream: producers, the reader of a second group, and a program that is not spooltop's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import speed
from .consumers import OpenQueue
from .process_group import Child
from .sample_messages import NEWEST, row

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["ARCHIVE", "Connect", "archive", "producer", "report"]

ARCHIVE = "archive"
"""The second group of the stream."""
_TRY_AGAIN, _UNKNOWN = 12, 20
"""Rows after which one comes whose picture is missing, and one in an unknown encoding."""

Act = Callable[[Child], None]
Connect = Callable[[], "Redis"]
"""Opens a connection to the server in the process of the actor."""


def producer(queue: OpenQueue, source: str, every: float, burst: int = 0) -> Act:
    """Puts a row ``every`` so many seconds; ``burst``: at each 30th turn so many at once."""

    def act(child: Child) -> None:
        with queue() as box:
            newest = NEWEST[source]
            turn = 0
            while child.wait(every):
                turn += 1
                count = burst if burst and turn % 30 == 10 else 1
                box.put_many([message(source, newest + one) for one in range(1, count + 1)], source=source)
                newest += count

    return act


def message(source: str, rowid: int) -> bytes:
    """The payload of a row: a few of some sources cause trouble.

    >>> b"picture" in message("signal", 5124), b"encoding" in message("email", 204520), b"encoding" in message("email", 204521)
    (True, True, False)
    """
    if source == "signal" and rowid % _TRY_AGAIN == 0:
        return row(source, rowid, picture="IMG_2041.jpg")
    if source == "email" and rowid % _UNKNOWN == 0:
        return row(source, rowid, encoding="utf-7")
    return row(source, rowid)


def archive(connect: Connect, stream: str) -> Act:
    """Reads the second group, slower than entries arrive. Its connection has the name of the consumer."""
    return lambda child: _read(child, connect, stream, ARCHIVE, "archive.py", speed.ARCHIVED_EVERY, named=True)


def report(connect: Connect, stream: str, group: str) -> Act:
    """Reads the first group like a program that knows nothing of spooltop: no lease, and no name of its connection."""
    return lambda child: _read(child, connect, stream, group, "report", speed.REPORT, named=False)


def _read(child: Child, connect: Connect, stream: str, group: str, name: str, seconds: float, *, named: bool) -> None:
    with connect() as client:
        redis: Any = client
        if named:
            redis.client_setname(name)
        while child.wait(0):
            found = redis.xreadgroup(group, name, {stream: ">"}, count=1, block=500)
            for _, entries in found:
                if entries and not child.wait(seconds):
                    return
                redis.xack(stream, group, *(id for id, _ in entries))
