"""Translates errors of redis-py into spooltop's own. Neither texts nor causes may hold a password."""

from __future__ import annotations

import re
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from redis import exceptions as redis_errors

from spooltop.errors import NotASpool, SpooltopError, Unavailable

from ..trouble import Kind, Trouble, error_of, trouble_of_connection, trouble_of_nonsense, trouble_of_reply

__all__ = ["failure", "translated"]

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
