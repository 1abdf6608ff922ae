"""Messages that were put, claimed and finished within one batch of events: thousands a second where consumers keep up. They are
counted together, from their names, without an object for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set

from spooltop.engine import names as grammar
from spooltop.engine.names import Name
from spooltop.model.flow import Completion
from spooltop.model.vocabulary import Box
from spooltop.patterns import pattern
from spooltop.records import dataclass

from .report import EventBatch

__all__ = ["ShortLived", "split_short_lived"]

Found = tuple[str, str, str, str, str, str]
"""The name in ``new``, the id, the put time (µs), the source or "", the tail of the claim and its time (µs), "" where another
kind of consumer took it."""

_FIRST_CLAIM = pattern(
    r"(?<![^/])((([0-9]{16})\.P[0-9]{1,10}R[0-9a-f]{16}\.[A-Za-z0-9._-]++)(?:,s=([A-Za-z0-9._-]++))?)"
    r"((?:,c=[0-9a-f]{32}\.([0-9]{1,17}):2,|:(?:2,)?)P[0-9]{1,10})(?=/|\Z)"
)
"""Matches, among claims joined by ``/``, first claims of our own messages in their plain form. Later attempts are counted one by
one, because their names tell how often the message came back."""


@dataclass(slots=True)
class ShortLived:
    """Short-lived messages of one batch, by id. ``turn`` is the number of the next look, ``at`` the time of the batch; ``late``:
    the times at which its events happened are unknown."""

    turn: int
    at: float
    late: bool
    found: dict[str, Found]

    def among(self, ids: Mapping[str, object]) -> set[str]:
        return self.found.keys() & ids.keys() if ids else set()

    def foreign(self) -> Iterator[tuple[str, str]]:
        """(id, name in ``new``) of those that another kind of consumer took."""
        return ((id, one[0]) for id, one in self.found.items() if not one[5])

    def take_out(self, id: str) -> tuple[Name, Name]:
        """Removes a message from these and returns its names in ``new`` and in ``cur``."""
        base, _, _, _, tail, _ = self.found.pop(id)
        return grammar.parse(base, claimed=False), grammar.parse(base + tail, claimed=True)

    def count(self, *, but: Set[str]) -> int:
        return len(self.found) - (len(self.found.keys() & but) if but else 0)

    def sources(self, *, but: Set[str]) -> Iterable[str]:
        """Returns the source of each message that has one. Ids in ``but`` are left out."""
        return [one[3] for id, one in self.found.items() if one[3] and id not in but]

    def last_claim_at(self) -> float:
        times = [int(one[5]) for one in self.found.values() if one[5]]
        own = max(times, default=0) / 1e6
        return own if len(times) == len(self.found) else max(own, self.at)

    def completions(self, step: int, *, but: Set[str]) -> Iterator[Completion]:
        """Yields a completion for every ``step``-th message. Ids in ``but`` are left out."""
        for _, id, enqueued_us, _, _, claimed_us in list(self.found.values())[::step]:
            if id not in but:
                # A late batch says nothing about durations, and only a claim tells when within the batch it was made.
                put_at = None if self.late else int(enqueued_us) / 1e6
                yield Completion(put_at, int(claimed_us) / 1e6 if claimed_us and not self.late else None, self.at)


def split_short_lived(batch: EventBatch, turn: int) -> tuple[ShortLived, list[tuple[bool, set[str], str]]]:
    """Separates the messages that arrived and were finished within the batch. Only plain names of the engine are recognised.

    Also returns all other names, as tuples (claimed, names, name of the attribute of ``_Moves`` that takes them).
    """
    added, deleted = batch.added.get(Box.NEW, set()), batch.deleted.get(Box.NEW, set())
    taken, ended = batch.added.get(Box.CUR, set()), batch.deleted.get(Box.CUR, set()) - batch.back_in_cur
    within = added & deleted
    if again := batch.repeats.get(Box.NEW):
        within -= again.keys()
    found = [one for one in _FIRST_CLAIM.findall("/".join(taken & ended)) if one[0] in within]
    short_lived = ShortLived(turn, batch.at, batch.late, {one[1]: one for one in found})
    if len(short_lived.found) < len(found):
        for id, times in Counter(one[1] for one in found).items():
            if times > 1:
                del short_lived.found[id]
    new, cur = {one[0] for one in short_lived.found.values()}, {one[0] + one[4] for one in short_lived.found.values()}
    names = [
        (False, added - new, "new_added"), (False, deleted - new, "new_gone"),
        (True, taken - cur, "cur_added"), (True, ended - cur, "cur_gone"),
    ]  # fmt: skip
    return short_lived, names
