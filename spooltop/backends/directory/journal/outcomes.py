"""The outcomes of the moves of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spooltop.model.plan import Outcome

__all__ = ["BatchOutcome", "MoveOutcome"]


class MoveOutcome(NamedTuple):
    """The outcome of one move. ``moved``: the file is at its target now, or is deleted, whatever else went wrong; ``ino`` and
    ``ctime_ns`` are those it has there, 0 where they are not known. Where the file was not looked at again its ctime is between
    ``ctime_ns`` and ``until_ns``."""

    outcome: Outcome
    reason: str = ""
    moved: bool = False
    ino: int = 0
    ctime_ns: int = 0
    until_ns: int = 0

    @property
    def plain(self) -> bool:
        """True where the move was done as planned and there is nothing else to record."""
        return self == (Outcome.DONE, "", True, self.ino, 0, 0)


class BatchOutcome:
    """The outcomes of the moves that were tried. Nearly all are done and have nothing else to record: ``others`` holds only the
    exceptions, by place. ``inos`` are those of all moves that were tried.

    ``between`` (from, until, in ns) bounds the ctimes of the files that were not looked at again; None where that does not
    matter.
    """

    def __init__(self, inos: Sequence[int], others: Mapping[int, MoveOutcome], between: tuple[int, int] | None = None) -> None:
        self.inos = inos
        self.others = others
        self.between = between

    @classmethod
    def of(cls, moved: Sequence[MoveOutcome]) -> BatchOutcome:
        return cls([one.ino for one in moved], dict(enumerate(moved)))

    def __len__(self) -> int:
        return len(self.inos)

    def __iter__(self) -> Iterator[MoveOutcome]:
        for place, ino in enumerate(self.inos):
            yield self.others.get(place) or MoveOutcome(Outcome.DONE, "", True, ino)

    def columns(self) -> tuple[list[Outcome], list[str], list[bool]]:
        """Outcome, reason and whether moved, of each."""
        count = len(self)
        outcomes, reasons, there = [Outcome.DONE] * count, [""] * count, [True] * count
        for place, one in self.others.items():
            outcomes[place], reasons[place], there[place] = one[:3]
        return outcomes, reasons, there

    def failed_with(self, problem: str) -> BatchOutcome:
        """The same outcomes, where the moves may not survive power loss."""
        return BatchOutcome.of([one._replace(outcome=Outcome.FAILED, reason=problem) if one.moved else one for one in self])
