"""Server with a large stream for measurements, and a second client that takes the time of its answers meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from spooltop.backends.redis.stream_names import StreamNames
from tests.stream_servers import running

__all__ = ["CONSUMERS", "NAMES", "Pinger", "apart", "filled_server", "pinging"]

NAMES = StreamNames("jobs", "work")
CONSUMERS = 20
_PAYLOAD = 200
_FILL = """
for number = 1, tonumber(ARGV[1]) do
  redis.call('XADD', KEYS[1], '*', 'data', ARGV[2], 'source', 'source-' .. number % 5)
end
"""
_CLAIM = "return #redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')[1][2]"
_PING = """
import array, socket, sys, threading, time
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
pause, ended = float(sys.argv[2]), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
found = array.array("d")
while not ended.is_set():
    began = time.monotonic()
    server.sendall(b"*1\\r\\n$4\\r\\nPING\\r\\n")
    server.recv(64)
    found.append(began)
    found.append(time.monotonic() - began)
    time.sleep(pause)
sys.stdout.buffer.write(found.tobytes())
"""
_PAUSE = 0.0005
"""Seconds between two questions: without a pause the questions themselves would fill a core."""


@contextmanager
def filled_server(where: str | None, entries: int, pending: int) -> Iterator[str]:
    """The socket of a server with ``entries`` in a stream, of which ``pending`` are claimed by ``CONSUMERS`` consumers: half of
    them have leases, a quarter had one, and of a quarter nothing is known. Another group begins in the middle of the stream, so
    that the server does not know its lag."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=where))
    try:
        with running("redis" if shutil.which("redis-server") else "valkey", folder) as socket:
            with Redis(unix_socket_path=socket) as client:
                _fill(client, entries, pending)
            yield socket
    finally:
        shutil.rmtree(folder)


def _fill(client: Any, entries: int, pending: int) -> None:
    stream, group = NAMES.stream, NAMES.group
    client.xgroup_create(stream, group, "0", mkstream=True)
    for start in range(0, entries, 10_000):
        client.eval(_FILL, 1, stream, min(10_000, entries - start), "x" * _PAYLOAD)
        if start <= entries // 10 < start + 10_000:
            client.xgroup_create(stream, "late", "$")
    for number in range(CONSUMERS):
        name = f"worker-{number:02d}"
        left = pending // CONSUMERS
        while left > 0:
            left -= client.eval(_CLAIM, 1, stream, group, name, min(1_000, left))
        if number < CONSUMERS // 2:
            client.set(NAMES.lease(name), "1")
        if number < 3 * CONSUMERS // 4:
            client.hset(NAMES.consumers, name, f"far-{number} {number + 1}")


class Pinger:
    """Times of the answers to PING, of a process of its own."""

    def __init__(self, times: array[float], pid: int) -> None:
        self._times = times
        self.pid = pid

    def between(self, began: float, ended: float) -> list[float]:
        """Returns the milliseconds that the answers took to what was asked between two moments, in order."""
        pairs = zip(self._times[::2], self._times[1::2], strict=True)
        return sorted(1000 * took for at, took in pairs if began <= at and at < ended)


@contextmanager
def pinging(socket: str) -> Iterator[Pinger]:
    """Asks meanwhile; the times are there once the block is over."""
    times = array("d")
    command = [sys.executable, "-c", _PING, socket, str(_PAUSE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Pinger(times, process.pid)
        output, _ = process.communicate()
        times.frombytes(output)


@contextmanager
def apart(*pids: int) -> Iterator[None]:
    """Keeps the processes ``pids`` on one core and this one on the others, as if it asked from another machine. Otherwise what is
    measured is who gets a core."""
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    for pid in pids:
        os.sched_setaffinity(pid, {first})
    os.sched_setaffinity(0, others or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
