"""What this user may do with a spool, and if not, why not and what would help."""

from __future__ import annotations

import errno
import os
import pwd
import stat

from ...engine.dirs import OWN, SpoolDirs
from ...model.can import Can
from ...model.text import escape
from ...model.words import Action, Box
from .moves import RULES

__all__ = ["can_change"]

_OFFERED = (*RULES, Action.INJECT, Action.UNDO)


def can_change(dirs: SpoolDirs) -> Can:
    """Asks the kernel for each directory that an action writes. Root may everything but what the file system forbids."""
    refusals: dict[Action, str] = {
        action: "this version has no such action for a directory spool" for action in Action if action not in _OFFERED
    }
    boxes = {box: _why_not(dirs, box) for box in (Box.TMP, Box.NEW, Box.CUR)}
    beside = _why_not_beside(dirs)
    for action in _OFFERED:
        needed = [boxes[Box.NEW]]
        if action in (Action.REQUEUE, Action.PURGE):
            needed.append(boxes[Box.CUR])
        if action is Action.INJECT:
            needed.append(boxes[Box.TMP])
        reason = next((why for why in (*needed, beside) if why), None)
        if reason is not None:
            refusals[action] = reason
    return Can(refusals)


def _why_not(dirs: SpoolDirs, box: Box) -> str | None:
    if box in dirs.troubles:
        trouble = dirs.troubles[box]
        return f"{box} is missing" if isinstance(trouble, FileNotFoundError) else f"{box} cannot be opened: {trouble.strerror}"
    return _refusal(dirs, box.value)


def _why_not_beside(dirs: SpoolDirs) -> str | None:
    try:
        found = dirs.files.stat(OWN, dirs.root)
    except FileNotFoundError:
        why = _refusal(dirs, ".")
        return None if why is None else f"{OWN}, which holds the journal, cannot be made: {why}"
    except OSError as error:
        return f"{OWN} cannot be seen: {error.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{OWN} is no directory; look who put it there"
    return _refusal(dirs, OWN)


def _refusal(dirs: SpoolDirs, name: str) -> str | None:
    """Why ``name`` below the spool cannot be written by this user, or None."""
    try:
        if os.access(name, os.R_OK | os.W_OK | os.X_OK, dir_fd=dirs.root, effective_ids=True):
            return None
        os.stat(name, dir_fd=dirs.root, follow_symlinks=False)
    except OSError as error:
        return f"{name} cannot be seen: {error.strerror}"
    found = os.stat(name, dir_fd=dirs.root, follow_symlinks=False)
    if os.fstatvfs(dirs.root).f_flag & os.ST_RDONLY:
        return f"the file system is read-only ({os.strerror(errno.EROFS)})"
    owner = _user(found.st_uid)
    what = "the spool" if name == "." else name
    return (
        f"you are {_user(os.geteuid())}, {what} belongs to {owner} {stat.S_IMODE(found.st_mode):04o}. "
        f"Try: sudo -u {owner} spooltop {escape(dirs.path)}"
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
