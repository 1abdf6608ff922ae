"""Rules of the moves: the boxes that each action takes from, and where it moves to."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from itertools import islice

from spooltop.engine.dirs import OWN, SpoolDirs
from spooltop.engine.pausing import PAUSED
from spooltop.model import Action, Box, Capabilities, Frozen

from ...access import closed_words, why_closed

FORCEABLE = frozenset({Action.REQUEUE, Action.HOLD})
"""The actions that may take a claim from a running holder, where they are forced."""


class Rule(Frozen):
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


# The rights of this user on a spool, and where one is missing, why and what would help.

_LOOKED_AT = 64
"""Messages whose owners are looked at in a sticky box."""


def can_change(dirs: SpoolDirs) -> Capabilities:
    """Asks the kernel about each directory that an action writes. Root may do everything that the file system allows."""
    why = _refusal(dirs, dirs.root, ".", "the spool", None)
    own = _refusal(dirs, dirs.root, OWN, OWN, why and f"{OWN}, which holds the journal, cannot be made: {why}")
    tmp, new, cur = (_why_not(dirs, box) for box in (Box.TMP, Box.NEW, Box.CUR))
    new_sticks, cur_sticks = (_sticky(dirs, box) for box in (Box.NEW, Box.CUR))
    held, trash = (None if own else _why_not_aside(dirs, box) for box in (Box.HELD, Box.TRASH))
    # What writes nothing into new; but without it nothing here is a spool any more.
    spool = new if Box.NEW in dirs.errors else None
    needed: dict[Action, tuple[str | None, ...]] = {
        Action.REQUEUE: (new, cur, cur_sticks),
        Action.PURGE: (new, cur, cur_sticks, new_sticks, trash),
        Action.HOLD: (new, cur, cur_sticks, new_sticks, held),
        Action.RELEASE: (new, held),
        Action.RESTORE: (new,),
        Action.EMPTY: (spool, trash),
        Action.INJECT: (new, tmp),
        Action.UNDO: (new,),
        Action.PAUSE: (spool,),
        Action.RESUME: (spool, None if own else _why_not_resume(dirs)),
    }
    # The rights on locks are checked for each: some lie beside the spool.
    others = [action for action in Action if action not in (*needed, Action.UNLOCK)]
    refusals: dict[Action, str] = dict.fromkeys(others, "this version has no such action for a directory spool")
    for action, reasons in needed.items():
        if reason := next(filter(None, (*reasons, own)), None):
            refusals[action] = reason
    return Capabilities(refusals)


def _why_not(dirs: SpoolDirs, box: Box) -> str | None:
    if box in dirs.errors:
        error = dirs.errors[box]
        return f"{box} is missing" if isinstance(error, FileNotFoundError) else f"{box} cannot be opened: {error.strerror}"
    return _refusal(dirs, dirs.root, box.value, box.value, f"{box} is missing")


def _sticky(dirs: SpoolDirs, box: Box) -> str | None:
    """Why this user may not move messages out of ``box``, or None; None also where one of those that are looked at is this
    user's."""
    fd, user = dirs.new if box is Box.NEW else dirs.cur, os.geteuid()
    if fd is None or not (found := dirs.files.fstat(fd)).st_mode & stat.S_ISVTX or user in (0, found.st_uid):
        return None
    with closing(dirs.files.inodes(fd)) as entries:
        names = [name for name, _ in islice(entries, _LOOKED_AT)]
    owners = [one.st_uid for name in names if (one := dirs.files.status(name, fd)) is not None]
    if not names or user in owners:
        return None
    return closed_words(f"{box} is sticky, so that only its owner moves the messages of others; it", found, dirs.path)


def _why_not_resume(dirs: SpoolDirs) -> str | None:
    """Why this user may not remove the pause, or None; None also if there is none."""
    own = dirs.private_dir()
    if own is None or not (folder := dirs.files.fstat(own)).st_mode & stat.S_ISVTX:
        return None
    found = dirs.files.status(PAUSED, own)
    if found is None or os.geteuid() in (0, folder.st_uid, found.st_uid):
        return None
    return closed_words(f"{OWN} is sticky, so that only its owner removes the files of others; {PAUSED}", found, dirs.path)


def _why_not_aside(dirs: SpoolDirs, box: Box) -> str | None:
    """Why this user may not write the folders of ``box``, or None; None also where nothing was ever set aside there: then it
    can be made, or there is nothing to take from."""
    try:
        own = dirs.private_dir()
    except OSError as error:
        return f"{OWN}/{box.value} cannot be accessed: {error.strerror}"
    return None if own is None else _refusal(dirs, own, box.value, f"{OWN}/{box.value}", None)


def _refusal(dirs: SpoolDirs, above: int, name: str, shown: str, missing: str | None) -> str | None:
    """Why this user may not write the directory ``name`` in the directory ``above``, called ``shown``, or None; ``missing`` where
    there is none."""
    try:
        if not stat.S_ISDIR(dirs.files.stat(name, above).st_mode):
            return f"{shown} is not a directory; find out who created it"
        return why_closed(above, name, shown, dirs.path)
    except FileNotFoundError:
        return missing
    except OSError as error:
        return f"{shown} cannot be accessed: {error.strerror}"
