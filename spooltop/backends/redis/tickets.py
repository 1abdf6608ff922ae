"""The ticket queues of a Redis server, as the Locks view shows them; of the form of ``spooltop.engine.tickets``. Only read.

Nothing is written there but what every client says of itself when it connects.
"""

from __future__ import annotations

import time
from urllib.parse import unquote

from spooltop.engine.tickets import EPOCH_MS, RedisTicket, parse_redis_ticket
from spooltop.model import Action, Clock, Key, Lock, LockHolder, Refused, SpooltopError, Unreadable, escape

from .client import (
    ErrorReply,
    Nonsense,
    RedisClient,
    Reply,
    bytes_of,
    endpoint,
    list_of,
    number_of,
    parse_url,
    text_of,
    without_secrets,
)

_UNKNOWN = "Redis records no process: its holder cannot be checked"
_LEAST = 1.0
"""Seconds between two looks."""
_AGAIN, _AGAIN_AT_MOST = 5.0, 60.0
"""Seconds to the next look after one that failed: twice as long after each further one."""
_BYTES = 4_000_000
"""Maximum number of bytes that one look receives."""
_EVICTED = "the next waiter evicts a stale head by itself, with RedisTicketQueue.cleanup_stale"
_AT_MOST = 1_000
_NAMES_AT_MOST = 64
_STEPS = 20
_STEP = 1_000
_QUEUE = ":queue"


class RedisTickets:
    """The queues of the server ``url``: ``redis://[[user]:password@]host[:port][/db]``, ``rediss://…``, or
    ``unix:///socket[?db=N]``.

    One look takes at most ``seconds``. ``#NAME,NAME`` names the queues, by the name that ``RedisTicketQueue`` got. Without it
    they are looked for among all keys, some 20,000 of them at each look. A password is never shown. Raises ``UsageError`` for
    anything that is not such a URL.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = time.time,
        monotonic: Clock = time.monotonic,
        seconds: float = 2.0,
    ) -> None:
        parts = parse_url(url, queue="QUEUE")
        self.shown = without_secrets(parts)
        self._named = tuple(dict.fromkeys(unquote(name) for name in parts.fragment.split(",") if name))
        self._clock = clock
        self._monotonic = monotonic
        self._seconds = seconds
        self._client = RedisClient(endpoint(url))
        self._due = float("-inf")
        self._again = _AGAIN
        self._last: tuple[Lock, ...] = ()
        self._found: dict[str, None] = {}
        self._scan = b"0"
        self._whole = False
        self._seen: dict[tuple[str, str], float] = {}
        self._seen_before: dict[tuple[str, str], float] = {}

    def look(self) -> tuple[Lock, ...]:
        """The queues, each a lock of kind ``redis``. A problem of the server is shown as a lock that is ``unknown``, within
        seconds, whatever it answers."""
        if self._monotonic() >= self._due:
            self._last, wait = self._looked()
            self._due = self._monotonic() + wait
        return self._last

    def why_not(self, action: Action | None, key: Key) -> SpooltopError | None:
        """Implements ``model.backend.LockSource``: queues and the server itself are only shown."""
        if not isinstance(key, str) or not (key == self.shown or key.startswith(f"{self.shown}#")):
            return None
        if action is None:
            return Unreadable("Redis does not report the processes of its clients", path=key)
        return Refused(f"{action}: a queue in Redis is read-only here", _EVICTED, path=key)

    def close(self) -> None:
        self._client.close()

    def _looked(self) -> tuple[tuple[Lock, ...], float]:
        """The queues, and in how many seconds to look again."""
        self._client.allowance.begin(self._seconds, _BYTES)
        try:
            found = self._look()
        except SpooltopError as trouble:
            self._client.close()  # half an answer may be on its way
            wait, self._again = self._again, min(2 * self._again, _AGAIN_AT_MOST)
            login = ": redis://USER:PASSWORD@HOST" if isinstance(trouble, Refused) else ""
            return (self._problem(f"{trouble.what}{login}", failed=True),), wait
        self._again = _AGAIN
        return found, _LEAST

    def _problem(self, why: str, *, failed: bool = False) -> Lock:
        return Lock(self.shown, "redis", verdict="unknown", evidence=why, failed=failed)

    def _look(self) -> tuple[Lock, ...]:
        names = self._named or self._scanned_names()
        self._seen, self._seen_before = {}, self._seen
        locks = [lock for name in names if (lock := self._queue(name)) is not None]
        if not self._named and not self._whole:
            why = f"looked through some {_STEPS * _STEP:,} keys so far; name the queues: {self.shown}#NAME,NAME"
            locks.append(self._problem(why))
        return tuple(locks)

    def _scanned_names(self) -> list[str]:
        for _ in range(_STEPS):
            if self._client.allowance.seconds_left < self._seconds / 2:
                break  # it goes on from there at the next look
            (reply,) = self._client.ask(("SCAN", self._scan, "MATCH", f"*{_QUEUE}", "COUNT", _STEP))
            pair = list_of(reply)
            if len(pair) != 2:
                raise Nonsense("no answer to SCAN")
            self._scan = bytes_of(pair[0])
            for key in list_of(pair[1]):
                if len(self._found) < _NAMES_AT_MOST:
                    self._found[text_of(key).removesuffix(_QUEUE)] = None
            if self._scan == b"0":
                self._whole = True
                break
        return sorted(self._found)

    def _queue(self, name: str) -> Lock | None:
        key, path = name + _QUEUE, f"{self.shown}#{name}"
        number, listed, since, counted = self._client.ask(
            ("ZCARD", key), ("ZRANGE", key, 0, _AT_MOST - 1), ("GET", f"{name}:since"), ("EXISTS", f"{name}:seq")
        )
        if isinstance(number, ErrorReply):
            if not self._named:
                self._found.pop(name, None)
                return None  # a key of that name that is something else
            why = f"{escape(key)} is not a ticket queue" if "WRONGTYPE" in str(number) else escape(str(number))
            return Lock(path, "redis", verdict="unknown", evidence=why)
        waiting = number_of(number) - 1
        members = map(text_of, list_of(listed))
        tickets = [(member, ticket) for member in members if (ticket := parse_redis_ticket(member)) is not None]
        if not tickets:
            if self._named or number_of(counted):
                return Lock(path, "redis", verdict="free", evidence="nobody has a ticket")
            self._found.pop(name, None)
            return None
        evidence = f"{waiting:,} wait{'s' if waiting == 1 else ''} for it; {_UNKNOWN}" if waiting > 0 else _UNKNOWN
        waiters = tuple(self._holder(name, *one) for one in tickets[1:])
        holder = self._holder(name, *tickets[0], since)
        return Lock(path, "redis", (holder,), waiters, "blocked" if waiting > 0 else "held", evidence)

    def _holder(self, name: str, member: str, ticket: RedisTicket, head_since: Reply = None) -> LockHolder:
        """Describes who has a ticket, since it was taken or became the head. If only another clock has that, since the first look
        that saw the ticket; None at that look itself."""
        digits = head_since if isinstance(head_since, bytes) else b""
        became = int(digits) if digits.isdigit() and len(digits) <= 20 else 0
        if (ms := max(ticket.at_ms or 0, became)) >= EPOCH_MS:
            since: float | None = ms / 1000
        else:
            since = self._seen_before.get((name, member))
            self._seen[name, member] = self._clock() if since is None else since
        return LockHolder(None, f"ticket {ticket.number} {escape(ticket.token[:8])}".rstrip(), since=since)
