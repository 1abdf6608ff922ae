"""The engine's words on a Redis stream, which is one subject: the connection to its server, the scripts that run there, the
consumers that claim under a lease, and ``StreamQueue``, which puts and claims."""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

from msgspec import Struct, field
from redis import ConnectionPool, Redis
from redis import exceptions as redis_errors

from spooltop.engine.arguments import MAX_ATTEMPTS, Data, check_bytes, check_data, check_number, check_seconds, check_text
from spooltop.engine.consumer import HeldClaim, warn_dropped
from spooltop.engine.host import is_gone, is_its_child, iterated_by, tell_in_children
from spooltop.engine.pausing import pause_from
from spooltop.engine.producer import MessageId, existing_id
from spooltop.engine.waiting import ArrivalWatch
from spooltop.errors import ClaimLost, Closed, NotASpool, PutUnknown, Refused, SpooltopError, Unavailable, UsageError
from spooltop.model import (
    Closing,
    Guarantee,
    InterruptedMove,
    OthersClaims,
    Pause,
    QueueCounts,
    QueueIdentity,
    escape,
    json_object,
    mover_of,
)

from .client import (
    FAILURES,
    Login,
    check_ca_file,
    endpoint,
    messages_expected,
    reply_text,
    text_of,
    trouble_of,
    trouble_of_connection,
)
from .stream_names import HANDED_BACK, LATER, LeaseRecord, StreamNames, gone_words
from .streams.server import SKIP

# The connection of a queue to its server.


_REFUSED = (ConnectionRefusedError, FileNotFoundError, ssl.SSLCertVerificationError, socket.gaierror)


@contextmanager
def translated(address: str, what: str) -> Iterator[None]:
    """Raises errors of the client as those of spooltop, about ``address``, in the step ``what``. ``Unavailable`` may pass by
    itself. Neither its text nor its cause holds a password."""
    handled = sys.exception()
    try:
        yield
    except FAILURES as error:
        if error.__context__ is handled:
            error.__context__ = None  # what the caller is handling is no cause of this error
        # Where no connection was made, the command reached nobody.
        unsent = isinstance(error.__cause__ or error.__context__, _REFUSED) or "connecting to" in str(error)
        trouble = trouble_of(error)
        trouble.what, trouble.path = f"{what}: {trouble.what}", address
        trouble.answer_lost = reply_text(error) is None and not unsent
        raise trouble from None  # the traceback of the other shows connections and their arguments


# Durability of what a server has answered, as its settings promise it.

_PATIENCE = 2_000
"""Milliseconds for the disk of the server."""


def durability_of(connection: Any) -> tuple[bool, bool]:
    """Asks the server if it answers only when its log is synced (``appendfsync always``), and if else it says so when it is
    asked, with WAITAOF. One that does neither may lose what it answered, about the last second with ``appendfsync everysec``; one
    that may not be asked promises nothing. Raises ``redis.RedisError``."""
    try:
        if not connection.info("persistence").get("aof_enabled"):
            return False, False
        if connection.config_get("appendfsync").get("appendfsync") == "always":
            return True, False
        known = connection.execute_command("COMMAND", "INFO", "WAITAOF")
    except redis_errors.NoPermissionError:
        return False, False
    return False, any(known.values() if isinstance(known, dict) else known)


def wait_for_disk(pipe: Any) -> None:
    """Adds to a pipeline the wait until its changes are synced. It must be of the connection that changed: WAITAOF counts only
    these. The answer is a pair whose first is 1."""
    pipe.execute_command("WAITAOF", 1, 0, _PATIENCE)


def connect(url: str, login: Login = Login()) -> Redis:  # noqa: B008  immutable
    """Returns a client that connects with its first command. Raises ``UsageError`` for what is not the URL of a server."""
    if url.startswith("rediss:"):
        try:
            check_ca_file()
        except OSError as error:
            raise trouble_of_connection(error) from None
    made = Redis(connection_pool=ConnectionPool(**endpoint(url, login)))
    made.auto_close_connection_pool = True
    return made


# Lua scripts of the queue on a stream. Each does one step of the protocol as a whole: no other client sees half of it.
#
# Two consumers of the group are no programs. ``~spooltop`` holds what was handed back and may be claimed at once; ``~later``
# holds what waits for its delay, whose end is in the sorted set ``later``. Both keep the number of deliveries.
#
# A claim is (consumer, number of deliveries): whoever claimed the message in between has raised the number, so that a step with
# an old claim changes nothing. What newer servers do in one command is named beside each script; they are not used, since no
# test here runs on such a server.
#
# KEYS of all but PUT: stream, later, paused, rejected, consumers, then the lease of the consumer. ARGV: group, consumer, then
# what stands beside each script.

_HELD = """
local function held(stream, group, id, consumer, deliveries)
  local entry = redis.call('XPENDING', stream, group, id, id, 1)[1]
  return entry and entry[2] == consumer and entry[4] == tonumber(deliveries)
end
local function hand_back(stream, group, id, deliveries)  -- idle for a day: other consumers' XAUTOCLAIM takes it at once
  redis.call('XCLAIM', stream, group, '~spooltop', 0, id, 'IDLE', 86400000, 'RETRYCOUNT', deliveries, 'JUSTID')
end
local function finish(stream, group, id)
  redis.call('XACK', stream, group, id)
  if #redis.call('XINFO', 'GROUPS', stream) == 1 then redis.call('XDEL', stream, id) end
end
local function set_aside(stream, group, rejected, id, deliveries, reason, who)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    local fields = entry[2]
    for _, word in ipairs({'~id', id, '~tries', deliveries, '~why', reason, '~by', who, '~group', group}) do
      fields[#fields + 1] = word
    end
    redis.call('XADD', rejected, '*', unpack(fields))
  end
  finish(stream, group, id)
end
"""

# KEYS stream, the key's record; ARGV the claim where that is a hash of a mover's claims, else '', milliseconds to remember the
# key (0 for ever), fields. From 8.6: XADD IDMP, within at most a day.
PUT = """
local claim, known = ARGV[1], nil
if claim ~= '' then known = redis.call('HGET', KEYS[2], claim) else known = redis.call('GET', KEYS[2]) end
if known then return {known, 1} end
local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
if claim ~= '' then redis.call('HSET', KEYS[2], claim, id)
elseif ARGV[2] == '0' then redis.call('SET', KEYS[2], id)
else redis.call('SET', KEYS[2], id, 'PX', ARGV[2]) end
return {id, 0}
"""

# First what was handed back, which is older; then a new one. Returns 1 while the queue is paused.
# From 8.4: XREADGROUP … CLAIM.
CLAIM = _HELD + """
if redis.call('EXISTS', KEYS[3]) == 1 then return 1 end
local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 10)) do
  redis.call('ZREM', KEYS[2], id)
  local entry = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if entry and entry[2] == '~later' then hand_back(stream, group, id, entry[4]) end
end
for _ = 1, 10 do
  local entry = redis.call('XPENDING', stream, group, '-', '+', 1, '~spooltop')[1]
  if not entry then break end
  local found = redis.call('XCLAIM', stream, group, consumer, 0, entry[1], 'RETRYCOUNT', entry[4] + 1)[1]
  if found then return {found[1], found[2], entry[4] + 1} end
  redis.call('XACK', stream, group, entry[1])  -- its entry was deleted, only the claim was left
end
local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '>')
if not read then return false end
local found = read[1][2][1]
return {found[1], found[2], 1}
"""

# Id and deliveries of each claim. Returns the claims that were lost, as "id,deliveries".
# From 8.2: XACKDEL, which asks for no owner.
ACK = _HELD + """
local lost = {}
for at = 3, #ARGV, 2 do
  if held(KEYS[1], ARGV[1], ARGV[at], ARGV[2], ARGV[at + 1]) then finish(KEYS[1], ARGV[1], ARGV[at])
  else lost[#lost + 1] = ARGV[at] .. ',' .. ARGV[at + 1] end
end
return lost
"""

# Id, deliveries, delay in milliseconds. Returns 1, or 0 for a claim that was lost.
# From 8.8: XNACK, without a delay.
RELEASE = _HELD + """
local id, deliveries, delay = ARGV[3], ARGV[4], tonumber(ARGV[5])
if not held(KEYS[1], ARGV[1], id, ARGV[2], deliveries) then return 0 end
if delay <= 0 then
  hand_back(KEYS[1], ARGV[1], id, deliveries)
  return 1
end
local time = redis.call('TIME')
redis.call('XCLAIM', KEYS[1], ARGV[1], '~later', 0, id, 'RETRYCOUNT', deliveries, 'JUSTID')
redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + delay, id)
return 1
"""

# Id, deliveries, reason. Returns 1, or 0 for a claim that was lost.
REJECT = _HELD + """
if not held(KEYS[1], ARGV[1], ARGV[3], ARGV[2], ARGV[4]) then return 0 end
set_aside(KEYS[1], ARGV[1], KEYS[4], ARGV[3], ARGV[4], ARGV[5], ARGV[2])
return 1
"""

# Limit, deliveries from which a message is rejected, then the names of other consumers, whose leases are the last KEYS. Returns
# the ids that were handed back. A consumer is dead if its lease ended, and only those that hold leases are in ``consumers``: time
# alone takes nothing away from anybody.
RECOVER = _HELD + """
local stream, group, left = KEYS[1], ARGV[1], tonumber(ARGV[3])
local back = {}
for at = 6, #KEYS do
  local consumer = ARGV[at - 1]
  if redis.call('EXISTS', KEYS[at]) == 0 then
    local pending = {}
    if left > 0 then pending = redis.call('XPENDING', stream, group, '-', '+', left, consumer) end
    for _, entry in ipairs(pending) do
      left = left - 1
      if entry[4] >= tonumber(ARGV[4]) then
        local reason = 'its consumers died or gave it back ' .. entry[4] .. ' times'
        set_aside(stream, group, KEYS[4], entry[1], entry[4], reason, 'recover')
      else
        hand_back(stream, group, entry[1], entry[4])
        back[#back + 1] = entry[1]
      end
    end
    if #redis.call('XPENDING', stream, group, '-', '+', 1, consumer) == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
      redis.call('HDEL', KEYS[5], consumer)
    end
  end
end
return back
"""

# Id, deliveries, another consumer. That takes over a claim of the first, whose lease ended, with its number of deliveries.
# Returns the entry; nothing where somebody else was quicker.
ADOPT = _HELD + """
if redis.call('EXISTS', KEYS[6]) == 1 or not held(KEYS[1], ARGV[1], ARGV[3], ARGV[2], ARGV[4]) then return false end
local found = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[5], 0, ARGV[3], 'RETRYCOUNT', ARGV[4])[1]
if found then return {found[1], found[2], tonumber(ARGV[4])} end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])  -- its entry was deleted, only the claim was left
return false
"""

# A consumer that holds nothing leaves; one that does is dead from now on, so that its claims are recovered. DELCONSUMER of one
# that holds claims would lose them.
LEAVE = """
redis.call('DEL', KEYS[6])
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[5], ARGV[2])
end
return 1
"""


# The lease of a consumer: a key that ends by itself, renewed by a thread as long as the process runs.

_RENEWALS = 3
"""Renewals within the time of a lease."""


class ConsumerLease(Struct):
    """A lease of ``seconds``, taken and renewed by ``_renew``, which raises ``SpooltopError`` where that is not possible.

    ``held`` is True only while the last renewal is younger than the lease, counted from before it was sent: a consumer claims
    nothing without it, since others may take its claims by then. CLOCK_BOOTTIME counts, so that a suspended machine finds its
    leases ended.
    """

    _renew: Callable[[], object]
    seconds: float
    _until: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _starting: Any = field(default_factory=threading.Lock)

    @property
    def held(self) -> bool:
        return _now() < self._until

    def take(self) -> None:
        """Takes the lease, unless it is held, and keeps it from now on. Raises what ``renew`` raises."""
        if self.held:
            return
        with self._starting:
            if not self.held:
                self._renew_now()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the renewals. The lease itself runs on until it ends or is given up."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._until = 0.0

    def _renew_now(self) -> None:
        began = _now()
        self._renew()
        self._until = began + self.seconds

    def _keep(self) -> None:
        while not self._stop.wait(self.seconds / _RENEWALS):
            try:
                self._renew_now()
            except SpooltopError:
                continue  # ``held`` turns False by itself, and whoever claims then is told why


def _now() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


AT_ONCE = 100
"""Messages in one command: the server answers nobody else meanwhile."""
DATA, SOURCE = b"data", b"source"
"""Fields of an entry that ``put`` made."""


class StreamClaim(HeldClaim):
    """A claimed message. ``with claim:`` acks at the end, and releases with a delay on an exception.

    Each step is checked against the consumer and the number of deliveries, in one step of the server: if the claim was taken
    away, it raises ``ClaimLost``. A claim that is dropped without ack, release or reject is handed back, with a warning. The
    process that claimed is the holder: in a forked child each step raises ``ClaimLost``, and leaving the block does nothing.
    """

    __slots__ = ("__weakref__", "_consumer", "_ended", "_fields", "attempt", "id", "pid")

    def __init__(self, consumer: GroupConsumer, id: str, fields: Mapping[bytes, bytes], attempt: int) -> None:
        self._consumer = consumer
        self._fields = fields
        self.id = id
        """Id of its entry: ``<milliseconds>-<number>``."""
        self.attempt = attempt
        """Number of this attempt, from 1: how often the message was delivered."""
        self._ended = False
        self.pid = os.getpid()
        """Pid of the process that claimed."""

    @property
    def inherited(self) -> bool:
        """True in a child of the process that claimed."""
        return self.pid != os.getpid()

    @property
    def ended(self) -> bool:
        """True after ack, release, reject, after it was found lost, and in a child of the process that claimed."""
        return self._ended or self.inherited

    @property
    def token(self) -> tuple[str, int]:
        """Id and number of deliveries: each step is checked against them and the consumer."""
        return self.id, self.attempt

    @property
    def name(self) -> str:
        """The claim itself: its id and the number of the attempt."""
        return f"{self.id},{self.attempt}"

    @property
    def source(self) -> str | None:
        """Producer of the message; None if it has none."""
        source = self._fields.get(SOURCE)
        return None if source is None else text_of(source)

    @property
    def data(self) -> bytes:
        """Content of the message. An entry of another producer, which has no field ``data``, is a JSON object of its fields.
        Raises ``ClaimLost`` in a forked child."""
        if self.inherited:
            raise self._consumer.lost([self])
        data = self._fields.get(DATA)
        if data is not None:
            return data
        return json.dumps({text_of(name): text_of(value) for name, value in self._fields.items()}).encode()

    def open(self) -> BinaryIO:
        """Opens the content as a file for reading, with a descriptor; it lies in memory."""
        made = os.fdopen(os.memfd_create("message"), "w+b")
        made.write(self.data)
        made.seek(0)
        return made

    def ack(self) -> None:
        """Acknowledges the message. It is deleted from the stream where no other group reads it."""
        self._consumer.ack_many([self])

    def release(self, delay: float = 0, *, data: object = None, ended: str | None = None) -> None:
        """Hands the message back, to be claimed again after ``delay`` seconds. At the limit of attempts it is rejected instead.
        ``ended`` says how the attempt ended, for the reason of that. Raises ``Refused`` for other ``data``: an entry of a stream
        cannot be changed."""
        if data is not None:
            raise Refused("an entry of a stream cannot be changed", "put the remaining part as a message of its own, and ack")
        check_seconds("delay", delay, or_none=False)
        if self.attempt >= self._consumer.max_attempts:
            self.reject(f"failed in all of its {self.attempt} attempts", ended=ended)
        else:
            self._consumer.end_claim(self, RELEASE, "release", int(delay * 1000))

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        """Sets the message aside in the stream of rejected ones, with the reason and with how the attempt ended."""
        self._consumer.end_claim(self, REJECT, "reject", f"{reason} ({ended})" if ended else reason)

    def end(self) -> None:
        """Marks the claim as no longer held; tells the server nothing."""
        self._ended = True

    def __del__(self) -> None:
        if not self.ended and self._consumer.dropped(self):
            warn_dropped(self.id)


_NO_LEASE = -2
"""Answer to PTTL for a key that is not there."""


class GroupConsumer:
    """A consumer under a name of its own, ``HOST-PID-xxxxxx``. ``address`` names the queue in errors, ``lease`` is in seconds,
    and a message is rejected after ``max_attempts``. With ``waits`` each ack waits for the disk of the server. ``moves_to`` is
    the queue into which it moves messages, with keys that have this ``begin``: then it hands back only claims that were not put.

    An answer of the server may be lost after it gave a message: nobody would know of that claim while this consumer lives. So
    after each such error the claims that the server knows and this object does not are handed back first.
    """

    def __init__(
        self, connection: Redis, names: StreamNames, address: str, lease: float, max_attempts: int, waits: bool, *,
        moves_to: QueueIdentity | None = None, begin: str = "",
    ) -> None:  # fmt: skip
        self._redis: Any = connection
        self._names = names
        self._address = address
        self.max_attempts = max_attempts
        self._waits = waits
        self.is_paused = False
        """True if the queue was paused at the last try to claim."""
        self._begin(lease, begin, moves_to)

    def _begin(self, lease: float, begin: str, moves_to: QueueIdentity | None) -> None:
        self._record = LeaseRecord(socket.gethostname(), os.getpid(), begin, moves_to)
        self.name = f"{self._record.host}-{self._record.pid}-{os.urandom(3).hex()}"
        self._held: set[tuple[str, int]] = set()
        self._dropped: deque[tuple[str, int]] = deque()
        self._unsure = False
        self._joined = False
        self._lease = ConsumerLease(self._renew, lease)

    def forked(self) -> None:
        """Becomes another consumer in a forked child: the name, the lease and all that is held belong to the parent."""
        self._begin(self._lease.seconds, self._record.begin, self._record.moves_to)

    def take(self) -> StreamClaim | None:
        """Claims a message without waiting; None if there is none. Takes the lease. Raises ``Unavailable``."""
        with self._claiming():
            self._tidy()
            found = self._run(CLAIM, "claim")
        self.is_paused = found == 1
        return None if found is None or self.is_paused else self._claimed(*found)

    def read(self, seconds: float) -> StreamClaim | None:
        """Waits up to ``seconds`` for a new message and claims it; None if none came. Raises ``Unavailable``."""
        wanted = ("XREADGROUP", "GROUP", self._names.group, self.name, "COUNT", 1, "BLOCK", max(1, int(seconds * 1000)))
        with self._claiming(), translated(self._address, "claim"):
            found = self._redis.execute_command(*wanted, "STREAMS", self._names.stream, ">")
        return self._claimed(*found[0][1][0]) if found else None

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Takes the lease, and notes where it is not known what was claimed."""
        self._lease.take()
        try:
            with messages_expected():
                yield
        except Unavailable as error:
            self._unsure |= error.answer_lost
            raise

    def _claimed(self, id: bytes, fields: Mapping[bytes, bytes] | Sequence[bytes], deliveries: int = 1) -> StreamClaim:
        if not isinstance(fields, Mapping):  # as a script returns them
            fields = dict(zip(fields[::2], fields[1::2], strict=True))
        claim = StreamClaim(self, text_of(id), fields, deliveries)
        self._held.add(claim.token)
        return claim

    def ack_many(self, claims: Sequence[StreamClaim]) -> None:
        """Acks these claims. Raises ``ClaimLost`` at the end if some were taken away."""
        lost = [claim for claim in claims if claim.ended]
        held = [claim for claim in claims if not claim.ended]
        for start in range(0, len(held), AT_ONCE):
            some = held[start : start + AT_ONCE]
            gone = self._acked(self.name, *(claim.token for claim in some))
            for claim in some:
                self._ended(claim)
            lost += [claim for claim in some if claim.name.encode() in gone]
        if lost:
            raise self.lost(lost)

    def _acked(self, consumer: str, *tokens: tuple[str, int]) -> set[bytes]:
        """Acks claims of ``consumer``, and returns the names of those that are lost."""
        return set(self._run(ACK, "ack", *chain.from_iterable(tokens), consumer=consumer, waits=self._waits))

    def end_claim(self, claim: StreamClaim, script: str, what: str, last: object) -> None:
        """Ends a claim by a script, which gets ``last`` besides the claim. Raises ``ClaimLost``."""
        if claim.ended:
            raise self.lost([claim])
        kept = self._run(script, what, *claim.token, last)
        self._ended(claim)
        if not kept:
            raise self.lost([claim])

    def recover(self) -> list[str]:
        """Hands back what dead consumers hold; see ``StreamQueue.recover``."""
        with translated(self._address, "recover"):
            known = self._records()
        others = [name for name, record in known.items() if name != self.name and record.moves_to is None][:AT_ONCE]
        found = self._run(RECOVER, "recover", AT_ONCE, self.max_attempts, others=others) if others else ()
        return [text_of(id) for id in found]

    def claims_of_others(self) -> list[OthersClaims]:
        """Returns what other consumers hold; see ``StreamQueue.claims_of_others``."""
        with translated(self._address, "look"):
            return [self._judged(*one) for one in self._others() if one[0] not in (HANDED_BACK, LATER)]

    def _others(self) -> list[tuple[str, int, LeaseRecord | None, int]]:
        """Returns the other consumers that hold claims: name, number of claims, record, and the milliseconds that are left of the
        lease, as PTTL answers."""
        states = self._redis.xinfo_consumers(self._names.stream, self._names.group)
        held = {text_of(one["name"]): int(one["pending"]) for one in states if one["pending"]}
        held.pop(self.name, None)
        known, pipe = self._records(), self._redis.pipeline(transaction=False)
        for name in held:
            pipe.pttl(self._names.lease(name))
        return [(name, held[name], known.get(name), left) for name, left in zip(held, pipe.execute(), strict=True)]

    def _judged(self, name: str, count: int, record: LeaseRecord | None, left: int) -> OthersClaims:
        if left == _NO_LEASE:
            return OthersClaims(name, count, False, "no lease" if record is None else "its lease has ended")
        if record is not None and record.host == self._record.host and record.pid and left >= 0 and is_gone(record.pid):
            return OthersClaims(name, count, False, gone_words(left / 1000), left / 1000)
        return OthersClaims(name, count, True, "its lease runs")

    def dropped(self, claim: StreamClaim) -> bool:
        """Notes that the owner of ``claim`` let go of it: the next call hands it back. False if it is not held any more."""
        if claim.token not in self._held or self._record.moves_to is not None:
            return False
        self._dropped.append(claim.token)
        return True

    def close(self) -> None:
        """Hands back what is still held, and leaves the group."""
        self._lease.close()
        if not self._joined:
            return
        if self._record.moves_to is None:
            self._held.clear()
        try:
            self._hand_back_unknown()
            self._run(LEAVE, "close")
        except (Unavailable, NotASpool):
            return  # the lease ends by itself, and what is held is recovered then; a group that is gone holds nothing

    def _tidy(self) -> None:
        """Hands back dropped claims, and those of which this object never heard."""
        while self._dropped:
            self._let_go(*self._dropped[0])
            self._held.discard(self._dropped.popleft())
        if self._unsure:
            self._unsure = False
            try:
                self._hand_back_unknown()
            except Unavailable:
                self._unsure = True
                raise

    def _hand_back_unknown(self) -> None:
        with translated(self._address, "claim"):
            for token in self._pending(self.name):
                if token not in self._held:
                    self._let_go(*token)

    def _let_go(self, id: str, deliveries: int) -> None:
        self._run(RELEASE, "release", id, deliveries, 0)

    def _renew(self) -> None:
        milliseconds = int(self._lease.seconds * 1000)
        with translated(self._address, "lease"):
            pipe = self._redis.pipeline(transaction=True)
            pipe.set(self._names.lease(self.name), "1", px=milliseconds)
            pipe.hset(self._names.consumers, self.name, str(self._record))
            pipe.execute()
        self._joined = True

    def _run(
        self, script: str, what: str, *words: object, consumer: str | None = None, others: Sequence[str] = (), waits: bool = False
    ) -> Any:
        """Runs a script for ``consumer``, this one unless it is named. ``waits``: returns when its changes are on disk."""
        names, consumer = self._names, self.name if consumer is None else consumer
        keys = [names.stream, names.later, names.paused, names.rejected, names.consumers]
        with translated(self._address, what):
            pipe = self._redis.pipeline(transaction=False) if waits else None
            found = self._redis.register_script(script)(
                [*keys, *map(names.lease, others or [consumer])], [names.group, consumer, *words, *others], pipe
            )
            if pipe is None:
                return found
            wait_for_disk(pipe)
            return pipe.execute()[0]

    def _records(self) -> dict[str, LeaseRecord]:
        """Reads what the group knows of its consumers that hold leases, by name."""
        found = self._redis.hgetall(self._names.consumers).items()
        return {text_of(name): LeaseRecord.parse(text_of(value)) for name, value in found}

    def _pending(self, consumer: str) -> Iterator[tuple[str, int]]:
        """Yields id and number of deliveries of all that ``consumer`` holds, read in pages."""
        stream, group, start = self._names.stream, self._names.group, "-"
        while found := self._redis.xpending_range(stream, group, start, "+", AT_ONCE, consumername=consumer):
            yield from ((text_of(entry["message_id"]), int(entry["times_delivered"])) for entry in found)
            start = f"({text_of(found[-1]['message_id'])}"

    def _ended(self, claim: StreamClaim) -> None:
        claim.end()
        self._held.discard(claim.token)

    def lost(self, claims: Sequence[StreamClaim]) -> ClaimLost:
        """Builds the error for claims that this process does not hold."""
        ids = ", ".join(escape(claim.id) for claim in claims[:10])
        whose = is_its_child("claimed", claims[0].pid) if claims[0].inherited else "taken away, or ended before"
        what = f"the claim on {ids} was {whose}"
        return ClaimLost(what, names=[claim.name for claim in claims], path=self._address)


# The source's side of ``spooltop move`` on a stream.


class StreamMover(GroupConsumer, Closing):
    """Implements ``model.queue.MessageMover``: its record beside the stream says where the messages go. ``depth`` counts what
    waits."""

    def __init__(self, *words: Any, target: QueueIdentity, begin: str, depth: Callable[[], int]) -> None:
        super().__init__(*words, moves_to=target, begin=begin)
        self._depth = depth

    def counts(self) -> QueueCounts:
        names = self._names
        with translated(self._address, "move"):
            others = self._others()
            seconds, micros = self._redis.time()
            due = self._redis.zcount(names.later, "-inf", seconds * 1000 + micros // 1000)
        delayed = running = dead = unknown = 0
        ends: list[float] = []
        for name, held, record, left in others:
            if name == LATER:
                delayed = max(0, held - due)
            elif name == HANDED_BACK:
                continue
            elif record is None:
                unknown += held
            elif left > 0:
                running += held
                ends.append(left / 1000)
            elif record.moves_to is None:
                dead += held
        return QueueCounts(self._depth() - delayed, delayed, 0, running, dead, unknown, max(ends, default=None))

    def interrupted(self) -> Sequence[InterruptedMove]:
        with translated(self._address, "move"):
            return list(self._interrupted())

    def _interrupted(self) -> Iterator[InterruptedMove]:
        names = self._names
        for name, record in self._records().items():
            target = record.moves_to
            if target is None or name == self.name or self._redis.exists(names.lease(name)):
                continue
            mover = f"{record.begin}/{name}"
            pending = self._pending(name)
            yield InterruptedMove(mover, target, [(f"{name},{id},{tries}", f"{mover}.{id}:{tries}") for id, tries in pending])

    claim = GroupConsumer.take

    def adopt(self, name: str) -> StreamClaim | None:
        """Takes over a claim of another consumer, whose lease has ended; None if it is gone."""
        other, id, deliveries = _parts(name)
        self._lease.take()
        with messages_expected():
            found = self._run(ADOPT, "move", id, deliveries, self.name, consumer=other)
        return None if found is None else self._claimed(*found)

    def discard(self, name: str) -> None:
        other, id, deliveries = _parts(name)
        self._acked(other, (id, deliveries))

    def key(self, claim: StreamClaim) -> str:
        id, deliveries = claim.token
        return f"{self._record.begin}/{self.name}.{id}:{deliveries}"

    def holds(self, _claim: StreamClaim) -> bool:
        return self._lease.held

    def give_back(self, claim: StreamClaim) -> None:
        """Hands back a claim with which nothing was tried: it is not rejected, however often it was delivered."""
        self._let_go(*claim.token)
        self._ended(claim)

    def leave(self, claim: StreamClaim) -> None:
        claim.end()

    def end(self, move: InterruptedMove) -> None:
        self._run(LEAVE, "close", consumer=move.mover.rpartition("/")[2])


def _parts(name: str) -> tuple[str, str, int]:
    """Splits the name of a claim into its consumer, its id and the number of deliveries."""
    consumer, id, deliveries = name.rsplit(",", 2)
    return consumer, id, int(deliveries)


# Producers, consumers and whoever looks: the queue itself.


def _fields(data: Data, source: str | None) -> list[bytes]:
    check_data(data)
    if source is not None:
        check_text("source", source)
    content = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data.read()
    check_bytes("data", content, "open the file in binary mode")
    if source == "":
        raise UsageError("put: an empty source", "leave it out")
    return [DATA, content, *([] if source is None else [SOURCE, source.encode(errors="surrogateescape")])]


# Waiting for entries of a stream: a thread reads behind its end and wakes whoever waits.

LONGEST = 1.0
"""Longest single wait in seconds. A message that is handed back adds no entry, so that only another try finds it."""


class StreamArrivals(ArrivalWatch):
    """Wakes up when an entry is added to ``stream``, or when ``wake`` is called. ``address`` names it in errors. Closing it may
    take as long as the longest wait."""

    longest = LONGEST

    def __init__(self, connection: Redis, stream: str, address: str) -> None:
        super().__init__(None)
        self._redis: Any = connection
        self._stream = stream
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="arrivals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        super().close()

    def _listen(self) -> None:
        last: bytes | str = "$"  # only at first: what comes between two reads wakes too
        wanted = ("XREAD", "COUNT", 1, "BLOCK", int(LONGEST * 1000), "STREAMS", self._stream)
        while not self._stop.is_set():
            try:
                with translated(self._address, "wait"), messages_expected():
                    found = self._redis.execute_command(*wanted, last)
                    newest = self._redis.xrevrange(self._stream, count=1) if found else []
                last = newest[0][0] if newest else "$" if found else last
            except SpooltopError:
                self._stop.wait(LONGEST)
                continue
            if found:
                self.wake()


LEASE = 10.0
"""Seconds after which the claims of a consumer that does not renew its lease are recovered."""
KEY_WINDOW = 7 * 86400.0
"""Seconds for which the key of a put is remembered: it lies in the memory of the server."""
_COUNTED = 1000
"""Entries that one command counts."""


class StreamQueue(Closing):
    """A stream and one of its consumer groups, with the words of ``engine.Spool``.

    ``connection`` is a ``redis.Redis`` that decodes nothing and repeats no command by itself: a put that is sent twice makes two
    messages. ``address`` names the queue in errors, without a password. ``group`` None: the only one that the stream has.
    ``lease``: seconds. ``max_attempts`` and ``key_window`` as in ``engine.Spool``. ``durable``: a put and an ack wait for the
    disk of the server, where it can say so (WAITAOF).

    As in a directory, a message is delivered at least once, its attempts are counted, each step is checked against the claim, the
    claims of dead consumers are recovered, and a message that fails too often is rejected. Different is: a message has one living
    holder only as long as a holder stops when its lease ends; a message survives a crash of the server only as that is set up; it
    is at most 512 MB, and lies in memory.

    All threads of a process may share one object. Raises ``NotASpool`` where there is no such stream or group, ``Unavailable``
    while the server does not answer, ``Refused`` where it denies the rights.
    """

    def __init__(
        self,
        connection: Redis,
        stream: str,
        group: str | None = None,
        *,
        address: str,
        lease: float = LEASE,
        max_attempts: int = MAX_ATTEMPTS,
        key_window: float | None = KEY_WINDOW,
        durable: bool = True,
    ) -> None:
        check_number("max_attempts", max_attempts, 1)
        check_seconds("key_window", key_window)
        check_seconds("lease", lease, or_none=False)
        self.name = address
        """Name of the queue, without a password."""
        self._redis: Any = connection
        self._closed = False
        self._guard = threading.Lock()
        self._wakes = 0
        self._ending = threading.Event()
        self._names = StreamNames(stream, text_of(self._found_group(stream, group, "open")["name"]))
        with translated(address, "open"):
            synced, tells = durability_of(connection)
        self._key_window = key_window
        self._waits = durable and tells
        kept = {
            Guarantee.ORDERED: True, Guarantee.KEY_FOREVER: key_window is None,
            Guarantee.DURABLE: self._waits or synced,
        }  # fmt: skip
        self.guarantees = frozenset(guarantee for guarantee, is_kept in kept.items() if is_kept)
        """Guarantees that hold besides delivery at least once."""
        self._words = (connection, self._names, address, lease, max_attempts, self._waits)
        self._consumer = GroupConsumer(*self._words)
        tell_in_children(self, StreamQueue._forked)

    @classmethod
    def create(cls, connection: Redis, stream: str, group: str, *, address: str, **options: Any) -> StreamQueue:
        """Creates the stream and the group, as far as they are missing, and opens the queue. A new group begins with the first
        entry of the stream."""
        _make_group(connection, stream, group, address)
        return cls(connection, stream, group, address=address, **options)

    # Producers

    def put(
        self, data: Data, *, source: str | None = None, id: str | None = None, key: str | None = None,
        not_before: float | None = None,
    ) -> str:  # fmt: skip
        """Adds a message, bytes or a binary file, and returns its id. With ``key`` the call is a no-op for ``key_window`` seconds
        after the first put with that key, and returns the id of that message, with an attribute ``duplicate``.

        Raises ``UsageError`` for ``id`` and ``not_before``, which a stream cannot keep, ``SpoolFull`` where the memory of the
        server is full, and ``PutUnknown`` if the server's answer was lost: the message may have arrived or not, and only with
        ``key`` another put is safe.
        """
        self._check_open()
        if id is not None:
            raise UsageError("put: a stream gives its ids itself", "use key= for a message that is put once", path=self.name)
        if not_before is not None:
            raise UsageError("put: a stream delays no new message", "put it when it is due", path=self.name)
        fields = _fields(data, source)
        if key is None:
            return self._put_group([fields], ())[0]
        check_text("key", key)
        window = 0 if self._key_window is None else max(1, int(self._key_window * 1000))
        with translated(self.name, "put"):  # the same put again is safe
            pipe = self._redis.pipeline(transaction=False)
            record, claim = self._record(key)
            self._redis.register_script(PUT)([self._names.stream, record], [claim, window, *fields], pipe)
            ((found, duplicate),) = self._executed(pipe)
        return (existing_id if duplicate else MessageId)(text_of(found))

    def put_many(self, messages: Iterable[Data], *, source: str | None = None) -> list[str]:
        """Adds messages in groups of 100, each as a whole, and returns their ids, in order. Raises as ``put``; ``PutUnknown.ids``
        are then those that arrived."""
        self._check_open()
        ids: list[str] = []
        group: list[list[bytes]] = []
        for data in messages:
            group.append(_fields(data, source))
            if len(group) == AT_ONCE:
                ids += self._put_group(group, ids)
                group = []
        return ids + self._put_group(group, ids) if group else ids

    def _put_group(self, group: Sequence[Sequence[bytes]], before: Sequence[str]) -> list[str]:
        """Adds entries. Raises ``PutUnknown`` if the answer was lost after the command may have been sent."""
        try:
            with translated(self.name, "put"):
                pipe = self._redis.pipeline(transaction=len(group) > 1 and not self._waits)
                for fields in group:
                    pipe.execute_command("XADD", self._names.stream, "*", *fields)
                return [text_of(id) for id in self._executed(pipe)]
        except Unavailable as found:
            if not found.answer_lost:
                raise
            what = f"{found.what}; the message may or may not have arrived"
            advice = "use key= for puts that are safe to repeat"
            raise PutUnknown(what, advice, id="", ids=before, path=self.name) from None

    def _executed(self, pipe: Any) -> list[Any]:
        """Returns the answers to the commands of ``pipe``, when they are on disk as far as that is asked for."""
        if not self._waits:
            return list(pipe.execute())
        wait_for_disk(pipe)
        answers: list[Any]
        *answers, (local, _) = pipe.execute()
        if not local:
            what = "put: the message arrived, but the disk of the server did not answer in time"
            raise PutUnknown(what, "look at the disk of the server", id="", path=self.name)
        return answers

    # Consumers

    def claim(self, timeout: float | None = 0) -> StreamClaim | None:
        """Claims a message: first what was handed back, then the oldest new one. Waits up to ``timeout`` seconds for one (None:
        for ever). Returns None if none came, or if ``wake`` was called. While the queue is ``paused``, within a second, this is
        as if no message were there.

        Takes the lease of this consumer, and claims nothing without it. Raises ``Unavailable`` while the server does not answer.
        """
        self._check_open()
        check_seconds("timeout", timeout)
        wakes = self._wakes
        end = float("inf") if timeout is None else time.monotonic() + timeout
        with self._made_again():
            while (found := self._consumer.take()) is None:
                left = min(LONGEST, end - time.monotonic())
                if left <= 0 or self._wakes != wakes:
                    return None
                if self._consumer.is_paused:
                    self._ending.wait(left)
                elif (found := self._consumer.read(left)) is not None:
                    return found
                self._check_open()
            return found

    def claims(self, timeout: float | None = 0) -> Iterator[StreamClaim]:
        """Yields one claim after another; ends if no message came for ``timeout`` seconds (None: never), or after ``wake``. A
        forked child that goes on with an iteration of its parent gets ``ClaimLost``."""
        pid = os.getpid()
        while (claim := self.claim(timeout)) is not None:
            yield claim
            del claim  # one that the caller has dropped is not kept alive here
            if pid != os.getpid():
                raise iterated_by(pid, self.name)

    def ack_many(self, claims: Iterable[StreamClaim]) -> None:
        """Acks all claims. If some were taken away, raises ``ClaimLost`` with their ``names`` at the end; the others are
        acked."""
        self._check_open()
        self._consumer.ack_many(list(claims))

    def recover(self) -> list[str]:
        """Hands back the claims of consumers whose lease has ended; messages at the limit of attempts are rejected. Returns the
        ids handed back, at most 100 in one call.

        Only consumers that hold leases are judged: those of other programs stay as they are, as time alone proves nothing. So do
        the claims of a ``spooltop move`` that was killed: the next move alone knows whether they were put.
        """
        self._check_open()
        with self._made_again():
            return self._consumer.recover()

    @contextmanager
    def _made_again(self) -> Iterator[None]:
        """Raises ``Unavailable`` where the group is gone, as it is where a server comes back without its data. Where the whole
        stream is gone both are made again for the next call; else nobody knows which of its entries were done."""
        try:
            yield
        except NotASpool:
            with translated(self.name, "create"):
                gone = not self._redis.exists(self._names.stream)
            if not gone:
                advice = "spooltop init makes it again, from the first entry on"
                raise Unavailable("the stream has no such group any more", advice, path=self.name) from None
            _make_group(self._redis, self._names.stream, self._names.group, self.name)
            what = "the stream and its group were gone: both were made again, empty"
            raise Unavailable(what, "look if the server lost its data", path=self.name) from None

    def claims_of_others(self) -> list[OthersClaims]:
        """Returns the claims of other consumers, of each with what its lease says."""
        self._check_open()
        return self._consumer.claims_of_others()

    # Moving to another queue

    @property
    def identity(self) -> QueueIdentity:
        """The server, the database and the stream: the same for every address of the stream, whatever the group."""
        return QueueIdentity(self.name, frozenset(self._marks()))

    def _marks(self) -> Iterator[str]:
        with self._step("look"):
            try:
                run_id = self._redis.info("server").get("run_id")
            except redis_errors.NoPermissionError:
                return
        if run_id:
            yield f"{run_id}:{self._redis.connection_pool.connection_kwargs.get('db') or 0}:{self._names.stream}"

    def mover(self, target: QueueIdentity) -> StreamMover:
        """Opens a consumer that moves messages into ``target``; the caller closes it. It takes nothing before its first claim."""
        begin = f"move:{next(self._marks(), self.name)}:{self._names.group}"
        return StreamMover(*self._words, target=target, begin=begin, depth=self.depth)

    def was_put(self, key: str) -> bool:
        """Returns whether a message was put with ``key``."""
        with self._step("put"):
            record, claim = self._record(key)
            return bool(self._redis.hexists(record, claim) if claim else self._redis.exists(record))

    def forget_key(self, key: str) -> None:
        """Forgets ``key``: another put with it makes another message."""
        with self._step("put"):
            record, claim = self._record(key)
            self._redis.hdel(record, claim) if claim else self._redis.delete(record)

    def _record(self, key: str) -> tuple[str, str]:
        """Returns where the put with ``key`` is recorded: a key of the server, and the field where that is a hash, else ""."""
        mover, claim = mover_of(key) or ("", "")
        return (self._names.moved(mover), claim) if claim else (self._names.put_key(key), "")

    def forget_mover(self, mover: str) -> None:
        """Forgets all keys of one mover (``spooltop.model.queue``)."""
        with self._step("put"):
            self._redis.delete(self._names.moved(mover))

    # Looking

    @property
    def paused(self) -> Pause | None:
        """The pause of the queue; None if it is not paused. Anybody who may write the server can write its record: show nothing
        of it without escaping."""
        with self._step("paused"):
            record = self._redis.get(self._names.paused)
        return None if record is None else pause_from(json_object(record), time.time())

    def depth(self) -> int:
        """Counts the messages that wait: those never delivered, those handed back, those that wait for their delay."""
        group = self._group()
        with translated(self.name, "depth"):
            consumers = self._redis.xinfo_consumers(self._names.stream, self._names.group)
        back: int = sum(one["pending"] for one in consumers if text_of(one["name"]) in (HANDED_BACK, LATER))
        lag = group.get("lag")
        return back + (int(lag) if lag is not None else self._counted_after(group["last-delivered-id"]))

    def peek(self) -> str | None:
        """Returns the id of the message that ``claim`` would claim; None if there is none."""
        last = self._group()["last-delivered-id"]
        names = self._names
        with translated(self.name, "peek"):
            back = self._redis.xpending_range(names.stream, names.group, "-", "+", 1, consumername=HANDED_BACK)
            if back:
                return text_of(back[0]["message_id"])
            seconds, micros = self._redis.time()
            due = self._redis.zrangebyscore(names.later, "-inf", seconds * 1000 + micros // 1000, start=0, num=1)
            if due:
                return text_of(due[0])
            new = self._redis.xrange(names.stream, b"(" + last, "+", count=1)
        return text_of(new[0][0]) if new else None

    def _group(self) -> Any:
        self._check_open()
        return self._found_group(self._names.stream, self._names.group, "look")

    def _found_group(self, stream: str, group: str | None, what: str) -> Any:
        """Returns what the server says of a group, or of the only one of the stream."""
        with translated(self.name, what):
            groups = {text_of(one["name"]): one for one in self._redis.xinfo_groups(stream)}
        if group is None and len(groups) == 1:
            (group,) = groups
        if group is None or group not in groups:
            what = "name one of the groups of the stream" if groups else "the stream has no consumer group"
            names = ", ".join(sorted(map(escape, groups))[:20])
            advice = f"they are {names}" if groups else "spooltop init ADDRESS#STREAM/GROUP makes one"
            raise NotASpool(what, advice, path=self.name)
        return groups[group]

    def _counted_after(self, last: bytes) -> int:
        """Counts entries, a thousand at a time: the server has lost count where entries were deleted before they were read."""
        count = 0
        while True:
            words = ("XRANGE", self._names.stream, b"(" + last, "+", "COUNT", _COUNTED)
            with translated(self.name, "depth"):
                found, last, _ = self._redis.register_script(SKIP)([self._names.stream], words)
            count += int(found)
            if found < _COUNTED:
                return count

    # The end

    def arrivals(self) -> StreamArrivals:
        """Starts to watch for new entries, for callers that wait for more than a message. They close it."""
        self._check_open()
        return StreamArrivals(self._redis, self._names.stream, self.name)

    def inherited_fds(self) -> tuple[int, ...]:
        """None: a claim lasts as long as the lease of its consumer, and a command cannot hold that."""
        return ()

    def wake(self) -> None:
        """Makes every waiting ``claim`` return within a second. Safe in a signal handler, in any thread, and after ``close``."""
        self._wakes += 1

    def close(self) -> None:
        """Hands back the claims that are still held, and leaves the group. A second call does nothing."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
        self.wake()
        self._ending.set()
        try:
            self._consumer.close()
        finally:
            self._redis.close()

    def _forked(self) -> None:
        self._guard = threading.Lock()  # a thread of the parent may hold it
        if not self._closed:
            self._ending = threading.Event()
            self._consumer.forked()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this queue was closed", path=self.name)

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        """Surrounds what is asked of the server in one step."""
        self._check_open()
        with translated(self.name, what):
            yield

    def __repr__(self) -> str:
        return f"<StreamQueue {self.name!r}{' closed' if self._closed else ''}>"


def _make_group(connection: Any, stream: str, group: str, address: str) -> None:
    """Makes a group that begins with the first entry, and its stream, as far as they are missing."""
    with translated(address, "create"):
        try:
            connection.xgroup_create(stream, group, "0", mkstream=True)
        except redis_errors.ResponseError as error:
            if "BUSYGROUP" not in str(error):  # another worker was faster
                raise
