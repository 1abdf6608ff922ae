"""What came of each item so far, packed: of a million that were moved nobody keeps a million objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..model.chunked import Chunked
from ..model.plan import ItemResult, Outcome

__all__ = ["Done"]


class Done(Chunked[ItemResult]):
    """Results in the order of their items; ``outcomes`` and ``reasons`` count them."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: Counter[Outcome] = Counter()
        self.reasons: Counter[str] = Counter()
        """What else there is to say of those that are done, and of how many."""

    def noted(self, more: Sequence[ItemResult]) -> None:
        self.outcomes.update([one.outcome for one in more])
        self.reasons.update([one.reason for one in more if one.reason and one.outcome is Outcome.DONE])

    def packed(self, one: ItemResult) -> tuple[Any, ...]:
        return one.id, one.name, one.outcome.value, one.reason, one.became

    def unpacked(self, chunk: list[tuple[Any, ...]]) -> list[ItemResult]:
        return [ItemResult(id, name, _OUTCOME[outcome], reason, became) for id, name, outcome, reason, became in chunk]


_OUTCOME = {outcome.value: outcome for outcome in Outcome}
