"""Combines the filter and the selection of a list into one test."""

from __future__ import annotations

from collections.abc import Callable

from spooltop.model import query as filters
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.records import replace

__all__ = ["matcher"]


def matcher(query: ListQuery, now: float) -> Callable[[Row], bool] | None:
    """Returns the test of filter and selection together; None if everything is selected."""
    wanted = filters.parse(query.filter) if query.filter else None
    chosen = query.selection
    if chosen is not None and replace(chosen, box=None) == Selection(everything=True) and chosen.box in (None, query.box):
        chosen = None
    if chosen is None:
        return None if wanted is None else lambda row: wanted.match(row, now)
    selects = chosen.matcher(now)
    return selects if wanted is None else lambda row: wanted.match(row, now) and selects(row)
