"""Claims of one look: the oldest of the consumers that need attention most, not all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spooltop.model.row import Row
from spooltop.model.vocabulary import Verdict

from ..stream_names import HANDED_BACK, HANDED_IDLE, LATER, StreamNames
from .boxes import grouped, pending_of
from .fetch import StreamFetcher, id_after
from .look import KeptAnswers, Look
from .rows import claim_row, claims_of
from .server.replies import id_order
from .server.requests import Command, StreamServer, told
from .verdicts import JudgedMember

__all__ = ["SeenClaims", "see_claims"]

_MOST = 24
"""Claims that a look reads, about 65 bytes each: all where there are no more."""
_LEAST = 4
"""Claims of each verdict that are read where there are more."""
_UNDELIVERED = "undelivered"
"""Key of the answer that tells the first entry that was not delivered yet."""
_CONSUMERS = 8
"""Consumers of one verdict whose claims are read then."""


class SeenClaims:
    """``rows`` are judged, oldest first. ``waiting`` is the id of the first message that was handed back, ``undelivered`` that of
    the first entry behind the last delivered one, ``oldest`` that of the oldest pending message of all. ``handed_at`` is when
    the first of those that were handed back was, by the clock of the server, in epoch seconds."""

    def __init__(
        self, rows: Sequence[Row] = (), waiting: str | None = None, undelivered: str | None = None, oldest: str | None = None,
        handed_at: float | None = None,
    ) -> None:  # fmt: skip
        self.rows = tuple(sorted(rows, key=lambda row: row.in_box_since or 0.0))
        self.waiting = waiting
        self.undelivered = undelivered
        self.oldest = oldest
        self.handed_at = handed_at


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
    waiting = [name for name in (HANDED_BACK, LATER) if pending_of(look, name)]
    wanted = [*((name, 1) for name in waiting), *_wanted(judged)]
    commands: list[Command] = [("XPENDING", names.stream, names.group, "-", "+", most, name) for name, most in wanted]
    if look.group.pending:
        commands.append(("XPENDING", names.stream, names.group, "-", "+", 1))
    replies = server.ask(*heads, *commands) if heads or commands else []
    with told():
        if heads:
            head = replies.pop(0)
            undelivered = fetcher.first_of(head, id_after(last))
            kept.note({_UNDELIVERED: head}, fetcher.first_size)
        oldest = claims_of(replies.pop(), look.now) if look.group.pending else []
        found = [claim for reply in replies for claim in claims_of(reply, look.now)]
    rows = [claim_row(claim, judged[claim.consumer]) for claim in found if claim.consumer in judged]
    back = min((claim.id for claim in found if claim.consumer not in judged), default=None, key=id_order)
    handed = next((claim.since + HANDED_IDLE for claim in found if claim.consumer == HANDED_BACK), None)
    return SeenClaims(rows, back, undelivered, oldest[0].id if oldest else None, handed)


def _wanted(judged: Mapping[str, JudgedMember]) -> list[tuple[str, int]]:
    """Returns the consumers whose claims are read, and how many of each: of the dead ones most."""
    holding = [one for one in judged.values() if one.state.pending]
    if sum(one.state.pending for one in holding) <= _MOST:
        return [(one.state.name, one.state.pending) for one in holding]
    by_verdict = grouped(judged)
    found: list[tuple[str, int]] = []
    verdicts = [one for one in (Verdict.DEAD, Verdict.UNKNOWN, Verdict.ALIVE) if one in by_verdict]
    left = _MOST
    for others, verdict in zip(range(len(verdicts) - 1, -1, -1), verdicts, strict=True):
        some = sorted(by_verdict[verdict], key=lambda one: -(one.state.idle or 0.0))[:_CONSUMERS]
        share = left - others * _LEAST
        for number, one in enumerate(some):
            most = min(one.state.pending, share // (len(some) - number))
            if most:
                found.append((one.state.name, most))
            share, left = share - most, left - most
    return found
