"""The entries of the list of operations, made of what a log holds, and which operation is undone by which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from spooltop.model.operations.plan import OperationRecord, Outcome

from .record_log import LoggedOperation

__all__ = ["newest_first", "newest_records", "operation_record", "undone_by", "undone_operations", "undos_of", "why_not_undo"]

_Logged = TypeVar("_Logged", bound=LoggedOperation[Any, Any])


def undos_of(operations: Mapping[str, _Logged]) -> dict[str, list[_Logged]]:
    """The operations that undo each operation, in the order of the log."""
    found: dict[str, list[_Logged]] = {}
    for logged in operations.values():
        if logged.undoes is not None:
            found.setdefault(logged.undoes, []).append(logged)
    return found


def undone_by(undos: Sequence[_Logged], changed: Callable[[_Logged], bool]) -> str | None:
    """The last of ``undos`` that ``changed`` something, None where none did."""
    return next((logged.operation for logged in reversed(undos) if changed(logged)), None)


def undone_operations(operations: Mapping[str, _Logged], changed: Callable[[_Logged], bool]) -> dict[str, str]:
    """The operations that were undone, each with the last one that ``changed`` something to undo it."""
    undos = undos_of(operations)
    return {operation: by for operation, found in undos.items() if (by := undone_by(found, changed)) is not None}


def newest_records(records: Sequence[OperationRecord], *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
    """The newest ``most`` of ``records``, which are in the order of the log, among those whose ids begin with ``begins``."""
    return [record for record in newest_first(records) if record.operation.startswith(begins)][:most]


def why_not_undo(*, changed: bool, undone: str | None, other: str | None) -> str | None:
    """Why an operation cannot be undone, None where it can: it ``changed`` nothing, it is ``undone`` by another already, or
    ``other``."""
    if not changed:
        return "it changed nothing"
    return other if undone is None else f"already undone by {undone}"


def operation_record(
    logged: LoggedOperation[Any, Any], outcomes: Iterable[Outcome] | Mapping[Outcome, int], *, count: int, found: int = 0,
    unfinished: bool, undone: str | None, why_not: str | None, words: str,
) -> OperationRecord:  # fmt: skip
    """The entry of ``logged`` in the list of operations. ``found``: steps without a result that were found done by looking."""
    first, many = logged.first, Counter(outcomes)
    return OperationRecord(
        operation=first.operation, action=first.action, at=first.at, user=first.user, count=count,
        done=many[Outcome.DONE] + found, skipped=many[Outcome.SKIPPED], failed=many[Outcome.FAILED], open=unfinished,
        undone_by=undone, why_not_undo=why_not, words=words,
    )  # fmt: skip


def newest_first(records: Sequence[OperationRecord]) -> list[OperationRecord]:
    """``records``, which are in the order of the log, newest first; those of one moment backwards."""
    in_order = sorted(records, key=lambda record: record.at)
    in_order.reverse()
    return in_order
