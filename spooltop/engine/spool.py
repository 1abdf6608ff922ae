"""The spool: put, claim, recover. See ``spooltop.engine`` for examples."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from queue import Empty
from typing import Any, cast, overload

from spooltop.model import LIVE, Box, ClaimLost, Clock, Closing, Guarantee, NotASpool, Pause, QueueIdentity, Refused, Unreadable

from .arguments import MAX_ATTEMPTS, AfterClose, Data, absolute_path, check_clock, check_number, check_seconds, microseconds
from .consumer import Claim, Consumer, SpoolMover
from .counters import DUPLICATE, locks_used, read, total
from .dirs import OpenBoxes, SpoolDirs
from .files import Files
from .host import iterated_by, tell_in_children, this_machine
from .mail import refuse_mail
from .pausing import read_pause
from .presence import ANY_MACHINE, check_hosts
from .producer import MessageId, Producer
from .syscalls import advice, translate, translating
from .waiting import ArrivalWatch


def make(root: str, files: Files, *, durable: bool) -> None:
    """Creates the directory and its boxes, as far as they are missing; new boxes get the owner of the directory. Raises
    ``SpooltopError``."""
    with translating(root, "create"):
        try:
            os.makedirs(root, exist_ok=True)
        except FileNotFoundError:  # the file system itself makes none: /proc, /sys
            raise Refused("create: no directory can be made there", "choose a place on a disk", path=root) from None
        with files.closing(files.open_dir(root, follow=True)) as fd:
            like = files.fstat(fd)
            for box in LIVE:
                try:
                    files.mkdir(box.value, fd)
                except FileExistsError:
                    continue
                with files.closing(files.open_dir(box.value, fd)) as inside:
                    files.copy_owner(inside, like)
            if durable:
                files.sync_dir(fd)


def open_dirs(path: str, files: Files) -> SpoolDirs:
    """Opens the boxes of the spool at ``path``. Raises ``NotASpool`` naming what is missing, ``Unreadable``."""
    try:
        dirs = SpoolDirs(path, files)
    except FileNotFoundError:
        raise NotASpool("no such directory", f"make it: Spool.create({path!r})", path=path) from None
    except NotADirectoryError:
        raise NotASpool("a file, not a directory", path=path) from None
    except OSError as error:
        raise Unreadable(os.strerror(error.errno or 0), advice(error), path=path) from error
    if dirs.errors:
        try:
            if dirs.missing:
                what = ", ".join(dirs.missing)
                raise NotASpool(f"{what} missing or no directory", f"make it: Spool.create({path!r})", path=path)
            box, reason = next(iter(dirs.errors.items()))
            raise Unreadable(f"{box}: {os.strerror(reason.errno or 0)}", advice(reason), path=path) from reason
        finally:
            try:
                dirs.close()
            except OSError:
                pass  # the first error is the one to report
    return dirs


class Spool(Closing):
    """A directory with the boxes ``tmp``, ``new`` and ``cur``.

    ``durable``: a put and an ack survive power loss when they return; False keeps every other guarantee. ``max_attempts``: number
    of attempts before a message is rejected. ``key_window``: seconds for which ``put(key=…)`` remembers a key; None: for ever,
    with a small file for each. ``lock_timeout``: seconds that ``put(id=…)`` waits for another put of that id; None: for ever.
    ``as_spool`` also opens a directory that looks like a mail folder. ``hosts="this-machine"`` declares that no other machine
    ever mounted the spool: then a free presence lock from before a restart proves that the holder is gone even if host names and
    machine ids change (containers). ``files``, ``clock`` (epoch seconds) and ``host`` give access to the system.

    All threads of a process may share one object, including threads that wait: each of them calls ``claim`` or iterates over its
    own ``claims()``. After ``close`` every method raises ``Closed``, also in threads that wait; calls in progress in other
    threads end normally. Only ``close`` and ``wake`` then do nothing.

    Raises ``NotASpool`` naming what is missing, ``MailFolder``, ``Unreadable``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Spool.create(folder + "/jobs") as spool:
    ...         ids = spool.put_many([b"one", b"two", b"three"], source="import")
    ...         for claim in spool.claims():
    ...             with claim:
    ...                 print(claim.data, claim.source, claim.attempt)
    ...         spool.depth()
    b'one' import 1
    b'two' import 1
    b'three' import 1
    0
    """

    _closed = True  # until it is open

    def __init__(
        self,
        path: str | os.PathLike[str],
        durable: bool = True,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        key_window: float | None = None,
        lock_timeout: float | None = None,
        as_spool: bool = False,
        hosts: str = ANY_MACHINE,
        files: Files | None = None,
        clock: Clock = time.time,
        host: str | None = None,
    ) -> None:
        check_number("max_attempts", max_attempts, 1)
        check_seconds("key_window", key_window)
        check_seconds("lock_timeout", lock_timeout)
        check_clock(clock)
        self.path = absolute_path(path)
        self.durable = durable
        self._clock = clock
        self._words = (
            self.path, clock, host if host is not None else this_machine().host, durable, max_attempts, as_spool,
            check_hosts(hosts),
        )  # fmt: skip
        self._options: dict[str, Any] = {  # as they were given: what a pickled Spool is opened with again
            "durable": durable, "max_attempts": max_attempts, "key_window": key_window, "lock_timeout": lock_timeout,
            "as_spool": as_spool, "hosts": hosts, "files": files, "clock": clock, "host": host,
        }  # fmt: skip
        self._recovering = threading.Lock()
        self._ending = threading.Lock()
        self._watch: ArrivalWatch | None = None
        """Watch of ``new`` that all threads share which wait; every asynchronous iterator has its own."""
        self._sharing = threading.Lock()
        self._watches: weakref.WeakSet[ArrivalWatch] = weakref.WeakSet()
        self._dirs = open_dirs(self.path, files or Files())
        try:
            if not as_spool:
                refuse_mail(self._dirs)
            self._producer = Producer(self._dirs, clock, self._words[2], key_window, lock_timeout)
            self._consumer = Consumer(OpenBoxes(self._dirs), *self._words)
        except BaseException as error:
            try:
                self._dirs.close()
            except OSError:
                pass  # the first error is the one to report
            if isinstance(error, OSError):
                raise translate(error, self.path, "open") from error
            raise
        self._closed = False
        tell_in_children(self, Spool._forked)

    @property
    def name(self) -> str:
        """The path, under the name that every queue has."""
        return self.path

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """Guarantees that hold besides delivery at least once: all; ``DURABLE`` and ``KEY_FOREVER`` unless they were opted
        out of.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder, durable=False) as spool:
        ...     print(*sorted(spool.guarantees))
        delay key-forever one-holder ordered
        """
        missing = set() if self.durable else {Guarantee.DURABLE}
        if self._options["key_window"] is not None:
            missing.add(Guarantee.KEY_FOREVER)
        return frozenset(Guarantee) - missing

    def close(self) -> None:
        """Closes the spool; claims that are still held go back, with a warning. Ends waits in other threads with ``Closed``. The
        descriptors are closed when the last call that uses them has ended. A second call does nothing."""
        if self._closed or not self._ending.acquire(blocking=False):
            return
        self._closed = True
        consumer = self._consumer
        # What is under way refers to what it uses: that goes when nothing does any more, and no descriptor before.
        self._producer = self._consumer = self._dirs = cast("Any", AfterClose(self.path))
        try:
            with translating(self.path, "close"):
                consumer.close()
        finally:
            self.wake()
            with self._sharing:
                self._watch = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the arguments with which the spool was opened; another process opens the directory again, with its own
        presence."""
        default = self.__init__.__kwdefaults__  # type: ignore[misc]  # of the class
        options = {name: value for name, value in self._options.items() if name not in default or value is not default[name]}
        return partial(type(self), **options), (self.path,)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Spool {self.path!r}{' closed' if self._closed else ''}>"

    def _forked(self) -> None:
        if not self._closed:
            self._producer.forked()
            self._recovering, self._sharing = threading.Lock(), threading.Lock()  # a thread of the parent may hold them
            if self._watch is not None:
                self._watch.close()  # the descriptors of the parent would wake both
                self._watch = None

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], durable: bool = True, *, files: Files | None = None, **options: object
    ) -> Spool:
        """Creates the directory and its boxes, as far as they are missing, and opens the spool. Takes the options of ``Spool``.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Spool.create(folder + "/jobs", durable=False).close()
        ...     sorted(os.listdir(folder + "/jobs"))
        ['cur', 'new', 'tmp']
        """
        files = files or Files()
        make(absolute_path(path), files, durable=durable)
        return cls(path, durable, files=files, **options)  # type: ignore[arg-type]  # passed on as they are

    # Producers

    @overload
    def put(
        self, data: Data, *, source: str | None = None, id: str, key: str | None = None, durable: bool | None = None,
        not_before: float | None = None, canary: bool = False,
    ) -> MessageId: ...  # fmt: skip

    @overload
    def put(
        self, data: Data, *, source: str | None = None, id: str | None = None, key: str, durable: bool | None = None,
        not_before: float | None = None, canary: bool = False,
    ) -> MessageId: ...  # fmt: skip

    @overload
    def put(
        self, data: Data, *, source: str | None = None, id: str | None = None, key: str | None = None,
        durable: bool | None = None, not_before: float | None = None, canary: bool = False,
    ) -> str: ...  # fmt: skip

    def put(
        self,
        data: Data,
        *,
        source: str | None = None,
        id: str | None = None,
        key: str | None = None,
        durable: bool | None = None,
        not_before: float | None = None,
        canary: bool = False,
    ) -> str:
        """Enqueues a message, bytes or a binary file, and returns its id.

        With ``id`` the call is a no-op while a message with that id is in any box. Every box is listed for that, so the cost
        grows with the number of messages; the cost of ``key`` is the same at any depth. With ``key`` the call is a no-op for ever
        after the first put with that key, whatever became of the message, and returns the id of that message (``key_window``).
        ``not_before`` (epoch seconds) delays the message. With ``id`` or ``key`` the returned id has an attribute ``duplicate``:
        True if nothing was put.

        Raises ``TypeError`` for an argument of another type, ``PutUnknown`` if an error came after the move, ``SpoolFull``,
        ``LockTimedOut``, ``UsageError`` (a ``ValueError``) for an id or a source that is too long; after any error but
        ``PutUnknown`` nothing was delivered.

        ``key`` guarantees: of all puts with the same key within ``key_window``, in any process, before and after any crash or
        restart, one makes a message, and the others return its id. ``spooltop.engine.producer`` explains how.
        ``suppressed`` returns the number of suppressed puts by source.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     first = spool.put(b"invoice", key="2026-11", source="billing")
        ...     with spool.claim():
        ...         pass
        ...     again = spool.put(b"invoice", key="2026-11", source="billing")
        ...     (again == first, first.duplicate, again.duplicate, spool.depth(), spool.suppressed())
        (True, False, True, 0, {'billing': 1})
        """
        if durable is None:
            durable = self.durable
        until = None if not_before is None else microseconds("not_before", not_before)
        if id is None and key is None:
            return self._producer.put_fresh(data, source, durable, until, canary)
        return self._producer.put(data, source=source, id=id, key=key, durable=durable, not_before=until, canary=canary)

    def put_many(self, messages: Iterable[Data], *, source: str | None = None, durable: bool | None = None) -> list[str]:
        """Enqueues messages in one group commit: all are complete and synced before the first is visible. Returns their ids, in
        order.

        From 32 durable messages on, a single sync of the whole file system is used, syncfs(2), which also waits for what other
        programs have written there.

        Raises the errors of ``put``; after ``PutUnknown`` its ``ids`` are those of the messages that arrived or may have arrived.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     ids = spool.put_many(b"%d" % number for number in range(100))
        ...     (len(ids), ids == sorted(ids), spool.depth())
        (100, True, 100)
        """
        return self._producer.put_many(messages, source=source, durable=self.durable if durable is None else durable)

    # Consumers

    def claim(self, timeout: float | None = 0) -> Claim | None:
        """Claims the oldest message that may be claimed; waits up to ``timeout`` seconds for one (None: for ever). Returns None
        if none came, or if ``wake`` was called. Raises ``SpoolFull``: a full disk stops claims too.

        While the spool is ``paused`` this is as if no message were there. A wait that goes on when it is resumed claims within a
        second.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"hello")
        ...     claim = spool.claim(timeout=5)
        ...     claim.release(delay=60)
        ...     (spool.claim(), spool.depth())
        (None, 1)
        """
        if timeout != 0:
            check_seconds("timeout", timeout)
        found = self._consumer.take(self)
        return found if found is not None or timeout == 0 else self._wait(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Claim:
        """Claims a message under the name and with the arguments of ``queue.Queue.get``: waits for ever by default, and raises
        ``queue.Empty`` if no message came. Returns the claim, not the data: a message that is not acked is delivered again.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"hello")
        ...     with spool.get() as claim:
        ...         (claim.data, spool.qsize(), spool.empty())
        (b'hello', 0, True)
        """
        found = self.claim(timeout if block else 0)
        if found is None:
            raise Empty
        return found

    def get_nowait(self) -> Claim:
        """``get`` without waiting."""
        return self.get(block=False)

    def consume(
        self,
        handler: Callable[[Claim], object],
        timeout: float | None = 0,
        *,
        on_error: Callable[[Claim, Exception], object] | None = None,
    ) -> int:
        """Calls ``handler`` with one claim after another and continues after one that fails. Returns the number of handled
        claims.

        Ends like ``claims``: if no message came for ``timeout`` seconds (None: never), or after ``wake``. Each claim is acked
        when the handler returns. If the handler raises an ``Exception``, the claim is released with a delay that grows with each
        attempt, up to ``max_attempts``; the handler may also end the claim itself. After a failure ``on_error`` is called with
        the claim and the exception; by default they are logged (logger ``spooltop.engine``). An exception raised by ``on_error``
        ends the loop. So do an interrupt, after which the claim goes back at once, and an error of the spool itself (a full
        disk). A claim that was taken away is an error of that message only.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     ids = spool.put_many([b"1", b"x", b"3"])
        ...     failed = []
        ...     handled = spool.consume(lambda claim: int(claim.data), on_error=lambda claim, error: failed.append(claim.id))
        ...     (handled, failed == [ids[1]], spool.depth())
        (2, True, 1)
        """
        handled = 0
        for claim in self.claims(timeout):
            failed: Exception | None = None
            try:
                with claim:
                    try:
                        handler(claim)
                    except Exception as error:
                        failed = error
                        raise
                handled += 1
            except ClaimLost as lost:
                failed = failed or lost
            except Exception as error:
                if error is not failed:
                    raise  # not the handler's: the spool could not do its part
            if failed is not None:
                (on_error or _log_error)(claim, failed)
            del claim  # one that the handler has kept is not kept alive here
        return handled

    def claims(self, timeout: float | None = 0) -> Iterator[Claim]:
        """Yields one claim after another; ends if no message came for ``timeout`` seconds (None: never), or after ``wake``.

        Waits with inotify(7) if available, and also checks every two seconds, as network file systems send no events. A program
        that ends on a signal calls ``wake`` in the handler, finishes the current claim, and leaves the loop. A forked child that
        goes on with an iteration of its parent gets ``ClaimLost``.
        """
        check_seconds("timeout", timeout)
        forks, pid = self._consumer.forks, os.getpid()
        while (claim := self.claim(timeout)) is not None:
            yield claim
            del claim  # one that the caller has dropped is not kept alive here
            if self._consumer.forks != forks:
                raise iterated_by(pid, self.path)

    def aclaims(self, timeout: float | None = 0) -> AsyncIterator[Claim]:
        """Version of ``claims`` for asyncio: ``async for claim in spool.aclaims(timeout=5)``. The event loop waits, and no thread
        does.

        A claim is a single rename and is made on the event loop; ``async with claim:`` acks or releases in a thread, since that
        may sync.

        >>> import asyncio, tempfile
        >>> async def main(path):
        ...     with Spool.create(path) as spool:
        ...         spool.put_many([b"a", b"b"])
        ...         async for claim in spool.aclaims(timeout=0.1):
        ...             async with claim:
        ...                 print(claim.data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(folder))
        b'a'
        b'b'
        """
        check_seconds("timeout", timeout)
        return self._claims_in_loop(timeout, self._consumer.forks, os.getpid())

    async def _claims_in_loop(self, timeout: float | None, forks: int, pid: int) -> AsyncIterator[Claim]:
        # A generator that is never iterated holds nothing: its watch begins at the first step, and is freed with the generator.
        watch = ArrivalWatch(self._dirs.box(Box.NEW))
        self._watches.add(watch)
        ends = _end_of(timeout)
        wakes = watch.wakes
        while True:
            if self._consumer.forks != forks:
                raise iterated_by(pid, self.path)
            claim = self._consumer.take(self)
            if claim is not None:
                yield claim
                del claim  # one that the caller has dropped is not kept alive here
                ends = _end_of(timeout)
                continue
            left = ends - time.monotonic()
            if left <= 0 or watch.wakes != wakes:
                return
            await watch.wait_in_loop(min(left, self._consumer.due_in()))
            self._check_boxes()

    def _wait(self, timeout: float | None) -> Claim | None:
        """Waits up to ``timeout`` seconds (None: for ever) for a claim. None if none came, or if ``wake`` was called."""
        with self._sharing:
            if self._watch is None:
                self._watch = ArrivalWatch(self._dirs.box(Box.NEW))
            watch = self._watch
        wakes = watch.wakes
        ends = _end_of(timeout)
        while True:
            events = watch.events
            found = self._consumer.take(self)  # after the watch began: what came before it is seen here
            if found is not None or watch.wakes != wakes:
                return found
            left = ends - time.monotonic()
            if left <= 0:
                self._check_boxes()
                return None
            watch.wait(min(left, self._consumer.due_in()), events)
            self._check_boxes()

    def _check_boxes(self) -> None:
        """Raises ``Unreadable`` if a box was replaced by another directory."""
        if swapped := self._dirs.swapped():
            raise Unreadable(f"{swapped[0]} is now another directory or gone", "open the spool again", path=self.path)

    def wake(self) -> None:
        """Makes every waiting ``claim`` and ``aclaims`` return now. Safe in a signal handler, in any thread, and after
        ``close``."""
        for watch in (self._watch, *list(self._watches)):
            if watch is not None:
                watch.wake()

    def ack_many(self, claims: Iterable[Claim]) -> None:
        """Acks all claims with one sync. If some were taken away, raises ``ClaimLost`` with their ``names`` at the end; the
        others are acked.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     ids = spool.put_many([b"a", b"b"])
        ...     spool.ack_many(spool.claims())
        ...     spool.depth()
        0
        """
        self._consumer.ack_many(list(claims))

    def recover(self) -> list[str]:
        """Puts back the claims of dead consumers and counts their attempts; messages at the limit are rejected. Returns the ids
        put back.

        A consumer is dead only if its presence lock is free and was taken on this machine; claims whose holder cannot be judged
        stay as they are. So do those of a ``spooltop move`` that was killed: the next move alone knows whether they were put.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     spool.recover()
        []
        """
        with self._recovering, translating(self.path, "recover"):  # one closes directories that another would be using
            return self._consumer.recover()

    def claims_of_others(self) -> tuple[()]:
        """Returns nothing: ``recover`` leaves no claim of a consumer that is known to have ended, and a look tells the others."""
        return ()

    def presence_fd(self) -> int:
        """Returns the descriptor whose lock shows that this consumer is running. A child that inherits it keeps the claims
        alive."""
        return self._consumer.hold().fd

    def inherited_fds(self) -> tuple[int, ...]:
        """Returns what a command inherits so that the claim it works on lasts as long as it runs: ``presence_fd``."""
        return (self.presence_fd(),)

    def arrivals(self) -> ArrivalWatch:
        """Starts to watch ``new``, for callers that wait for more than a message. They close it."""
        with translating(self.path, "watch"):
            return ArrivalWatch(self._dirs.box(Box.NEW))

    # Moving to another queue

    @property
    def identity(self) -> QueueIdentity:
        """Device and inode of ``new`` and ``cur``: the same for every name of the spool, also behind a bind mount."""
        dirs = self._dirs
        with translating(self.path, "look"):
            boxes = (dirs.files.fstat(dirs.box(box)) for box in (Box.NEW, Box.CUR))
            return QueueIdentity(self.name, frozenset(f"{found.st_dev:x}:{found.st_ino}" for found in boxes))

    def mover(self, target: QueueIdentity) -> SpoolMover:
        """Opens a consumer that moves messages into ``target``; the caller closes it."""
        return SpoolMover(OpenBoxes(self._dirs), *self._words, target)

    def was_put(self, key: str) -> bool:
        """Returns whether a message was put with ``key``; completes the put if it was interrupted."""
        with translating(self.path, "put"):
            return self._producer.was_put(key, self.durable)

    def forget_key(self, key: str) -> None:
        """Forgets ``key``: another put with it makes another message."""
        with translating(self.path, "put"):
            self._producer.forget_key(key)

    def forget_mover(self, mover: str) -> None:
        """Forgets all keys of one mover (``spooltop.model.queue``)."""
        with translating(self.path, "put"):
            self._producer.forget_mover(mover)

    # Looking

    @property
    def paused(self) -> Pause | None:
        """The pause of the spool, None if it is not paused: ``by`` (who paused it; None if unknown), ``at`` (epoch seconds) and
        ``reason``.

        ``spooltop pause`` and ``spooltop resume`` set and end it. While it lasts, no consumer gets a claim; consumers that run
        notice within 0.25 seconds. Claims that are held, ``ack``, ``release``, ``put`` and ``recover`` are not affected.
        Anybody who may write the spool can write the file that says so: show nothing of it without escaping.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     spool.paused is None
        True
        """
        with translating(self.path, "paused"):
            return read_pause(self._dirs)

    def depth(self) -> int:
        """Counts the messages waiting in ``new``; inexact while others put or claim."""
        dirs = self._dirs
        with translating(self.path, "depth"):
            return sum(1 for name in dirs.files.scan(dirs.box(Box.NEW)) if name[0] != ".")

    qsize = depth
    """``depth`` by the name that ``queue.Queue`` gives it."""
    __len__ = depth

    def empty(self) -> bool:
        """True if no message waits in ``new``, like ``queue.Queue.empty``: this may change at any moment."""
        return self.depth() == 0

    def __bool__(self) -> bool:
        return True  # a Spool that is empty is a Spool, as every queue of the standard library is

    def peek(self) -> str | None:
        """Returns the id of the message that ``claim`` would claim if the spool is not paused; None if there is none.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     spool.peek(), spool.peek() == spool.put(b"")
        (None, False)
        """
        with translating(self.path, "peek"):
            return self._consumer.peek()

    def suppressed(self) -> dict[str, int]:
        """Counts the puts that stored nothing because their ``key`` or ``id`` already existed: by source ("" for none), over all
        processes."""
        return total(read(self._dirs), DUPLICATE)

    def locks_used(self, seconds: float = 300) -> tuple[int, int]:
        """Counts how often this spool's own locks were acquired and how often a wait for them timed out, over all processes, in
        the last ``seconds`` (at most an hour; older counts are summed up). The lock of cursor files in the spool is included.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"", id="order-17")
        ...     spool.locks_used()
        (1, 0)
        """
        dirs = self._dirs
        return locks_used(dirs.files, read(dirs), (dirs.root,), since=self._clock() - seconds)


def _end_of(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


def _log_error(claim: Claim, error: Exception) -> None:
    import logging  # imported only if there is something to log

    logging.getLogger("spooltop.engine").error("message %r failed, attempt %d", claim.id, claim.attempt, exc_info=error)
