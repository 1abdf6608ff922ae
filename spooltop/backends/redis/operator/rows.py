"""Messages of a group as rows, found in pages that the server answers fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict

from ..client import Reply, fields_of, list_of, number_of, text_of
from ..stream_names import StreamNames
from ..streams.server import ID, id_order
from ..streams.verdicts import JudgedMember
from . import scripts
from .connection import OperatorConnection, Word

HANDED_BACK, WAITING = "~spooltop", "~later"
"""Consumers that are no programs: see ``queue.scripts``."""
_PAGE = 500
_HEADS = 100
"""Entries whose contents the server reads in one step."""
_TOGETHER = 25
"""Messages that are asked for by their ids at once: each is a script of its own, and nobody else is answered meanwhile."""


Judge = Callable[[], Mapping[str, JudgedMember]]
"""Judges the consumers of the group, by their names."""


class PinnedRow(NamedTuple):
    """A row, and what pins it: the ``id`` in the stream of its box, and of a claim its consumer, the number of its deliveries and
    when it was delivered, in milliseconds of the server's clock. ``origin`` is the box that a message in the trash came from."""

    row: Row
    id: str
    consumer: str = ""
    tries: int = 0
    delivered: int = 0
    origin: str = ""


class GroupRows:
    """Messages of the group ``names.group``. ``judge`` judges its consumers."""

    def __init__(self, server: OperatorConnection, names: StreamNames, judge: Judge) -> None:
        self._server = server
        self._names = names
        self._judge = judge
        self.ending: dict[str, str] = {}
        """Consumers that were met and are dead once their leases end, with the evidence."""

    def of(self, box: Box, *, heads: bool = True, ids: Sequence[str] | None = None) -> Iterator[PinnedRow]:
        """Yields the messages of ``box``, the oldest first; those with ``ids`` in its stream, where these are given: a few of
        many are found without a search. ``heads`` False: without size and source of claims, which the server finds slowly."""
        wanted = None if ids is None else sorted((id for id in ids if ID.match(id)), key=id_order)
        if box in (Box.CUR, Box.NEW):
            yield from self._claims(wanted, heads=heads, back=box is Box.NEW)
        if box is Box.NEW:
            yield from self._undelivered(wanted)
        elif box in (Box.HELD, Box.REJECTED, Box.TRASH):
            for page in self._pages(scripts.ASIDE_ROWS, side_stream(self._names, box), "-", _HEADS, wanted):
                for one in page:
                    yield _aside_row(box, list_of(one))

    def _claims(self, ids: Sequence[str] | None, *, heads: bool, back: bool) -> Iterator[PinnedRow]:
        """Yields the claims of programs, or those that were handed ``back``."""
        judged: dict[str, JudgedMember] = {}
        for page in self._pages(scripts.PENDING_ROWS, self._names.stream, "-", _PAGE, ids, self._names.group):
            found = [_claim(one) for one in page]
            wanted = [one for one in found if (one[1] in (HANDED_BACK, WAITING)) is back]
            unknown = {one[1] for one in wanted} - judged.keys()
            if unknown and not back:
                known = self._judge()
                judged |= {name: known[name] for name in unknown if name in known}
                self.ending |= {name: one.evidence for name, one in judged.items() if one.ends}
            described = self._heads([one[0] for one in wanted]) if heads else {}
            for id, consumer, delivered, tries in wanted:
                yield _pinned_claim(id, consumer, delivered, tries, described.get(id, (None, None)), judged.get(consumer))

    def _heads(self, ids: Sequence[str]) -> dict[str, tuple[int | None, str | None]]:
        found: dict[str, tuple[int | None, str | None]] = {}
        for start in range(0, len(ids), _HEADS):
            some = ids[start : start + _HEADS]
            for one in list_of(self._server.run("look", scripts.HEADS, [self._names.stream], some)):
                id, size, source = list_of(one)[:3]
                found[text_of(id)] = number_of(size), None if source is None else text_of(source)
        return found

    def _undelivered(self, ids: Sequence[str] | None) -> Iterator[PinnedRow]:
        last = self.last_delivered()
        behind = None if ids is None else [id for id in ids if id_order(id) > id_order(last)]
        for page in self._pages(scripts.NEW_ROWS, self._names.stream, f"({last}", _HEADS, behind):
            for one in page:
                id, size, source = list_of(one)[:3]
                name = text_of(id)
                yield PinnedRow(
                    Row(("new", name), Box.NEW, name, name, number_of(size), entered(name), entered(name),
                        source=None if source is None else text_of(source), attempt=0),
                    name,
                )  # fmt: skip

    def _pages(
        self, script: str, key: str, first: str, count: int, ids: Sequence[str] | None, *before: Word
    ) -> Iterator[Sequence[Reply]]:
        """Yields what a script returns, in pages: all from ``first`` on, or those with ``ids``."""
        if ids is not None:
            for start in range(0, len(ids), _TOGETHER):
                some = ids[start : start + _TOGETHER]
                pages = self._server.ask("look", *(("EVAL", script, 1, key, *before, id, 1) for id in some))
                firsts = ((id, list_of(page)) for id, page in zip(some, pages, strict=True))
                yield [page[0] for id, page in firsts if page and text_of(list_of(page[0])[0]) == id]
            return
        while True:
            page = list_of(self._server.run("look", script, [key], [*before, first, count]))
            if page:
                yield page
                first = f"({text_of(list_of(page[-1])[0])}"
            if len(page) < count:
                return

    def last_delivered(self) -> str:
        """Returns the last id that was delivered to the group. Raises ``Unreadable`` where there is no such group."""
        return groups_of(self._server, self._names)[self._names.group]


def groups_of(server: OperatorConnection, names: StreamNames) -> dict[str, str]:
    """Returns the groups of the stream, with the id last delivered to each. Raises as ``OperatorConnection.ask``."""
    found: dict[str, str] = {}
    for one in list_of(server.ask("look", ("XINFO", "GROUPS", names.stream))[0]):
        facts = fields_of(one)
        found[text_of(facts.get("name"))] = text_of(facts.get("last-delivered-id"))
    return found


def side_stream(names: StreamNames, box: Box) -> str:
    """Returns the stream of a box of messages that were set aside."""
    return {Box.HELD: names.held, Box.REJECTED: names.rejected, Box.TRASH: names.trash}[box]


def entered(id: str) -> float | None:
    """Returns when an entry was made, by its id, in epoch seconds; None for an id that says nothing."""
    digits = id.partition("-")[0]
    return int(digits) / 1000 if digits.isascii() and digits.isdigit() and 0 < len(digits) < 16 else None


def _claim(reply: Reply) -> tuple[str, str, int, int]:
    id, consumer, delivered, tries = list_of(reply)[:4]
    return text_of(id), text_of(consumer), number_of(delivered), number_of(tries)


def _pinned_claim(
    id: str, consumer: str, delivered: int, tries: int, head: tuple[int | None, str | None], judged: JudgedMember | None
) -> PinnedRow:
    if consumer in (HANDED_BACK, WAITING):
        row = Row(("new", id), Box.NEW, id, id, head[0], entered(id), entered(id), source=head[1], attempt=tries)
        return PinnedRow(row, id, consumer, tries, delivered)
    row = Row(
        ("cur", id), Box.CUR, id, id, head[0], entered(id), delivered / 1000, source=head[1], attempt=tries,
        verdict=Verdict.UNKNOWN if judged is None else judged.verdict,
        evidence="its consumer is not known" if judged is None else judged.evidence,
        owner=Owner(name=consumer) if judged is None else judged.owner,
    )  # fmt: skip
    return PinnedRow(row, id, consumer, tries, delivered)


def _aside_row(box: Box, reply: Sequence[Reply]) -> PinnedRow:
    id, size, source, first, tries, why, origin, by = reply[:8]
    here = text_of(id)
    known = here if first is None else text_of(first)
    number = text_of(tries) if tries is not None else ""
    attempt = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
    row = Row(
        (box.value, here), box, known, here, number_of(size), entered(known), entered(here),
        source=None if source is None else text_of(source), attempt=attempt,
        reason="" if why is None else text_of(why), owner=None if by is None else Owner(name=text_of(by)),
    )  # fmt: skip
    return PinnedRow(row, here, tries=attempt or 0, origin="" if origin is None else text_of(origin))

