"""Results of a batch, by columns: of a thousand done items, nobody looks at each one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, overload

from .plan import ItemResult, Outcome

__all__ = ["Columns", "Results", "columns_of_results"]


class Columns(NamedTuple):
    """The fields of ``ItemResult``, a value for each item."""

    ids: Sequence[str]
    names: Sequence[str]
    outcomes: Sequence[Outcome]
    reasons: Sequence[str]
    became: Sequence[str]


class Results(Sequence[ItemResult]):
    """A sequence that makes an ``ItemResult`` on access. ``again`` makes the same results anew from a list that is kept anyway,
    so that they need not be kept; None if there is no such list."""

    def __init__(self, columns: Columns, again: Callable[[], Results] | None = None) -> None:
        self.columns = columns
        self.again = again

    def __len__(self) -> int:
        return len(self.columns.ids)

    @overload
    def __getitem__(self, index: int) -> ItemResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[ItemResult]: ...

    def __getitem__(self, index: int | slice) -> ItemResult | list[ItemResult]:
        if isinstance(index, slice):
            return list(map(_result, zip(*[column[index] for column in self.columns], strict=True)))
        return ItemResult._make([column[index] for column in self.columns])

    def __iter__(self) -> Iterator[ItemResult]:
        return map(_result, zip(*self.columns, strict=True))


def columns_of_results(results: Sequence[ItemResult]) -> Columns:
    """Returns the columns of ``results``, without making a result of each if they are columns already."""
    if isinstance(results, Results):
        return results.columns
    return Columns._make(zip(*results, strict=True) if results else ((),) * 5)


_result = partial(tuple.__new__, ItemResult)
