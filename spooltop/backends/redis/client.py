"""Connections of redis-py to a server that may be anything: each answer is bounded in time and in bytes."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from redis.backoff import NoBackoff
from redis.connection import Connection, DefaultParser, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import InvalidResponse, ResponseError
from redis.retry import Retry

from .trouble import NO_ANSWER, ErrorReply, Nonsense, check_ca_file, reply_text

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
        now = time.monotonic()
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
            raise InvalidResponse("a far too long answer")


class _BoundedSocket:
    """A socket that takes no more than ``allowance``, however its bytes come."""

    def __init__(self, over: Any, allowance: Allowance) -> None:
        self._over = over
        self._allowance = allowance
        self._waits = True
        self._is_fresh = True

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


class BoundedConnection:
    """Part of a connection of redis-py, whose own limit begins anew with each byte that comes."""

    allowance: Allowance

    def __init__(self, *words: Any, allowance: Allowance | None = None, **options: Any) -> None:
        self.allowance = allowance or Allowance()
        super().__init__(*words, **options)

    @property
    def socket_timeout(self) -> float:
        return max(0.001, self.allowance.seconds_left)

    @socket_timeout.setter
    def socket_timeout(self, _timeout: float | None) -> None:
        return

    socket_connect_timeout = socket_timeout

    def _connect(self) -> Any:
        made: Any = super()
        return _BoundedSocket(made._connect(), self.allowance)


class _ResolvingConnection(Connection):
    """Resolves the name of the host in time: the resolver of the C library waits for its servers as long as it likes."""

    allowance: Allowance
    _resolver: _Resolver | None = None

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
        resolver = self._resolver = self._resolver or _Resolver(name, self.port)
        resolver.join(self.allowance.timeout())
        if resolver.is_alive():
            raise TimeoutError(f"the name {name} is not resolved")
        self._resolver = None
        if resolver.error is not None:
            raise resolver.error
        return resolver.addresses


class _Resolver(threading.Thread):
    """Looks up one host name."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name="resolver", daemon=True)
        self._where = (host, port)
        self.addresses: list[str] = []
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        try:
            found = socket.getaddrinfo(*self._where, type=socket.SOCK_STREAM)
        except OSError as error:
            self.error = error
        except UnicodeError:
            self.error = OSError("no name of a host")
        else:
            self.addresses = [str(address[0]) for *_, address in found]


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
    """Client with at most one connection. Each ``ask`` gets the rest of the time and of the bytes that ``begin`` allowed; any
    failure closes the connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._allowance = Allowance()
        self._connection: Any = None
        self.begin = self._allowance.begin
        self.sent = False
        """True if the commands of the last ``ask`` may have reached the server."""
        self.sent_before = False
        """True if they may have reached it on a connection that was closed then, before they were sent again."""

    @property
    def seconds_left(self) -> float:
        return self._allowance.seconds_left

    @property
    def ends(self) -> tuple[str, str] | None:
        """Both ends of its TCP connection, the own one first, as a server spells them in CLIENT LIST; None without one."""
        over = self._connection._sock if self._connection is not None else None
        if over is None or over.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        (own, own_port), (other, other_port) = over.getsockname()[:2], over.getpeername()[:2]
        return _end(own, own_port), _end(other, other_port)

    def ask(self, *commands: Sequence[str | bytes | int]) -> list[Reply]:
        """The answers to these commands, in their order. A connection that stood open may have been closed meanwhile: then it is
        made again, once. Raises ``RedisError``, and ``Nonsense`` for data that is no answer of a Redis server."""
        stood = self._connection is not None and self._connection._sock is not None
        self.sent_before = self.sent = False
        try:
            try:
                return self._exchange(commands)
            except NoConnection as error:
                if not stood or hasattr(error, "text"):
                    raise
                self.sent_before = self.sent
                return self._exchange(commands)
        except (ValueError, OverflowError, RecursionError):  # as the parser raises them
            raise Nonsense(NO_ANSWER) from None

    def _exchange(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        try:
            if self._connection is None:
                options = {name: value for name, value in self._endpoint.items() if name != "connection_class"}
                made = self._endpoint["connection_class"](allowance=self._allowance, **options)
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
        except ResponseError as error:
            return ErrorReply(reply_text(error) or "")
        return reply

    def close(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# Answers, checked and turned into plain values.

def list_of(reply: Reply) -> list[Reply]:
    """Returns an array. Raises the error that the server answered, or ``Nonsense``."""
    if not isinstance(reply, list):
        raise _unexpected(reply)
    return reply


def bytes_of(reply: Reply) -> bytes:
    if not isinstance(reply, bytes):
        raise _unexpected(reply)
    return reply


def text_of(reply: Reply) -> str:
    """Returns a name as ``os.fsdecode`` gives it: it is escaped before anyone reads it."""
    return bytes_of(reply).decode("utf-8", "surrogateescape")


def number_of(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise _unexpected(reply)
    return reply


def fields_of(reply: Reply) -> dict[str, Reply]:
    """Returns the pairs of a flat array, as the XINFO commands answer them."""
    flat = list_of(reply)
    if len(flat) % 2:
        raise Nonsense("a field without a value")
    return {text_of(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def _unexpected(reply: Reply) -> Exception:
    return reply if isinstance(reply, ErrorReply) else Nonsense("another answer than what was asked for")
