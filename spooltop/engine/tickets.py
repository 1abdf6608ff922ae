"""Ticket queues: first come, first served.

The state on disk and in Redis is that of stouputils' ``lock.queue``, so that both can share a queue: a directory with ``seq``
(the last ticket given) and one file ``<ticket, 20 digits>.<pid>.<32 hex>`` for each member; in Redis the counter ``{name}:seq``
and the sorted set ``{name}:queue`` of members ``{ticket}:{token}:{ts_ms}``. The lowest ticket owns the lock. A queue shared with
stouputils in Redis has the race of stouputils: it takes a number and enters with it in two steps, and a member that comes in
between with the next number is the head for that moment. Queues that use only this module do not have this race.

>>> import tempfile, time
>>> from spooltop.engine.tickets import BaseTicketQueue, FileTicketQueue, RedisTicketQueue
>>> def in_turn(queue: BaseTicketQueue, work):
...     ticket, member = queue.register()
...     try:
...         while not queue.is_head(ticket):
...             queue.cleanup_stale()
...             time.sleep(0.01)
...         return work()
...     finally:
...         queue.remove(member)
...         queue.maybe_cleanup()
>>> with tempfile.TemporaryDirectory() as folder:
...     in_turn(FileTicketQueue(folder + "/printer"), lambda: "printed")
'printed'
>>> queue = RedisTicketQueue("printer", stale_timeout=60)                  # connects at the first ticket
>>> (isinstance(queue, BaseTicketQueue), queue.name, queue.stale_timeout)
(True, 'printer', 60)
"""

from __future__ import annotations

import abc
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple

from msgspec import Struct

from spooltop.model import Clock

from .atomic import write_new
from .files import Files
from .host import file_system, is_gone, is_network, sees_all_pids

__all__ = ["BaseTicketQueue", "FileTicketQueue", "RedisTicketQueue"]

# Interface of all ticket queues.


class BaseTicketQueue(abc.ABC):
    """A first-come-first-served queue: ``register``, wait until ``is_head``, work, ``remove``."""

    @abc.abstractmethod
    def register(self) -> tuple[int, str]:
        """Takes the next ticket and returns its number and the member's name. No number is given twice while anyone waits."""

    @abc.abstractmethod
    def is_head(self, ticket: int) -> bool:
        """True if ``ticket`` is the lowest: its holder owns the lock."""

    @abc.abstractmethod
    def remove(self, member: str) -> None:
        """Leaves the queue. It is no error if the member is already gone; any other error is logged and not raised."""

    @abc.abstractmethod
    def cleanup_stale(self) -> None:
        """Removes a head that nobody holds any more."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """True if nobody holds or waits; the counter does not count as a member."""

    @abc.abstractmethod
    def maybe_cleanup(self) -> None:
        """Removes what an empty queue left behind; does nothing if the queue has members. Errors are logged and not raised."""


def log(what: str) -> None:
    """Warns of an eviction, or of an error that is not raised (logger ``spooltop.tickets``)."""
    import logging  # imported only if there is something to log

    logging.getLogger("spooltop.tickets").warning("%s", what)


# The names of tickets: files of a ticket queue in a directory, members of one in Redis.

_FILE = r"([0-9]{20,25})\.([0-9]{1,10})\.[0-9a-f]{32}\Z"
_REDIS = r"([0-9]{1,20}):([^:]*):([0-9]{1,20})\Z"
EPOCH_MS = 1_000_000_000_000
"""A smaller number of ms is not a time since the epoch but that of a monotonic clock."""


class FileTicket(NamedTuple):
    """A ticket that is a file: its number, its name and the pid of its holder. Tickets sort in the order of the queue."""

    number: int
    name: str
    pid: int


class RedisTicket(NamedTuple):
    """A ticket that is a member of a sorted set in Redis. ``at_ms`` is the time at which it was taken, in ms since the epoch;
    None if it comes from another clock: stouputils writes a monotonic one, whose values are smaller."""

    number: int
    token: str
    at_ms: int | None


def parse_file_ticket(name: str) -> FileTicket | None:
    """The ticket ``<number, 20 to 25 digits>.<pid>.<32 hex>``; None for any other name.

    >>> parse_file_ticket("00000000000000000007.4312.0123456789abcdef0123456789abcdef")[0::2]
    (7, 4312)
    """
    found = re.match(_FILE, name)
    return None if found is None else FileTicket(int(found[1]), name, int(found[2]))


def file_tickets(names: Iterable[str]) -> list[FileTicket]:
    """The tickets among the names of a directory, in the order of the queue: the first is the head."""
    return sorted(ticket for name in names if (ticket := parse_file_ticket(name)) is not None)


def parse_redis_ticket(member: str) -> RedisTicket | None:
    """The ticket ``<number>:<token>:<ms>``; None for any other member.

    >>> parse_redis_ticket("7:1e6f71c9:1795222800000"), parse_redis_ticket("7:1e6f71c9:8812")
    (RedisTicket(number=7, token='1e6f71c9', at_ms=1795222800000), RedisTicket(number=7, token='1e6f71c9', at_ms=None))
    """
    found = re.match(_REDIS, member)
    if found is None:
        return None
    at_ms = int(found[3])
    return RedisTicket(int(found[1]), found[2], at_ms if at_ms >= EPOCH_MS else None)


# A ticket queue in a directory: ``seq``, the last ticket given, and one file ``<ticket, 20 digits>.<pid>.<32 hex>`` a member.

_SEQ = "seq"


class FileTicketQueue(BaseTicketQueue):
    """A ticket queue in a directory, which is created.

    A head is stale if its process is gone; this is only decided for a pid on a local file system and from the first pid
    namespace, as it cannot be known otherwise. With ``stale_timeout`` seconds a head is also stale if its file was not touched
    for that long (a queue with a ``stale_timeout`` touches the file when its ticket becomes the head). Its process may then be
    alive, so the eviction is logged as a warning (logger ``spooltop.tickets``). ``files``, ``clock`` (epoch seconds), ``gone``
    (True if no process has that pid here) and ``local`` (True for a descriptor on a file system that only this machine mounts)
    give access to the system.

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
        clock: Clock = time.time,
        gone: Callable[[int], bool] | None = None,
        local: Callable[[int], bool] | None = None,
    ) -> None:
        self.queue_dir = os.fsdecode(queue_dir)
        self.stale_timeout = stale_timeout
        self._files = files or Files()
        self._clock = clock
        self._gone = gone or _gone
        self._local = local or _local
        _make(self.queue_dir)

    def register(self) -> tuple[int, str]:
        return self._take(enter=True)

    def get_ticket(self) -> int:
        """Takes the next number without entering the queue, for callers that wait in another way. The number is not given
        again."""
        return self._take(enter=False)[0]

    def _take(self, *, enter: bool) -> tuple[int, str]:
        files = self._files
        while True:
            try:
                with self._counting() as (folder, seq):
                    # The counter may have been lost in a crash; who waits has not.
                    numbers = [_number(files.read(seq, 64)), *(ticket.number for ticket in self._tickets(folder))]
                    ticket = 1 + max(numbers)
                    # In place, and cut only afterwards: cut off anywhere, the file holds the old number or the new one, as they
                    # only grow.
                    count = str(ticket).encode()
                    files.pwrite(seq, count, 0)
                    if files.fstat(seq).st_size != len(count):
                        files.truncate(seq, len(count))
                    member = f"{ticket:020d}.{os.getpid()}.{os.urandom(16).hex()}"
                    if enter:
                        # Still under the lock: nobody gets a later ticket, or finds the queue empty, before this one exists.
                        write_new(files, folder, member, repr(self._clock()).encode(), None, durable=False)
                    return ticket, member
            except FileNotFoundError:
                _make(self.queue_dir)  # an empty queue was cleaned up meanwhile

    def _opened(self) -> AbstractContextManager[int]:
        """Opens the directory. Raises ``FileNotFoundError`` where an empty queue was cleaned up, as all here do then."""
        return self._files.closing(self._files.open_dir(self.queue_dir, follow=True))

    @contextmanager
    def _counting(self) -> Iterator[tuple[int, int]]:
        """Opens the directory and the counter, with an exclusive lock."""
        files = self._files
        with self._opened() as folder:
            while True:
                with files.closing(files.open_lasting(_SEQ, folder)) as seq:
                    files.lock(seq, wait=True)
                    # A cleanup may have removed the file while this process waited for its lock: then that excludes nobody.
                    if files.is_inode(_SEQ, folder, files.fstat(seq).st_ino):
                        yield folder, seq
                        return

    def _tickets(self, folder: int) -> list[FileTicket]:
        return file_tickets(self._files.list(folder))

    def _listed(self) -> list[FileTicket]:
        with suppress(FileNotFoundError), self._opened() as folder:
            return self._tickets(folder)
        return []

    def is_head(self, ticket: int) -> bool:
        tickets = self._listed()
        return bool(tickets) and tickets[0].number == ticket

    def remove(self, member: str) -> None:
        if parse_file_ticket(member) is None:
            return
        try:
            with suppress(FileNotFoundError), self._opened() as folder:
                self._evict(member, folder)
        except OSError as error:
            log(f"{self.queue_dir}: {member} could not be removed: {error.strerror or error}")

    def _evict(self, name: str, folder: int) -> None:
        if self.stale_timeout is not None:
            # Listed now: of those that were there before a head was judged, the next may have left.
            freshen_next(self._tickets(folder), name, folder, self._clock())
        self._files.remove(name, folder)

    def cleanup_stale(self) -> None:
        with suppress(FileNotFoundError), self._opened() as folder:
            if not (tickets := self._tickets(folder)):
                return
            number, name, pid = tickets[0]
            if self._gone(pid) and self._local(folder):
                self._evict(name, folder)
                return
            if self.stale_timeout is None or (found := self._files.status(name, folder)) is None:
                return
            age = self._clock() - found.st_mtime
            if age >= self.stale_timeout:
                log(f"{self.queue_dir}: ticket {number} evicted after {age:.0f} s; pid {pid} may still be at work")
                self._evict(name, folder)

    def is_empty(self) -> bool:
        return not self._listed()

    def maybe_cleanup(self) -> None:
        try:
            with self._counting() as (folder, _):
                if self._tickets(folder):
                    return
                self._files.remove(_SEQ, folder)
            os.rmdir(self.queue_dir)
        except FileNotFoundError:
            return  # somebody else cleaned up
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
                log(f"{self.queue_dir}: could not be cleaned up: {error.strerror or error}")
            # Somebody registered since, or the directory is not ours to remove.


def freshen_next(tickets: Sequence[FileTicket], head: str, folder: int, now: float) -> None:
    """Sets the age of the ticket after ``head`` to ``now``, when it becomes the head, so that a long wait does not make it
    stale."""
    if len(tickets) < 2 or tickets[0].name != head:
        return
    try:
        os.utime(tickets[1].name, (now, now), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return  # it left, or belongs to another user: its file keeps the time of its arrival


def _make(path: str) -> None:
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            return
        except FileExistsError:
            if os.path.lexists(path) and not os.path.isdir(path):
                raise
            # A cleanup removed it between the two looks of makedirs.


def _number(data: bytes) -> int:
    try:
        return int(data.split()[0])
    except (IndexError, ValueError):
        return 0


def _local(fd: int) -> bool:
    return not is_network(file_system(fd))


def _gone(pid: int) -> bool:
    return pid > 0 and sees_all_pids() and is_gone(pid)


# A ticket queue in Redis: the counter ``{name}:seq`` and the sorted set ``{name}:queue`` of ``{ticket}:{token}:{ts_ms}``.

_REGISTER = """
local ticket = redis.call('INCR', KEYS[1])
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local last = math.max(tonumber(top[2] or '0'), tonumber(ARGV[3]))
if last >= ticket then
  ticket = last + 1
  redis.call('SET', KEYS[1], ticket)
end
local member = string.format('%d:%s:%s', ticket, ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], ticket, member)
return member
"""
_WAIT = """
local member, ticket = ARGV[1], tonumber(ARGV[2])
if not redis.call('ZSCORE', KEYS[2], member) then
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  if first and (tonumber(first) >= ticket or redis.call('ZCOUNT', KEYS[2], ticket, ticket) > 0) then
    local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    ticket = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(top[2])) + 1
    member = string.format('%d:%s', ticket, ARGV[3])
  end
  redis.call('ZADD', KEYS[2], ticket, member)
  if tonumber(redis.call('GET', KEYS[1]) or '0') < ticket then
    redis.call('SET', KEYS[1], ticket)
  end
end
return {member, redis.call('ZRANGE', KEYS[2], 0, 0)[1]}
"""
_CLEANUP = """
if redis.call('ZCARD', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
end
return 0
"""
_REMOVE = """
local head = redis.call('ZRANGE', KEYS[1], 0, 0)
local gone = redis.call('ZREM', KEYS[1], ARGV[1])
if gone == 1 and head[1] == ARGV[1] and tonumber(ARGV[3]) > 0 and redis.call('ZCARD', KEYS[1]) > 0 then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return gone
"""


class _Turn(Struct):
    """A ticket of this process: its member as it was ``given``, and as it is now. ``waits``: its holder does not know yet that it
    is the head."""

    given: str
    member: str
    waits: bool = True


class RedisTicketQueue(BaseTicketQueue):
    """A ticket queue in Redis. ``client`` is a ``redis.Redis``; the default is a client of a server on this machine.

    ``ts_ms`` is written as milliseconds since the epoch. A head is stale if both ``ts_ms`` and the moment at which it became the
    head are ``stale_timeout`` seconds ago, so that a long wait behind another member does not make it stale. That moment is kept,
    as long as it matters, in ``{name}:since`` (milliseconds since the epoch). A stale head may still be working, so an eviction
    is logged as a warning. Members whose ``ts_ms`` comes from another clock are never evicted. Errors of the client are raised to
    the caller, except in ``remove`` and ``maybe_cleanup``, which log them as a warning and continue.

    A queue that is shared with stouputils loses members: stouputils checks that the queue is empty and deletes it in two steps,
    so that a member that came in between is deleted together with the counter. A member of this object that was deleted while its
    holder waits is put back with its number by the holder's next ``is_head``. If it would thereby become the head before a holder
    that already knows that it is the head, or if its number was given again, it goes to the end of the queue: there are never two
    heads.

    Known limitations: members that come, or ask, first after such a deletion are served before those that waited; a holder that
    already knows that it is the head is not put back, as it may have been evicted; and a deleted member of stouputils is not put
    back by anyone.
    """

    def __init__(
        self, name: str, client: Any = None, stale_timeout: float | None = None, *, clock: Clock = time.time
    ) -> None:
        self.name = name
        self._seq, self._queue, self._since = (f"{name}:{key}" for key in ("seq", "queue", "since"))
        self.client = client
        self.stale_timeout = stale_timeout
        self._clock = clock
        self._turns: dict[int, _Turn] = {}
        """Tickets of this object."""

    def ensure_client(self) -> Any:
        """Returns the client; ``ImportError`` if none was given and the package redis is not installed."""
        if self.client is None:
            import redis

            self.client = redis.Redis()
        return self.client

    def register(self) -> tuple[int, str]:
        # One script: between an INCR and a ZADD of its own a later ticket could take itself for the head.
        least = max((ticket for ticket, turn in self._turns.copy().items() if turn.waits), default=0)  # the counter may be gone
        now = int(self._clock() * 1000)
        member = _text(self.ensure_client().eval(_REGISTER, 2, self._seq, self._queue, os.urandom(16).hex(), now, least))
        ticket = int(member.split(":")[0])
        self._turns[ticket] = _Turn(member, member)
        return ticket, member

    def _head(self) -> str | None:
        head = self.ensure_client().zrange(self._queue, 0, 0)  # anybody's member: it may be any bytes
        return _text(head[0]) if head else None

    def is_head(self, ticket: int) -> bool:
        turn = self._turns.get(ticket)
        if turn is None:
            head = self._head()
            return head is not None and head.split(":")[0] == str(ticket)
        if not turn.waits:
            return self._head() == turn.member
        number, _, rest = turn.member.partition(":")
        here, first = self.ensure_client().eval(_WAIT, 2, self._seq, self._queue, turn.member, number, rest)
        if (now := _text(here)) != turn.member:
            log(f"{self.name}: ticket {ticket} was taken out while it waited; it goes on as {now.partition(':')[0]}")
            turn.member = now
        turn.waits = here != first
        return not turn.waits

    def remove(self, member: str) -> None:
        ticket, turn = next((item for item in list(self._turns.items()) if item[1].given == member), (0, _Turn("", member)))
        turn.waits = False
        try:
            self._take_out(turn.member)
            self._turns.pop(ticket, None)
        except Exception as error:  # noqa: BLE001  # of whatever client; who leaves can do nothing about it
            log(f"{self.name}: {member} could not be removed: {error}")

    def _take_out(self, member: str) -> bool:
        patience = int((self.stale_timeout or 0) * 1000)
        raw, now = member.encode("utf-8", "surrogateescape"), int(self._clock() * 1000)
        return bool(self.ensure_client().eval(_REMOVE, 2, self._queue, self._since, raw, now, patience))

    def cleanup_stale(self) -> None:
        if self.stale_timeout is None or (head := self._head()) is None:
            return
        ticket = parse_redis_ticket(head)
        if ticket is None or ticket.at_ms is None:
            return
        since = self.client.get(self._since)
        age = self._clock() - max(ticket.at_ms, int(since or 0)) / 1000
        if age >= self.stale_timeout and self._take_out(head):
            log(f"{self.name}: ticket {ticket.number} evicted after {age:.0f} s; its holder may still be at work")

    def is_empty(self) -> bool:
        return bool(self.ensure_client().zcard(self._queue) == 0)

    def maybe_cleanup(self) -> None:
        try:
            self.ensure_client().eval(_CLEANUP, 3, self._seq, self._queue, self._since)
        except Exception as error:  # noqa: BLE001  # of whatever client; what is left over costs three keys
            log(f"{self.name}: could not be cleaned up: {error}")


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
