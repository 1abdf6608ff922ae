"""A reading client of a Redis server that may be anything: each exchange is bounded in time and in bytes.

It speaks RESP 2 (https://redis.io/docs/latest/develop/reference/protocol-spec/) and sends the commands that it is given.
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

_DEEPEST = 2
"""Maximum nesting of arrays: the answers to SCAN and ZRANGE have at most one array inside an array."""
_MOST = 10_000
"""Elements of an array."""
_WRONG = ("NOAUTH", "WRONGPASS", "ERR AUTH", "ERR invalid password", "ERR Client sent AUTH")
"""Beginnings of the errors of a server that does not know this user, or wants another password."""
_LONGEST_LINE = 65_536
_PIECE = 65_536
_WHOLE = re.compile(rb"-?[0-9]{1,19}\Z")


class Nonsense(Exception):
    """Raised for data that is not a Redis server's answer to the request, or far too much of it."""


class WrongPassword(Exception):
    """The server wants another user or password."""


class ErrorReply(Exception):
    """An error that the server answered: a value among the replies, until somebody raises it."""


class NoHandshake(TimeoutError):
    """The server did not answer to the beginning of TLS: one that speaks none waits for more."""


Reply: TypeAlias = "int | bytes | list[Reply] | ErrorReply | None"


class Endpoint:
    """Address of a server: ``host`` and ``port``, or the ``path`` of a socket. ``tls`` makes the context of a ``rediss`` URL."""

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 6379,
        path: str = "",
        db: int = 0,
        user: str = "",
        password: str = "",
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.host, self.port, self.path, self.db = host, port, path, db
        self.user, self.password, self.tls = user, password, tls


class RedisClient:
    """Client with at most one connection. Each ``ask`` gets the rest of the time and of the bytes that ``begin`` allowed; any
    failure closes the connection.

    ``deepest`` is the nesting of arrays in an answer, ``most`` the number of elements of one. ``denials``: a command that this
    user may not send is answered by an ``ErrorReply`` among the others, and is no ``WrongPassword``.
    """

    def __init__(self, endpoint: Endpoint, *, deepest: int = _DEEPEST, most: int = _MOST, denials: bool = False) -> None:
        self._endpoint = endpoint
        self._deepest = deepest
        self._most = most
        self._wrong = _WRONG if denials else (*_WRONG, "NOPERM")
        self._socket: socket.socket | None = None
        self._data = bytearray()
        self._at = 0
        self._deadline = 0.0
        self._bytes_left = 0
        self._resolver: _Resolver | None = None
        self.sent = False
        """True if the commands of the last ``ask`` may have reached the server."""

    def begin(self, seconds: float, at_most: int) -> None:
        """Allows what is asked from now on so many seconds and bytes in all."""
        self._deadline = time.monotonic() + seconds
        self._bytes_left = at_most

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def ends(self) -> tuple[str, str] | None:
        """Both ends of its TCP connection, the own one first, as a server spells them in CLIENT LIST; None without one."""
        over = self._socket
        if over is None or over.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        (own, own_port), (other, other_port) = over.getsockname()[:2], over.getpeername()[:2]
        return _end(own, own_port), _end(other, other_port)

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def ask(self, *commands: Sequence[str | bytes | int]) -> list[Reply]:
        """The answers to these commands, in their order. Raises ``OSError`` (``TimeoutError``), ``Nonsense``, ``WrongPassword``,
        and ``ErrorReply`` where the server refuses the connection."""
        self.sent, fresh = False, self._socket is None
        try:
            if self._socket is None:
                self._connect()
            self.sent = True
            return self._exchange(commands)
        except ConnectionError:
            ended = fresh and isinstance(self._socket, ssl.SSLSocket)
            self.close()
            if ended:  # where it refuses a certificate it may just hang up
                raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "it ended TLS") from None
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._data.clear()
        self._at = 0

    def _connect(self) -> None:
        to = self._endpoint
        if to.path:
            self._socket = socket.socket(socket.AF_UNIX)
            self._timed(self._socket).connect(to.path)
        else:
            context = None if to.tls is None else self._context(to.tls)
            self._socket = self._connect_to(self._addresses())
            if context is not None:
                try:
                    self._socket = context.wrap_socket(self._timed(self._socket), server_hostname=to.host)
                except TimeoutError:
                    raise NoHandshake("no TLS handshake") from None
        hello: list[Sequence[str | bytes | int]] = []
        if to.password or to.user:
            hello.append(("AUTH", to.user, to.password) if to.user else ("AUTH", to.password))
        if to.db:
            hello.append(("SELECT", to.db))
        for reply in self._exchange(hello) if hello else ():
            if isinstance(reply, ErrorReply):
                raise reply
            if reply != b"OK":
                raise Nonsense("no OK to AUTH or SELECT")

    def _context(self, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        """Loads the certificates of this machine, in time that is not the server's."""
        began = time.monotonic()
        made = make()
        self._deadline += time.monotonic() - began
        return made

    def _addresses(self) -> list[tuple[socket.AddressFamily, Any]]:
        # The resolver of the C library waits for its servers as long as it likes, so it is asked in a thread of its own.
        resolver = self._resolver = self._resolver or _Resolver(self._endpoint.host, self._endpoint.port)
        resolver.join(max(0.0, self.seconds_left))
        if resolver.is_alive():
            raise TimeoutError(f"the name {self._endpoint.host} is not resolved")
        self._resolver = None
        if resolver.error is not None:
            raise resolver.error
        return resolver.addresses

    def _connect_to(self, addresses: list[tuple[socket.AddressFamily, Any]]) -> socket.socket:
        failed: OSError = ConnectionError("the name has no address")
        for family, address in addresses:
            made = socket.socket(family)
            try:
                self._timed(made).connect(address)
            except OSError as error:
                made.close()
                failed = error
                continue
            return made
        raise failed

    def _timed(self, over: socket.socket) -> socket.socket:
        """The same, with what is left of the time as its timeout."""
        left = self.seconds_left
        if left <= 0:
            raise TimeoutError("no answer in time")
        over.settimeout(left)
        return over

    def _exchange(self, commands: Sequence[Sequence[str | bytes | int]]) -> list[Reply]:
        assert self._socket is not None
        self._timed(self._socket).sendall(b"".join(map(_spelled, commands)))
        return [self._reply(0) for _ in commands]

    def _reply(self, depth: int) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            text = rest.decode("utf-8", "replace")
            if text.startswith(self._wrong):
                raise WrongPassword(text)
            return ErrorReply(text)
        if kind == b":":
            return _whole(rest)
        if kind == b"$":
            return None if (size := _whole(rest)) == -1 else self._bulk(size)
        if kind == b"*":
            if (size := _whole(rest)) == -1:
                return None
            if depth >= self._deepest:
                raise Nonsense("arrays inside arrays without end")
            self._must_have(size)
            if size > self._most:
                raise Nonsense(f"{size:,} elements where some hundreds were asked for")
            return [self._reply(depth + 1) for _ in range(size)]
        raise Nonsense("no answer of a Redis server")

    def _bulk(self, size: int) -> bytes:
        self._must_have(size)
        while len(self._data) - self._at < size + 2:
            self._receive()
        end = self._at + size
        found = bytes(self._data[self._at : end])
        if self._data[end : end + 2] != b"\r\n":
            raise Nonsense("an answer longer than it says")
        self._used(end + 2)
        return found

    def _line(self) -> bytes:
        start = self._at
        while (end := self._data.find(b"\r\n", start)) < 0:
            if len(self._data) - self._at > _LONGEST_LINE:
                raise Nonsense("a line without end")
            start = max(self._at, len(self._data) - 1)
            self._receive()
        found = bytes(self._data[self._at : end])
        self._used(end + 2)
        return found

    def _must_have(self, size: int) -> None:
        """Raises if so many bytes, or elements, cannot come any more: they would only be waited for."""
        if size < 0:
            raise Nonsense("an answer of negative size")
        if size > self._bytes_left + len(self._data) - self._at:
            raise Nonsense("a far too long answer")

    def _receive(self) -> None:
        assert self._socket is not None
        piece = self._timed(self._socket).recv(_PIECE)
        if not piece:
            raise ConnectionError("it closed the connection")
        self._bytes_left -= len(piece)
        if self._bytes_left < 0:
            raise Nonsense("a far too long answer")
        self._data += piece

    def _used(self, end: int) -> None:
        self._at = end
        if end == len(self._data):
            self._data.clear()
            self._at = 0


class _Resolver(threading.Thread):
    """Looks up one host name."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name="resolver", daemon=True)
        self._where = (host, port)
        self.addresses: list[tuple[socket.AddressFamily, Any]] = []
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        try:
            found = socket.getaddrinfo(*self._where, type=socket.SOCK_STREAM)
        except OSError as error:
            self.error = error
            return
        except UnicodeError:
            self.error = OSError("no name of a host")
            return
        self.addresses = [(family, address) for family, _, _, _, address in found]


def _spelled(words: Sequence[str | bytes | int]) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape") for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _whole(text: bytes) -> int:
    if not _WHOLE.match(text):
        raise Nonsense("a number that is none")
    return int(text)
