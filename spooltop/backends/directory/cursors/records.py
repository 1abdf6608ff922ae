"""Where it is written down that a cursor was set: an intent line before, a result line after. One JSON object a line.

intent  schema line operation action time user undoes file source had before after
result  schema line operation time outcome reason

In a spool that somebody else owns it is untrusted input: a line that is not exactly this is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spooltop.model.plan import Outcome
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Json

from ..journal.item_lines import decoded, encoded, head_of, intended, outcome_of
from ..journal.item_log import BesideBooks

__all__ = ["JOURNAL", "Set", "decode", "gather", "intent", "told"]

JOURNAL = "cursors"
"""What its journal is of."""

_FIELDS = ("file", "source", "user")


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
    return encoded(
        {
            "schema": 1, "line": "intent", "operation": one.operation, "action": str(one.action), "time": one.at,
            "user": escape(one.user), "undoes": one.undoes, "file": escape(one.file), "source": escape(one.source),
            "had": one.had, "before": one.before, "after": one.after,
        }
    )  # fmt: skip


def decode(line: bytes) -> Set | tuple[str, Outcome, str]:
    """One line: an intent, or (operation, outcome, reason). Raises ``ValueError`` for anything else."""
    head = head_of(line)
    if head.result:
        return head.operation, *outcome_of(head)
    action, undoes = intended(head, Action.SET_CURSOR, Action.UNDO)
    value = head.value
    if not all(isinstance(value.get(name), str) for name in _FIELDS) or not isinstance(value.get("had"), bool):
        raise ValueError("a field is missing")
    file, source, user = (unescape(value[name]) for name in _FIELDS)
    return Set(head.operation, action, head.at, user, undoes, file, source, value["had"], value.get("before"), value.get("after"))


def gather(lines: Iterable[bytes]) -> tuple[dict[str, Set], int]:
    """Operations by id in the order of their begin, and how many lines are none."""
    found: dict[str, Set] = {}
    entries, bad = decoded(lines, decode)
    for told in entries:
        if isinstance(told, Set):
            found.setdefault(told.operation, told)
            continue
        operation, outcome, reason = told
        if (known := found.get(operation)) is not None and known.outcome is None:
            found[operation] = replace(known, outcome=outcome, reason=reason)
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
