"""The outcomes of the moves of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spooltop.model.operations.plan import Outcome

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

    def pins(self, start: int, inos: Sequence[int]) -> tuple[list[bool], list[int], list[tuple[int, int]]]:
        """Returns of the files ``inos``, whose moves begin at ``start``: moved or not, inode, bounds of the ctime. The bounds
        of a move that is not done are 0."""
        tried = max(0, min(self.tried - start, len(inos)))
        there, pinned = [True] * tried + [False] * (len(inos) - tried), list(inos)
        between = [self.between or (0, 0)] * len(inos)
        for place in range(tried) if self.others else ():
            one = self.others.get(start + place)
            if one is not None:
                there[place], pinned[place] = one.moved, one.ino or inos[place]
                between[place] = (one.ctime_ns, one.until_ns) if one.outcome is Outcome.DONE else (0, 0)
        return there, pinned, between

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
