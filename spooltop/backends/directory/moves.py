"""The one table of moves: what each action takes from where, and what it is called where it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...engine import names
from ...model.words import Action, Box

__all__ = ["RULES", "Rule", "requeue_name"]


def requeue_name(told: names.Name) -> str:
    """What a claim, or what was set aside, is called in ``new``: its id keeps, so mail flags go. A name without a tail stays."""
    if told.flags is None and told.token is None and told.pid is None:
        return told.raw
    return names.back_in_new(told)


def _same(told: names.Name) -> str:
    return told.raw


@dataclass(frozen=True, slots=True)
class Rule:
    """``sources`` in the order in which they are searched for ids; ``target`` the box, ``rename`` the name in ``new``: what is
    set aside keeps its own."""

    sources: tuple[Box, ...]
    target: Box
    rename: Callable[[names.Name], str] = _same


RULES: dict[Action, Rule] = {
    Action.REQUEUE: Rule((Box.CUR, Box.REJECTED, Box.HELD), Box.NEW, requeue_name),
    Action.PURGE: Rule((Box.CUR, Box.NEW, Box.TMP, Box.REJECTED, Box.HELD), Box.TRASH),
}
"""Undo is no row of this table: it goes the moves of the journal backwards, to the exact places."""
