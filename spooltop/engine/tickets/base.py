"""Interface of all ticket queues."""

from __future__ import annotations

import abc

__all__ = ["BaseTicketQueue", "log"]


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
