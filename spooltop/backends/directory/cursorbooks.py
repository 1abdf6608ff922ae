"""Where it is written down that a cursor was set: an intent line before, a result line after. One JSON object a line.

intent  schema line operation action time user undoes file source had before after
result  schema line operation time outcome reason

In a spool that somebody else owns it is untrusted input: a line that is not exactly this is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...model.plan import Outcome
from ...model.text import escape, unescape
from ...model.words import Action, Json
from .besidebooks import BesideBooks
from .places import OPERATION

__all__ = ["JOURNAL", "Set", "decode", "gather", "intent", "result", "told"]

JOURNAL = "cursors"
"""What its journal is of."""

_FIELDS = ("file", "source", "user")
_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Set:
    """One cursor that was set or put back. ``had`` is False where the source had no section. ``outcome`` None: no result was
    written (a crash in between)."""

    operation: str
    action: Action
    at: float
    user: str
    undoes: str | None
    file: str
    source: str
    had: bool
    before: Json
    after: Json
    outcome: Outcome | None = None
    reason: str = ""


def intent(one: Set) -> bytes:
    told = {
        "schema": 1, "line": "intent", "operation": one.operation, "action": str(one.action), "time": one.at,
        "user": escape(one.user), "undoes": one.undoes, "file": escape(one.file), "source": escape(one.source), "had": one.had,
        "before": one.before, "after": one.after,
    }  # fmt: skip
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def result(operation: str, at: float, outcome: Outcome, reason: str) -> bytes:
    told = {
        "schema": 1, "line": "result", "operation": operation, "time": at, "outcome": str(outcome), "reason": reason,
    }  # fmt: skip
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Set | tuple[str, Outcome, str]:
    """One line: an intent, or (operation, outcome, reason). Raises ``ValueError`` for anything else."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1:
        raise ValueError("no journal line")
    operation, at = value.get("operation"), value.get("time")
    if not isinstance(operation, str) or not OPERATION.match(operation):
        raise ValueError("no operation id")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at < _MOST:
        raise ValueError("no time")
    if value.get("line") == "result":
        reason = value.get("reason")
        if not isinstance(reason, str):
            raise ValueError("no reason")
        return operation, Outcome(str(value.get("outcome"))), reason
    action, undoes = Action(str(value.get("action"))), value.get("undoes")
    if value.get("line") != "intent" or action not in (Action.SET_CURSOR, Action.UNDO):
        raise ValueError("neither intent nor result")
    if undoes is not None and not (isinstance(undoes, str) and OPERATION.match(undoes)):
        raise ValueError("undoes no operation")
    if not all(isinstance(value.get(name), str) for name in _FIELDS) or not isinstance(value.get("had"), bool):
        raise ValueError("a field is missing")
    file, source, user = (unescape(value[name]) for name in _FIELDS)
    return Set(
        operation, action, float(at), user, undoes, file, source, value["had"], value.get("before"), value.get("after")
    )


def gather(lines: Iterable[bytes]) -> tuple[dict[str, Set], int]:
    """Operations by id in the order of their begin, and how many lines are none."""
    found: dict[str, Set] = {}
    bad = 0
    for line in lines:
        try:
            told = decode(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        if isinstance(told, Set):
            found.setdefault(told.operation, told)
        elif (known := found.get(told[0])) is not None and known.outcome is None:
            found[told[0]] = Set(
                known.operation, known.action, known.at, known.user, known.undoes, known.file, known.source, known.had,
                known.before, known.after, told[1], told[2],
            )  # fmt: skip
    return found, bad


def told(books: BesideBooks) -> tuple[dict[str, Set], list[str]]:
    """All operations by id, and what is wrong with the journal, in words."""
    found: dict[str, Set] = {}
    logs, troubles = books.read()
    for lines in logs:
        sets, bad = gather(lines)
        for operation, one in sets.items():
            found.setdefault(operation, one)
        if bad:
            troubles.append(f"{bad} lines of the journal of cursors are no journal lines and were left out")
    return found, troubles
