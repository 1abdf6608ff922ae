"""A ticket queue in Redis: the counter ``{name}:seq`` and the sorted set ``{name}:queue`` of ``{ticket}:{token}:{ts_ms}``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .ticket_base import BaseTicketQueue, log

__all__ = ["RedisTicketQueue"]

_REGISTER = """
local ticket = redis.call('INCR', KEYS[1])
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if top[2] and tonumber(top[2]) >= ticket then
  ticket = tonumber(top[2]) + 1
  redis.call('SET', KEYS[1], ticket)
end
local member = string.format('%d:%s:%s', ticket, ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ticket, member)
return member
"""
_CLEANUP = """
if redis.call('ZCARD', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
end
return 0
"""
_REMOVE = """
local head = redis.call('ZRANGE', KEYS[1], 0, 0)
local gone = redis.call('ZREM', KEYS[1], ARGV[1])
if gone == 1 and head[1] == ARGV[1] and tonumber(ARGV[3]) > 0 and redis.call('ZCARD', KEYS[1]) > 0 then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return gone
"""
_EPOCH_MS = 1_000_000_000_000
"""A smaller ``ts_ms`` is no time since the epoch but a monotonic clock's, as stouputils writes: it says nothing here."""


class RedisTicketQueue(BaseTicketQueue):
    """A ticket queue in Redis. ``client`` is a ``redis.Redis``; without one, that of a server on this machine.

    ``ts_ms`` is written as milliseconds since the epoch. A head is stale when that, and its becoming the head, is
    ``stale_timeout`` seconds ago: who waited long behind another is not stale for it. The latter is kept, for as long as it
    matters, in ``{name}:since`` (milliseconds since the epoch). A stale head may still be at work, so an eviction is logged as a
    warning. Members whose ``ts_ms`` is another clock's are never evicted. Errors of the client are the caller's to see.
    """

    def __init__(
        self, name: str, client: Any = None, stale_timeout: float | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self.client = client
        self.stale_timeout = stale_timeout
        self._clock = clock

    def ensure_client(self) -> Any:
        """The client; ``ImportError`` where none was given and the package redis is not installed."""
        if self.client is None:
            import redis

            self.client = redis.Redis()
        return self.client

    @property
    def _keys(self) -> tuple[str, str]:
        return f"{self.name}:seq", f"{self.name}:queue"

    @property
    def _since(self) -> str:
        return f"{self.name}:since"

    def register(self) -> tuple[int, str]:
        # One script: between an INCR and a ZADD of its own a later ticket could take itself for the head.
        member = _text(self.ensure_client().eval(_REGISTER, 2, *self._keys, os.urandom(16).hex(), int(self._clock() * 1000)))
        return int(member.split(":")[0]), member

    def _head(self) -> str | None:
        head = self.ensure_client().zrange(self._keys[1], 0, 0)
        return _text(head[0]) if head else None

    def is_head(self, ticket: int) -> bool:
        head = self._head()
        return head is not None and head.split(":")[0] == str(ticket)

    def remove(self, member: str) -> None:
        self._take_out(member)

    def _take_out(self, member: str) -> bool:
        patience = int((self.stale_timeout or 0) * 1000)
        now = int(self._clock() * 1000)
        return bool(self.ensure_client().eval(_REMOVE, 2, self._keys[1], self._since, member, now, patience))

    def cleanup_stale(self) -> None:
        head = self._head() if self.stale_timeout is not None else None
        if head is None or self.stale_timeout is None:
            return
        parts = head.split(":")
        if len(parts) != 3 or not parts[2].isdecimal() or int(parts[2]) < _EPOCH_MS:
            return
        since = self.client.get(self._since)
        age = self._clock() - max(int(parts[2]), int(since or 0)) / 1000
        if age >= self.stale_timeout and self._take_out(head):
            log(f"{self.name}: ticket {parts[0]} evicted after {age:.0f} s; its holder may still be at work")

    def is_empty(self) -> bool:
        return bool(self.ensure_client().zcard(self._keys[1]) == 0)

    def maybe_cleanup(self) -> None:
        self.ensure_client().eval(_CLEANUP, 3, *self._keys, self._since)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
