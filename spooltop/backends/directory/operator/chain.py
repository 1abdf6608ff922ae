"""Chains the operator of a spool's messages with those of its cursors, its locks and its pause. Each side operator has its own
actions and undoes its own operations; everything else goes to the main one. A side operator is made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from spooltop.model.protocols import Operator
from spooltop.model.vocabulary import Action, Json

if TYPE_CHECKING:
    from spooltop.model.filters.selection import Selection
    from spooltop.model.operations.plan import Candidates, ItemResult, OperationRecord, Plan, Progress
    from spooltop.model.operations.results import AuditLog

__all__ = ["OperatorChain", "SideOperator"]


class SideOperator(Operator, Protocol):
    """Operator that keeps nothing open between two calls."""

    def knows(self, operation: str) -> bool:
        """True where this operation was its own."""
        ...


class OperatorChain:
    """Implements ``model.protocols.Operator``: ``side`` makes the operator that has ``actions``; ``main`` has the rest and the
    audit log of both."""

    def __init__(self, main: Operator, side: Callable[[], SideOperator], *actions: Action) -> None:
        self._main = main
        self._side = cache(side)
        self._actions = actions

    def why_not(self, action: Action) -> str | None:
        return (self._side() if action in self._actions else self._main).why_not(action)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        which = self._of(action, options)
        return which.candidates(action, selection, force=force, options=options, now=now, progress=progress)

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        return self._of(plan.action, plan.options).perform(plan, stop)

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        self._main.audit(line, sync=sync)

    def audit_logs(self, operation: str) -> list[AuditLog]:
        return self._main.audit_logs(operation)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        both = [one for which in (self._main, self._side()) for one in which.operations(progress, begins=begins, most=most)]
        return sorted(both, key=lambda record: -record.at)[:most]

    def close(self) -> None:
        self._main.close()

    def _of(self, action: Action, options: Mapping[str, Json]) -> Operator:
        if action in self._actions or (action is Action.UNDO and self._side().knows(str(options.get("undoes", "")))):
            return self._side()
        return self._main
