"""Ticket queues: who comes first is served first.

The state on disk and in Redis is that of stouputils' ``lock.queue``, so both can stand in one queue: a directory with ``seq``
(the last ticket given) and one file ``<ticket, 20 digits>.<pid>.<32 hex>`` for each member; in Redis the counter
``{name}:seq`` and the sorted set ``{name}:queue`` of members ``{ticket}:{token}:{ts_ms}``. The lowest ticket owns the lock.
"""

from __future__ import annotations

import abc
import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .files import Files
from .machine import file_system, is_network, sees_all_pids

__all__ = ["BaseTicketQueue", "FileTicketQueue", "RedisTicketQueue"]

_MEMBER = re.compile(r"([0-9]{20,25})\.([0-9]{1,10})\.([0-9a-f]{32})\Z")
_SEQ = "seq"


class BaseTicketQueue(abc.ABC):
    """A first-come-first-served queue: ``register``, wait until ``is_head``, work, ``remove``."""

    @abc.abstractmethod
    def register(self) -> tuple[int, str]:
        """Takes the next ticket: its number and the member's name. No number is given twice while anyone waits."""

    @abc.abstractmethod
    def is_head(self, ticket: int) -> bool:
        """True where ``ticket`` is the lowest: its holder owns the lock."""

    @abc.abstractmethod
    def remove(self, member: str) -> None:
        """Leaves the queue. No error where the member is gone already."""

    @abc.abstractmethod
    def cleanup_stale(self) -> None:
        """Removes a head that nobody holds any more."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """True where nobody holds or waits; the counter is no member."""

    @abc.abstractmethod
    def maybe_cleanup(self) -> None:
        """Takes away what an empty queue left behind; nothing where anyone is in it."""


class FileTicketQueue(BaseTicketQueue):
    """A ticket queue in a directory, which is made.

    A head is stale when its process is gone; that is only said of a pid on a local file system and from the first pid namespace,
    else nobody can know. With ``stale_timeout`` seconds it is stale too when its file was not touched for so long, and then its
    process may be alive: such an eviction is logged as a warning (logger ``spooltop.tickets``). ``files``, ``clock`` (epoch
    seconds) and ``gone`` (True where no process has that pid here) are the world.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = FileTicketQueue(folder + "/q")
    ...     first, member = queue.register()
    ...     second, _ = queue.register()
    ...     before = queue.is_head(first), queue.is_head(second)
    ...     queue.remove(member)
    ...     (first, second, before, queue.is_head(second))
    (1, 2, (True, False), True)
    """

    def __init__(
        self,
        queue_dir: str | os.PathLike[str],
        stale_timeout: float | None = None,
        *,
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
        gone: Callable[[int], bool] | None = None,
    ) -> None:
        self.queue_dir = os.fsdecode(queue_dir)
        self.stale_timeout = stale_timeout
        self._files = files or Files()
        self._clock = clock
        self._gone = gone or _gone
        self._judges = gone is not None or sees_all_pids()
        _make(self.queue_dir)

    def register(self) -> tuple[int, str]:
        files = self._files
        while True:
            try:
                with self._counting() as (folder, seq):
                    # The counter may have been lost in a crash; who waits has not.
                    ticket = 1 + max(_number(files.read(seq, 64)), max((t for t, _ in self._members(folder)), default=0))
                    self._count(seq, ticket)
                    member = f"{ticket:020d}.{os.getpid()}.{os.urandom(16).hex()}"
                    # Still under the lock: nobody gets a later ticket, or finds the queue empty, before this one stands.
                    fd = files.create(member, folder)
                    try:
                        files.write_all(fd, repr(self._clock()).encode())
                    finally:
                        files.close(fd)
                    return ticket, member
            except FileNotFoundError:
                _make(self.queue_dir)  # an empty queue was cleaned up meanwhile

    def _count(self, seq: int, ticket: int) -> None:
        # In place, and cut only afterwards: cut off anywhere, the file holds the old number or the new one, as they only grow.
        data = str(ticket).encode()
        self._files.pwrite(seq, data, 0)
        if self._files.fstat(seq).st_size != len(data):
            self._files.truncate(seq, len(data))

    @contextmanager
    def _counting(self) -> Iterator[tuple[int, int]]:
        """The directory and the counter, exclusively."""
        files = self._files
        folder = files.open_dir(self.queue_dir, follow=True)
        try:
            while True:
                seq = files.open_lasting(_SEQ, folder)
                try:
                    files.lock(seq, wait=True)
                    if self._is_current(seq, folder):
                        yield folder, seq
                        return
                finally:
                    files.close(seq)
        finally:
            files.close(folder)

    def _is_current(self, seq: int, folder: int) -> bool:
        # A cleanup may have removed the file while this process waited for its lock: then that lock excludes nobody.
        try:
            return os.path.samestat(self._files.stat(_SEQ, folder), self._files.fstat(seq))
        except FileNotFoundError:
            return False

    def _members(self, folder: int) -> list[tuple[int, str]]:
        try:
            names = self._files.list(folder)
        except FileNotFoundError:
            return []  # the directory was removed since it was opened: it was empty
        return sorted((int(found[1]), found[0]) for name in names if (found := _MEMBER.match(name)))

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        try:
            folder = self._files.open_dir(self.queue_dir, follow=True)
        except FileNotFoundError:
            yield None
            return
        try:
            yield folder
        finally:
            self._files.close(folder)

    def is_head(self, ticket: int) -> bool:
        with self._opened() as folder:
            members = [] if folder is None else self._members(folder)
            return bool(members) and members[0][0] == ticket

    def remove(self, member: str) -> None:
        if not _MEMBER.match(member):
            return
        with self._opened() as folder:
            if folder is not None:
                self._unlink(member, folder)

    def _unlink(self, name: str, folder: int) -> None:
        try:
            self._files.unlink(name, folder)
        except FileNotFoundError:
            return  # gone is what was wanted

    def cleanup_stale(self) -> None:
        with self._opened() as folder:
            members = [] if folder is None else self._members(folder)
            if folder is None or not members:
                return
            name = members[0][1]
            pid = int(name.split(".")[1])
            if self._judges and self._gone(pid) and not is_network(file_system(folder)):
                self._unlink(name, folder)
                return
            if self.stale_timeout is None:
                return
            try:
                age = self._clock() - self._files.stat(name, folder).st_mtime
            except FileNotFoundError:
                return
            if age >= self.stale_timeout:
                _log(f"{self.queue_dir}: ticket {members[0][0]} evicted after {age:.0f} s; pid {pid} may still be at work")
                self._unlink(name, folder)

    def is_empty(self) -> bool:
        with self._opened() as folder:
            return folder is None or not self._members(folder)

    def maybe_cleanup(self) -> None:
        try:
            with self._counting() as (folder, _):
                if self._members(folder):
                    return
                self._unlink(_SEQ, folder)
            os.rmdir(self.queue_dir)
        except FileNotFoundError:
            return  # somebody else cleaned up
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
                raise
            # Somebody registered since, or the directory is not ours to remove.


_REGISTER = """
local ticket = redis.call('INCR', KEYS[1])
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if top[2] and tonumber(top[2]) >= ticket then
  ticket = tonumber(top[2]) + 1
  redis.call('SET', KEYS[1], ticket)
end
local member = string.format('%d:%s:%s', ticket, ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ticket, member)
return member
"""
_CLEANUP = """
if redis.call('ZCARD', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1], KEYS[2])
end
return 0
"""
_EPOCH_MS = 1_000_000_000_000
"""A smaller ``ts_ms`` is no time since the epoch but a monotonic clock's, as stouputils writes: it says nothing here."""


class RedisTicketQueue(BaseTicketQueue):
    """A ticket queue in Redis. ``client`` is a ``redis.Redis``; without one, that of a server on this machine.

    ``ts_ms`` is written as milliseconds since the epoch. A head is stale when that is ``stale_timeout`` seconds ago; it may still
    be at work, so an eviction is logged as a warning. Members whose ``ts_ms`` is another clock's are never evicted. Errors of the
    client are the caller's to see.
    """

    def __init__(
        self, name: str, client: Any = None, stale_timeout: float | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.name = name
        self.client = client
        self.stale_timeout = stale_timeout
        self._clock = clock

    def ensure_client(self) -> Any:
        """The client; ``ImportError`` where none was given and the package redis is not installed."""
        if self.client is None:
            import redis

            self.client = redis.Redis()
        return self.client

    @property
    def _keys(self) -> tuple[str, str]:
        return f"{self.name}:seq", f"{self.name}:queue"

    def register(self) -> tuple[int, str]:
        # One script: between an INCR and a ZADD of its own a later ticket could take itself for the head.
        member = _text(self.ensure_client().eval(_REGISTER, 2, *self._keys, os.urandom(16).hex(), int(self._clock() * 1000)))
        return int(member.split(":")[0]), member

    def _head(self) -> str | None:
        head = self.ensure_client().zrange(self._keys[1], 0, 0)
        return _text(head[0]) if head else None

    def is_head(self, ticket: int) -> bool:
        head = self._head()
        return head is not None and head.split(":")[0] == str(ticket)

    def remove(self, member: str) -> None:
        self.ensure_client().zrem(self._keys[1], member)

    def cleanup_stale(self) -> None:
        head = self._head() if self.stale_timeout is not None else None
        if head is None or self.stale_timeout is None:
            return
        parts = head.split(":")
        if len(parts) != 3 or not parts[2].isdecimal() or int(parts[2]) < _EPOCH_MS:
            return
        age = self._clock() - int(parts[2]) / 1000
        if age >= self.stale_timeout:
            _log(f"{self.name}: ticket {parts[0]} evicted after {age:.0f} s; its holder may still be at work")
            self.remove(head)

    def is_empty(self) -> bool:
        return bool(self.ensure_client().zcard(self._keys[1]) == 0)

    def maybe_cleanup(self) -> None:
        self.ensure_client().eval(_CLEANUP, 2, *self._keys)


def _make(path: str) -> None:
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            return
        except FileExistsError:
            if os.path.lexists(path) and not os.path.isdir(path):
                raise
            # A cleanup removed it between the two looks of makedirs.


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def _number(data: bytes) -> int:
    try:
        return int(data.split()[0])
    except (IndexError, ValueError):
        return 0


def _gone(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _log(what: str) -> None:
    import logging  # only where there is something to tell

    logging.getLogger("spooltop.tickets").warning("%s", what)
