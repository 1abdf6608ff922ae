"""Ticket queues under kill -9: processes that take turns, on a directory and on a real redis-server."""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spooltop.engine.tickets import BaseTicketQueue, FileTicketQueue, RedisTicketQueue

from .figures import Figure

__all__ = ["BAR", "NAME", "redis_server", "run", "turns"]

NAME = "ticket queues: 8 processes, holders killed"
BAR = "never two owners, tickets served in order, every killed holder is recovered from"

PROCESSES = 8
REDIS_STALE = 3.0
"""Seconds: Redis knows no pid, so a dead holder is told by time alone. Far longer than a turn takes."""
PATIENCE = 120.0
"""Seconds without any turn after which a queue counts as not recovered."""
_STATE = struct.Struct("<qqqqq")
"""Owner's pid, last ticket served, turns taken, troubles seen, owners killed."""


def work(queue: BaseTicketQueue, state: mmap.mmap, whole: int, kills: int) -> None:
    """Takes turns until ``whole`` were taken by all together; now and then, ``kills`` times by all together, it is killed in its
    turn. In a turn the state is read and written without any other lock."""
    looks = 0
    while True:
        ticket, member = queue.register()
        while not queue.is_head(ticket):
            looks += 1
            if looks % 16 == 0:
                queue.cleanup_stale()
            time.sleep(0.0005)
        owner, last, taken, troubles, killed = _STATE.unpack_from(state)
        if owner and _living(owner):
            troubles += 1
        if ticket <= last:
            troubles += 1
        dies = killed < kills and taken >= whole * (killed + 1) // (kills + 1)
        _STATE.pack_into(state, 0, os.getpid(), ticket, taken, troubles, killed + dies)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if _STATE.unpack_from(state)[0] != os.getpid():
            troubles += 1
        over = taken >= whole
        _STATE.pack_into(state, 0, 0, ticket, taken if over else taken + 1, troubles, killed)
        queue.remove(member)
        if over:
            return


def _living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def turns(make: Callable[[], BaseTicketQueue], whole: int, kills: int, say: Callable[[str], None]) -> tuple[int, int, int]:
    """``whole`` turns by eight processes. ``kills`` times the owner is killed, and another process wherever it is; new ones take
    their places. Turns taken, troubles, owners killed. In a process without threads: it forks."""
    state = mmap.mmap(-1, _STATE.size)

    def start() -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(make(), state, whole, kills)
                code = 0
            except BaseException as error:  # noqa: BLE001  a forked child ends here, and says why
                print(f"a process that takes turns failed: {error!r}", file=sys.stderr)
            finally:
                os._exit(code)
        return pid

    living = {start() for _ in range(PROCESSES)}
    bystanders: set[int] = set()
    failed = 0
    mark = (-1, 0.0)
    while living:
        taken = _STATE.unpack_from(state)[2]
        if taken != mark[0]:
            mark = (taken, time.monotonic())
        elif time.monotonic() - mark[1] > PATIENCE:
            say(f"no turn in {PATIENCE:.0f} s")
            failed, kills = failed + 1, 0
            bystanders |= living
            for pid in living:
                os.kill(pid, signal.SIGKILL)
            mark = (taken, time.monotonic())
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.002)
            continue
        living.discard(pid)
        if status != signal.SIGKILL:
            failed += status != 0
        elif kills:
            if pid not in bystanders:
                other = random.choice(sorted(living - bystanders))
                bystanders.add(other)
                os.kill(other, signal.SIGKILL)
            living.add(start())
    _, _, taken, troubles, killed = _STATE.unpack_from(state)
    state.close()
    if taken != whole or killed != kills:
        say(f"{taken:,} turns counted of {whole:,}, {killed} of {kills} killed")
        failed += 1
    return taken, troubles + failed, killed


@contextmanager
def redis_server() -> Iterator[str | None]:
    """The socket of a redis-server of its own; None where there is none to be had."""
    server = shutil.which("redis-server")
    try:
        import redis
    except ImportError:
        server = None
    if server is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="spooltop-redis-") as folder:
        socket = f"{folder}/s"
        words = [server, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            try:
                end = time.monotonic() + 30
                with redis.Redis(unix_socket_path=socket) as client:
                    while True:
                        try:
                            client.ping()
                            break
                        except redis.exceptions.ConnectionError:
                            if time.monotonic() > end or process.poll() is not None:
                                raise
                            time.sleep(0.01)
                yield socket
            finally:
                process.terminate()


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    """Runs the proof in the queue of a directory and in Redis."""
    whole, file_kills, redis_kills = (400, 8, 1) if quick else (PROCESSES * 2_000, 200, 10)
    skipped, note = 0, ""
    with tempfile.TemporaryDirectory(prefix="spooltop-tickets-") as folder:
        taken, troubles, killed = turns(lambda: FileTicketQueue(f"{folder}/q"), whole, file_kills, say)
        say(f"directory: {taken:,} turns, {killed} owners killed, {troubles} troubles")
    with redis_server() as socket:
        if socket is None:
            skipped, note = whole, "no redis-server here"
        else:

            def make() -> BaseTicketQueue:
                import redis

                client: Any = redis.Redis(unix_socket_path=socket)
                return RedisTicketQueue("proof", client, stale_timeout=REDIS_STALE)

            more, wrong, dead = turns(make, whole, redis_kills, say)
            say(f"Redis: {more:,} turns, {dead} owners killed, {wrong} troubles")
            taken, troubles, killed = taken + more, troubles + wrong, killed + dead
    return Figure(NAME, BAR, taken, troubles, skipped, f"{killed} owners and as many others killed", note)
