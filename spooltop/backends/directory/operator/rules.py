"""Rules of the moves: the boxes that each action takes from, and where it moves to."""

from __future__ import annotations

from spooltop.model.vocabulary import Action, Box
from spooltop.records import dataclass

__all__ = ["FORCEABLE", "RULES", "Rule"]

FORCEABLE = frozenset({Action.REQUEUE, Action.HOLD})
"""The actions that may take a claim from a running holder, where they are forced."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The row of one action. ``sources`` are searched for ids in this order; ``target`` is the box, None where the message is
    deleted."""

    sources: tuple[Box, ...]
    target: Box | None


RULES: dict[Action, Rule] = {
    Action.REQUEUE: Rule((Box.CUR, Box.REJECTED, Box.HELD), Box.NEW),
    Action.PURGE: Rule((Box.CUR, Box.NEW, Box.TMP, Box.REJECTED, Box.HELD), Box.TRASH),
    Action.HOLD: Rule((Box.CUR, Box.NEW), Box.HELD),
    Action.RELEASE: Rule((Box.HELD,), Box.NEW),
    Action.RESTORE: Rule((Box.TRASH, Box.HELD, Box.REJECTED), Box.NEW),
    Action.EMPTY: Rule((Box.TRASH,), None),
}
"""Undo is no row of this table: it reverses the moves of the journal, to the exact places."""
