"""Outcomes of the items so far, packed, so that a million moved messages are not a million objects in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spooltop.model.operations.chunked import CHUNK, Chunked, Column, column_of, expand, pack
from spooltop.model.operations.plan import ItemResult, NotDone, Outcome
from spooltop.model.operations.results import Results, columns_of_results

__all__ = ["PackedResults"]


class PackedResults(Chunked[ItemResult]):
    """Results in the order of their items."""

    def __init__(self) -> None:
        super().__init__()
        self.not_done = NotDone()
        self.reasons: Counter[str] = Counter()
        """Remarks on items that are done, with the number of items for each."""

    def add(self, batch: Sequence[ItemResult]) -> None:
        """Adds a batch; items that can be computed again are not kept."""
        _, _, outcomes, reasons, _ = columns_of_results(batch)
        self.not_done.note(len(self), outcomes, reasons)
        if any(reasons):
            self.reasons.update(
                [reason for reason, outcome in zip(reasons, outcomes, strict=True) if reason and outcome is Outcome.DONE]
            )
        if isinstance(batch, Results) and batch.again is not None and len(batch) == CHUNK and not self._open:
            self._chunks.append(batch.again)
            return
        self._open = [*self._open, *batch]
        while len(self._open) >= CHUNK:
            whole, self._open = self._open[:CHUNK], self._open[CHUNK:]
            self._chunks.append(_packed(whole))

    def unpacked(self, packed: list[Column]) -> list[ItemResult]:
        ids, names, outcomes, reasons, became = (expand(column, CHUNK) for column in packed)
        return list(map(ItemResult, ids, names, map(_OUTCOME.__getitem__, outcomes), reasons, became))


def _packed(chunk: Sequence[ItemResult]) -> bytes:
    ids, names, outcomes, reasons, became = columns_of_results(chunk)
    return pack([column_of(values) for values in (ids, names, [one.value for one in outcomes], reasons, became)])


_OUTCOME = {outcome.value: outcome for outcome in Outcome}
