"""Messages that were put, claimed and finished within one batch of events: thousands a second where consumers keep up. They are
counted together, from their names, without an object for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

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


def split_short_lived(batches: Sequence[EventBatch], turn: int) -> list[tuple[ShortLived, list[tuple[bool, set[str], str]]]]:
    """Separates the messages that arrived and were finished within the batches of one look, each with the batch in which it was
    finished. Only plain names of the engine are recognised.

    Also returns all other names of each batch, as tuples (claimed, names, name of the attribute of ``_Moves`` that takes them).
    A name that comes again in a later batch is one of these.
    """
    known, arrived, left, claimed = set[str](), set[str](), set[str](), set[str]()
    split: list[ShortLived] = []
    for batch in batches:
        if batch.back is None:  # the order is unknown, so each batch stands alone
            known, arrived, left, claimed = set(), set(), set(), set()
        added, deleted = batch.added.get(Box.NEW, set()), batch.deleted.get(Box.NEW, set())
        taken, ended = batch.added.get(Box.CUR, set()), batch.deleted.get(Box.CUR, set())
        arrived = (arrived - added) | (added - known - batch.repeats.get(Box.NEW, {}).keys())
        known |= added | deleted
        left |= deleted
        # Only a claim of our own tells when it was made, once its batch is over.
        within = (taken & ended) | {name for name in claimed & ended if ",c=" in name}
        joined = "/".join(within - batch.back_in_cur)
        found = [one for one in _FIRST_CLAIM.findall(joined) if one[0] in arrived and one[0] in left]
        claimed = (claimed | taken) - ended
        short_lived = ShortLived(turn, batch.at, batch.late, {one[1]: one for one in found})
        if len(short_lived.found) < len(found):
            for id, times in Counter(one[1] for one in found).items():
                if times > 1:
                    del short_lived.found[id]
        arrived.difference_update([one[0] for one in short_lived.found.values()], batch.back or ())
        split.append(short_lived)
    names = []
    new, cur = set[str](), set[str]()
    for batch, short_lived in zip(reversed(batches), reversed(split), strict=True):
        if batch.back is None:
            new, cur = set(), set()
        new |= {one[0] for one in short_lived.found.values()}
        cur |= {one[0] + one[4] for one in short_lived.found.values()}
        names.append([
            (False, batch.added.get(Box.NEW, set()) - new, "new_added"),
            (False, batch.deleted.get(Box.NEW, set()) - new, "new_gone"),
            (True, batch.added.get(Box.CUR, set()) - cur, "cur_added"),
            (True, batch.deleted.get(Box.CUR, set()) - batch.back_in_cur - cur, "cur_gone"),
        ])  # fmt: skip
    return list(zip(split, reversed(names), strict=True))
