"""The connection of a queue to its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spooltop.errors import Unavailable, UsageError

from ..trouble import trouble_of_connection
from ..urls import Login, check_ca_file

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["connect"]

_TIMEOUT = 5.0
"""Seconds for a connection, and for an answer; longer than any wait that the queue asks of the server."""


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
    made = Redis(connection_pool=pool)
    made.auto_close_connection_pool = True
    return made
