"""One operator for a spool and the cursors beside it: what is about a cursor goes to the one, all else to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...model.can import Can
from ...model.words import Action, Json

if TYPE_CHECKING:
    from ...model.audit import AuditLog
    from ...model.kind import Operator
    from ...model.plan import Candidates, ItemResult, OperationRecord, Plan
    from ...model.selection import Selection
    from .cursorset import CursorOperator

__all__ = ["WithCursors", "can_both"]


class WithCursors:
    """Implements ``model.kind.Operator``. The audit log is that of the spool for both."""

    def __init__(self, messages: Operator, cursors: CursorOperator) -> None:
        self._messages = messages
        self._cursors = cursors

    def can(self) -> Can:
        return can_both(self._messages.can(), self._cursors.can())

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float
    ) -> Candidates:
        return self._of(action, options).candidates(action, selection, force=force, options=options, now=now)

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[list[ItemResult]]:
        return self._of(plan.action, plan.options).perform(plan, stop)

    def audit(self, entry: Mapping[str, Json]) -> None:
        self._messages.audit(entry)

    def audit_logs(self) -> list[AuditLog]:
        return self._messages.audit_logs()

    def operations(self) -> list[OperationRecord]:
        both = [*self._messages.operations(), *self._cursors.operations()]
        return sorted(both, key=lambda record: -record.at)

    def close(self) -> None:
        self._messages.close()
        self._cursors.close()

    def _of(self, action: Action, options: Mapping[str, Json]) -> Operator:
        if action is Action.SET_CURSOR or (action is Action.UNDO and self._cursors.knows(str(options.get("undoes", "")))):
            return self._cursors
        return self._messages


def can_both(messages: Can, cursors: Can) -> Can:
    """What is about messages as the one says, what is about cursors as the other does."""
    refusals = dict(messages.refusals)
    why = cursors.why_not(Action.SET_CURSOR)
    if why is None:
        refusals.pop(Action.SET_CURSOR, None)
    else:
        refusals[Action.SET_CURSOR] = why
    return Can(refusals)
