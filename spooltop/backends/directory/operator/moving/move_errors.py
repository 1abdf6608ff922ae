"""Turns the system error of a move into its outcome: what happened to the message is found by looking."""

from __future__ import annotations

import os

from spooltop.model.operations.plan import Outcome
from spooltop.model.text import escape

from ...journal.outcomes import MoveOutcome
from ...storage.folders import Folder
from ...storage.name_lookup import NameLookup
from .batches import Move, Run

__all__ = ["describe", "outcome_of_delete_error", "outcome_of_move_error"]


def describe(error: OSError) -> str:
    name = f" ({escape(os.fsdecode(error.filename))})" if isinstance(error.filename, (str, bytes)) else ""
    return f"{error.strerror or error}{name}"


def outcome_of_move_error(
    lookup: NameLookup, run: Run, move: Move, source: Folder, to: Folder, error: OSError
) -> MoveOutcome | None:
    """The outcome of a move from ``source`` into ``to`` that raised ``error``; None where the message is gone."""
    if isinstance(error, FileExistsError):
        return MoveOutcome(Outcome.FAILED, f"{run.to_box} already has a file of that name; it stays in {run.box}")
    in_place = lookup.inode(move.name, source.fd) == move.ino
    if isinstance(error, FileNotFoundError):
        return MoveOutcome(Outcome.FAILED, describe(error)) if in_place else None  # in place: its target is gone
    if in_place or lookup.inode(move.to_name, to.fd) != move.ino:
        return MoveOutcome(Outcome.FAILED, describe(error))
    return MoveOutcome(Outcome.FAILED, f"moved, but: {describe(error)}", True)


def outcome_of_delete_error(lookup: NameLookup, move: Move, source: Folder, error: OSError) -> MoveOutcome | None:
    """The outcome of a deletion in ``source`` that raised ``error``; None where the message is gone."""
    if isinstance(error, FileNotFoundError):
        return None
    if lookup.there(move.name, source.fd) is not False:
        return MoveOutcome(Outcome.FAILED, describe(error))
    return MoveOutcome(Outcome.FAILED, f"deleted, but: {describe(error)}", True)
