"""A proxy before a server that counts the commands of its clients and cuts the connection at one of them."""

from __future__ import annotations

import io
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import BinaryIO

__all__ = ["Cut", "CuttingProxy", "cutting_proxy"]


class Cut(Enum):
    """``BEFORE``: the server never gets the command. ``MIDDLE``: it gets one half. ``AFTER``: it has done the command, and its
    answer is lost. ``REFUSED``: it answers that its memory is full, and the connection stays."""

    BEFORE = "before"
    MIDDLE = "middle"
    AFTER = "after"
    REFUSED = "refused"


_FULL = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"


class CuttingProxy:
    """Passes one command after another to the server at ``server``, on whatever connection it comes. It listens at ``path``."""

    def __init__(self, path: str, server: str) -> None:
        self.path = path
        self._server = server
        self._guard = threading.Lock()
        self._left: int | None = None
        self._cut = Cut.BEFORE
        self._away = False
        self._victim = 0
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self.commands: list[list[bytes]] = []
        """Words of the commands since the last ``arm`` or ``disarm``."""
        self.withheld = b""
        """The last command that the server never got."""
        self._acceptor = threading.Thread(target=self._accept, name="proxy")
        self._acceptor.start()

    def arm(self, at: int, cut: Cut, *, away: bool = False, victim: int = 0) -> None:
        """Has the ``at``-th command from now cut, once; ``away``: and each command after it. ``victim``: a process that is killed
        then."""
        with self._guard:
            self._left, self._cut, self._away, self._victim = at, cut, away, victim
            self.commands = []

    def disarm(self) -> bool:
        """Lets everything pass from now on. Returns True if the connection was cut since ``arm``."""
        with self._guard:
            was_cut = self._left == 0
            self._left = None
            self.commands = []
            return was_cut

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        with self._guard:
            opened = list(self._open)
        for one in opened:
            _shut(one)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            with self._guard:
                self._open += [client, server]
            self._threads.append(threading.Thread(target=self._serve, args=(client, server), name="proxied"))
            self._threads[-1].start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, client.makefile("rb") as asked, server.makefile("rb") as answered:
            try:
                while command := _value(asked):
                    cut = self._counted(command)
                    if cut in (Cut.BEFORE, Cut.MIDDLE):
                        server.sendall(command[: len(command) // 2] if cut is Cut.MIDDLE else b"")
                        self._kill()
                        break
                    if cut is Cut.REFUSED:
                        client.sendall(_FULL)
                        continue
                    server.sendall(command)
                    answer = _value(answered)
                    if cut is Cut.AFTER:
                        self._kill()
                        break
                    client.sendall(answer)
            except OSError:
                return  # one of both has gone: closing both is all there is to do
            finally:
                _shut(client)
                _shut(server)

    def _kill(self) -> None:
        if self._victim:
            os.kill(self._victim, signal.SIGKILL)

    def _counted(self, command: bytes) -> Cut | None:
        with self._guard:
            self.commands.append(_words(command))
            if self._left is None:
                return None
            if self._left == 0:
                return Cut.BEFORE if self._away else None
            self._left -= 1
            if self._left > 0:
                return None
            if self._cut is Cut.BEFORE:
                self.withheld = command
            return self._cut


def _words(command: bytes) -> list[bytes]:
    """Splits a command of RESP into its words."""
    stream = io.BytesIO(command)
    count = int(stream.readline()[1:])
    return [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(count)]


def _value(stream: BinaryIO) -> bytes:
    """Returns the next value of RESP 2, as it came; nothing at the end of the stream."""
    line = stream.readline()
    size = int(line[1:]) if line[:1] in (b"*", b"$") else -1
    if line[:1] == b"$" and size >= 0:
        return line + stream.read(size + 2)
    return line + b"".join(_value(stream) for _ in range(size if line[:1] == b"*" else 0))


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        one.close()  # no longer connected


@contextmanager
def cutting_proxy(folder: Path, server: str) -> Iterator[CuttingProxy]:
    """Runs a proxy before the server at the socket ``server``, with its own socket in ``folder``."""
    proxy = CuttingProxy(str(folder / "proxy.sock"), server)
    try:
        yield proxy
    finally:
        proxy.close()
