"""Rows of lists: entries that wait, claims, and messages that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

from ..client import Reply, bytes_of, list_of, number_of, text_of
from ..trouble import Nonsense
from .server import entry_time
from .verdicts import JudgedMember


class PendingEntry(Struct, frozen=True):
    """An entry of the list of pending messages. ``size`` is None where its entry was deleted or trimmed, unless
    ``described`` is False: it was not asked for."""

    id: str
    consumer: str
    since: float
    deliveries: int
    size: int | None = None
    source: str | None = None
    described: bool = True


def claims_of(reply: Reply, now: float) -> list[PendingEntry]:
    """Parses the answer to XPENDING or to the script CLAIMS; ``now`` is the clock of the server."""
    return [_claim(list_of(one), now) for one in list_of(reply)]


def _claim(parts: Sequence[Reply], now: float) -> PendingEntry:
    id, consumer = text_of(parts[0]), text_of(parts[1])
    since, deliveries = now - number_of(parts[2]) / 1000, number_of(parts[3])
    entry_time(id)
    if len(parts) < 6:
        return PendingEntry(id, consumer, since, deliveries, described=False)
    size = number_of(parts[4])
    return PendingEntry(id, consumer, since, deliveries, None if size < 0 else size, _source(parts[5]))


def claim_row(claim: PendingEntry, judged: JudgedMember | None) -> Row:
    """Returns the row of a claim. Its key holds what a change is checked against, besides the time: the consumer and the number
    of deliveries."""
    lost = claim.described and claim.size is None
    return Row(
        ("cur", claim.id, claim.consumer, claim.deliveries), Box.CUR, claim.id, claim.id, claim.size, entry_time(claim.id),
        claim.since, False, claim.source, claim.deliveries, None if judged is None else judged.verdict,
        "" if judged is None else judged.evidence, None if judged is None else judged.owner,
        "its entry was deleted or trimmed; only the claim is left" if lost else "",
    )  # fmt: skip


def waiting_row(claim: PendingEntry, not_before: float | None) -> Row:
    """Returns the row of a message that was handed back, and waits as the new ones do."""
    at = entry_time(claim.id)
    note = "its entry was deleted or trimmed" if claim.described and claim.size is None else ""
    return Row(
        ("new", claim.id), Box.NEW, claim.id, claim.id, claim.size, at, at, False, claim.source, claim.deliveries, note=note,
        not_before=not_before,
    )  # fmt: skip


def entry_row(id: str, size: int | None, source: str | None) -> Row:
    """Returns the row of an entry that was never delivered."""
    at = entry_time(id)
    return Row(("new", id), Box.NEW, id, id, size, at, at, source=source, attempt=0)


def heads_of(reply: Reply) -> list[tuple[str, int | None, str | None]]:
    """Parses the answer to XRANGE, or to the script HEADS: id, size and source of each entry."""
    return [_head(list_of(one)) for one in list_of(reply)]


def _head(parts: Sequence[Reply]) -> tuple[str, int | None, str | None]:
    if len(parts) == 3:
        return text_of(parts[0]), number_of(parts[1]), _source(parts[2])
    if len(parts) != 2:
        raise Nonsense("no entry of a stream")
    fields = fields_by_name(parts[1])
    size = len(fields[b"data"]) if b"data" in fields else sum(len(name) + len(value) for name, value in fields.items())
    source = fields.get(b"source")
    return text_of(parts[0]), size, None if source is None else _text(source)


def fields_by_name(reply: Reply) -> Mapping[bytes, bytes]:
    """Returns the fields of an entry."""
    flat = [bytes_of(one) for one in list_of(reply)]
    return dict(zip(flat[::2], flat[1::2], strict=False))


def aside_row(box: Box, id: str, fields: Mapping[bytes, bytes], retention: float | None) -> Row:
    """Returns the row of a message that was set aside as the entry ``id`` of a side stream. Its fields say which it was."""
    known = {name: _text(value) for name, value in fields.items() if name.startswith(b"~")}
    own, tries = known.get(b"~id", id), known.get(b"~tries", "")
    since = entry_time(id)
    size = sum(len(name) + len(value) for name, value in fields.items() if not name.startswith(b"~"))
    source = fields.get(b"source")
    try:
        put_at: float | None = entry_time(own)
    except Nonsense:
        put_at = None
    return Row(
        (box.value, id), box, own, id, len(fields[b"data"]) if b"data" in fields else size, put_at, since,
        source=None if source is None else _text(source), attempt=int(tries) if tries.isdecimal() and len(tries) < 10 else None,
        reason=_reason(box, known), expires_at=None if not retention or box is not Box.TRASH else since + retention,
    )  # fmt: skip


def _reason(box: Box, known: Mapping[bytes, str]) -> str:
    """Says why a message was set aside: what its consumer said, else who did it."""
    if why := known.get(b"~why"):
        return why
    if b"~by" not in known:
        return ""
    done = {Box.HELD: "held", Box.TRASH: f"purged from {known.get(b'~from', 'the group')}"}.get(box, "set aside")
    return f"{done} by {known[b'~by']}"


def _source(reply: Reply) -> str | None:
    return None if reply is None else text_of(reply)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


