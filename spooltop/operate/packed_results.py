"""Outcomes of the items so far, packed, so that a million moved messages are not a million objects in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spooltop.model.chunked import CHUNK, Chunked, Column, column_of, expand
from spooltop.model.plan import ItemResult, Outcome
from spooltop.model.results import Results, columns_of_results

__all__ = ["PackedResults"]


class PackedResults(Chunked[ItemResult]):
    """Results in the order of their items; ``outcomes`` and ``reasons`` count them."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: Counter[Outcome] = Counter()
        self.reasons: Counter[str] = Counter()
        """Remarks on items that are done, with the number of items for each."""

    def observe(self, more: Sequence[ItemResult]) -> None:
        _, _, outcomes, reasons, _ = columns_of_results(more)
        self.outcomes.update(outcomes)
        if any(reasons):
            self.reasons.update(
                [reason for reason, outcome in zip(reasons, outcomes, strict=True) if reason and outcome is Outcome.DONE]
            )

    def add(self, batch: Sequence[ItemResult]) -> None:
        """Adds a batch; items that can be computed again are not kept."""
        if isinstance(batch, Results) and batch.again is not None and len(batch) == CHUNK and len(self) % CHUNK == 0:
            self.append_lazy(batch, batch.again)
        else:
            self.extend(batch)

    def packed(self, chunk: Sequence[ItemResult]) -> list[Column]:
        ids, names, outcomes, reasons, became = columns_of_results(chunk)
        return [column_of(values) for values in (ids, names, [one.value for one in outcomes], reasons, became)]

    def unpacked(self, packed: list[Column]) -> list[ItemResult]:
        ids, names, outcomes, reasons, became = (expand(column, CHUNK) for column in packed)
        return list(map(ItemResult, ids, names, map(_OUTCOME.__getitem__, outcomes), reasons, became))


_OUTCOME = {outcome.value: outcome for outcome in Outcome}
