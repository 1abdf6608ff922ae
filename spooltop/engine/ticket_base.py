"""Interface of all ticket queues."""

from __future__ import annotations

import abc

__all__ = ["BaseTicketQueue", "log"]


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
        """Leaves the queue. No error where the member is gone already; any other is logged and not raised."""

    @abc.abstractmethod
    def cleanup_stale(self) -> None:
        """Removes a head that nobody holds any more."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """True where nobody holds or waits; the counter is no member."""

    @abc.abstractmethod
    def maybe_cleanup(self) -> None:
        """Takes away what an empty queue left behind; nothing where anyone is in it. Errors are logged and not raised."""


def log(what: str) -> None:
    """Warns of an eviction, or of an error that is not raised (logger ``spooltop.tickets``)."""
    import logging  # only where there is something to tell

    logging.getLogger("spooltop.tickets").warning("%s", what)
