"""The ticket queues of a Redis server, as the Locks view shows them; of the form of ``spooltop.engine.tickets``. Only looked at.

Nothing is written there but what every client says of itself when it connects.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from ...errors import UsageError
from ...model.sight import Lock, LockParty
from ...model.text import escape

__all__ = ["NEEDS", "RedisTickets", "is_installed"]

NEEDS = "the Python package redis is not installed: pip install 'spooltop[redis]'"
_MEMBER = re.compile(r"([0-9]{1,20}):([^:]*):([0-9]{1,20})\Z")
_EPOCH_MS = 1_000_000_000_000
"""A smaller ``ts_ms`` is a monotonic clock's, as stouputils writes: it is no time."""
_UNKNOWN = "Redis tells no process: whether its holder lives is not known"
_LEAST = 1.0
_AGAIN = 5.0
_TIMEOUT = 1.0
"""Seconds: between two looks; after one that failed; for an answer."""
_AT_MOST = 1_000
_NAMES_AT_MOST = 64
_STEPS = 20
_STEP = 1_000
_QUEUE = ":queue"


class RedisTickets:
    """The queues of the server ``url``: ``redis://[[user]:password@]host[:port][/db]``, ``rediss://…``, ``unix:///socket[?db=N]``.

    ``#NAME,NAME`` names them, by the name that ``RedisTicketQueue`` got. Without it they are looked for among all keys, some
    20,000 of them at each look. A password is never shown. Raises ``UsageError`` for what is no such URL.
    """

    def __init__(
        self, url: str, *, clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        parts = _parsed(url)
        self.shown = _without_secrets(parts)
        self._url = url.partition("#")[0]
        self._named = tuple(dict.fromkeys(unquote(name) for name in parts.fragment.split(",") if name))
        self._clock = clock
        self._monotonic = monotonic
        self._client: Any = None
        self._due: float | None = None
        self._last: tuple[Lock, ...] = ()
        self._found: dict[str, None] = {}
        self._scan = 0
        self._whole = False
        self._seen: dict[tuple[str, str], float] = {}
        self._seen_before: dict[tuple[str, str], float] = {}

    def look(self) -> tuple[Lock, ...]:
        """The queues, each a lock of kind ``redis``. What is wrong with the server is told as a lock that is ``unknown``."""
        now = self._monotonic()
        if self._due is not None and now < self._due:
            return self._last
        self._last, wait = self._looked()
        self._due = self._monotonic() + wait
        return self._last

    def shows(self, path: str) -> bool:
        """True where ``path`` is what a queue of this server is listed as, or the server itself."""
        return path == self.shown or path.startswith(f"{self.shown}#")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _looked(self) -> tuple[tuple[Lock, ...], float]:
        """The queues, and in how many seconds to look again."""
        if not is_installed():
            return (self._trouble(NEEDS),), _AGAIN
        import redis

        try:
            if self._client is None:
                self._client = _connected(self._url)
            return self._look(), _LEAST
        except redis.AuthenticationError:
            return (self._trouble("the server wants another user or password: redis://USER:PASSWORD@HOST"),), _AGAIN
        except (redis.RedisError, OSError, ValueError) as error:
            return (self._trouble(f"no answer from the server: {error}"),), _AGAIN

    def _trouble(self, why: str) -> Lock:
        return Lock(self.shown, "redis", verdict="unknown", evidence=why)

    def _look(self) -> tuple[Lock, ...]:
        names = self._named or self._sought()
        self._seen, self._seen_before = {}, self._seen
        locks = [lock for name in names if (lock := self._queue(name)) is not None]
        if not self._named and not self._whole:
            why = f"looked through some {_STEPS * _STEP:,} keys so far; name the queues: {self.shown}#NAME,NAME"
            locks.append(self._trouble(why))
        return tuple(locks)

    def _sought(self) -> list[str]:
        for _ in range(_STEPS):
            self._scan, keys = self._client.scan(self._scan, match=f"*{_QUEUE}", count=_STEP)
            for key in keys:
                if len(self._found) < _NAMES_AT_MOST:
                    self._found[_text(key).removesuffix(_QUEUE)] = None
            if self._scan == 0:
                self._whole = True
                break
        return sorted(self._found)

    def _queue(self, name: str) -> Lock | None:
        key = name + _QUEUE
        pipe = self._client.pipeline(transaction=False)
        pipe.zcard(key).zrange(key, 0, _AT_MOST - 1).get(f"{name}:since").exists(f"{name}:seq")
        number, members, since, counted = pipe.execute(raise_on_error=False)
        path = f"{self.shown}#{name}"
        if isinstance(number, Exception):
            if not self._named:
                self._found.pop(name, None)
                return None  # a key of that name that is something else
            if "WRONGTYPE" in str(number):
                return Lock(path, "redis", verdict="unknown", evidence=f"{key} is no queue of tickets")
            raise number
        tickets = [member for raw in members if _MEMBER.match(member := _text(raw))]
        if not tickets:
            if self._named or counted:
                return Lock(path, "redis", verdict="free", evidence="nobody has a ticket")
            self._found.pop(name, None)
            return None
        head, *others = tickets
        parties = [LockParty(None, _words(one), since=self._since(name, one)) for one in others]
        waits = number - 1
        evidence = f"{waits:,} wait{'s' if waits == 1 else ''} for it; {_UNKNOWN}" if waits else _UNKNOWN
        holder = LockParty(None, _words(head), since=self._since(name, head, since))
        return Lock(path, "redis", (holder,), tuple(parties), "blocked" if waits else "held", evidence)

    def _since(self, name: str, member: str, head_since: object = None) -> float | None:
        """When it came or became the head, epoch seconds. Where only another clock tells that, when it was first seen, but at
        that look itself None."""
        found = _MEMBER.match(member)
        came = int(found[3]) if found is not None else 0
        told = _text(head_since) if isinstance(head_since, (bytes, str)) else ""
        became = int(told) if told.isascii() and told.isdecimal() else 0
        if max(came, became) >= _EPOCH_MS:
            return max(came, became) / 1000
        seen = self._seen_before.get((name, member))
        self._seen[name, member] = self._clock() if seen is None else seen
        return seen


def is_installed() -> bool:
    return importlib.util.find_spec("redis") is not None


def _connected(url: str) -> Any:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)  # else a server that is away holds each look up for seconds
    timeout = {"socket_timeout": _TIMEOUT} | ({} if url.startswith("unix:") else {"socket_connect_timeout": _TIMEOUT})
    return redis.Redis.from_url(url, retry=once, **timeout)


def _parsed(url: str) -> SplitResult:
    # The complaint goes without the URL, which may have a password in it.
    bad = UsageError("that is no URL of a Redis server", advice="write redis://HOST:6379/0#QUEUE, or unix:///SOCKET#QUEUE")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise bad from None
    if parts.scheme not in ("redis", "rediss", "unix") or port == 0 or not _db(parts).isdecimal():
        raise bad
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise bad
    return parts


def _db(parts: SplitResult) -> str:
    return parse_qs(parts.query).get("db", ["0"])[-1] if parts.scheme == "unix" else parts.path.strip("/") or "0"


def _without_secrets(parts: SplitResult) -> str:
    db = _db(parts)
    if parts.scheme == "unix":
        return f"unix://{parts.path}" + (f"?db={db}" if db != "0" else "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + (f"/{db}" if db != "0" else "")


def _words(member: str) -> str:
    """``ticket 7 1e6f71c9``: its number and the beginning of its token."""
    found = _MEMBER.match(member)
    return f"ticket {int(found[1])} {escape(found[2][:8])}".rstrip() if found is not None else escape(member)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
