"""The outcomes of the moves of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spooltop.model.plan import Outcome

__all__ = ["BatchOutcome", "MoveOutcome"]


class MoveOutcome(NamedTuple):
    """The outcome of one move. ``moved``: the file is at its target now, or is deleted, whatever else went wrong; ``ino`` and
    ``ctime_ns`` are those it has there. ``ino`` 0: that of the plan; ``ctime_ns`` 0: not known. Where the file was not looked at
    again its ctime is between ``ctime_ns`` and ``until_ns``."""

    outcome: Outcome
    reason: str = ""
    moved: bool = False
    ino: int = 0
    ctime_ns: int = 0
    until_ns: int = 0


class BatchOutcome:
    """The outcomes of the ``tried`` moves of a batch. Nearly all are done and have nothing else to record: ``others`` holds only
    the exceptions, by place.

    ``between`` (from, until, in ns) bounds the ctimes of the files that were not looked at again; None where that does not
    matter.
    """

    def __init__(self, tried: int, others: Mapping[int, MoveOutcome], between: tuple[int, int] | None = None) -> None:
        self.tried = tried
        self.others = others
        self.between = between

    def __len__(self) -> int:
        return self.tried

    def at(self, place: int, ino: int = 0) -> MoveOutcome:
        """The outcome of the move ``place`` of the file ``ino``."""
        one = self.others.get(place)
        if one is None:
            return MoveOutcome(Outcome.DONE, "", True, ino, *(self.between or ()))
        return one if one.ino or not one.moved else one._replace(ino=ino)

    def columns(self) -> tuple[list[Outcome], list[str], list[bool]]:
        """Outcome, reason and whether moved, of each."""
        count = self.tried
        outcomes, reasons, there = [Outcome.DONE] * count, [""] * count, [True] * count
        for place, one in self.others.items():
            outcomes[place], reasons[place], there[place] = one[:3]
        return outcomes, reasons, there

    def failed_with(self, problem: str) -> BatchOutcome:
        """The same outcomes, where the moves may not survive power loss."""
        done = MoveOutcome(Outcome.DONE, "", True)
        each = ((place, self.others.get(place, done)) for place in range(self.tried))
        return BatchOutcome(
            self.tried, {place: one._replace(outcome=Outcome.FAILED, reason=problem) if one.moved else one for place, one in each}
        )
