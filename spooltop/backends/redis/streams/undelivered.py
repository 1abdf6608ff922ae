"""Number of the entries that a group has not been given yet, also where the server has lost count of them."""

from __future__ import annotations

from typing import NamedTuple

from .fetch import StreamFetcher, id_after
from .look import Look
from .server.replies import id_order

__all__ = ["Undelivered", "UndeliveredCounter"]

_STEP = 10_000
"""Entries that one look counts, unless they are large: the server reads them for that."""
_STEP_BYTES = 8 << 20


class Undelivered(NamedTuple):
    """The number of entries; ``complete`` False: there are more."""

    number: int
    complete: bool = True


class UndeliveredCounter:
    """Counts at most ``_STEP`` entries a look, and goes on there at the next look."""

    def __init__(self, fetcher: StreamFetcher) -> None:
        self._fetcher = fetcher
        self._begin = ""
        self._end = ""
        self._counted = 0
        self._deleted: tuple[str | None, int] = (None, 0)

    def count(self, look: Look) -> Undelivered:
        """Returns how many entries of this look were never delivered. Raises ``ServerTrouble``.

        The server's own figure is taken where it has one. It has none for a group that was made at some id and has not read to
        the end, nor after an entry before the end was deleted.
        """
        group = look.group
        if look.first is None or look.length == 0 or id_order(look.last) <= id_order(group.last_delivered):
            return Undelivered(0)
        if id_order(look.first) > id_order(group.last_delivered):
            return Undelivered(look.length)
        if group.lag is not None:
            return Undelivered(min(group.lag, look.length))
        if self._deleted_inside(look):
            self._begin = ""
        self._begin_at(group.last_delivered)
        step = self._fetcher.fitting(_STEP, _STEP_BYTES)
        counted, last = self._fetcher.skip(id_after(self._end), "+", step)
        self._counted, self._end = self._counted + counted, last or self._end
        return Undelivered(min(self._counted, look.length), counted < step)

    def _begin_at(self, last: str) -> None:
        """Lets the count begin behind the id ``last``: what was delivered since is taken off, so that a count of millions goes on
        while consumers read."""
        if last == self._begin:
            return
        if self._begin and id_order(self._begin) < id_order(last) <= id_order(self._end):
            step = self._fetcher.fitting(_STEP, _STEP_BYTES)
            delivered, _ = self._fetcher.skip(id_after(self._begin), last, step)
            if delivered < step:
                self._begin, self._counted = last, max(0, self._counted - delivered)
                return
        self._begin = self._end = last
        self._counted = 0

    def _deleted_inside(self, look: Look) -> bool:
        """True if entries were deleted since the last look, and not at the beginning as a trimmed stream loses them: they may
        have been counted."""
        (first, before), after = self._deleted, look.added - look.length
        self._deleted = look.first, after
        return first == look.first and after != before
