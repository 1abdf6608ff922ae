"""Connections of redis-py to a server that may be anything: each answer is bounded in time and in bytes, and what is wrong with
a server is said in one sentence, the same for a reader, an operator and a queue. And the address of a stream:
``redis://HOST:6379/0#STREAM/GROUP``."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from msgspec import Struct
from redis import connection as redis_connection
from redis import exceptions as redis_errors
from redis.backoff import NoBackoff
from redis.connection import Connection, DefaultParser, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from spooltop.errors import NotASpool, Refused, SpoolFull, SpooltopError, Unavailable, Unreadable, UsageError
from spooltop.model import Environ, Frozen, escape

_LOGIN = "set SPOOLTOP_REDIS_USER and _PASSWORD, or redis_user and redis_password in a config.toml of mode 0600"
_RIGHTS = "give this user of the server the rights that spooltop -h names, or use another user"
_STREAM = "name a stream and one of its groups: redis://HOST/0#STREAM/GROUP"
_NO_TLS = "write redis://, or the port that does"
_START = "start it, or look at its log"
_LOG = "look at the log of the server"
_LATE = "no answer from the server in time"
_CERTIFICATES = {
    (62, 64): ("the server's certificate is for another host", "write the host that it is for, or look who answers"),
    (2, 18, 19, 20, 21): (
        "the server's certificate is of a CA that is not known here", "name the file of its CA in SSL_CERT_FILE"
    ),
    (10,): ("the server's certificate has expired", "renew it, or set the clock of this machine"),
    (9,): ("the server's certificate is not valid yet", "set the clock of this machine, or of the server"),
}  # fmt: skip
"""Codes of OpenSSL for a certificate that does not verify, and what they mean."""


_IN_PIPELINE = re.compile(r"\ACommand # \d+ \(.*\) of pipeline caused error: ", re.DOTALL)
"""Words that redis-py puts before an error, with the command and so the message in them."""


class Nonsense(Unavailable):
    """Raised for data that is not a Redis server's answer to the request, or far too much of it. The server may be mended, and
    asked again."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the server answers nonsense: {escape(what)}", "look if it is a Redis server")


class ErrorReply(Exception):
    """An error that the server answered: a value among the replies."""


Known: TypeAlias = "tuple[type[SpooltopError], str, str]"
"""Error of spooltop for an answer that is known, what is wrong, escaped, and the advice about it."""


_DENIED = "this user of the server may not run '{}'"
_WRONG_LOGIN: Known = (Refused, "the server refuses this user or password", _LOGIN)
_REPLIES: Mapping[str, Known] = {
    r"NOAUTH\b": (Refused, "the server wants a password", _LOGIN),
    r"WRONGPASS\b": _WRONG_LOGIN,
    r"LOADING\b": (Unavailable, "the server is loading its data", "it answers when that is done"),
    r"MASTERDOWN\b": (Unavailable, "the replica has lost its master", "look at the master"),
    r"READONLY\b": (
        Unavailable, "the server is a replica, and takes no changes", "open its master; after a failover that is another host"
    ),
    r"OOM\b": (SpoolFull, "the memory of the server is full", "free memory, or raise its maxmemory"),
    r"MISCONF\b": (
        Unavailable, "the server cannot save to its disk, and takes no changes until it can", "free its disk, or look at its log"
    ),
    r"NOREPLICAS\b": (
        Unavailable, "the server has too few replicas, and takes no changes until they are back", "look at its replicas"
    ),
    r"CLUSTERDOWN\b": (Unavailable, "the cluster is down", "look at its nodes"),
    r"TRYAGAIN\b": (Unavailable, "the cluster is moving this stream to another node", "try again"),
    r"(?:BUSY|UNKILLABLE)\b": (Unavailable, "the server is busy with a script", "try again, or look who runs it"),
    r"UNBLOCKED\b": (Unavailable, "the server ended the wait", "try again"),
    r"DENIED\b": (Refused, "the server is in protected mode: it answers only its own machine", "set a password there"),
    r"NOPERM .*?'([^']+)'": (Refused, _DENIED, _RIGHTS),
    r"NOPERM .*key": (Refused, "this user of the server may not use this key", _RIGHTS),
    r"NOPERM (.*)": (Refused, "this user of the server lacks rights: {}", _RIGHTS),
    r"(?>.*?ACL failure in script).*?'([^']+)'": (Refused, _DENIED, _RIGHTS),  # the first of them alone: it may be there often
    r".*(?:ACL failure in script|user executing the script)": (  # 7.0 does not say which command
        Refused, "this user of the server may not run a command that a script of spooltop needs", _RIGHTS
    ),
    r"NOGROUP\b|WRONGTYPE\b|.*no such key": (NotASpool, "{text}", _STREAM),
    r"(?:MOVED|ASK) (?:.* )?(.*)": (Unreadable, "this stream is on another node of the cluster: {}", "open it there"),
    r".*hash to the same slot": (
        Unreadable, "in a cluster no key can lie beside a stream of this name",
        "name it without }, or with a hash tag, such as {a}:jobs",
    ),
    r".*(?:without any password configured|no password is set)": (
        Refused, "the server has no password for its default user",
        "name the user, in the URL or in SPOOLTOP_REDIS_USER, or give no password",
    ),
    r".*(?:AUTH|invalid password|invalid username-password)": _WRONG_LOGIN,
    r".*max number of clients": (Unavailable, "the server has no connection left", "close some, or raise its maxclients"),
    r".*DB index": (Unreadable, "the server has no such database", "mend the number behind the slash of the URL"),
    r".*unknown (?:sub)?command": (Unreadable, "the server does not know a command: {text}", "Redis 7 or Valkey is needed"),
}  # fmt: skip
"""Errors that a server answers, by a pattern of their beginning: the first that matches."""


def reply_text(error: Exception) -> str | None:
    """Returns an error as the server answered it; None for any other."""
    if isinstance(error, ErrorReply):
        return str(error)
    text: str | None = getattr(error, "text", None)
    return _IN_PIPELINE.sub("", str(error)) if text is None and isinstance(error, redis_errors.ResponseError) else text


FAILURES = (redis_errors.RedisError, ValueError, OverflowError, RecursionError)
"""Errors of redis-py for a server that does not answer, or answers what its parser does not take."""


def trouble_of(error: Exception) -> SpooltopError:
    """Returns what one of ``FAILURES`` means, or an error that the server answered: ``Unavailable`` where it is no answer."""
    if (text := reply_text(error)) is not None:
        kind, what, advice = known_reply(text)
        return kind(what, advice)
    if not isinstance(error, redis_errors.RedisError) or isinstance(error, redis_errors.InvalidResponse):
        return Nonsense("a far too long answer" if "far too long" in str(error) else "no answer of a Redis server")
    cause = error.__cause__ or error.__context__
    return trouble_of_connection(cause if isinstance(cause, OSError) else OSError(str(error)))


def check_ca_file() -> None:
    """Raises ``OSError`` where SSL_CERT_FILE names no file: OpenSSL would trust nobody, and not say why."""
    named = os.environ.get("SSL_CERT_FILE")
    if named and not os.access(named, os.R_OK):
        raise OSError(errno.ENOENT, f"SSL_CERT_FILE names a file that cannot be read: {named}")


def known_reply(text: str) -> Known:
    """Returns what an error that the server answered means.

    >>> known_reply("LOADING Redis is loading the dataset in memory")[1]
    'the server is loading its data'
    >>> known_reply("NOPERM this user has no permissions to run the 'xack' command")[1]
    "this user of the server may not run 'xack'"
    """
    for pattern, (kind, what, advice) in _REPLIES.items():
        if (found := re.match(pattern, text, re.DOTALL)) is not None:
            return kind, what.format(*map(escape, found.groups()), text=escape(text)), advice
    return Unreadable, f"the server answers with an error: {escape(text)}", _LOG


def trouble_of_connection(error: OSError) -> Unavailable:
    """Returns what a failed connection means."""
    what, advice = _connection_words(error)
    return Unavailable(what, advice)


def _connection_words(error: OSError) -> tuple[str, str]:
    """Returns what is wrong with a connection, and the advice about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = escape(error.verify_message)
        unknown = f"the server's certificate does not verify: {why}", "renew it, or look who answers there"
        return next((words for codes, words in _CERTIFICATES.items() if error.verify_code in codes), unknown)
    if isinstance(error, ssl.SSLError):
        return _tls_words(error)
    if isinstance(error, socket.gaierror):
        return "the name of the server's host is not known", "mend the URL, or look at the name service"
    if isinstance(error, TimeoutError):
        if "handshake" in str(error):
            return "the server does not speak TLS at this port, or is slow", _NO_TLS
        return _LATE, "look at the network, and at its log"
    words = escape(error.strerror or str(error))
    if words.startswith("SSL_CERT_FILE"):
        return words, "mend the name"
    closed = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    return f"no answer from the server: {words}", "look at its log; if it speaks TLS, write rediss://" if closed else _START


def _tls_words(error: ssl.SSLError) -> tuple[str, str]:
    reason, certify = error.reason or "", "add ?ssl_certfile=FILE&ssl_keyfile=FILE"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return "the server wants a certificate from this client", f"{certify} to the URL"
    if isinstance(error, ssl.SSLEOFError):
        return "the server ended TLS", f"look at its log; if it wants a certificate from this client, {certify}"
    if "WRONG_VERSION" in reason or "RECORD_LAYER" in reason:
        return "the server does not speak TLS at this port", _NO_TLS
    return f"TLS failed: {escape(reason.replace('_', ' ').lower() or str(error))}", _LOG


# Connections, and a client that has one.

_SLOWEST = 64 << 10
"""Bytes for which an answer may take a second more, as long as ``Allowance.latest`` is not reached."""

Reply: TypeAlias = "int | bytes | list[Reply] | ErrorReply | None"
Endpoint: TypeAlias = "Mapping[str, Any]"
"""Arguments of a connection of redis-py, and its class as ``connection_class``."""


class Allowance:
    """Time and bytes that answers may take: until ``latest`` at most."""

    def __init__(self) -> None:
        self.begin(0.0, 0)

    def begin(self, seconds: float, size: int, *, longest: float = 0.0) -> None:
        """Allows what comes from now on so many seconds and bytes in all, or up to ``longest`` seconds where it comes fast."""
        now, self.seconds = time.monotonic(), seconds
        self._until, self._latest, self._bytes_left = now + seconds, now + max(seconds, longest), size

    @property
    def seconds_left(self) -> float:
        return self._until - time.monotonic()

    def timeout(self) -> float:
        """Returns the seconds that are left. Raises ``TimeoutError`` where none is."""
        if (left := self.seconds_left) <= 0:
            raise TimeoutError("no whole answer in time")
        return left

    def received(self, size: int) -> None:
        """Raises ``InvalidResponse`` where too many bytes came."""
        self._until = min(self._latest, self._until + size / _SLOWEST)
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise redis_errors.InvalidResponse("a far too long answer")


class _BoundedSocket(Struct):
    """A socket that takes no more than ``_allowance``, however its bytes come."""

    _over: Any
    _allowance: Allowance
    _waits: bool = True
    _is_fresh: bool = True

    def settimeout(self, timeout: float | None) -> None:
        self._waits = timeout != 0
        self._over.settimeout(timeout)

    def sendall(self, data: Any) -> None:
        self._bounded(self._over.sendall, data)

    def recv(self, size: int) -> bytes:
        piece: bytes = self._bounded(self._over.recv, size)
        self._came(len(piece))
        return piece

    def recv_into(self, *words: Any) -> int:
        size: int = self._bounded(self._over.recv_into, *words)
        self._came(size)
        return size

    def _bounded(self, call: Callable[..., Any], *words: Any) -> Any:
        if self._waits:
            self._over.settimeout(self._allowance.timeout())
        try:
            return call(*words)
        except ConnectionError:
            self._check_tls()
            raise

    def _came(self, size: int) -> None:
        if size == 0:
            self._check_tls()
            raise ConnectionError("it closed the connection")
        self._is_fresh = False
        self._allowance.received(size)

    def _check_tls(self) -> None:
        if self._is_fresh and isinstance(self._over, ssl.SSLSocket):  # where it refuses a certificate it may just hang up
            raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "it ended TLS") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._over, name)


_TIMEOUT = 5.0
"""Seconds for a connection, and for an answer; longer than any wait that the queue asks of the server."""
_LONGEST = 60.0
"""Seconds for an answer that comes fast, in all."""
_BYTES = 16 << 20
"""Bytes of an answer that holds no message."""
_MESSAGE_BYTES = 1 << 30
"""Bytes of an answer that holds a message: a server takes fields of 512 MiB."""
_expected = ContextVar("expected", default=_BYTES)


@contextmanager
def messages_expected() -> Iterator[None]:
    """Lets answers to what is asked meanwhile be as large as a message."""
    token = _expected.set(_MESSAGE_BYTES)
    try:
        yield
    finally:
        _expected.reset(token)


class BoundedConnection:
    """Part of a connection of redis-py, whose own limit begins anew with each byte that comes. Without an ``allowance`` of others
    an answer may take so many bytes, and so long in all, counted from the last thing sent."""

    allowance: Allowance

    def __init__(self, *words: Any, allowance: Allowance | None = None, **options: Any) -> None:
        self._is_own = allowance is None
        self.allowance = allowance or Allowance()
        super().__init__(*words, **options)

    def _begin(self) -> None:
        if self._is_own:
            self.allowance.begin(_TIMEOUT, _expected.get(), longest=_LONGEST)

    def send_packed_command(self, *words: Any, **more: Any) -> None:
        sender: Any = super()
        self._begin()
        sender.send_packed_command(*words, **more)
        self._begin()

    @property
    def socket_timeout(self) -> float:
        return max(0.001, self.allowance.seconds_left)

    @socket_timeout.setter
    def socket_timeout(self, _timeout: float | None) -> None:
        return

    socket_connect_timeout = socket_timeout

    def _connect(self) -> Any:
        made: Any = super()
        self._begin()
        return _BoundedSocket(made._connect(), self.allowance)


class _ResolvingConnection(Connection):
    """Resolves the name of the host in time: the resolver of the C library waits for its servers as long as it likes."""

    allowance: Allowance
    _resolving: Future[list[str]] | None = None

    def _connect(self) -> Any:
        if isinstance(self, SSLConnection):
            check_ca_file()
        made: Any = super()
        name = self.host
        try:
            failed: OSError = ConnectionError("the name has no address")
            for address in self._addresses(name):
                self.host = address
                try:
                    return made._connect()
                except OSError as error:
                    failed = error
            raise failed
        finally:
            self.host = name

    def _addresses(self, name: str) -> list[str]:
        if self._resolving is None:
            self._resolving = Future()
            threading.Thread(target=_resolve, args=(self._resolving, name, self.port), name="resolver", daemon=True).start()
        try:
            return self._resolving.result(self.allowance.timeout())
        except TimeoutError:  # of this wait, or the C library's own
            raise TimeoutError(f"the name {name} is not resolved") from None
        finally:
            if self._resolving.done():
                self._resolving = None


def _resolve(found: Future[list[str]], host: str, port: int) -> None:
    """Looks up the addresses of a host name."""
    try:
        found.set_result([str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
    except OSError as error:
        found.set_exception(error)
    except UnicodeError:
        found.set_exception(OSError("no name of a host"))


def _parse_error(response: str) -> Any:
    """Keeps the whole text of an error, of which redis-py cuts off the first word."""
    parser: Any = DefaultParser
    error = parser.parse_error(response)
    error.text = response
    return error


KINDS: Mapping[Any, Any] = {
    Connection: type("Tcp", (BoundedConnection, _ResolvingConnection), {}),
    SSLConnection: type("Tls", (BoundedConnection, SSLConnection, _ResolvingConnection), {}),  # its host's name is verified
    UnixDomainSocketConnection: type("Unix", (BoundedConnection, UnixDomainSocketConnection), {}),
}
"""Our own class for each class of redis-py."""
OPTIONS: Mapping[str, Any] = {
    "protocol": 2, "retry": Retry(NoBackoff(), 0), "encoding_errors": "surrogateescape",
    "parser_class": type("Parser", (DefaultParser,), {"parse_error": staticmethod(_parse_error)}),
}  # fmt: skip


class RedisClient:
    """Client with at most one connection. Each ``ask`` gets the rest of the time and of the bytes of ``allowance``; any failure
    closes the connection. ``address`` names the server in errors, without a password."""

    def __init__(self, endpoint: Endpoint, address: str = "") -> None:
        self.address = address
        self._options = dict(endpoint)
        self._kind = self._options.pop("connection_class")
        self.allowance = Allowance()
        self._connection: Any = None
        self.sent = False
        """True if the commands of the last ``ask`` may have reached the server."""
        self.sent_before = False
        """True if they may have reached it on a connection that was closed then, before they were sent again."""

    @property
    def ends(self) -> tuple[str, str] | None:
        """Both ends of its TCP connection, the own one first, as a server spells them in CLIENT LIST; None without one."""
        over = self._connection._sock if self._connection is not None else None
        if over is None or over.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        return _end(*over.getsockname()[:2]), _end(*over.getpeername()[:2])

    def ask(self, *commands: Sequence[str | bytes | int]) -> list[Reply]:
        """The answers to these commands, in their order, with the errors among them. A connection that stood open may have been
        closed meanwhile: then it is made again, once. Raises ``Unavailable`` (``answer_lost``: the commands may have been done),
        and ``Refused`` or ``Unreadable`` for a login that the server refuses."""
        stood = self._connection is not None and self._connection._sock is not None
        self.sent_before = self.sent = False
        try:
            try:
                return self._exchange(commands)
            except redis_errors.ConnectionError as error:
                if not stood or hasattr(error, "text"):
                    raise
                self.sent_before = self.sent
                return self._exchange(commands)
        except FAILURES as error:
            trouble = trouble_of(error)
            trouble.path = self.address
            if isinstance(trouble, Unavailable):
                trouble.answer_lost = self.sent_before or self.sent
                if trouble.what == _LATE:
                    trouble.what = f"no answer from the server within {self.allowance.seconds:g} s"
            raise trouble from None

    def _exchange(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        try:
            if self._connection is None:
                made = self._kind(allowance=self.allowance, **self._options)
                made.lib_name = made.lib_version = made.driver_info = None  # a look writes nothing, nor does it say what it is
                self._connection = made
            self._connection.connect()
            self.sent = True
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            return [self._reply() for _ in commands]
        except BaseException:
            self.close()
            raise

    def _reply(self) -> Reply:
        try:
            reply: Reply = self._connection.read_response()
        except redis_errors.ResponseError as error:
            return ErrorReply(reply_text(error) or "")
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# Answers, checked and turned into plain values.

_T = TypeVar("_T")


def list_of(reply: Reply) -> list[Reply]:
    """Returns an array. Raises the error that the server answered, or ``Nonsense``."""
    return _checked(reply, list)


def bytes_of(reply: Reply) -> bytes:
    return _checked(reply, bytes)


def text_of(reply: Reply) -> str:
    """Returns a name as ``os.fsdecode`` gives it: it is escaped before anyone reads it."""
    return bytes_of(reply).decode("utf-8", "surrogateescape")


def number_of(reply: Reply) -> int:
    return _checked(reply, int)


def fields_of(reply: Reply) -> dict[str, Reply]:
    """Returns the pairs of a flat array, as the XINFO commands answer them."""
    flat = list_of(reply)
    if len(flat) % 2:
        raise Nonsense("a field without a value")
    return {text_of(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _checked(reply: Reply, kind: type[_T]) -> _T:
    if not isinstance(reply, kind):
        raise trouble_of(reply) if isinstance(reply, ErrorReply) else Nonsense("another answer than what was asked for")
    return reply


# URLs of Redis servers.

_OPTIONS = frozenset({"db", "username", "password"})
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile"})
_FORM = "STREAM/GROUP"
_ALIASES = {"valkey": "redis", "valkeys": "rediss"}


def as_redis(url: str) -> str:
    """Returns the URL with the scheme that all programs know.

    >>> as_redis("valkeys://host#a"), as_redis("unix:///s#a")
    ('rediss://host#a', 'unix:///s#a')
    """
    scheme, mark, rest = url.partition("://")
    return _ALIASES.get(scheme, scheme) + mark + rest


def parse_url(url: str, *, queue: str) -> SplitResult:
    """Parses a URL whose fragment names a ``queue``, as the advice of the error writes it. Raises ``UsageError`` for anything
    else than ``redis://``, ``rediss://``, ``valkey://``, ``valkeys://`` and ``unix://``, and for an option that is not known."""
    # The complaint goes without the URL, which may have a password in it.
    bad = UsageError("not the URL of a Redis server", f"write redis://HOST:6379/0#{queue}, or unix:///SOCKET#{queue}")
    try:
        parts = urlsplit(as_redis(url))
        port = parts.port
    except ValueError:
        raise bad from None
    if parts.scheme not in ("redis", "rediss", "unix") or port == 0 or not _db(parts).isdecimal():
        raise bad
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise bad
    known = _OPTIONS | _TLS_OPTIONS if parts.scheme == "rediss" else _OPTIONS
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name not in known:
            others = ", ".join(sorted(_OPTIONS | _TLS_OPTIONS))
            advice = "write rediss:// for TLS" if name in _TLS_OPTIONS else f"there are {others}"
            raise UsageError(f"no option {escape(name)} in the URL of a server", advice, path=without_secrets(parts))
    return parts


class Login(Frozen):
    """User and password for a server whose URL has none: an argument is seen by everybody in the list of processes."""

    user: str = ""
    password: str = ""

    @classmethod
    def from_settings(cls, words: Environ) -> Login:
        """Reads ``redis_user`` and ``redis_password`` from all settings, as the environment writes them."""
        return cls(words.get("SPOOLTOP_REDIS_USER", ""), words.get("SPOOLTOP_REDIS_PASSWORD", ""))

    def __repr__(self) -> str:
        return f"Login({self.user!r}, …)"


def endpoint(url: str, login: Login = Login()) -> Endpoint:  # noqa: B008  immutable
    """Returns where a client of ``url`` connects. Of ``login`` counts what the URL has not. Nothing is repeated by itself: a put
    that is sent twice makes two messages."""
    parser: Any = redis_connection
    options = parser.parse_url(as_redis(url.partition("#")[0]))
    named = {name: word for name, word in (("username", login.user), ("password", login.password)) if word}
    kind = KINDS[options.get("connection_class", Connection)]
    return {**named, **options, **OPTIONS, "db": int(_db(parse_url(url, queue=_FORM))), "connection_class": kind}


def _db(parts: SplitResult) -> str:
    return parse_qs(parts.query).get("db", ["0"])[-1] if parts.scheme == "unix" else parts.path.strip("/") or "0"


def without_secrets(parts: SplitResult) -> str:
    """Returns the URL of the server without user, password and options."""
    db = _db(parts)
    if parts.scheme == "unix":
        return f"unix://{parts.path}" + (f"?db={db}" if db != "0" else "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + (f"/{db}" if db != "0" else "")


class StreamAddress(Frozen):
    """Address of a stream on a server. ``url`` is that of the server, with its secrets; ``server`` is shown. ``group`` None: it
    names none. ``pattern``: the name has ``*``, ``?`` or ``[``, and stands for all streams that match it; ``%2A`` is a star in a
    name.

    >>> found = StreamAddress.parse("redis://me:secret@host/3#jobs:mail/workers")
    >>> found.shown, found.stream, found.group
    ('redis://host/3#jobs:mail/workers', 'jobs:mail', 'workers')
    """

    url: str
    server: str
    stream: str
    group: str | None
    pattern: bool = False

    @classmethod
    def parse(cls, spec: str) -> StreamAddress:
        """Reads an address as it was typed. The last slash begins the group; ``%2F`` is a slash in a name. Raises ``UsageError``,
        which shows no secret."""
        parts = parse_url(spec, queue=_FORM)
        stream, slash, group = parts.fragment.rpartition("/")
        if not slash:
            stream, group = group, ""
        if not stream or (slash and not group):
            shown = without_secrets(parts)
            raise UsageError("no stream is named", f"write {shown}#{_FORM}", path=shown)
        pattern = re.search(r"[*?\[]", stream) is not None
        url = as_redis(spec.partition("#")[0])
        return cls(url, without_secrets(parts), _plain(stream), _plain(group) if slash else None, pattern)

    @property
    def shown(self) -> str:
        """The address without secrets; it opens the same stream again."""
        return f"{self.server}#{self.name}"

    @property
    def spec(self) -> str:
        """The address with its secrets: it is printed nowhere."""
        return f"{self.url}#{self.name}"

    @property
    def name(self) -> str:
        """The stream and the group, as an address writes them."""
        stream = _quoted(self.stream, "*?[]^") if self.pattern else _quoted(self.stream)
        return stream + ("" if self.group is None else f"/{_quoted(self.group)}")


def _plain(text: str) -> str:
    return unquote(text, errors="surrogateescape")


def _quoted(name: str, also: str = "") -> str:
    return quote(name, safe=":{}()~@!$&'+,;=" + also, errors="surrogateescape")
