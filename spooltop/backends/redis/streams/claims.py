"""Claims of one look: the oldest of the consumers that need attention most, not all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spooltop.model.cursors import CursorSource
from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.look.observation import BoxState, Capacity, Flow, QueueFinding, VerdictCounts
from spooltop.model.row import Row
from spooltop.model.units import size as size_words
from spooltop.model.vocabulary import Box, Verdict

from ..client import ErrorReply
from ..stream_names import HANDED_BACK, HANDED_IDLE, LATER, StreamNames
from .listing import StreamFetcher, claim_row, claims_of, id_after, skipped
from .look import GroupState, JudgedMember, KeptAnswers, Look
from .server import Command, StreamServer, id_order, translate_errors

# Number of the entries that a group has not been given yet, also where the server has lost count of them.

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


# Boxes, verdict counts, flow, capacities and cursors of a stream, from the facts of a look.

_UNTRIMMED = 10_000
"""Entries that are done, of a stream of which nothing was ever deleted."""


def pending_of(look: Look, consumer: str) -> int:
    """Returns the number of pending messages of one consumer."""
    return next((one.pending for one in look.consumers if one.name == consumer), 0)


def box_states(
    look: Look, undelivered: Undelivered, waits_since: float | None, held_since: float | None, now: float, retention: float
) -> dict[Box, BoxState]:
    """Returns the boxes. ``waits_since`` and ``held_since`` are the times of the oldest in ``new`` and in ``cur``."""
    back = pending_of(look, HANDED_BACK) + pending_of(look, LATER)
    new = undelivered.number + back
    used = look.server.used
    size = None if used is None or not look.length else round(used * min(1.0, new / look.length))
    states = {
        Box.NEW: BoxState(
            Box.NEW, new, undelivered.complete, size, size is not None, waits_since if new else None, as_of=now
        ),
        Box.CUR: BoxState(Box.CUR, max(0, look.group.pending - back), oldest_at=held_since, as_of=now),
    }  # fmt: skip
    for box, side in look.aside.items():
        kept = retention if box is Box.TRASH and retention > 0 else None
        expired = int(kept is not None and side.oldest_at is not None and side.oldest_at + kept <= now)
        states[box] = BoxState(
            box, side.length, oldest_at=side.oldest_at, as_of=now, retention=kept, expired=expired, note=side.note,
            expired_is_bound=expired > 0 and (side.length or 0) > 1,
        )  # fmt: skip
    return states


def verdict_counts(judged: Iterable[JudgedMember]) -> VerdictCounts:
    """Counts claims by the verdict on who holds them: exact, however many there are."""
    counts = dict.fromkeys(Verdict, 0)
    for one in judged:
        counts[one.verdict] += one.state.pending
    return VerdictCounts(counts[Verdict.ALIVE], counts[Verdict.DEAD], counts[Verdict.UNKNOWN])


def capacities(look: Look, undelivered: Undelivered, maxlen: int) -> tuple[Capacity, ...]:
    """Returns the memory that the server may still use, where it has a limit; and how many more messages may wait or be worked on
    until producers that trim the stream to ``maxlen`` entries drop some that nobody has done. 0 is not known: a stream does not
    say it (https://redis.io/docs/latest/commands/xtrim/)."""
    server, found = look.server, []
    if server.memory is not None and server.most_memory:
        found.append(Capacity("memory", max(0, server.most_memory - server.memory), server.most_memory))
    if maxlen:
        left = max(0, maxlen - undelivered.number - look.group.pending)
        known = undelivered.complete or left == 0
        found.append(Capacity("maxlen", left if known else None, maxlen, "things", full="the oldest that wait are dropped"))
    return tuple(found)


def warnings(look: Look, oldest_claim: str | None, maxlen: int = 0) -> tuple[QueueFinding, ...]:
    """Returns problems that only a stream has. ``oldest_claim`` is the id of the oldest pending message; producers trim the
    stream to ``maxlen`` entries, 0: not known."""
    found = []
    done = look.length - max((one.lag + one.pending if one.lag is not None else look.length) for one in look.groups)
    if done >= _UNTRIMMED and look.added == look.length > maxlen:
        size = "" if look.server.used is None else f", about {size_words(look.server.used * done // look.length)}"
        text = f"nobody trims the stream: {done:,} done entries are kept{size}; XADD with MAXLEN, or XTRIM, ends that"
        found.append(QueueFinding("untrimmed", text, done, is_note=True))
    if look.server.most_memory and look.server.policy.startswith("allkeys-"):
        text = f"the server may drop the whole stream when its memory is full (maxmemory-policy {look.server.policy})"
        found.append(QueueFinding("lost", text, 1))
    if oldest_claim is not None and (look.first is None or id_order(look.first) > id_order(oldest_claim)):
        text = "the oldest claim has no entry any more: it was trimmed or deleted while it was being processed"
        found.append(QueueFinding("lost", text, 1, (oldest_claim,)))
    return tuple(found)


def hidden_facts(look: Look) -> tuple[str, ...]:
    """Returns the facts that cannot be asked for, those with one reason together."""
    reasons = dict.fromkeys(look.hidden.values())
    return tuple(f"{', '.join(fact for fact, one in look.hidden.items() if one == why)}: {why}" for why in reasons)


def lag_of(look: Look) -> float | None:
    """Returns by how many seconds a replica may be behind its master; None for a master."""
    return float(max(0, look.server.behind or 0)) if look.server.replica else None


def cursor_source(look: Look, shown: str, undelivered: Undelivered) -> CursorSource:
    """Returns the groups as cursors: each with the id of the last entry that it was given, and how many come after it.
    ``undelivered`` are those of the group that is looked at."""
    sections = {group.name: group.last_delivered for group in look.groups}
    behind = {group.name: _behind(look, group) for group in look.groups}
    behind[look.group.name] = (undelivered.number, undelivered.complete)
    return CursorSource(
        shown, True, sections, mtime=look.now, size=len(sections), version=tuple(sections.items()), in_file=False, behind=behind
    )


def _behind(look: Look, group: GroupState) -> tuple[int, bool]:
    """Returns how many entries a group was not given yet, and whether that is exact: the server may have lost count."""
    if not look.length or id_order(look.last) <= id_order(group.last_delivered):
        return 0, True
    if look.first is not None and id_order(look.first) > id_order(group.last_delivered):
        return look.length, True
    return (1, False) if group.lag is None else (min(group.lag, look.length), True)


class _Counters(NamedTuple):
    at: float
    added: int
    read: int | None
    exact: bool
    pending: int
    aside: int


class CounterFlow:
    """Derives the flow from the counters of the server: exact, however fast it is, while the server counts what a group reads."""

    def __init__(self) -> None:
        self._before: _Counters | None = None

    def forget(self) -> None:
        """Begins anew: what happened meanwhile is not known."""
        self._before = None

    def measure(self, look: Look, undelivered: Undelivered, now: float) -> Flow:
        """Returns what came and went since the last look."""
        read, exact = look.group.entries_read, True
        if read is None and undelivered.complete:  # it follows from what was not read: exactly, if no entry was ever deleted
            read, exact = look.added - undelivered.number, look.length == look.added
        aside = sum(side.length or 0 for side in look.aside.values())
        after = _Counters(now, look.added, read, exact, look.group.pending, aside)
        before, self._before = self._before, after
        if before is None or after.added < before.added:
            return Flow(now, now)
        arrived = after.added - before.added
        if read is None or before.read is None or read < before.read:
            return Flow(before.at, now, arrived=arrived, exact=False, measured=True, holders_counted=False)
        claimed = read - before.read
        acked = claimed - (after.pending - before.pending) - max(0, after.aside - before.aside)
        return Flow(
            before.at, now, arrived=arrived, claimed=claimed, done=max(0, acked), exact=before.exact and exact, measured=True,
            holders_counted=False,
        )  # fmt: skip


# The consumers of a group, as the Consumers view lists them.

_FIRST = 5
_CONSUMERS_AT_MOST = 1_000


def consumer_list(judged: Mapping[str, JudgedMember], claims: Iterable[Row], now: float) -> ConsumerList:
    """Returns the consumers, dead ones with claims first. ``claims`` are those that a look showed, the oldest of each."""
    rows: dict[str, list[Row]] = {}
    for row in claims:
        if row.owner is not None and row.owner.name is not None:
            rows.setdefault(row.owner.name, []).append(row)
    known = sorted(judged.values(), key=lambda one: (-one.state.pending, one.state.name))
    found = [_row(one, rows.get(one.state.name, ()), now) for one in known[:_CONSUMERS_AT_MOST]]
    found.sort(key=lambda one: (-one.rank, one.claimed_at or now))
    return ConsumerList(tuple(found), now, more=max(0, len(known) - _CONSUMERS_AT_MOST), measured=False)


def _row(one: JudgedMember, claims: Sequence[Row], now: float) -> ConsumerRow:
    times = [row.in_box_since for row in claims if row.in_box_since is not None]
    return ConsumerRow(
        one.verdict, one.evidence, one.owner, None, one.state.pending, min(times, default=None),
        one.state.pending > len(claims), max(times, default=None), tuple(row.id for row in claims[:_FIRST]),
        asked_at=None if one.state.idle is None else now - one.state.idle,
    )  # fmt: skip


_MOST = 24
"""Claims that a look reads, about 65 bytes each: all where there are no more."""
_LEAST = 4
"""Claims of each verdict that are read where there are more."""
_UNDELIVERED = "undelivered"
"""Key of the answer that tells the first entry that was not delivered yet."""
_CONSUMERS = 8
"""Consumers of one verdict whose claims are read then."""


class SeenClaims(NamedTuple):
    """``rows`` are judged, oldest first. ``waiting`` is the id of the first message that was handed back, ``undelivered`` that of
    the first entry behind the last delivered one, ``oldest`` that of the oldest pending message of all. ``handed_at`` is when
    the first of those that were handed back was, by the clock of the server, in epoch seconds."""

    rows: tuple[Row, ...] = ()
    waiting: str | None = None
    undelivered: str | None = None
    oldest: str | None = None
    handed_at: float | None = None


def see_claims(
    server: StreamServer, fetcher: StreamFetcher, names: StreamNames, look: Look, judged: Mapping[str, JudgedMember],
    kept: KeptAnswers,
) -> SeenClaims:  # fmt: skip
    """Reads the first claims of each verdict, and the oldest messages that wait. Raises ``ServerTrouble``."""
    last, undelivered = look.group.last_delivered, None
    heads: list[Command] = []
    if look.first is not None and id_order(look.first) > id_order(last):
        undelivered = look.first
    elif look.first is not None and id_order(look.last) > id_order(last):
        if kept.due(_UNDELIVERED):
            heads = [fetcher.first_command(id_after(last))]
        else:
            known = fetcher.first_of(kept.answer(_UNDELIVERED), id_after(last))
            undelivered = known if known is not None and id_order(known) > id_order(last) else None
    wanted = [(name, 1) for name in (HANDED_BACK, LATER) if pending_of(look, name)] + _wanted(judged)
    commands: list[Command] = [("XPENDING", names.stream, names.group, "-", "+", most, name) for name, most in wanted]
    if look.group.pending:
        commands.append(("XPENDING", names.stream, names.group, "-", "+", 1))
    replies = server.ask(*heads, *commands) if heads or commands else []
    with translate_errors():
        if heads:
            head = replies.pop(0)
            undelivered = fetcher.first_of(head, id_after(last))
            kept.note(_UNDELIVERED, head, 0 if isinstance(head, ErrorReply) else skipped(head)[2])
        oldest = claims_of(replies.pop(), look.now) if look.group.pending else []
        found = [claim for reply in replies for claim in claims_of(reply, look.now)]
    rows = [claim_row(claim, judged[claim.consumer]) for claim in found if claim.consumer in judged]
    rows.sort(key=lambda row: row.in_box_since or 0.0)
    back = min((claim.id for claim in found if claim.consumer not in judged), default=None, key=id_order)
    handed = next((claim.delivered / 1000 + HANDED_IDLE for claim in found if claim.consumer == HANDED_BACK), None)
    return SeenClaims(tuple(rows), back, undelivered, oldest[0].id if oldest else None, handed)


def _wanted(judged: Mapping[str, JudgedMember]) -> list[tuple[str, int]]:
    """Returns the consumers whose claims are read, and how many of each: of the dead ones most."""
    holding = [one for one in judged.values() if one.state.pending]
    if sum(one.state.pending for one in holding) <= _MOST:
        return [(one.state.name, one.state.pending) for one in holding]
    groups = [[one for one in holding if one.verdict is verdict] for verdict in (Verdict.DEAD, Verdict.UNKNOWN, Verdict.ALIVE)]
    groups = [sorted(some, key=lambda one: -(one.state.idle or 0.0))[:_CONSUMERS] for some in groups if some]
    found: list[tuple[str, int]] = []
    left = _MOST
    for others, some in zip(range(len(groups) - 1, -1, -1), groups, strict=True):
        share = left - others * _LEAST
        for number, one in enumerate(some):
            most = min(one.state.pending, share // (len(some) - number))
            if most:
                found.append((one.state.name, most))
            share, left = share - most, left - most
    return found
