"""The engine's words on a Redis stream. See ``StreamQueue``."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis import Redis
from redis import exceptions as redis_errors

from spooltop.engine.arguments import MAX_ATTEMPTS, Data, check_bytes, check_data, check_number, check_seconds, check_text
from spooltop.engine.host import iterated_by, tell_in_children
from spooltop.engine.pausing import pause_from
from spooltop.engine.producer import MessageId, existing_id
from spooltop.engine.waiting import ArrivalWatch
from spooltop.errors import Closed, NotASpool, PutUnknown, SpooltopError, Unavailable, UsageError
from spooltop.model import Closing, Guarantee, OthersClaims, Pause, QueueIdentity, escape, json_object, mover_of

from ..client import messages_expected, text_of
from ..stream_names import HANDED_BACK, LATER, StreamNames
from ..streams.server import SKIP
from .group_consumer import (
    AT_ONCE,
    DATA,
    PUT,
    SOURCE,
    GroupConsumer,
    StreamClaim,
    StreamMover,
    durability_of,
    translated,
    wait_for_disk,
)


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
        with self._adding(before):
            pipe = self._redis.pipeline(transaction=len(group) > 1 and not self._waits)
            for fields in group:
                pipe.execute_command("XADD", self._names.stream, "*", *fields)
            return [text_of(id) for id in self._executed(pipe)]

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

    @contextmanager
    def _adding(self, before: Sequence[str]) -> Iterator[None]:
        """Raises ``PutUnknown`` if the answer was lost after the command may have been sent."""
        try:
            with translated(self.name, "put"):
                yield
        except Unavailable as found:
            if not found.answer_lost:
                raise
            what = f"{found.what}; the message may or may not have arrived"
            advice = "use key= for puts that are safe to repeat"
            raise PutUnknown(what, advice, id="", ids=before, path=self.name) from None

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
