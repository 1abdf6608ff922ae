"""The spool: put, claim, recover. See ``spooltop.engine`` for how it is used."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType

from spooltop.errors import MailFolder, Unreadable
from spooltop.model.words import Box

from .claim import Claim
from .consumer import Consumer
from .counters import ACQUIRED, COUNTERS, DUPLICATE, TIMED_OUT, Count, read, total
from .drafts import Data
from .files import Files
from .limits import MAX_ATTEMPTS
from .machine import this_machine
from .mail import mail_sign
from .opening import make, open_dirs
from .putting import Putter
from .recovery import recover
from .troubles import in_words, telling
from .waiting import Watch

__all__ = ["MAX_ATTEMPTS", "Spool"]


class Spool:
    """A directory with the boxes ``tmp``, ``new`` and ``cur``.

    ``durable``: a put and an ack survive power loss when they return; False keeps every guarantee but that one. ``max_attempts``:
    how often a message is in work before it is rejected. ``key_window``: seconds for which ``put(key=…)`` remembers a key; None:
    for ever, a small file each. ``lock_timeout``: seconds that ``put(id=…)`` waits for another put of that id; None: for ever.
    ``as_spool`` opens what looks like a mail folder all the same. ``files``, ``clock`` (epoch seconds), ``host`` are the world.

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
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
        host: str | None = None,
    ) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        self.durable = durable
        self._clock = clock
        self._host = host if host is not None else this_machine().host
        self._max_attempts = max_attempts
        self._watch: Watch | None = None
        self._awaited: weakref.WeakSet[Watch] = weakref.WeakSet()
        self._dirs = open_dirs(self.path, files or Files())
        try:
            if not as_spool and (sign := mail_sign(self._dirs)) is not None:
                raise MailFolder(f"a mail folder ({sign}): its cur is read mail", path=self.path)
            self._putter = Putter(self._dirs, clock, self._host, key_window, lock_timeout)
            self._consumer = Consumer(self._dirs, clock, self._host, durable=durable, max_attempts=max_attempts)
        except BaseException as error:
            try:
                self._dirs.close()
            except OSError:
                pass  # the first error is the one to report
            if isinstance(error, OSError):
                raise in_words(error, self.path, "open") from error
            raise
        self._closed = False
        _spools.add(self)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], durable: bool = True, *, files: Files | None = None, **options: object
    ) -> Spool:
        """Makes what is missing of the directory and its boxes, and opens it. Takes the options of ``Spool``.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Spool.create(folder + "/jobs", durable=False).close()
        ...     sorted(os.listdir(folder + "/jobs"))
        ['cur', 'new', 'tmp']
        """
        files = files or Files()
        make(os.path.abspath(os.fsdecode(path)), files, durable=durable)
        return cls(path, durable, files=files, **options)  # type: ignore[arg-type]  # passed on as they are

    # Producers

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
        """Puts one message, bytes or a binary file; its id.

        With ``id`` it is a no-op while a message of that id is in any box. For that every box is listed, which grows with what
        lies there; ``key`` costs the same at any depth. With ``key`` it is a no-op ever after the first put with that key,
        whatever became of the message, and returns that message's id (``key_window``). ``not_before`` (epoch seconds) holds it
        back. Raises ``PutUnknown`` where an error came after the move, ``SpoolFull``, ``LockTimedOut``, ``UsageError`` (a
        ``ValueError``) for an id or a source that is too long; after any error but ``PutUnknown`` nothing was delivered.

        What ``key`` promises: of all puts with one key within ``key_window``, in any process, before and after any crash or
        restart, one makes a message, and the others return its id. The record of the key names the message, is complete before
        it is visible, and takes its name without replacing, which the kernel lets one of many do; it is synced before the move
        to ``new``, and whoever finds it with the move not done does it. The four usual ways each miss one of these: a lock file
        as a flag is left behind by who dies before the message was written, and then the message never comes; a set in the
        process knows nothing of other processes and of the last run; a manager's dict dies with its manager, and between asking
        it and setting it another process asks too; a hash of the content as the name takes two orders that look alike for one,
        and is forgotten when the message was acked. ``suppressed`` tells how many were none, by source.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     first = spool.put(b"invoice", key="2026-11", source="billing")
        ...     with spool.claim():
        ...         pass
        ...     (spool.put(b"invoice", key="2026-11", source="billing") == first, spool.depth(), spool.suppressed())
        (True, 0, {'billing': 1})
        """
        if durable is None:
            durable = self.durable
        until = None if not_before is None else int(not_before * 1e6)
        if id is None and key is None:
            return self._putter.put_fresh(data, source, durable, until, canary)
        return self._putter.put(
            data,
            source=source,
            id=id,
            key=key,
            durable=durable,
            not_before=until,
            canary=canary,
        )

    def put_many(self, messages: Iterable[Data], *, source: str | None = None, durable: bool | None = None) -> list[str]:
        """Puts all of them in one group commit: all are complete and synced before the first is visible. Their ids, in order.

        From 32 durable messages on the one sync is that of the whole file system, syncfs(2): what other programs have written
        there is waited for too.

        Raises as ``put``; after ``PutUnknown`` its ``ids`` are those that arrived or may have.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     ids = spool.put_many(b"%d" % number for number in range(100))
        ...     (len(ids), ids == sorted(ids), spool.depth())
        (100, True, 100)
        """
        return self._putter.put_many(messages, source=source, durable=self.durable if durable is None else durable)

    # Consumers

    def claim(self, timeout: float | None = 0) -> Claim | None:
        """The oldest message that may be claimed; waits up to ``timeout`` seconds for one (None: for ever). None where none
        came, or ``wake`` was called. Raises ``SpoolFull``: a full disk stops claims too.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"hello")
        ...     claim = spool.claim(timeout=5)
        ...     claim.release(delay=60)
        ...     (spool.claim(), spool.depth())
        (None, 1)
        """
        found = self._consumer.take(self)
        return found if found is not None or timeout == 0 else self._wait(timeout)

    def _wait(self, timeout: float | None) -> Claim | None:
        watch = self._watch
        if watch is None:
            watch = self._watch = Watch(self._dirs.box(Box.NEW))
        wakes = watch.wakes
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._consumer.take(self)  # after the watch began: what came before it is seen here
            if found is not None or watch.wakes != wakes:
                return found
            left = float("inf") if deadline is None else deadline - time.monotonic()
            if left <= 0:
                self._check_boxes()
                return None
            due = self._due_in()
            watch.wait(left if due is None else min(left, due))
            self._check_boxes()

    def claims(self, timeout: float | None = 0) -> Iterator[Claim]:
        """Claim after claim; ends when nothing came for ``timeout`` seconds (None: never), or after ``wake``.

        Waits on inotify(7) where there is one, and looks again every two seconds besides, as a network file system tells nothing.
        A program that ends on a signal calls ``wake`` in the handler, works the current claim to its end, and leaves the loop.
        """
        take = self._consumer.take
        while (claim := take(self) or (self._wait(timeout) if timeout != 0 else None)) is not None:
            yield claim
            del claim  # one that the caller has dropped is not kept alive here

    def aclaims(self, timeout: float | None = 0) -> AsyncIterator[Claim]:
        """``claims`` for asyncio: ``async for claim in spool.aclaims(timeout=5)``. The loop waits, no thread does.

        To claim is one rename and is done on the loop; ``async with claim:`` acks or releases in a thread, since that may sync.

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
        from .aio import aclaims  # loads asyncio: only for those who use it

        def opened() -> Watch:
            watch = Watch(self._dirs.box(Box.NEW))
            self._awaited.add(watch)
            return watch

        return aclaims(lambda: self._consumer.take(self), opened, self._due_in, self._check_boxes, timeout)

    def _due_in(self) -> float | None:
        due = self._consumer.backlog.due()
        return None if due is None else max(0.0, due - self._clock())

    def wake(self) -> None:
        """Lets every ``claim`` and every ``aclaims`` that waits return now. Safe in a signal handler and in any thread."""
        for watch in (self._watch, *list(self._awaited)):
            if watch is not None:
                watch.wake()

    def ack_many(self, claims: Iterable[Claim]) -> None:
        """Acks all with one sync. Raises ``ClaimLost`` at the end where some were taken away, with their ``names``; the
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
        """Puts back what dead consumers hold, their attempts counted; at the limit it is rejected. The ids put back.

        Dead is only whose presence lock is free; what cannot be told (another machine) is left alone.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     spool.recover()
        []
        """
        with telling(self.path, "recover"):
            return recover(
                self._dirs, self._clock, self._host, mine=self._consumer.token, durable=self.durable,
                max_attempts=self._max_attempts,
            )  # fmt: skip

    def presence_fd(self) -> int:
        """The descriptor whose lock says that this consumer lives. A child that inherits it keeps the claims alive."""
        return self._consumer.hold().fd

    # Looking

    def depth(self) -> int:
        """How many messages wait in ``new``; not exact while others work."""
        with telling(self.path, "depth"):
            return sum(1 for name in self._dirs.files.scan(self._dirs.box(Box.NEW)) if name[0] != ".")

    def peek(self) -> str | None:
        """The id of the message that ``claim`` would give; None where there is none.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     spool.peek(), spool.peek() == spool.put(b"")
        (None, False)
        """
        with telling(self.path, "peek"):
            return self._consumer.peek()

    def suppressed(self) -> dict[str, int]:
        """How many puts were none, since their ``key`` or ``id`` was there: by source ("" for none), of all processes."""
        return total(self._counted(), DUPLICATE)

    def locks_used(self, seconds: float = 300) -> tuple[int, int]:
        """How often this spool's own locks were had and how often given up after ``lock_timeout``, by all processes, in the last
        ``seconds`` (an hour at most; older ones are summed up).

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"", id="order-17")
        ...     spool.locks_used()
        (1, 0)
        """
        counts, since = self._counted(), self._clock() - seconds
        return sum(total(counts, ACQUIRED, since=since).values()), sum(total(counts, TIMED_OUT, since=since).values())

    def _counted(self) -> list[Count]:
        own = self._dirs.own()
        return [] if own is None else read(self._dirs.files, own, COUNTERS)

    # The end

    def close(self) -> None:
        """Lets go of the spool; claims that are still held go back, with a warning. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with telling(self.path, "close"):
                self._consumer.close()
        finally:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            with telling(self.path, "close"):
                self._dirs.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Spool {self.path!r}{' closed' if self._closed else ''}>"

    def _check_boxes(self) -> None:
        if swapped := self._dirs.swapped():
            raise Unreadable(f"{swapped[0]} is now another directory or gone", path=self.path, advice="open the spool again")

    def _forked(self) -> None:
        if not self._closed:
            self._putter.forked()
            self._consumer.forked()
            if self._watch is not None:
                self._watch.close()
                self._watch = None


_spools: weakref.WeakSet[Spool] = weakref.WeakSet()


def _in_child() -> None:
    for spool in list(_spools):
        spool._forked()


os.register_at_fork(after_in_child=_in_child)
