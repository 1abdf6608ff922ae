"""Entries and claims of a stream as rows, and lists of them that page: windows are fetched when they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from time import time
from typing import TypeAlias

from msgspec import Struct, field

from spooltop.model import ASIDE, Box, Frozen, Key, ListQuery, Owner, Row, Selection, Unavailable, Verdict

from ..client import ErrorReply, Nonsense, Reply, bytes_of, list_of, number_of, text_of
from ..stream_names import LATER, StreamNames
from .server import DESCRIBED, SKIP, ZERO, Command, JudgedMember, checked_id, entry_time, id_order, no_script, translate_errors

# Rows of lists: entries that wait, claims, and messages that were set aside.


class PendingEntry(Frozen):
    """An entry, claimed by ``consumer`` at ``delivered`` (milliseconds of the server's clock), if it was delivered. ``size`` is
    None where it was not asked for, and where its entry is ``gone``: deleted or trimmed."""

    id: str
    consumer: str = ""
    delivered: int = 0
    deliveries: int = 0
    size: int | None = None
    source: str | None = None
    gone: bool = False
    notes: Mapping[str, str] = {}
    """Notes of spooltop about a message that was set aside, or put again."""


def fields_by_name(reply: Reply) -> dict[bytes, bytes]:
    """Returns the fields of an entry."""
    flat = [bytes_of(one) for one in list_of(reply)]
    return dict(zip(flat[::2], flat[1::2], strict=False))


def _described(
    id: Reply, consumer: Reply, idle: Reply = 0, deliveries: Reply = 0, size: Reply = -2, source: Reply = None,
    notes: Reply = None, now: Reply = None,
) -> PendingEntry:  # fmt: skip
    """Parses what the script DESCRIBED returns of an entry or a claim, or what the command itself does: then the fields of an
    entry are in place of ``consumer``."""
    fields = fields_by_name(consumer if isinstance(consumer, list) else notes or [])
    if isinstance(consumer, list):
        own = sum(len(name) + len(value) for name, value in fields.items() if not name.startswith(b"~"))
        size, source = len(fields[b"data"]) if b"data" in fields else own, fields.get(b"source")
    number, at = number_of(size), round(time() * 1000) if now is None else number_of(now)
    return PendingEntry(
        checked_id(id), text_of(consumer) if isinstance(consumer, bytes) else "", at - number_of(idle), number_of(deliveries),
        None if number < 0 else number, None if source is None else text_of(source), number == -1,
        {text_of(name): text_of(value) for name, value in fields.items() if name.startswith(b"~")},
    )  # fmt: skip


def claim_row(claim: PendingEntry, judged: JudgedMember | None) -> Row:
    """Returns the row of a claim. Its key holds what a change is checked against, besides the time: the consumer and the number
    of deliveries."""
    return Row(
        ("cur", claim.id, claim.consumer, claim.deliveries), Box.CUR, claim.id, claim.id, claim.size, entry_time(claim.id),
        claim.delivered / 1000, False, claim.source, claim.deliveries, Verdict.UNKNOWN if judged is None else judged.verdict,
        "its consumer is not known" if judged is None else judged.evidence,
        Owner(name=claim.consumer) if judged is None else judged.owner,
        "its entry was deleted or trimmed; only the claim is left" if claim.gone else "",
    )  # fmt: skip


def waiting_row(entry: PendingEntry, not_before: float | None = None) -> Row:
    """Returns the row of an entry that was never delivered, or was handed back and waits as the new ones do."""
    at = entry_time(entry.id)
    note = "its entry was deleted or trimmed" if entry.gone else ""
    return Row(
        ("new", entry.id), Box.NEW, entry.id, entry.id, entry.size, at, at, False, entry.source, entry.deliveries, note=note,
        not_before=not_before,
    )  # fmt: skip


def aside_row(box: Box, entry: PendingEntry, retention: float | None = None) -> Row:
    """Returns the row of a message that was set aside as the ``entry`` of a side stream. Its notes say which it was."""
    own, since, tries = entry.notes.get("~id", entry.id), entry_time(entry.id), entry.notes.get("~tries", "")
    try:
        put_at: float | None = entry_time(own)
    except Nonsense:
        put_at = None
    return Row(
        (box.value, entry.id), box, own, entry.id, entry.size, put_at, since, source=entry.source,
        attempt=int(tries) if tries.isascii() and tries.isdecimal() and len(tries) < 10 else None,
        reason=_reason(box, entry.notes), expires_at=None if not retention or box is not Box.TRASH else since + retention,
    )  # fmt: skip


def _reason(box: Box, notes: Mapping[str, str]) -> str:
    """Says why a message was set aside: what its consumer said, else who did it."""
    if (why := notes.get("~why")) or "~by" not in notes:
        return why or ""
    done = {Box.HELD: "held", Box.TRASH: f"purged from {notes.get('~from', 'the group')}"}.get(box, "set aside")
    return f"{done} by {notes['~by']}"


# Fetches pieces of a stream and of the list of pending messages: short ones, without the contents of entries.

_PAGE = 100
"""Entries in one answer."""
_CLAIMS_PAGE = 50
"""Claims in one answer, each with the size of its entry."""
_PLAIN_CLAIMS = 500
"""Claims in one answer without the sizes of their entries."""
_SKIPPED = 200
"""Entries that the server counts in one step: it reads their contents for that, some 3.5 µs each."""
_CLAIMS_SKIPPED = 500


def id_after(id: str) -> str:
    """Returns where a range begins that goes on behind ``id``; empty: at the beginning."""
    return f"({id}" if id else "-"


class StreamFetcher(Struct):
    """Reads one stream and one of its groups: the entries in ``Box.NEW`` or in the side stream of a box, or in ``Box.CUR`` the
    claims, of a ``consumer`` or of all. Every method may raise ``Unavailable``."""

    _ask: Callable[..., list[Reply]]
    _names: StreamNames
    entry_size: int = 0
    """Bytes of an entry in the mean, as far as that is known."""
    _scripts: bool = True
    """False for a user who may not run scripts."""

    def span(
        self, box: Box, begin: str, end: str, count: int, consumer: str | None = None, *, back: bool = False
    ) -> Command:  # fmt: skip
        """Returns the command that reads up to ``count`` entries or claims between two ids, the last ones first with ``back``."""
        if box is not Box.CUR:
            name, *ends = ("XREVRANGE", end, begin) if back else ("XRANGE", begin, end)
            return (name, self._names.of_box(box), *ends, "COUNT", count)
        named = () if consumer is None else (consumer,)  # a name may be empty
        return ("XPENDING", self._names.stream, self._names.group, begin, end, count, *named)

    def read(self, *spans: Command, heads: bool = True) -> list[list[PendingEntry]]:
        """Returns what each of some commands reads; without size and source of claims, which the server finds slowly, where
        ``heads`` is False."""
        replies = self._run(spans, DESCRIBED, "heads" if heads else "") if spans else ()
        with translate_errors():
            return [[_described(*list_of(one)) for one in list_of(reply)] for reply in replies]

    def _run(self, spans: Sequence[Command], script: str, *words: str) -> list[Reply]:
        """Returns the answers to a script for each of some commands, or to the commands themselves."""
        if self._scripts:
            replies = self._ask(*(("EVAL_RO", script, 1, span[1], *words, *span) for span in spans))
            if not any(map(no_script, replies)):
                return replies
            self._scripts = False
        return self._ask(*spans)

    def pages(
        self, box: Box, begin: str, end: str = "+", most: int = 1 << 62, consumer: str | None = None, *, heads: bool = True
    ) -> Iterator[list[PendingEntry]]:  # fmt: skip
        """Yields up to ``most`` entries or claims between two ids, oldest id first."""
        step = self.fitting(_PAGE if box is not Box.CUR else _CLAIMS_PAGE if heads else _PLAIN_CLAIMS)
        while most > 0:
            wanted = min(step, most)
            (found,) = self.read(self.span(box, begin, end, wanted, consumer), heads=heads)
            yield found
            if len(found) < wanted:
                return
            most, begin = most - wanted, f"({found[-1].id}"

    def skip(
        self, begin: str, end: str, most: int, box: Box = Box.NEW, consumer: str | None = None, *, back: bool = False
    ) -> tuple[int, str]:  # fmt: skip
        """Returns how many entries or claims, up to ``most``, lie between two ids, and the id of the last of them, of the first
        with ``back``."""
        step, count, last = _CLAIMS_SKIPPED if box is Box.CUR else self.fitting(_SKIPPED), 0, ""
        while count < most:
            wanted = min(step, most - count)
            number, at, _ = self._skipped(self.span(box, begin, end, wanted, consumer, back=back))
            count, last = count + number, at or last
            if number < wanted:
                break
            begin, end = (begin, f"({last}") if back else (f"({last}", end)
        return count, last

    def first(self, begin: str) -> tuple[str, int]:
        """Returns the id of the first entry from an id on, "" where there is none, and its size."""
        return self._skipped(self.span(Box.NEW, begin, "+", 1))[1:]

    def _skipped(self, span: Command) -> tuple[int, str, int]:
        (reply,) = self._run([span], SKIP)
        with translate_errors():
            found = list_of(reply)
            if not self._scripts:
                return len(found), text_of(list_of(found[-1])[0]) if found else "", 0
            number, last, size = found
            return number_of(number), text_of(last), number_of(size)

    def fitting(self, most: int, size: int = 1 << 20) -> int:
        """Returns how many entries, up to ``most``, the server reads in one step of about ``size`` bytes."""
        return max(1, min(most, size // max(1, self.entry_size)))

    def delays(self, ids: list[str]) -> list[float | None]:
        """Returns when the delay of each message ends, in epoch seconds; None where it has none."""
        if not ids:
            return []
        (reply,) = self._ask(("ZMSCORE", self._names.later, *ids))
        if isinstance(reply, ErrorReply):
            return [None] * len(ids)
        with translate_errors():
            return [None if one is None else float(text_of(one)) / 1000 for one in list_of(reply)]

    def entry(self, box: Box, id: str) -> Mapping[bytes, bytes] | None:
        """Returns the fields of one entry; None where it is gone."""
        (reply,) = self._ask(("XRANGE", self._names.of_box(box), id, id, "COUNT", 1))
        with translate_errors():
            return next((fields_by_name(list_of(one)[1]) for one in list_of(reply)), None)

    def claim(self, id: str) -> PendingEntry | None:
        """Returns who holds a message now, without its size; None where nobody does."""
        (found,) = self.read(self.span(Box.CUR, id, id, 1), heads=False)
        return found[0] if found else None


# Parts of a list, each in the order of ids: entries that were never delivered, or the claims of one consumer. A part knows its
# length, and the ids at some positions. A window near one of these is counted from there, exactly. Further away, beyond
# ``_WALKED`` entries, its beginning is estimated by the times in the ids: a list of millions opens anywhere at once.

_WALKED = 10_000


class Part(Struct):
    """A part with ``count`` rows: entries that wait, messages that were set aside into a ``box``, or what the list of pending
    ones (``Box.CUR``) has under a ``consumer``, with its verdict ``judged``; None: they were handed back, and wait. ``span`` are
    the ids of its first and last row, as far as they are known, ``marks`` are positions, each with the id of the row before
    it."""

    fetcher: StreamFetcher
    count: int
    box: Box
    consumer: str | None = None
    judged: JudgedMember | None = None
    span: tuple[str, str] | None = None
    retention: float = 0.0
    marks: dict[int, str] = field(default_factory=lambda: {0: ""})

    def window(self, start: int, stop: int) -> list[Row]:
        """Returns the rows ``start`` to ``stop``, in the order of ids."""
        start, stop = max(0, start), min(self.count, stop)
        if stop <= start:
            return []
        behind = self.count - start
        if self.consumer is None and behind <= _WALKED and behind < start - self._nearest(start):
            _, first = self.fetcher.skip(id_after(self.marks[0]), "+", behind, back=True)
            return self._between(first, "+", stop - start) if first else []
        found = self._between(id_after(self._before(start)), "+", stop - start)
        if found and start + len(found) < self.count:
            self.marks[start + len(found)] = found[-1].id
        return found

    def rows(self) -> Iterator[Sequence[Row]]:
        """Yields all rows in pages."""
        return map(self._rows, self.fetcher.pages(self.box, id_after(self.marks[0]), consumer=self.consumer))

    def find(self, id: str) -> int | None:
        """Returns the position of an id, None where it is not in this part; far from every known position it is estimated."""
        order = id_order(id)
        known = [at for at, mark in self.marks.items() if id_order(mark or ZERO) < order]
        if 0 not in known or not self._between(id, id, 1):
            return None
        at = max(known)
        counted, last = self._skip(self.marks[at], id, min(_WALKED, self.count))
        if last == id:
            return at + counted - 1
        if self.span is None:
            return None
        first, last_time = self._times()
        estimated = min(self.count - 1, (order[0] - first) * self.count // max(1, last_time - first))
        self.marks[estimated + 1] = id
        return estimated

    def _between(self, begin: str, end: str, most: int) -> list[Row]:
        """Fetches up to ``most`` rows between two ids."""
        return [*chain.from_iterable(map(self._rows, self.fetcher.pages(self.box, begin, end, most, self.consumer)))]

    def _skip(self, before: str, end: str, most: int) -> tuple[int, str]:
        """Counts up to ``most`` rows behind the id ``before``; returns the id of the last of them too."""
        return self.fetcher.skip(id_after(before), end, most, self.box, self.consumer)

    def _rows(self, found: list[PendingEntry]) -> list[Row]:
        if self.judged is not None:
            return [claim_row(claim, self.judged) for claim in found]
        if self.box in ASIDE:
            return [aside_row(self.box, head, self.retention) for head in found]
        delays = self.fetcher.delays([one.id for one in found]) if self.consumer == LATER else [None] * len(found)
        return list(map(waiting_row, found, delays))

    def _nearest(self, start: int) -> int:
        """Returns the last position up to ``start`` before which the id is known."""
        return max(at for at in self.marks if at <= start)

    def _before(self, start: int) -> str:
        """Returns the id of the row before the position ``start``."""
        position = self._nearest(start)
        before = self.marks[position]
        if start - position > _WALKED and self.span is not None:
            first, last = self._times()
            before = self.marks[start] = f"{first + (last - first) * start // self.count}-0"
            return before
        while position < start:
            counted, last_id = self._skip(before, "+", min(5_000, start - position))
            if counted == 0:
                break
            position, before = position + counted, last_id
            self.marks[position] = before
        return before

    def _times(self) -> tuple[int, int]:
        """Returns the times of the first and the last row, in milliseconds."""
        assert self.span is not None
        first, last = (id_order(one)[0] for one in self.span)
        return first, last


Window: TypeAlias = "tuple[int, int, Sequence[Row]]"
"""Its start, its stop, and its rows."""


class PagedListing(Struct):
    """List of ``parts``, one after the other, from the end with ``backwards``. Of a window that cannot be fetched there are the
    rows that were shown before, also by another list of the same query, which had ``stale``."""

    query: ListQuery
    _parts: Sequence[Part]
    _backwards: bool
    complete: bool
    generation: int
    _stale: Window = (0, 0, ())
    _last: Window = (0, 0, ())
    timed: bool = False
    ordered_over: int | None = None

    @property
    def shown(self) -> Window:
        """The window that was fetched last, with its rows."""
        return self._last if self._last[2] else self._stale

    def __len__(self) -> int:
        return sum(part.count for part in self._parts)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        count = len(self)
        start, stop = max(0, start), min(count, max(0, stop))
        begin, end, rows = self._last
        if begin <= start and stop <= end:
            return rows[start - begin : stop - begin]
        first, last = (count - stop, count - start) if self._backwards else (start, stop)
        found: list[Row] = []
        try:
            for part in self._parts:
                if first < part.count and last > 0:
                    found += part.window(first, last)
                first, last = first - part.count, last - part.count
        except Unavailable:  # the rows that were fetched before are stale, as all that is shown then
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
                    return len(self) - 1 - before - at if self._backwards else before + at
                before += part.count
        except Unavailable:
            return None
        return None

    def keys(self) -> Iterator[Key]:
        """Yields all keys, in order. Raises ``Unavailable``."""
        for part in reversed(self._parts) if self._backwards else self._parts:
            rows = (row.key for page in part.rows() for row in page)
            yield from reversed(list(rows)) if self._backwards else rows


def in_order_of_ids(query: ListQuery) -> bool | None:
    """Returns whether a list begins with its end, where the server has it in order already; None where it has not."""
    everything = query.selection in (None, Selection(box=query.box), Selection(everything=True))
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
