"""The connection of a queue to its server."""

from __future__ import annotations

import re
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any

from redis import exceptions as redis_errors

from spooltop.errors import NotASpool, SpooltopError, Unavailable, UsageError

from ..address import Login, check_ca_file
from ..trouble import Kind, Trouble, error_of, trouble_of_connection, trouble_of_nonsense, trouble_of_reply

if TYPE_CHECKING:
    from redis import Redis


# Translates errors of redis-py into spooltop's own. Neither texts nor causes may hold a password.

_WORDS: Mapping[type[redis_errors.RedisError], str] = {
    redis_errors.NoPermissionError: "NOPERM",
    redis_errors.AuthenticationError: "WRONGPASS",
    redis_errors.BusyLoadingError: "LOADING",
    redis_errors.OutOfMemoryError: "OOM",
    redis_errors.ReadOnlyError: "READONLY",
    redis_errors.MasterDownError: "MASTERDOWN",
    redis_errors.ClusterDownError: "CLUSTERDOWN",
    redis_errors.TryAgainError: "TRYAGAIN",
    redis_errors.MovedError: "MOVED",
}
_IN_PIPELINE = re.compile(r"\ACommand # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
"""Words that the client puts before an error, with the command and so the message in them."""


@contextmanager
def translated(address: str, what: str) -> Iterator[None]:
    """Raises errors of the client as those of spooltop, about ``address``, in the step ``what``."""
    handled = sys.exception()
    try:
        yield
    except redis_errors.RedisError as error:
        if error.__context__ is handled:
            error.__context__ = None  # what the caller is handling is no cause of this error
        raise failure(error, address, what) from None  # its traceback shows connections and their arguments
    except (ValueError, OverflowError, RecursionError):  # as the client's parser raises them
        found = trouble_of_nonsense("no answer of a Redis server")
        raise Unavailable(f"{what}: {found.what}", path=address, advice=found.advice, answer_lost=True) from None


def failure(error: redis_errors.RedisError, address: str, what: str) -> SpooltopError:
    """Returns the error of spooltop that says what happened. ``Unavailable`` may pass by itself."""
    trouble = _trouble_of(error)
    if trouble.kind is Kind.NO_STREAM:
        return NotASpool(f"{what}: {trouble.what}", path=address, advice=trouble.advice)
    return error_of(trouble, address, what, answer_lost=trouble.kind is Kind.AWAY and not _never_sent(error))


def _trouble_of(error: redis_errors.RedisError) -> Trouble:
    text = _IN_PIPELINE.sub("", str(error))
    for kind, word in _WORDS.items():
        if isinstance(error, kind):  # the client has cut the word off
            return trouble_of_reply(f"{'NOAUTH' if 'required' in text else word} {text}")
    if "max number of clients" in text:
        return trouble_of_reply(text)
    if isinstance(error, redis_errors.InvalidResponse):
        too_long = "far too long" in text
        what = "a far too long answer" if too_long else "no answer of a Redis server"
        return trouble_of_nonsense(what)._replace(kind=Kind.AWAY)  # it may be mended, and tried again
    if isinstance(error, (redis_errors.ConnectionError, redis_errors.TimeoutError)):
        cause = error.__cause__ or error.__context__
        return trouble_of_connection(cause if isinstance(cause, OSError) else OSError(text))
    return trouble_of_reply(text)


def _never_sent(error: BaseException) -> bool:
    """True where no connection was made, so that the command reached nobody."""
    cause = error.__cause__ or error.__context__
    refused = (ConnectionRefusedError, FileNotFoundError, ssl.SSLCertVerificationError, socket.gaierror)
    return isinstance(cause, refused) or "connecting to" in str(error)


# Durability of what a server has answered, as its settings promise it.

_PATIENCE = 2_000
"""Milliseconds for the disk of the server."""


class Durability(Enum):
    """``ALWAYS``: the server answers when its log is synced (``appendfsync always``). ``ASKED``: it says so when it is asked,
    with WAITAOF. ``NONE``: it may lose what it answered, about the last second with ``appendfsync everysec``."""

    ALWAYS = "always"
    ASKED = "asked"
    NONE = "none"


def durability_of(connection: Any) -> Durability:
    """Asks the server; one that may not be asked promises nothing. Raises ``redis.RedisError``."""
    try:
        if not connection.info("persistence").get("aof_enabled"):
            return Durability.NONE
        if connection.config_get("appendfsync").get("appendfsync") == "always":
            return Durability.ALWAYS
        known = connection.execute_command("COMMAND", "INFO", "WAITAOF")
    except redis_errors.NoPermissionError:
        return Durability.NONE
    return Durability.ASKED if any(known.values() if isinstance(known, dict) else known) else Durability.NONE


def wait_for_disk(pipe: Any) -> None:
    """Adds to a pipeline the wait until its changes are synced. It must be of the connection that changed: WAITAOF counts only
    these. The answer is a pair whose first is 1."""
    pipe.execute_command("WAITAOF", 1, 0, _PATIENCE)


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
