"""The names of tickets: files of a ticket queue in a directory, members of one in Redis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spooltop.patterns import pattern

__all__ = ["EPOCH_MS", "FileTicket", "RedisTicket", "file_tickets", "parse_file_ticket", "parse_redis_ticket"]

_FILE = pattern(r"([0-9]{20,25})\.([0-9]{1,10})\.[0-9a-f]{32}\Z")
_REDIS = pattern(r"([0-9]{1,20}):([^:]*):([0-9]{1,20})\Z")
EPOCH_MS = 1_000_000_000_000
"""A smaller number of ms is not a time since the epoch but that of a monotonic clock."""


class FileTicket(NamedTuple):
    """A ticket that is a file: its number, its name and the pid of its holder. Tickets sort in the order of the queue."""

    number: int
    name: str
    pid: int


class RedisTicket(NamedTuple):
    """A ticket that is a member of a sorted set in Redis. ``at_ms`` is the time at which it was taken, in ms since the epoch;
    None if it comes from another clock: stouputils writes a monotonic one, whose values are smaller."""

    number: int
    token: str
    at_ms: int | None


def parse_file_ticket(name: str) -> FileTicket | None:
    """The ticket ``<number, 20 to 25 digits>.<pid>.<32 hex>``; None for any other name.

    >>> parse_file_ticket("00000000000000000007.4312.0123456789abcdef0123456789abcdef")[0::2]
    (7, 4312)
    """
    found = _FILE.match(name)
    return None if found is None else FileTicket(int(found[1]), name, int(found[2]))


def file_tickets(names: Iterable[str]) -> list[FileTicket]:
    """The tickets among the names of a directory, in the order of the queue: the first is the head."""
    return sorted(ticket for name in names if (ticket := parse_file_ticket(name)) is not None)


def parse_redis_ticket(member: str) -> RedisTicket | None:
    """The ticket ``<number>:<token>:<ms>``; None for any other member.

    >>> parse_redis_ticket("7:1e6f71c9:1795222800000"), parse_redis_ticket("7:1e6f71c9:8812")
    (RedisTicket(number=7, token='1e6f71c9', at_ms=1795222800000), RedisTicket(number=7, token='1e6f71c9', at_ms=None))
    """
    found = _REDIS.match(member)
    if found is None:
        return None
    at_ms = int(found[3])
    return RedisTicket(int(found[1]), found[2], at_ms if at_ms >= EPOCH_MS else None)
