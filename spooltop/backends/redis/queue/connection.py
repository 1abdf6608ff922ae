"""The connection of a queue to its server."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

from redis import ConnectionPool, Redis
from redis import exceptions as redis_errors

from spooltop.errors import SpooltopError

from ..address import Login, endpoint
from ..client import NO_ANSWER, BoundedConnection, Nonsense, check_ca_file, error_of, reply_text, trouble_of_connection


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
        raise failure(Nonsense(NO_ANSWER), address, what) from None


def failure(error: Exception, address: str, what: str) -> SpooltopError:
    """Returns the error of spooltop that says what happened. ``Unavailable`` may pass by itself. Neither its text nor its cause
    holds a password."""
    return error_of(error, address, what, answer_lost=reply_text(error) is None and not _never_sent(error))


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
_LONGEST = 60.0
"""Seconds for an answer that comes fast, in all."""
_BYTES = 16 << 20
"""Bytes of an answer that holds no message."""
_MESSAGE_BYTES = 1 << 30
"""Bytes of an answer that holds a message: a server takes fields of 512 MiB."""
_expected = ContextVar("expected", default=_BYTES)


def connect(url: str, login: Login = Login()) -> Redis:  # noqa: B008  immutable
    """Returns a client that connects with its first command. Raises ``UsageError`` for what is not the URL of a server."""
    if url.startswith("rediss:"):
        try:
            check_ca_file()
        except OSError as error:
            raise trouble_of_connection(error) from None
    pool = ConnectionPool(**endpoint(url, login))
    kind: Any = pool.connection_class
    pool.connection_class = type(kind.__name__, (_QueueConnection, kind), {})
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


class _QueueConnection(BoundedConnection):
    """Part of a connection that lets an answer take so many bytes, and so long in all, counted from the last thing sent."""

    def _connect(self) -> Any:
        self._begin()
        return super()._connect()

    def send_packed_command(self, *words: Any, **more: Any) -> None:
        sender: Any = super()
        self._begin()
        sender.send_packed_command(*words, **more)
        self._begin()

    def _begin(self) -> None:
        self.allowance.begin(_TIMEOUT, _expected.get(), longest=_LONGEST)
