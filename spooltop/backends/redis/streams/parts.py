"""Parts of a list, each in the order of ids: entries that were never delivered, or the claims of one consumer.

A part knows its length, and the ids at some positions. A window near one of these is counted from there, exactly. Further away,
beyond ``_WALKED`` entries, its beginning is estimated by the times in the ids: a list of millions opens anywhere at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

from spooltop.model.row import Row

from .fetch import StreamFetcher, id_after
from .rows import PendingEntry, claim_row, entry_row, waiting_row
from .server.replies import ZERO, id_order
from .verdicts import JudgedMember

__all__ = ["ClaimPart", "EntryPart", "Part", "WaitingPart"]

_WALKED = 10_000


class Part(ABC):
    """A part with ``count`` rows. ``span`` are the ids of its first and last row, as far as they are known."""

    def __init__(self, fetcher: StreamFetcher, count: int, before: str, span: tuple[str, str] | None) -> None:
        self.count = count
        self._fetcher = fetcher
        self._span = span
        self._marks: list[tuple[int, str]] = [(0, before)]
        """Positions, each with the id of the row before it."""

    def window(self, start: int, stop: int) -> list[Row]:
        """Returns the rows ``start`` to ``stop``, in the order of ids."""
        start, stop = max(0, start), min(self.count, stop)
        if stop <= start:
            return []
        if (near := self.from_the_end(start)) is not None:
            return near[: stop - start]
        found = self.page(self._before(start), stop - start)
        if found and start + len(found) < self.count:
            self._mark(start + len(found), found[-1].id)
        return found

    def rows(self) -> Iterator[Sequence[Row]]:
        """Yields all rows in pages."""
        before = self._marks[0][1]
        while page := self.page(before, 1_000):
            yield page
            before = page[-1].id

    def find(self, id: str) -> int | None:
        """Returns the position of an id, None where it is not in this part; far from every known position it is estimated."""
        row = self.row(id)
        if row is None:
            return None
        at, before = self._marks[0]
        for position, mark in self._marks:
            if id_order(mark or ZERO) < id_order(id):
                at, before = position, mark
        counted, last = self.skip(before, id, min(_WALKED, self.count))
        if last == id:
            return at + counted - 1
        estimated = self._estimate(id)
        if estimated is not None:
            self._mark(estimated + 1, id)
        return estimated

    @abstractmethod
    def page(self, before: str, most: int) -> list[Row]:
        """Fetches up to ``most`` rows behind the id ``before``."""
        ...

    @abstractmethod
    def skip(self, before: str, end: str, most: int) -> tuple[int, str]:
        """Counts up to ``most`` rows behind ``before``, up to the id ``end`` ("+": all), and returns the id of the last one."""
        ...

    @abstractmethod
    def row(self, id: str) -> Row | None:
        """Fetches one row; None where it is not in this part any more."""
        ...

    def from_the_end(self, start: int) -> list[Row] | None:
        """Returns the rows from ``start`` on, counted from the end, where that is possible and near."""
        return None

    def _before(self, start: int) -> str:
        """Returns the id of the row before the position ``start``."""
        position, before = self._marks[bisect_right(self._marks, (start, "~")) - 1]
        if start - position > _WALKED and self._span is not None:
            guessed = self._guess(start)
            self._mark(start, guessed)
            return guessed
        while position < start:
            counted, last = self.skip(before, "+", min(1_000, start - position))
            if counted == 0:
                break
            position, before = position + counted, last
            if position % 5_000 == 0 or position == start:
                self._mark(position, before)
        return before

    def _mark(self, position: int, id: str) -> None:
        if (at := bisect_right(self._marks, (position, "~")) - 1) >= 0 and self._marks[at][0] == position:
            self._marks[at] = (position, id)
        else:
            insort(self._marks, (position, id))

    def _guess(self, start: int) -> str:
        assert self._span is not None
        first, last = (id_order(id)[0] for id in self._span)
        return f"{first + (last - first) * start // self.count}-0"

    def _estimate(self, id: str) -> int | None:
        if self._span is None:
            return None
        first, last = (id_order(one)[0] for one in self._span)
        return min(self.count - 1, (id_order(id)[0] - first) * self.count // max(1, last - first))


class EntryPart(Part):
    """Entries behind the last one that was delivered."""

    def page(self, before: str, most: int) -> list[Row]:
        return [entry_row(*head) for head in self._fetcher.heads(id_after(before), "+", most)]

    def skip(self, before: str, end: str, most: int) -> tuple[int, str]:
        return self._fetcher.skip(id_after(before), end, most)

    def row(self, id: str) -> Row | None:
        if id_order(id) <= id_order(self._marks[0][1] or ZERO):
            return None
        found = self._fetcher.heads(id, id, 1)
        return entry_row(*found[0]) if found else None

    def from_the_end(self, start: int) -> list[Row] | None:
        behind = self.count - start
        nearest = self._marks[bisect_right(self._marks, (start, "~")) - 1][0]
        if behind > _WALKED or start - nearest <= behind:
            return None
        low = id_after(self._marks[0][1])
        high = "+"
        if behind > 1_000:
            _, last = self._fetcher.skip(low, "+", behind, back=True)
            return [entry_row(*head) for head in self._fetcher.heads(last, high, min(behind, 200))] if last else []
        return [entry_row(*head) for head in self._fetcher.heads(low, high, behind, back=True)][::-1]


class _PendingPart(Part):
    """Messages that the list of pending ones has under one consumer. ``now`` is the clock of the server."""

    def __init__(
        self, fetcher: StreamFetcher, consumer: str, count: int, span: tuple[str, str] | None, now: Callable[[], float]
    ) -> None:
        super().__init__(fetcher, count, "", span)
        self.consumer = consumer
        self._now = now

    @abstractmethod
    def row_of(self, claim: PendingEntry) -> Row:
        """Makes the row of one message."""
        ...

    def page(self, before: str, most: int) -> list[Row]:
        return [self.row_of(one) for one in self._fetcher.claims(self.consumer, id_after(before), most, self._now())]

    def skip(self, before: str, end: str, most: int) -> tuple[int, str]:
        if end == "+":
            return self._fetcher.skip_claims(self.consumer, id_after(before), most)
        counted = 0
        while counted < most:  # XPENDING in the script goes to the end: the pages say when the id comes
            some = self._fetcher.claims(self.consumer, id_after(before), min(1_000, most - counted), self._now())
            for claim in some:
                counted += 1
                if claim.id == end:
                    return counted, end
            if not some:
                break
            before = some[-1].id
        return counted, before

    def row(self, id: str) -> Row | None:
        found = self._fetcher.claims(self.consumer, id, 1, self._now())
        return self.row_of(found[0]) if found and found[0].id == id else None


class ClaimPart(_PendingPart):
    """Claims of one consumer."""

    def __init__(
        self, fetcher: StreamFetcher, judged: JudgedMember, span: tuple[str, str] | None, now: Callable[[], float]
    ) -> None:
        super().__init__(fetcher, judged.state.name, judged.state.pending, span, now)
        self._judged = judged

    def row_of(self, claim: PendingEntry) -> Row:
        return claim_row(claim, self._judged)


class WaitingPart(_PendingPart):
    """Messages that were handed back. ``delayed``: they wait for the end of a delay."""

    def __init__(
        self, fetcher: StreamFetcher, consumer: str, count: int, now: Callable[[], float], *, delayed: bool = False
    ) -> None:
        super().__init__(fetcher, consumer, count, None, now)
        self._delayed = delayed

    def row_of(self, claim: PendingEntry) -> Row:
        return waiting_row(claim, None)

    def page(self, before: str, most: int) -> list[Row]:
        claims = self._fetcher.claims(self.consumer, id_after(before), most, self._now())
        delays = self._fetcher.delays([one.id for one in claims]) if self._delayed else [None] * len(claims)
        return [waiting_row(claim, delay) for claim, delay in zip(claims, delays, strict=True)]
