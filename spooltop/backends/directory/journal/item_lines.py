"""What the lines of the journals of cursors and of locks have in common: an intent before the change, a result after it, one JSON
object a line. Somebody else may have written them: a line that is not exactly so is left out and counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard, TypeVar

from spooltop.model.plan import Outcome
from spooltop.model.vocabulary import Action, Json

from ..storage.location import OPERATION

__all__ = ["Head", "decoded", "encoded", "head_of", "intended", "is_time", "outcome_of", "result_line"]

T = TypeVar("T")

_LATEST = 1e15


class Head(NamedTuple):
    """Of a line ``value`` the operation and its time, epoch seconds; ``result``: it is that of an intent."""

    value: dict[str, Any]
    operation: str
    at: float
    result: bool


def encoded(told: Mapping[str, Json]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def result_line(operation: str, at: float, outcome: Outcome, reason: str, **which: Json) -> bytes:
    """``which`` says of what in the operation, where that is more than one."""
    return encoded(
        {
            "schema": 1, "line": "result", "operation": operation, **which, "time": at, "outcome": str(outcome),
            "reason": reason,
        }
    )  # fmt: skip


def decoded(lines: Iterable[bytes], decode: Callable[[bytes], T]) -> tuple[list[T], int]:
    """The lines as ``decode`` reads them, and how many it cannot: it raises ``ValueError`` of those."""
    found: list[T] = []
    bad = 0
    for line in lines:
        try:
            found.append(decode(line))
        except (ValueError, RecursionError):
            bad += 1
    return found, bad


def head_of(line: bytes) -> Head:
    """Raises ``ValueError`` for what is no line of such a journal."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1 or value.get("line") not in ("intent", "result"):
        raise ValueError("no journal line")
    operation, at = value.get("operation"), value.get("time")
    if not isinstance(operation, str) or not OPERATION.match(operation):
        raise ValueError("no operation id")
    if not is_time(at):
        raise ValueError("no time")
    return Head(value, operation, float(at), value["line"] == "result")


def outcome_of(head: Head) -> tuple[Outcome, str]:
    """What a result tells, and why. Raises ``ValueError``."""
    reason = head.value.get("reason")
    if not isinstance(reason, str):
        raise ValueError("no reason")
    return Outcome(str(head.value.get("outcome"))), reason


def intended(head: Head, *actions: Action) -> tuple[Action, str | None]:
    """Which of ``actions`` an intent tells of, and the operation that it undoes. Raises ``ValueError``."""
    action, undoes = Action(str(head.value.get("action"))), head.value.get("undoes")
    if action not in actions:
        raise ValueError("another action")
    if undoes is not None and not (isinstance(undoes, str) and OPERATION.match(undoes)):
        raise ValueError("undoes no operation")
    return action, undoes


def is_time(value: object) -> TypeGuard[float]:
    """Epoch seconds; NaN is below nothing."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LATEST
