"""Boxes, verdict counts, flow, capacities and cursors of a stream, from the facts of a look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spooltop.model.cursors import CursorSource
from spooltop.model.look.observation import BoxState, Capacity, Flow, QueueFinding, VerdictCounts
from spooltop.model.units import size as size_words
from spooltop.model.vocabulary import Box, Verdict

from ..stream_names import HANDED_BACK, LATER
from .look import GroupState, Look
from .server.replies import id_order
from .undelivered import Undelivered
from .verdicts import JudgedMember

__all__ = [
    "BOXES", "CounterFlow", "box_states", "capacities", "cursor_source", "grouped", "hidden_facts", "lag_of", "pending_of",
    "verdict_counts", "warnings",
]  # fmt: skip

_UNTRIMMED = 10_000
"""Entries that are done, of a stream of which nothing was ever deleted."""
BOXES = (Box.NEW, Box.CUR, Box.HELD, Box.REJECTED, Box.TRASH)


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


class CounterFlow:
    """Derives the flow from the counters of the server: exact, however fast it is, while the server counts what a group reads."""

    def __init__(self) -> None:
        self._before: _Counters | None = None

    def forget(self) -> None:
        """Begins anew: what happened meanwhile is not known."""
        self._before = None

    def measure(self, look: Look, undelivered: Undelivered, now: float) -> Flow:
        """Returns what came and went since the last look."""
        after = _counters(look, undelivered, now)
        before, self._before = self._before, after
        if before is None or after.added < before.added:
            return Flow(now, now)
        arrived = after.added - before.added
        if after.read is None or before.read is None or after.read < before.read:
            return Flow(before.at, now, arrived=arrived, exact=False, measured=True, holders_counted=False)
        claimed = after.read - before.read
        acked = claimed - (after.pending - before.pending) - max(0, after.aside - before.aside)
        exact = before.exact and after.exact
        return Flow(
            before.at, now, arrived=arrived, claimed=claimed, done=max(0, acked), exact=exact, measured=True,
            holders_counted=False,
        )  # fmt: skip


class _Counters(NamedTuple):
    at: float
    added: int
    read: int | None
    exact: bool
    pending: int
    aside: int


def _counters(look: Look, undelivered: Undelivered, now: float) -> _Counters:
    """Reads the counters. What a group has read follows from what it has not, where the server does not count it: exactly, if no
    entry was ever deleted."""
    read, exact = look.group.entries_read, True
    if read is None and undelivered.complete:
        read, exact = look.added - undelivered.number, look.length == look.added
    aside = sum(side.length or 0 for side in look.aside.values())
    return _Counters(now, look.added, read, exact, look.group.pending, aside)


def grouped(judged: Mapping[str, JudgedMember]) -> dict[Verdict, list[JudgedMember]]:
    """Returns the consumers that hold claims, by verdict."""
    found: dict[Verdict, list[JudgedMember]] = {}
    for one in judged.values():
        if one.state.pending:
            found.setdefault(one.verdict, []).append(one)
    return found
