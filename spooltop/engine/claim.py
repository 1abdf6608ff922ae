"""A message in work, held by this process."""

from __future__ import annotations

import os
import stat
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from spooltop.errors import ClaimLost, Unreadable

from .names import Name

if TYPE_CHECKING:
    from .consumer import Consumer

__all__ = ["Claim", "backoff"]


def backoff(attempt: int) -> float:
    """Seconds that a message waits after its ``attempt``-th failure: min(2^attempt, 300).

    >>> [backoff(n) for n in (1, 2, 10)]
    [2.0, 4.0, 300.0]
    """
    return float(min(2 ** min(attempt, 9), 300))


class Claim:
    """One message, claimed. ``with claim:`` acks at the end and releases with a delay on an exception.

    ``name`` is its exact name in ``cur``: the compare-and-swap of every later step. Where somebody took the claim away, each
    step raises ``ClaimLost``. One that is dropped without ack, release or reject goes back to ``new``, with a warning.
    """

    __slots__ = (
        "__weakref__", "_consumer", "_done", "_spool", "attempt", "id", "inode", "name", "source", "token", "told",
    )  # fmt: skip

    def __init__(self, consumer: Consumer, told: Name, token: str, inode: int, attempt: int) -> None:
        self._consumer = consumer
        self._spool: object = None
        self._done = False
        self.told = told
        self.name = told.raw
        self.id = told.id
        self.source = told.source
        self.token = token
        self.inode = inode
        self.attempt = attempt
        """1 for the first time in work. Of a foreign message only the attempts of this process are known."""

    @property
    def data(self) -> bytes:
        """The whole message, read each time it is asked for."""
        return self._consumer.read(self)

    def open(self) -> BinaryIO:
        """The message as a file to read. ``ClaimLost`` where it is gone, ``Unreadable`` where it is no regular file."""
        return self._consumer.open(self)

    def ack(self) -> None:
        """Done: the message is gone when this returns (durable: also after power loss)."""
        self._consumer.ack(self)

    def release(self, delay: float = 0) -> None:
        """Back to ``new``, to be claimed again after ``delay`` seconds, its attempt counted. At the limit of attempts it is
        rejected instead."""
        self._consumer.release(self, delay)

    def reject(self, reason: str) -> None:
        """Set aside in ``rejected``, with the reason; an operator looks at it."""
        self._consumer.reject(self, reason)

    @property
    def ended(self) -> bool:
        """True after ack, release, reject, or after it was found lost."""
        return self._done

    def keep(self, spool: object) -> None:
        """A spool that its owner lets go of stays open for the claims that he holds; else they would go back under his hands."""
        self._spool = spool

    def end(self) -> None:
        """Marks it as no longer held; touches no file."""
        self._done = True

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._done:
            return
        if exception is None:
            self.ack()
            return
        try:
            # Whoever interrupts the program says nothing about the message.
            self.release(backoff(self.attempt) if isinstance(exception, Exception) else 0)
        except ClaimLost:
            exception.add_note(f"the claim on {self.id!r} was taken away meanwhile")

    def __repr__(self) -> str:
        return f"<Claim {self.id!r} attempt {self.attempt}{' ended' if self._done else ''}>"

    def __del__(self) -> None:
        if not self._done and self._consumer.holds(self):
            self._consumer.drop(self)  # before the warning, which may be made an error
            warn_dropped(self.id)


def as_file(fd: int, path: str) -> BinaryIO:
    """A file object over ``fd``, which it closes. ``Unreadable`` where it is no regular file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Unreadable("not a regular file", path=path)
    return os.fdopen(fd, "rb")


def warn_dropped(*ids: str) -> None:
    """Says that claims were given back for their owner, who did not end them."""
    what = f"claim on {', '.join(map(repr, ids[:10]))} was dropped without ack, release or reject"
    warnings.warn(what, ResourceWarning, stacklevel=3)
