"""The connection of a queue to its server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from spooltop.errors import Unavailable, UsageError

from ..trouble import trouble_of_connection
from ..urls import Login, check_ca_file

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["connect", "messages_expected"]

_TIMEOUT = 5.0
"""Seconds for a connection, and for an answer; longer than any wait that the queue asks of the server."""
_SLOWEST = 64 << 10
"""Bytes for which an answer may take a second more, up to ``_LONGEST`` in all."""
_LONGEST = 60.0
_BYTES = 16 << 20
"""Bytes of an answer that holds no message."""
_MESSAGE_BYTES = 1 << 30
"""Bytes of an answer that holds a message: a server takes fields of 512 MiB."""
_expected = ContextVar("expected", default=_BYTES)


def connect(url: str, login: Login = Login()) -> Redis:  # noqa: B008  immutable
    """Returns a client for ``redis://``, ``rediss://`` or ``unix://``; it connects with its first command. ``login`` stands in
    for what the URL has not. Nothing is repeated by itself: a put that is sent twice makes two messages. Raises ``UsageError``
    where the package redis is missing, or the URL is not one."""
    try:
        from redis import ConnectionPool, Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise UsageError("a queue in Redis needs the package redis", advice="pip install 'spooltop[redis]'") from None
    if url.startswith("rediss:"):
        try:
            check_ca_file()
        except OSError as error:
            found = trouble_of_connection(error)
            raise Unavailable(found.what, advice=found.advice) from None
    try:
        pool = ConnectionPool.from_url(
            url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
    except ValueError:  # its text may have the password in it
        raise UsageError("not the URL of a Redis server", advice="write redis://HOST:6379/0#STREAM/GROUP") from None
    for name, word in (("username", login.user), ("password", login.password)):
        if word:
            pool.connection_kwargs.setdefault(name, word)
    kind: Any = pool.connection_class
    pool.connection_class = type(kind.__name__, (_BoundedConnection, kind), {})
    made = Redis(connection_pool=pool)
    made.auto_close_connection_pool = True
    return made


@contextmanager
def messages_expected() -> Iterator[None]:
    """Lets answers to what is asked meanwhile be as large as a message."""
    token = _expected.set(_MESSAGE_BYTES)
    try:
        yield
    finally:
        _expected.reset(token)


class _BoundedConnection:
    """Part of a connection of redis-py, whose own limit begins anew with each byte that comes."""

    def _connect(self) -> Any:
        made: Any = super()
        return _BoundedSocket(made._connect())


class _BoundedSocket:
    """A socket that lets an answer take so many bytes, and so long in all, counted from the last thing sent."""

    def __init__(self, over: Any) -> None:
        self._over = over
        self._begin()

    def _begin(self) -> None:
        now = time.monotonic()
        self._until, self._last, self._left = now + _TIMEOUT, now + _LONGEST, _expected.get()

    def sendall(self, data: Any) -> None:
        self._over.sendall(data)
        self._begin()

    def recv(self, *words: Any) -> bytes:
        self._check_time()
        piece: bytes = self._over.recv(*words)
        self._count(len(piece))
        return piece

    def recv_into(self, *words: Any) -> int:
        self._check_time()
        size: int = self._over.recv_into(*words)
        self._count(size)
        return size

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise TimeoutError("no whole answer in time")

    def _count(self, size: int) -> None:
        from redis.exceptions import InvalidResponse

        self._until = min(self._last, self._until + size / _SLOWEST)
        self._left -= size
        if self._left < 0:
            raise InvalidResponse("a far too long answer")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._over, name)
