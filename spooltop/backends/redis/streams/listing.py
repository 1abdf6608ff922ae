"""Lists of a stream that page: windows are fetched when they are shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

from spooltop.errors import Unreadable
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key

from ..client import Reply, list_of, number_of, text_of
from ..stream_names import StreamNames
from ..trouble import ErrorReply
from .rows import PendingEntry, claim_row, claims_of, entry_row, fields_by_name, heads_of, waiting_row
from .server import (
    CLAIMS,
    FIRST,
    HEADS,
    HEADS_BACK,
    SKIP,
    SKIP_BACK,
    SKIP_CLAIMS,
    ZERO,
    Command,
    ServerTrouble,
    StreamServer,
    id_order,
    translate_errors,
)
from .verdicts import JudgedMember

# Fetches pieces of a stream and of the list of pending messages: short ones, without the contents where scripts may run.

PAGE = 100
"""Entries in one answer with their sizes."""
_CLAIMS_PAGE = 50
"""Claims in one answer, each with the size of its entry."""
_SKIPPED = 200
"""Entries that the server counts in one step: it reads their contents for that, some 3.5 µs each."""
_CLAIMS_SKIPPED = 500

Head = tuple[str, int | None, str | None]


def id_after(id: str) -> str:
    """Returns where a range begins that goes on behind ``id``; empty: at the beginning."""
    return f"({id}" if id else "-"


class StreamFetcher:
    """Reads one stream and one of its groups. Every method may raise ``ServerTrouble``."""

    def __init__(self, server: StreamServer, names: StreamNames) -> None:
        self._server = server
        self._names = names
        self._scripts = True
        self.entry_size = 0
        """Bytes of an entry in the mean, as far as that is known."""

    def heads(self, begin: str, end: str, most: int, *, back: bool = False) -> list[Head]:
        """Returns id, size and source of up to ``most`` entries between two ids, the last ones first with ``back``."""
        found: list[Head] = []
        while len(found) < most:
            wanted = min(self.fitting(PAGE), most - len(found))
            span = _span(begin, end, found[-1][0] if found else "", back=back)
            plain: Command = ("XREVRANGE" if back else "XRANGE", self._names.stream, *span, "COUNT", wanted)
            reply = self._run(HEADS_BACK if back else HEADS, (*span, wanted), plain)
            with translate_errors():
                some = heads_of(reply)
            found += some
            if len(some) < wanted:
                break
        return found

    def skip(self, begin: str, end: str, most: int, *, back: bool = False) -> tuple[int, str]:
        """Returns how many entries, up to ``most``, lie between two ids, and the id of the last of them."""

        def page(last: str, wanted: int) -> tuple[Reply, int]:
            span, shown = _span(begin, end, last, back=back), min(PAGE, wanted)
            plain: Command = ("XREVRANGE" if back else "XRANGE", self._names.stream, *span, "COUNT", shown)
            reply = self._run(SKIP_BACK if back else SKIP, (*span, wanted), plain)
            return reply, wanted if self._scripts else shown

        return _counted(page, self.fitting(_SKIPPED), most)

    def first_command(self, begin: str) -> Command:
        """Returns the command that asks for the first entry from an id on, to be sent along with others."""
        if self._scripts:
            return ("EVAL_RO", FIRST, 1, self._names.stream, begin)
        return ("XRANGE", self._names.stream, begin, "+", "COUNT", 1)

    def first_of(self, reply: Reply, begin: str) -> str | None:
        """Returns the id in the answer to ``first_command``; None where there is no entry."""
        if isinstance(reply, ErrorReply) and _refused(str(reply)):
            return self.skip(begin, "+", 1)[1] or None
        if isinstance(reply, list) and len(reply) == 3 and isinstance(reply[0], int):
            reply = reply[:2]
        return _skipped(reply)[1] or None

    def first_size(self, reply: Reply) -> int:
        """Returns the size of the entry in the answer to ``first_command``, as far as a script has told it."""
        return reply[2] if isinstance(reply, list) and len(reply) == 3 and isinstance(reply[2], int) else 0

    def fitting(self, most: int, size: int = 1 << 20) -> int:
        """Returns how many entries, up to ``most``, the server reads in one step of about ``size`` bytes."""
        return max(1, min(most, size // max(1, self.entry_size)))

    def claims(self, consumer: str, begin: str, most: int, now: float) -> list[PendingEntry]:
        """Returns up to ``most`` claims of a consumer, oldest id first, with size and source where scripts may run."""
        found: list[PendingEntry] = []
        while len(found) < most:
            wanted = min(self.fitting(_CLAIMS_PAGE), most - len(found))
            low = f"({found[-1].id}" if found else begin
            plain: Command = ("XPENDING", self._names.stream, self._names.group, low, "+", wanted, consumer)
            reply = self._run(CLAIMS, (self._names.group, low, wanted, consumer), plain)
            with translate_errors():
                some = claims_of(reply, now)
            found += some
            if len(some) < wanted:
                break
        return found

    def skip_claims(self, consumer: str, begin: str, most: int) -> tuple[int, str]:
        """Returns how many claims of a consumer, up to ``most``, come from an id on, and the id of the last of them."""

        def page(last: str, wanted: int) -> tuple[Reply, int]:
            low = f"({last}" if last else begin
            plain: Command = ("XPENDING", self._names.stream, self._names.group, low, "+", wanted, consumer)
            return self._run(SKIP_CLAIMS, (self._names.group, low, wanted, consumer), plain), wanted

        return _counted(page, _CLAIMS_SKIPPED, most)

    def delays(self, ids: list[str]) -> list[float | None]:
        """Returns when the delay of each message ends, in epoch seconds; None where it has none."""
        if not ids:
            return []
        (reply,) = self._server.ask(("ZMSCORE", self._names.later, *ids))
        if isinstance(reply, ErrorReply):
            return [None] * len(ids)
        with translate_errors():
            return [None if one is None else float(text_of(one)) / 1000 for one in list_of(reply)]

    def aside(self, box: Box, begin: str, most: int) -> list[tuple[str, dict[bytes, bytes]]]:
        """Returns up to ``most`` entries of a side stream, with their fields."""
        return self._entries(self.key_of(box), begin, "+", most)

    def entry(self, box: Box, id: str) -> dict[bytes, bytes] | None:
        """Returns the fields of one entry; None where it is gone."""
        found = self._entries(self.key_of(box), id, id, 1)
        return found[0][1] if found else None

    def key_of(self, box: Box) -> str:
        """Returns the name of the stream in which the messages of a box lie."""
        names = self._names
        return {Box.REJECTED: names.rejected, Box.HELD: names.held, Box.TRASH: names.trash}.get(box, names.stream)

    def claim(self, id: str) -> PendingEntry | None:
        """Returns who holds a message now, without its size; None where nobody does. Its time is relative to 0."""
        (reply,) = self._server.ask(("XPENDING", self._names.stream, self._names.group, id, id, 1))
        with translate_errors():
            found = claims_of(reply, 0.0)
        return found[0] if found else None

    def _entries(self, key: str, begin: str, end: str, most: int) -> list[tuple[str, dict[bytes, bytes]]]:
        (reply,) = self._server.ask(("XRANGE", key, begin, end, "COUNT", min(PAGE, most)))
        with translate_errors():
            return [(text_of(parts[0]), dict(fields_by_name(parts[1]))) for parts in map(list_of, list_of(reply))]

    def _run(self, script: str, words: Command, plain: Command) -> Reply:
        """Runs a script, or the plain command where this user or an old server does not let it run."""
        if self._scripts:
            (reply,) = self._server.ask(("EVAL_RO", script, 1, self._names.stream, *words))
            if not isinstance(reply, ErrorReply) or not _refused(str(reply)):
                return reply
            self._scripts = False
        (reply,) = self._server.ask(plain)
        return reply


def _refused(text: str) -> bool:
    return text.startswith(("NOPERM", "ERR unknown command")) or "permissions" in text


def _span(begin: str, end: str, last: str, *, back: bool) -> tuple[str, str]:
    """Returns the ids between which a range goes on behind ``last``, in the order in which a command takes them."""
    if back:
        return f"({last}" if last else end, begin
    return f"({last}" if last else begin, end


def _counted(page: Callable[[str, int], tuple[Reply, int]], step: int, most: int) -> tuple[int, str]:
    """Counts what comes in pages, up to ``most``, and returns the id of the last one too. ``page`` asks for so many behind an id,
    and says how many the server was asked for."""
    count, last = 0, ""
    while count < most:
        reply, wanted = page(last, min(step, most - count))
        some, at = _skipped(reply)
        if some == 0:
            break
        count, last = count + some, at
        if some < wanted:
            break
    return count, last


def _skipped(reply: Reply) -> tuple[int, str]:
    """Reads the answer to a script that counts, or the entries themselves."""
    with translate_errors():
        parts = list_of(reply)
        if len(parts) == 2 and isinstance(parts[0], int):
            return number_of(parts[0]), text_of(parts[1])
        return len(parts), text_of(list_of(parts[-1])[0]) if parts else ""


# Parts of a list, each in the order of ids: entries that were never delivered, or the claims of one consumer. A part knows its
# length, and the ids at some positions. A window near one of these is counted from there, exactly. Further away, beyond
# ``_WALKED`` entries, its beginning is estimated by the times in the ids: a list of millions opens anywhere at once.

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


class PendingPart(Part):
    """Messages that the list of pending ones has under one consumer, with its verdict ``judged``; None: they were handed back.
    ``delayed``: they wait for the end of a delay. ``now`` is the clock of the server."""

    def __init__(
        self, fetcher: StreamFetcher, consumer: str, count: int, now: Callable[[], float], *,
        judged: JudgedMember | None = None, span: tuple[str, str] | None = None, delayed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(fetcher, count, "", span)
        self.consumer = consumer
        self.judged = judged
        self._now = now
        self._delayed = delayed

    def row_of(self, claim: PendingEntry, not_before: float | None = None) -> Row:
        """Makes the row of one message."""
        return waiting_row(claim, not_before) if self.judged is None else claim_row(claim, self.judged)

    def page(self, before: str, most: int) -> list[Row]:
        claims = self._fetcher.claims(self.consumer, id_after(before), most, self._now())
        delays = self._fetcher.delays([one.id for one in claims]) if self._delayed else [None] * len(claims)
        return [self.row_of(claim, delay) for claim, delay in zip(claims, delays, strict=True)]

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


class PagedListing:
    """List of ``parts``, one after the other, from the end with ``backwards``. Of a window that cannot be
    fetched there are the rows that were shown before, also by the list ``before`` of the same query, if any."""

    timed = False
    ordered_over: int | None = None

    def __init__(
        self, query: ListQuery, parts: Sequence[Part], *, backwards: bool, complete: bool, generation: int,
        before: PagedListing | None = None,
    ) -> None:  # fmt: skip
        self.query = query
        self.complete = complete
        self.generation = generation
        self._parts = parts
        self._backwards = backwards
        self._count = sum(part.count for part in parts)
        self._last: tuple[int, int, Sequence[Row]] = (0, 0, ())
        self._stale: tuple[int, int, Sequence[Row]] = (0, 0, ()) if before is None else before.shown

    @property
    def shown(self) -> tuple[int, int, Sequence[Row]]:
        """The window that was fetched last, with its rows."""
        return self._last if self._last[2] else self._stale

    def __len__(self) -> int:
        return self._count

    def window(self, start: int, stop: int) -> Sequence[Row]:
        start, stop = max(0, start), min(self._count, max(0, stop))
        begin, end, rows = self._last
        if begin <= start and stop <= end:
            return rows[start - begin : stop - begin]
        first, last = (self._count - stop, self._count - start) if self._backwards else (start, stop)
        found: list[Row] = []
        try:
            for part in self._parts:
                if first < part.count and last > 0:
                    found += part.window(first, last)
                first, last = first - part.count, last - part.count
        except ServerTrouble:  # the rows that were fetched before are stale, as all that is shown then
            if not begin <= start < end:
                begin, end, rows = self._stale
            return rows[start - begin : stop - begin] if begin <= start < end else ()
        if self._backwards:
            found.reverse()
        if len(found) == stop - start:
            self._last = (start, stop, found)
        return found

    def find(self, key: Key) -> int | None:
        if not isinstance(key, tuple) or len(key) < 2 or key[0] != self.query.box:
            return None
        begin, _, rows = self._last
        for place, row in enumerate(rows):
            if row.key == key:
                return begin + place
        before = 0
        try:
            for part in self._parts:
                if (at := part.find(str(key[1]))) is not None:
                    return self._count - 1 - before - at if self._backwards else before + at
                before += part.count
        except ServerTrouble:
            return None
        return None

    def keys(self) -> Iterator[Key]:
        """Yields all keys, in order. Raises ``Unreadable`` where the server stops answering."""
        try:
            for part in reversed(self._parts) if self._backwards else self._parts:
                if self._backwards:
                    yield from [row.key for page in part.rows() for row in page][::-1]
                else:
                    for page in part.rows():
                        yield from (row.key for row in page)
        except ServerTrouble as trouble:
            raise Unreadable(str(trouble), advice="try again") from None


def in_order_of_ids(query: ListQuery) -> bool | None:
    """Returns whether a list begins with its end, where the server has it in order already; None where it has not."""
    if query.filter or (query.selection is not None and query.selection != type(query.selection)(box=query.box)):
        everything = query.selection is None or query.selection == type(query.selection)(everything=True)
        if query.filter or not everything:
            return None
    column, descending = query.sort.column, query.sort.descending
    if query.box is Box.NEW and column in ("age", "held"):
        return not descending
    if query.box is Box.NEW and column == "name":
        return descending
    if query.box is Box.CUR and column == "verdict" and descending:
        return False
    return None
