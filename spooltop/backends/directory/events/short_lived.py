"""Messages that were put, claimed and finished within one batch of events: thousands a second where consumers keep up. They are
counted together, from their names, without an object for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter

from spooltop.engine import names as grammar
from spooltop.engine.names import Name
from spooltop.model.look.observation import Completion
from spooltop.model.vocabulary import Box
from spooltop.patterns import pattern
from spooltop.records import dataclass

from .report import EventBatch

__all__ = ["ShortLived", "split_short_lived"]

Found = tuple[str, str, str, str, str, str, str]
"""The claim, the name in ``new``, the id, the source or "", the token and the time (µs) of the claim, both "" where another kind
of consumer took it, and for such a one the holder, as ``holder_of`` names it, else ""."""

_FIRST_CLAIM = pattern(
    r"((([0-9]{16}\.P[0-9]{1,10}R[0-9a-f]{16}\.[A-Za-z0-9._-]++)(?:,s=([A-Za-z0-9._-]++))?)"
    r"(?:,c=([0-9a-f]{32})\.([0-9]{16}):2,P[0-9]{1,10}|:(?:2,)?(P[0-9]{1,10})))/|[^/]*+/"
)
"""Captures, of each name before a ``/``, the parts of a first claim on one of our own messages in its plain form; nothing of any
other name. Later attempts are counted one by one, because their names tell how often the message came back."""
_claim, _name, _source, _token, _claimed_us, _foreign = map(itemgetter, (0, 1, 3, 4, 5, 6))


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

    def take_out(self, id: str) -> tuple[Name, Name]:
        """Removes a message from these and returns its names in ``new`` and in ``cur``."""
        claim, name, *_ = self.found.pop(id)
        return grammar.parse(name, claimed=False), grammar.parse(claim, claimed=True)

    def count(self, *, but: Set[str]) -> int:
        return len(self.found) - (len(self.found.keys() & but) if but else 0)

    def sources(self, *, but: Set[str]) -> Counter[str]:
        """Counts the messages of each source. Ids in ``but`` are left out."""
        counted = Counter(map(_source, self.found.values()))
        counted -= Counter(self.found[id][3] for id in self.found.keys() & but)
        del counted[""]
        return counted

    def holders(self, *, but: Set[str]) -> Counter[str]:
        """Counts the messages of each holder, as ``holder_of`` names it. Ids in ``but`` are left out."""
        found: Collection[Found] = self.found.values()
        if but:
            found = [one for id, one in self.found.items() if id not in but]
        counted = Counter(map(_token, found))
        if counted.pop("", 0):
            counted.update(map(_foreign, found))
            del counted[""]
        return counted

    def last_claims(self) -> dict[str, float]:
        """The time of the last claim of each holder, as ``holder_of`` names it."""
        found = self.found.values()
        foreign = dict.fromkeys(map(_foreign, found), self.at)
        foreign.pop("", None)
        last: dict[str, str] = {}
        for token, claimed_us in zip(map(_token, found), map(_claimed_us, found), strict=True):
            if claimed_us > last.get(token, ""):  # as text like the numbers, which all have 16 digits
                last[token] = claimed_us
        return {token: int(claimed_us) / 1e6 for token, claimed_us in last.items()} | foreign

    def completions(self, step: int, *, but: Set[str]) -> Iterator[Completion]:
        """Yields a completion for every ``step``-th message. Ids in ``but`` are left out."""
        for _, _, id, _, _, claimed_us, _ in list(self.found.values())[::step]:
            if id not in but:
                # A late batch says nothing about durations, and only a claim tells when within the batch it was made.
                put_at = None if self.late else int(id[:16]) / 1e6
                yield Completion(put_at, int(claimed_us) / 1e6 if claimed_us and not self.late else None, self.at)


def split_short_lived(batches: Sequence[EventBatch], turn: int) -> list[tuple[ShortLived, list[tuple[bool, set[str], str]]]]:
    """Separates the messages that arrived and were finished within the batches of one look, each with the batch in which it was
    finished. Only plain names of the engine are recognised, and only if they came and went once.

    Also returns all other names of each batch, as tuples (claimed, names, name of the attribute of ``_Moves`` that takes them).
    """
    if len(batches) > 1 and any(batch.back is None for batch in batches):  # without an order each batch stands alone
        return [one for batch in batches for one in split_short_lived([batch], turn)]
    passed, claimed = _came_and_went(batches), set[str]()
    split: list[ShortLived] = []
    for batch in batches:
        taken, ended = batch.added.get(Box.CUR, set()), batch.deleted.get(Box.CUR, set())
        # Only a claim of our own tells when it was made, once its batch is over.
        within = (taken & ended) | {name for name in (ended - taken) & claimed if ",c=" in name}
        within -= batch.back_in_cur
        claimed |= taken
        found = [one for one in _FIRST_CLAIM.findall("/".join([*within, ""])) if one[1] in passed]
        short_lived = ShortLived(turn, batch.at, batch.late, {one[2]: one for one in found})
        if len(short_lived.found) < len(found):
            for id, times in Counter(one[2] for one in found).items():
                if times > 1:
                    del short_lived.found[id]
        split.append(short_lived)
    new = {name for short_lived in split for name in map(_name, short_lived.found.values())}
    cur = {claim for short_lived in split for claim in map(_claim, short_lived.found.values())}
    return [
        (short_lived, [
            (False, batch.added.get(Box.NEW, set()) - new, "new_added"),
            (False, batch.deleted.get(Box.NEW, set()) - new, "new_gone"),
            (True, batch.added.get(Box.CUR, set()) - cur, "cur_added"),
            (True, batch.deleted.get(Box.CUR, set()) - batch.back_in_cur - cur, "cur_gone"),
        ])
        for batch, short_lived in zip(batches, split, strict=True)
    ]  # fmt: skip


def _came_and_went(batches: Iterable[EventBatch]) -> set[str]:
    """Returns the names that were added to ``new`` once, and after that deleted once."""
    came, went, again = set[str](), set[str](), set[str]()
    for batch in batches:
        added, deleted = batch.added.get(Box.NEW, set()), batch.deleted.get(Box.NEW, set())
        again.update(came & added, went & added, went & deleted, batch.back or ())
        again.update(batch.repeats.get(Box.NEW, ()), batch.gone_again.get(Box.NEW, ()))
        came |= added
        went |= deleted
    return (came & went) - again
