"""Says in one sentence what is wrong with a server, and what to do about it: the same for a reader, an operator and a queue."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from redis import exceptions as redis_errors

from spooltop.errors import Refused, SpoolFull, SpooltopError, Unavailable, Unreadable
from spooltop.model.text import escape

_LOGIN = "set SPOOLTOP_REDIS_USER and _PASSWORD, or redis_user and redis_password in a config.toml of mode 0600"
_RIGHTS = "give this user of the server the rights that spooltop -h names, or use another user"
_STREAM = "name a stream and one of its groups: redis://HOST/0#STREAM/GROUP"
_NO_TLS = "write redis://, or the port that does"
_START = "start it, or look at its log"
_LOG = "look at the log of the server"
NO_ANSWER = "no answer of a Redis server"
_UNKNOWN_CA = (2, 18, 19, 20, 21)
"""Codes of OpenSSL for certificates whose authority is not known."""
_OTHER_HOST = (62, 64)
_NOT_YET, _EXPIRED = 9, 10


_IN_PIPELINE = re.compile(r"\ACommand # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
"""Words that redis-py puts before an error, with the command and so the message in them."""


class Nonsense(Unreadable):
    """Raised for data that is not a Redis server's answer to the request, or far too much of it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the server answers nonsense: {escape(what)}", advice="look if it is a Redis server")


class ErrorReply(Exception):
    """An error that the server answered: a value among the replies, until somebody raises it."""


class Kind(Enum):
    """``AWAY``: there is no connection. ``LATER``: the server answers that it cannot do it now. ``DENIED``: it refuses the user
    or the command. ``FULL``: its memory is full. ``NO_STREAM``: there is no such stream or group."""

    AWAY = "away"
    LATER = "later"
    DENIED = "denied"
    FULL = "full"
    NO_STREAM = "no stream"
    OTHER = "other"


class Trouble(NamedTuple):
    """``what`` is wrong, escaped, and the ``advice`` about it."""

    kind: Kind
    what: str
    advice: str

    @property
    def line(self) -> str:
        return f"{self.what}; {self.advice}"


_REPLIES: Mapping[str, Trouble] = {
    "NOAUTH": Trouble(Kind.DENIED, "the server wants a password", _LOGIN),
    "WRONGPASS": Trouble(Kind.DENIED, "the server refuses this user or password", _LOGIN),
    "LOADING": Trouble(Kind.LATER, "the server is loading its data", "it answers when that is done"),
    "MASTERDOWN": Trouble(Kind.LATER, "the replica has lost its master", "look at the master"),
    "READONLY": Trouble(
        Kind.LATER, "the server is a replica, and takes no changes", "open its master; after a failover that is another host"
    ),
    "OOM": Trouble(Kind.FULL, "the memory of the server is full", "free memory, or raise its maxmemory"),
    "MISCONF": Trouble(
        Kind.LATER, "the server cannot save to its disk, and takes no changes until it can", "free its disk, or look at its log"
    ),
    "NOREPLICAS": Trouble(
        Kind.LATER, "the server has too few replicas, and takes no changes until they are back", "look at its replicas"
    ),
    "CLUSTERDOWN": Trouble(Kind.LATER, "the cluster is down", "look at its nodes"),
    "TRYAGAIN": Trouble(Kind.LATER, "the cluster is moving this stream to another node", "try again"),
    "BUSY": Trouble(Kind.LATER, "the server is busy with a script", "try again, or look who runs it"),
    "UNKILLABLE": Trouble(Kind.LATER, "the server is busy with a script", "try again, or look who runs it"),
    "UNBLOCKED": Trouble(Kind.LATER, "the server ended the wait", "try again"),
    "DENIED": Trouble(Kind.DENIED, "the server is in protected mode: it answers only its own machine", "set a password there"),
}


def error_of(trouble: Trouble, address: str, what: str, *, answer_lost: bool = False) -> SpooltopError:
    """Returns the error of spooltop for what is wrong with a server, in the step ``what``."""
    text, advice = f"{what}: {trouble.what}", trouble.advice
    match trouble.kind:
        case Kind.DENIED:
            return Refused(text, path=address, advice=advice)
        case Kind.FULL:
            return SpoolFull(text, path=address, advice=advice)
        case Kind.AWAY | Kind.LATER:
            return Unavailable(text, path=address, advice=advice, answer_lost=answer_lost)
        case _:
            return Unreadable(text, path=address, advice=advice)


def reply_text(error: Exception) -> str | None:
    """Returns an error as the server answered it; None for any other."""
    if isinstance(error, ErrorReply):
        return str(error)
    text: str | None = getattr(error, "text", None)
    return _IN_PIPELINE.sub("", str(error)) if text is None and isinstance(error, redis_errors.ResponseError) else text


def trouble_of(error: Exception) -> Trouble:
    """Returns what an error of redis-py means, or one of whoever reads its answers."""
    if (text := reply_text(error)) is not None:
        return trouble_of_reply(text)
    if isinstance(error, redis_errors.InvalidResponse):
        error = Nonsense("a far too long answer" if "far too long" in str(error) else NO_ANSWER)
    if isinstance(error, Nonsense):  # the server may be mended, and asked again
        return Trouble(Kind.AWAY, error.what, error.advice)
    cause = error.__cause__ or error.__context__
    return trouble_of_connection(cause if isinstance(cause, OSError) else OSError(str(error)))


def check_ca_file() -> None:
    """Raises ``OSError`` where SSL_CERT_FILE names no file: OpenSSL would trust nobody, and not say why."""
    named = os.environ.get("SSL_CERT_FILE")
    if named and not os.access(named, os.R_OK):
        raise OSError(errno.ENOENT, f"SSL_CERT_FILE names a file that cannot be read: {named}")


def trouble_of_reply(text: str) -> Trouble:
    """Returns what an error that the server answered means.

    >>> trouble_of_reply("LOADING Redis is loading the dataset in memory").what
    'the server is loading its data'
    >>> trouble_of_reply("NOPERM this user has no permissions to run the 'xack' command").what
    "this user of the server may not run 'xack'"
    """
    word, _, rest = text.partition(" ")
    word = word.removesuffix(":")
    if (known := _REPLIES.get(word)) is not None:
        return known
    shown = escape(text)
    if word == "NOPERM":
        return Trouble(Kind.DENIED, _denied(rest), _RIGHTS)
    if "ACL failure in script" in text or "user executing the script" in text:  # 7.0 does not say which command
        named = "'" in rest.partition("in script")[2]
        what = _denied(rest) if named else "this user of the server may not run a command that a script of spooltop needs"
        return Trouble(Kind.DENIED, what, _RIGHTS)
    if word in ("NOGROUP", "WRONGTYPE") or "no such key" in text:
        return Trouble(Kind.NO_STREAM, shown, _STREAM)
    if word in ("MOVED", "ASK"):
        node = escape(rest.rpartition(" ")[2])
        return Trouble(Kind.OTHER, f"this stream is on another node of the cluster: {node}", "open it there")
    if "hash to the same slot" in text:
        advice = "name it without }, or with a hash tag, such as {a}:jobs"
        return Trouble(Kind.OTHER, "in a cluster no key can lie beside a stream of this name", advice)
    if "without any password configured" in text or "no password is set" in text:
        advice = "name the user, in the URL or in SPOOLTOP_REDIS_USER, or give no password"
        return Trouble(Kind.DENIED, "the server has no password for its default user", advice)
    if "AUTH" in text or "invalid password" in text or "invalid username-password" in text:
        return _REPLIES["WRONGPASS"]
    if "max number of clients" in text:
        return Trouble(Kind.LATER, "the server has no connection left", "close some, or raise its maxclients")
    if "DB index" in text:
        return Trouble(Kind.OTHER, "the server has no such database", "mend the number behind the slash of the URL")
    if "unknown command" in text or "unknown subcommand" in text:
        return Trouble(Kind.OTHER, f"the server does not know a command: {shown}", "Redis 7 or Valkey is needed")
    return Trouble(Kind.OTHER, f"the server answers with an error: {shown}", _LOG)


def trouble_of_connection(error: OSError) -> Trouble:
    """Returns what a failed connection means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _trouble_of_certificate(error)
    if isinstance(error, ssl.SSLError):
        return _trouble_of_tls(error)
    if isinstance(error, socket.gaierror):
        return Trouble(Kind.AWAY, "the name of the server's host is not known", "mend the URL, or look at the name service")
    if isinstance(error, TimeoutError) and "handshake" in str(error):
        return Trouble(Kind.AWAY, "the server does not speak TLS at this port, or is slow", _NO_TLS)
    if isinstance(error, TimeoutError):
        return Trouble(Kind.AWAY, "no answer from the server in time", "look at the network, and at its log")
    words = escape(error.strerror or str(error))
    if words.startswith("SSL_CERT_FILE"):
        return Trouble(Kind.AWAY, words, "mend the name")
    closed = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    advice = "look at its log; if it speaks TLS, write rediss://" if closed else _START
    return Trouble(Kind.AWAY, f"no answer from the server: {words}", advice)


def _denied(rest: str) -> str:
    named = re.search(r"'([^']+)'", rest)
    if named is not None:
        return f"this user of the server may not run '{escape(named[1])}'"
    if "key" in rest:
        return "this user of the server may not use this key"
    return f"this user of the server lacks rights: {escape(rest)}"


def _trouble_of_certificate(error: ssl.SSLCertVerificationError) -> Trouble:
    code = error.verify_code
    if code in _OTHER_HOST:
        advice = "write the host that it is for, or look who answers"
        return Trouble(Kind.AWAY, "the server's certificate is for another host", advice)
    if code in _UNKNOWN_CA:
        advice = "name the file of its CA in SSL_CERT_FILE"
        return Trouble(Kind.AWAY, "the server's certificate is of a CA that is not known here", advice)
    if code == _EXPIRED:
        return Trouble(Kind.AWAY, "the server's certificate has expired", "renew it, or set the clock of this machine")
    if code == _NOT_YET:
        return Trouble(Kind.AWAY, "the server's certificate is not valid yet", "set the clock of this machine, or of the server")
    what = f"the server's certificate does not verify: {escape(error.verify_message)}"
    return Trouble(Kind.AWAY, what, "renew it, or look who answers there")


def _trouble_of_tls(error: ssl.SSLError) -> Trouble:
    reason = error.reason or ""
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        advice = "add ?ssl_certfile=FILE&ssl_keyfile=FILE to the URL"
        return Trouble(Kind.AWAY, "the server wants a certificate from this client", advice)
    if isinstance(error, ssl.SSLEOFError):
        advice = "look at its log; if it wants a certificate from this client, add ?ssl_certfile=FILE&ssl_keyfile=FILE"
        return Trouble(Kind.AWAY, "the server ended TLS", advice)
    if "WRONG_VERSION" in reason or "RECORD_LAYER" in reason:
        return Trouble(Kind.AWAY, "the server does not speak TLS at this port", _NO_TLS)
    return Trouble(Kind.AWAY, f"TLS failed: {escape(reason.replace('_', ' ').lower() or str(error))}", _LOG)
