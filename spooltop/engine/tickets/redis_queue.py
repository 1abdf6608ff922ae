"""A ticket queue in Redis: the counter ``{name}:seq`` and the sorted set ``{name}:queue`` of ``{ticket}:{token}:{ts_ms}``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .file_queue import BaseTicketQueue, log, parse_redis_ticket

_REGISTER = """
local ticket = redis.call('INCR', KEYS[1])
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local last = math.max(tonumber(top[2] or '0'), tonumber(ARGV[3]))
if last >= ticket then
  ticket = last + 1
  redis.call('SET', KEYS[1], ticket)
end
local member = string.format('%d:%s:%s', ticket, ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ticket, member)
return member
"""
_WAIT = """
local member, ticket = ARGV[1], tonumber(ARGV[2])
if not redis.call('ZSCORE', KEYS[2], member) then
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  if first and (tonumber(first) >= ticket or redis.call('ZCOUNT', KEYS[2], ticket, ticket) > 0) then
    local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    ticket = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(top[2])) + 1
    member = string.format('%d:%s', ticket, ARGV[3])
  end
  redis.call('ZADD', KEYS[2], ticket, member)
  if tonumber(redis.call('GET', KEYS[1]) or '0') < ticket then
    redis.call('SET', KEYS[1], ticket)
  end
end
return {member, redis.call('ZRANGE', KEYS[2], 0, 0)[1]}
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


class RedisTicketQueue(BaseTicketQueue):
    """A ticket queue in Redis. ``client`` is a ``redis.Redis``; the default is a client of a server on this machine.

    ``ts_ms`` is written as milliseconds since the epoch. A head is stale if both ``ts_ms`` and the moment at which it became the
    head are ``stale_timeout`` seconds ago, so that a long wait behind another member does not make it stale. That moment is kept,
    as long as it matters, in ``{name}:since`` (milliseconds since the epoch). A stale head may still be working, so an eviction
    is logged as a warning. Members whose ``ts_ms`` comes from another clock are never evicted. Errors of the client are raised to
    the caller, except in ``remove`` and ``maybe_cleanup``, which log them as a warning and continue.

    A queue that is shared with stouputils loses members: stouputils checks that the queue is empty and deletes it in two steps,
    so that a member that came in between is deleted together with the counter. A member of this object that was deleted while its
    holder waits is put back with its number by the holder's next ``is_head``. If it would thereby become the head before a holder
    that already knows that it is the head, or if its number was given again, it goes to the end of the queue: there are never two
    heads.

    Known limitations: members that come, or ask, first after such a deletion are served before those that waited; a holder that
    already knows that it is the head is not put back, as it may have been evicted; and a deleted member of stouputils is not put
    back by anyone.
    """

    def __init__(
        self, name: str, client: Any = None, stale_timeout: float | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self.client = client
        self.stale_timeout = stale_timeout
        self._clock = clock
        self._given: dict[int, str] = {}
        """Tickets of this object and their members, as ``register`` gave them."""
        self._members: dict[str, str] = {}
        """Members as ``register`` returned them, and their present names."""
        self._waiting: set[int] = set()
        """Tickets whose holders do not know yet that they are the head."""

    def ensure_client(self) -> Any:
        """Returns the client; ``ImportError`` if none was given and the package redis is not installed."""
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
        least = max(self._waiting.copy(), default=0)  # the counter may have been deleted
        now = int(self._clock() * 1000)
        member = _text(self.ensure_client().eval(_REGISTER, 2, *self._keys, os.urandom(16).hex(), now, least))
        ticket = int(member.split(":")[0])
        self._members[member] = self._given[ticket] = member
        self._waiting.add(ticket)
        return ticket, member

    def _head(self) -> str | None:
        head = self.ensure_client().zrange(self._keys[1], 0, 0)  # anybody's member: it may be any bytes
        return _text(head[0]) if head else None

    def is_head(self, ticket: int) -> bool:
        given = self._given.get(ticket)
        if given is None:
            head = self._head()
            return head is not None and head.split(":")[0] == str(ticket)
        known = self._members[given]
        if ticket not in self._waiting:
            return self._head() == known
        number, _, rest = known.partition(":")
        here, first = self.ensure_client().eval(_WAIT, 2, *self._keys, known, number, rest)
        if (now := _text(here)) != known:
            log(f"{self.name}: ticket {ticket} was taken out while it waited; it goes on as {now.partition(':')[0]}")
            self._members[given] = now
        if here != first:
            return False
        self._waiting.discard(ticket)
        return True

    def remove(self, member: str) -> None:
        try:
            self._take_out(self._members.get(member, member))
            self._members.pop(member, None)
        except Exception as error:  # noqa: BLE001  # of whatever client; who leaves can do nothing about it
            log(f"{self.name}: {member} could not be removed: {error}")
        for ticket in [ticket for ticket, given in list(self._given.items()) if given == member]:
            self._waiting.discard(ticket)
            self._given.pop(ticket, None)

    def _take_out(self, member: str) -> bool:
        patience = int((self.stale_timeout or 0) * 1000)
        now = int(self._clock() * 1000)
        return bool(self.ensure_client().eval(_REMOVE, 2, self._keys[1], self._since, _bytes(member), now, patience))

    def cleanup_stale(self) -> None:
        head = self._head() if self.stale_timeout is not None else None
        if head is None or self.stale_timeout is None:
            return
        ticket = parse_redis_ticket(head)
        if ticket is None or ticket.at_ms is None:
            return
        since = self.client.get(self._since)
        age = self._clock() - max(ticket.at_ms, int(since or 0)) / 1000
        if age >= self.stale_timeout and self._take_out(head):
            log(f"{self.name}: ticket {ticket.number} evicted after {age:.0f} s; its holder may still be at work")

    def is_empty(self) -> bool:
        return bool(self.ensure_client().zcard(self._keys[1]) == 0)

    def maybe_cleanup(self) -> None:
        try:
            self.ensure_client().eval(_CLEANUP, 3, *self._keys, self._since)
        except Exception as error:  # noqa: BLE001  # of whatever client; what is left over costs three keys
            log(f"{self.name}: could not be cleaned up: {error}")


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def _bytes(member: str) -> bytes:
    return member.encode("utf-8", "surrogateescape")
