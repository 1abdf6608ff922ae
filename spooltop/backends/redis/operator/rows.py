"""Messages of a group as rows, found in pages that the server answers fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box, Owner, Verdict

from ..client import Reply
from ..stream_names import LeaseRecord, StreamNames
from . import scripts
from .connection import OperatorConnection, Word, listed, text_of, whole

HANDED_BACK, WAITING = "~spooltop", "~later"
"""Consumers that are no programs: see ``queue.scripts``."""
_PAGE = 500
_HEADS = 100
"""Entries whose contents the server reads in one step."""
_TOGETHER = 25
"""Messages that are asked for by their ids at once: each is a script of its own, and nobody else is answered meanwhile."""
_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})\Z")


class JudgedConsumer(NamedTuple):
    """The verdict on a consumer, which holds for all of its claims. ``ends``: it is gone, and dead once its lease ends."""

    verdict: Verdict
    evidence: str
    owner: Owner | None = None
    ends: bool = False


Judge = Callable[[Sequence[str]], Mapping[str, JudgedConsumer]]
"""Judges consumers by their names."""


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
    """Messages of the group ``names.group``. ``judge`` judges the consumers that hold some."""

    def __init__(self, server: OperatorConnection, names: StreamNames, judge: Judge) -> None:
        self._server = server
        self._names = names
        self._judge = judge
        self.ending: dict[str, str] = {}
        """Consumers that were met and are dead once their leases end, with the evidence."""

    def of(self, box: Box, *, heads: bool = True, ids: Sequence[str] | None = None) -> Iterator[PinnedRow]:
        """Yields the messages of ``box``, the oldest first; those with ``ids`` in its stream, where these are given: a few of
        many are found without a search. ``heads`` False: without size and source of claims, which the server finds slowly."""
        wanted = None if ids is None else sorted((id for id in ids if _ID.match(id)), key=_order)
        if box in (Box.CUR, Box.NEW):
            yield from self._claims(wanted, heads=heads, back=box is Box.NEW)
        if box is Box.NEW:
            yield from self._undelivered(wanted)
        elif box in (Box.HELD, Box.REJECTED, Box.TRASH):
            for page in self._pages(scripts.ASIDE_ROWS, side_stream(self._names, box), "-", _HEADS, wanted):
                for one in page:
                    yield _aside_row(box, listed(one))

    def _claims(self, ids: Sequence[str] | None, *, heads: bool, back: bool) -> Iterator[PinnedRow]:
        """Yields the claims of programs, or those that were handed ``back``."""
        judged: dict[str, JudgedConsumer] = {}
        for page in self._pages(scripts.PENDING_ROWS, self._names.stream, "-", _PAGE, ids, self._names.group):
            found = [_claim(one) for one in page]
            wanted = [one for one in found if (one[1] in (HANDED_BACK, WAITING)) is back]
            unknown = {one[1] for one in wanted} - judged.keys()
            if unknown and not back:
                judged.update(self._judge(sorted(unknown)))
                self.ending |= {name: one.evidence for name, one in judged.items() if one.ends}
            described = self._heads([one[0] for one in wanted]) if heads else {}
            for id, consumer, delivered, tries in wanted:
                yield _pinned_claim(id, consumer, delivered, tries, described.get(id, (None, None)), judged.get(consumer))

    def _heads(self, ids: Sequence[str]) -> dict[str, tuple[int | None, str | None]]:
        found: dict[str, tuple[int | None, str | None]] = {}
        for start in range(0, len(ids), _HEADS):
            some = ids[start : start + _HEADS]
            for one in listed(self._server.run("look", scripts.HEADS, [self._names.stream], some)):
                id, size, source = listed(one)[:3]
                found[text_of(id)] = whole(size), None if source is None else text_of(source)
        return found

    def _undelivered(self, ids: Sequence[str] | None) -> Iterator[PinnedRow]:
        last = self.last_delivered()
        behind = None if ids is None else [id for id in ids if _order(id) > _order(last)]
        for page in self._pages(scripts.NEW_ROWS, self._names.stream, f"({last}", _HEADS, behind):
            for one in page:
                id, size, source = listed(one)[:3]
                name = text_of(id)
                yield PinnedRow(
                    Row(("new", name), Box.NEW, name, name, whole(size), entered(name), entered(name),
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
                firsts = ((id, listed(page)) for id, page in zip(some, pages, strict=True))
                yield [page[0] for id, page in firsts if page and text_of(listed(page[0])[0]) == id]
            return
        while True:
            page = listed(self._server.run("look", script, [key], [*before, first, count]))
            if page:
                yield page
                first = f"({text_of(listed(page[-1])[0])}"
            if len(page) < count:
                return

    def last_delivered(self) -> str:
        """Returns the last id that was delivered to the group. Raises ``Unreadable`` where there is no such group."""
        return groups_of(self._server, self._names)[self._names.group]


def groups_of(server: OperatorConnection, names: StreamNames) -> dict[str, str]:
    """Returns the groups of the stream, with the id last delivered to each. Raises as ``OperatorConnection.ask``."""
    found: dict[str, str] = {}
    for one in listed(server.ask("look", ("XINFO", "GROUPS", names.stream))[0]):
        flat = listed(one)
        facts = {text_of(name): value for name, value in zip(flat[::2], flat[1::2], strict=False)}
        found[text_of(facts.get("name"))] = text_of(facts.get("last-delivered-id"))
    return found


def _order(id: str) -> tuple[int, int]:
    """Returns the place of an id among others."""
    found = _ID.match(id)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def side_stream(names: StreamNames, box: Box) -> str:
    """Returns the stream of a box of messages that were set aside."""
    return {Box.HELD: names.held, Box.REJECTED: names.rejected, Box.TRASH: names.trash}[box]


def entered(id: str) -> float | None:
    """Returns when an entry was made, by its id, in epoch seconds; None for an id that says nothing."""
    digits = id.partition("-")[0]
    return int(digits) / 1000 if digits.isascii() and digits.isdigit() and 0 < len(digits) < 16 else None


def leases(server: OperatorConnection, names: StreamNames) -> Judge:
    """Returns a judge of consumers by their leases alone."""

    def judge(consumers: Sequence[str]) -> dict[str, JudgedConsumer]:
        known = server.ask("look", *(("HGET", names.consumers, one) for one in consumers))
        runs = server.ask("look", *(("EXISTS", names.lease(one)) for one in consumers))
        found = zip(consumers, runs, known, strict=True)
        return {one: _by_lease(one, whole(run) == 1, leased) for one, run, leased in found}

    return judge


def _by_lease(name: str, runs: bool, leased: Reply) -> JudgedConsumer:
    moves_to = None if leased is None else LeaseRecord.parse(text_of(leased)).moves_to
    owner = Owner(name=name, moves_to=None if moves_to is None else moves_to.name)
    if runs:
        return JudgedConsumer(Verdict.ALIVE, "its lease runs", owner)
    if leased is not None:
        return JudgedConsumer(Verdict.DEAD, "its lease has ended", owner)
    return JudgedConsumer(Verdict.UNKNOWN, f"nothing proves whether {escape(name)} runs", owner)


def _claim(reply: Reply) -> tuple[str, str, int, int]:
    id, consumer, delivered, tries = listed(reply)[:4]
    return text_of(id), text_of(consumer), whole(delivered), whole(tries)


def _pinned_claim(
    id: str, consumer: str, delivered: int, tries: int, head: tuple[int | None, str | None], judged: JudgedConsumer | None
) -> PinnedRow:
    if consumer in (HANDED_BACK, WAITING):
        row = Row(("new", id), Box.NEW, id, id, head[0], entered(id), entered(id), source=head[1], attempt=tries)
        return PinnedRow(row, id, consumer, tries, delivered)
    found = judged or JudgedConsumer(Verdict.UNKNOWN, "its consumer is not known", Owner(name=consumer))
    row = Row(
        ("cur", id), Box.CUR, id, id, head[0], entered(id), delivered / 1000, source=head[1], attempt=tries,
        verdict=found.verdict, evidence=found.evidence, owner=found.owner,
    )  # fmt: skip
    return PinnedRow(row, id, consumer, tries, delivered)


def _aside_row(box: Box, reply: Sequence[Reply]) -> PinnedRow:
    id, size, source, first, tries, why, origin, by = reply[:8]
    here = text_of(id)
    known = here if first is None else text_of(first)
    number = text_of(tries) if tries is not None else ""
    attempt = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
    row = Row(
        (box.value, here), box, known, here, whole(size), entered(known), entered(here),
        source=None if source is None else text_of(source), attempt=attempt,
        reason="" if why is None else text_of(why), owner=None if by is None else Owner(name=text_of(by)),
    )  # fmt: skip
    return PinnedRow(row, here, tries=attempt or 0, origin="" if origin is None else text_of(origin))

