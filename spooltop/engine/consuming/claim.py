"""A claimed message, held by this process."""

from __future__ import annotations

import os
import stat
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from spooltop.errors import ClaimLost, Unreadable

from ..arguments import check_seconds
from ..names import Name, parse

if TYPE_CHECKING:
    from spooltop.model.queue import QueueClaim

    from ..producing.tmp_writer import Data
    from .consumer import Consumer

__all__ = ["Claim", "backoff", "end_block"]


def backoff(attempt: int) -> float:
    """Seconds that a message waits after its ``attempt``-th failure: min(2^attempt, 300).

    >>> [backoff(n) for n in (1, 2, 10)]
    [2.0, 4.0, 300.0]
    """
    return float(min(2 ** min(attempt, 9), 300))


def end_block(claim: QueueClaim, exception: BaseException | None) -> None:
    """Ends ``claim`` at the end of its ``with`` block, which ``exception`` left: the same for every kind of queue."""
    if exception is None:
        claim.ack()
        return
    try:
        # Whoever interrupts the program says nothing about the message.
        if isinstance(exception, Exception):
            claim.release(backoff(claim.attempt), ended=type(exception).__name__)
        else:
            claim.release(0)
    except ClaimLost:
        exception.add_note(f"the claim on {claim.id!r} was taken away meanwhile")


class Claim:
    """A claimed message. ``with claim:`` acks at the end, and releases with a delay on an exception.

    ``name`` is its exact name in ``cur``: the compare-and-swap of every later step. If somebody took the claim away, each step
    raises ``ClaimLost``. A claim that is dropped without ack, release or reject goes back to ``new``, with a warning. So does a
    claim whose spool is closed; each later step, including the end of ``with claim:``, then raises ``Closed``. The process that
    claimed is the holder: in a forked child each step raises ``ClaimLost``, and leaving the block does nothing.

    >>> import tempfile
    >>> from spooltop.engine import Spool
    >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
    ...     id = spool.put(b"hello", source="greeter")
    ...     try:
    ...         with spool.claim() as claim:
    ...             raise ValueError(claim.data)
    ...     except ValueError:
    ...         ("back in new, for 2 seconds", spool.depth(), spool.claim())
    ('back in new, for 2 seconds', 1, None)
    """

    __slots__ = ("__weakref__", "_consumer", "_keep", "_parsed", "base", "done", "failed", "name", "token")

    def __init__(self, consumer: Consumer, base: str, name: str, token: str, failed: int, keep: object) -> None:
        self.done = True  # until its consumer knows it
        self._consumer = consumer
        self._keep = keep  # a spool that its owner lets go of stays open for the claims that he holds
        self._parsed: Name | None = None
        self.base = base
        self.name = name
        self.token = token
        self.failed = failed

    @property
    def parsed(self) -> Name:
        """Parsed name of the claim; parsed on first use."""
        parsed = self._parsed
        if parsed is None:
            parsed = self._parsed = parse(self.name, claimed=True)
        return parsed

    @property
    def id(self) -> str:
        """Id of the message, which stays the same for its whole life."""
        return self.parsed.id if "," in self.base else self.base  # without attributes the id is all of the name

    @property
    def source(self) -> str | None:
        """Producer of the message; None if the name does not contain it."""
        return self.parsed.source if "," in self.base else None

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1. For a foreign message only the attempts of this process are known."""
        attempts = self.parsed.attempts
        return 1 + (self.failed if attempts is None else attempts)

    @property
    def data(self) -> bytes:
        """Content of the whole message, read at each access. Raises ``ClaimLost``, and ``Unreadable`` if it is not a regular
        file."""
        consumer = self._consumer
        if self.done:
            consumer.check(self)
        boxes, name = consumer.boxes, self.name
        files = boxes.files
        try:
            fd = files.open_read(name, boxes.cur)
            try:
                return files.content(fd)
            finally:
                files.close(fd)
        except FileNotFoundError:
            if consumer.has_moved_on(self, name):
                return self.data
            raise consumer.lost(self) from None
        except OSError as error:
            raise consumer.unreadable(error) from None

    def open(self) -> BinaryIO:
        """Opens the message as a file for reading, for large messages. Raises ``ClaimLost`` if it is gone, ``Unreadable`` if it
        is not a regular file.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"head and body")
        ...     with spool.claim() as claim, claim.open() as file:
        ...         file.read(4)
        b'head'
        """
        return self._consumer.open(self)

    def ack(self) -> None:
        """Acknowledges the message: it is gone when this returns (durable: also after power loss)."""
        self._consumer.ack(self)

    def release(self, delay: float = 0, *, data: Data | None = None, ended: str | None = None) -> None:
        """Moves the message back to ``new``, to be claimed again after ``delay`` seconds, and counts the attempt. At the limit of
        attempts the message is rejected instead. ``ended`` says how the attempt ended (``exit-1``, the class of an exception): it
        is written into the name, cut to 24 bytes, and shown to operators.

        ``data`` replaces the content, as bytes or a binary file: the remaining part of a job, for example. It is written to its
        own file and synced. The file then changes places with the claim in one step (``renameat2(2)`` with RENAME_EXCHANGE), and
        only then does the claim go back. After a crash at any point the message exists once, with the old content or the new; a
        leftover is a file in ``tmp`` that is never delivered. If that step is not supported (NFS, some FUSE), ``Refused`` is
        raised, and the claim is still held with the old content, as it is after ``SpoolFull``. After an error in a later step it
        is held with the new content.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"rows 1 to 900")
        ...     spool.claim().release(data=b"rows 600 to 900")
        ...     with spool.claim() as claim:
        ...         (claim.id == id, claim.data, claim.attempt)
        (True, b'rows 600 to 900', 2)
        """
        consumer = self._consumer
        if data is not None:
            check_seconds("delay", delay, or_none=False)
            consumer.rewrite(self, data)
        consumer.release(self, delay, ended)

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        """Sets the message aside in ``rejected`` for an operator, with the reason and with how the attempt ended.

        >>> import os, tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"?")
        ...     spool.claim().reject("not JSON")
        ...     (spool.depth(), len(os.listdir(folder + "/.spooltop/rejected")))
        (0, 1)
        """
        self._consumer.reject(self, reason, ended)

    def move_on(self, name: str, token: str) -> None:
        """Takes another name in ``cur``, with the ``token`` that the consumer has now."""
        self._parsed = None
        self.name = name
        self.token = token

    def of(self, consumer: Consumer) -> bool:
        """True for a claim of this consumer."""
        return self._consumer is consumer

    @property
    def ended(self) -> bool:
        """True after ack, release, reject, or after it was found lost."""
        return self.done

    def end(self) -> None:
        """Marks the claim as no longer held; touches no file."""
        self.done = True

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self.done:
            if exception is None and self._consumer.gave_back(self):
                self._consumer.check(self)  # says that the spool was closed before this could be acked
            return
        end_block(self, exception)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Claim cannot be pickled: it belongs to the process that holds it; pass its id or its data on")

    async def __aenter__(self) -> Claim:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio  # whoever gets here has it loaded

        # To the end even where the task is cancelled: half an ack would leave the claim held by nobody's code.
        await asyncio.shield(asyncio.to_thread(self.__exit__, kind, exception, traceback))

    def __repr__(self) -> str:
        return f"<Claim {self.id!r} attempt {self.attempt}{' ended' if self.done else ''}>"

    def __del__(self) -> None:
        if not getattr(self, "done", True) and self._consumer.holds(self):  # an interrupt may have kept it from being made
            self._consumer.drop(self)  # before the warning, which may be made an error
            warn_dropped(self.id)


def as_file(fd: int, path: str) -> BinaryIO:
    """Returns a file object over ``fd``, which it closes. Raises ``Unreadable`` if it is not a regular file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unreadable("not a regular file", path=path)
    return os.fdopen(fd, "rb")


def warn_dropped(*ids: str) -> None:
    """Warns about claims that were given back because their owner did not end them."""
    what = f"claim on {', '.join(map(repr, ids[:10]))} was dropped without ack, release or reject"
    warnings.warn(what, ResourceWarning, stacklevel=3)
