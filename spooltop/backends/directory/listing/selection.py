"""Which rows a filter and a selection take together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spooltop.model import query as filters
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.selection import Selection

__all__ = ["matcher", "selects"]


def selects(selection: Selection | None, row: Row, now: float) -> bool:
    """Whether ``selection`` takes ``row``. None takes everything."""
    if selection is None:
        return True
    if selection.box is not None and selection.box is not row.box:
        return False
    if selection.keys is not None and row.key not in selection.keys:
        return False
    if selection.ids is not None and row.id not in selection.ids:
        return False
    if selection.source is not None and row.source != selection.source:
        return False
    if selection.verdict is not None and row.verdict is not selection.verdict:
        return False
    if not selection.old_enough(row.in_box_age(now)):
        return False
    return not selection.filter or filters.parse(selection.filter).match(row, now)


def matcher(query: ListQuery, now: float) -> Callable[[Row], bool] | None:
    """The test of filter and selection together; None where everything is taken."""
    wanted = filters.parse(query.filter) if query.filter else None
    chosen = query.selection
    if chosen is not None and replace(chosen, box=None) == Selection(everything=True) and chosen.box in (None, query.box):
        chosen = None
    if chosen is not None:
        chosen = replace(
            chosen,
            ids=None if chosen.ids is None else _Members(chosen.ids),
            keys=None if chosen.keys is None else _Members(chosen.keys),
        )
    if wanted is None and chosen is None:
        return None
    return lambda row: (wanted is None or wanted.match(row, now)) and selects(chosen, row, now)


class _Members(tuple):  # type: ignore[type-arg]
    """A tuple that answers ``in`` from a set: marks can be many."""

    def __contains__(self, item: object) -> bool:
        return item in self.__dict__.setdefault("set", frozenset(self))
