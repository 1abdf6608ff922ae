"""Default conditions of each action, for selections that leave them out. They are the same for every kind of spool."""

from __future__ import annotations

import re

from msgspec.structs import replace

from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action, Box

PURGE_AGE = 3600.0
"""Minimum age in the box, in seconds, for a purge by condition, unless an age or ALL is given."""

_AGE_TERM = re.compile(r"(?:^|\s)!?age:")


def with_defaults(action: Action, selection: Selection) -> Selection:
    """Returns the selection with the defaults of ``action`` filled in.

    Requeue acts on claims. Purge requires a box or names. It skips messages that have been in their box for less than
    ``PURGE_AGE``, unless the messages are named, an age is given or everything is selected. Emptying does the same in the trash.
    Raises ``UsageError`` for a purge without a box.
    """
    if action is Action.REQUEUE and selection.box is None and selection.keys is None:
        return replace(selection, box=Box.CUR)
    if action is Action.EMPTY and selection.box is None:
        selection = replace(selection, box=Box.TRASH)
    if action in (Action.PURGE, Action.EMPTY) and not selection.named:
        if selection.box is None:
            raise UsageError("purge: which box?", advice="name it with --box tmp, new, cur, held or rejected, or name ids")
        if selection.older_than is None and not selection.everything and not _AGE_TERM.search(selection.filter):
            return replace(selection, older_than=PURGE_AGE)
    return selection
