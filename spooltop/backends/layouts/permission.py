"""Tells which actions this user may do in a queue of another program, and why not the others."""

from __future__ import annotations

import errno
import os
import stat

from spooltop.model.backend import Capabilities
from spooltop.model.vocabulary import ASIDE, Action, Box

from ..access import closed_words
from .definition import Layout
from .queue_dirs import QueueDirs
from .verdicts import LOCK_STALE

BUILT_IN = {Action.RELEASE: (Box.HELD,), Action.RESTORE: (Box.TRASH, Box.HELD), Action.EMPTY: (Box.TRASH,)}
"""Actions that every layout has which sets messages aside, and the boxes that they take from."""

_NEVER = {
    Action.INJECT: "only {name} itself puts messages here",
    Action.SET_CURSOR: "{name} has no cursors",
    Action.PAUSE: "{name} has no pause",
    Action.RESUME: "{name} has no pause",
}
_MESSAGES = (Action.REQUEUE, Action.PURGE, Action.HOLD, Action.RELEASE, Action.RESTORE, Action.EMPTY)


def sources_of(layout: Layout, action: Action) -> tuple[Box, ...]:
    """The boxes that ``action`` takes messages from; none where the layout does not have it."""
    sets_aside = {step.verb for one in layout.actions for step in one.steps}
    boxes = dict.fromkeys(Box(box) for one in layout.actions if one.name == action.value for box in one.boxes)
    boxes |= dict.fromkeys(box for box in BUILT_IN.get(action, ()) if box.value in sets_aside)
    if action in (Action.PURGE, Action.REQUEUE) and boxes and Box.HELD.value in sets_aside:
        boxes[Box.HELD] = None
    return tuple(boxes)


def can_change(layout: Layout, dirs: QueueDirs) -> Capabilities:
    """The actions of the layout, as far as this user may write its directories. Raises ``OSError``."""
    if not layout.actions:
        return Capabilities.nothing(layout.why_read_only, layout.commands)
    why = _why_not_write(layout, dirs)
    if why is not None:
        return Capabilities.nothing(why, layout.commands)
    refusals = {action: f"the layout of {layout.name} has no {action.value}" for action in Action}
    refusals |= {action: words.format(name=layout.name) for action, words in _NEVER.items()}
    boxes = {action: boxes for action in _MESSAGES if (boxes := sources_of(layout, action))}
    for action in boxes:
        del refusals[action]
    del refusals[Action.UNDO]
    if any(rule.code == LOCK_STALE for rule in layout.problems):
        del refusals[Action.UNLOCK]
    return Capabilities(refusals, layout.commands, boxes)


def absent_views(layout: Layout) -> dict[str, str]:
    """The views that a queue of this layout does not have, and why."""
    boxes = {match.box for match in layout.matches} | {box.value for action in BUILT_IN for box in sources_of(layout, action)}
    absent = {"cursors": f"{layout.name} has no cursors"}
    if "tmp" not in boxes:
        absent["tmp"] = f"{layout.name} has no files that are being written"
    if not layout.locks and all(rule.code != LOCK_STALE for rule in layout.problems):
        absent["locks"] = f"the layout of {layout.name} knows no locks beside its messages"
    if not boxes.intersection((*ASIDE, Box.DELIVERED)):
        absent["aside"] = f"{layout.name} sets nothing aside"
    return absent


def _why_not_write(layout: Layout, dirs: QueueDirs) -> str | None:
    """Why this user may not change messages; None where all directories that the layout names can be written."""
    try:
        own = dirs.private_dir()
    except NotADirectoryError:
        return f"{dirs.own_name} is not a directory; find out who created it"
    places = [(".", dirs.above(), "the directory above it" if dirs.own_name.startswith("../") else "its directory")]
    if own is not None:
        places = [(".", own, dirs.own_name)]
    for name in _folders(layout):
        try:
            if stat.S_ISDIR(dirs.files.stat(name, dirs.root).st_mode):
                places.append((name, dirs.root, name))
        except FileNotFoundError:
            continue  # made with the first message that lies there
    for name, above, shown in places:
        if not os.access(name, os.R_OK | os.W_OK | os.X_OK, dir_fd=above, effective_ids=True):
            if os.fstatvfs(dirs.root).f_flag & os.ST_RDONLY:
                return f"the file system is read-only ({os.strerror(errno.EROFS)})"
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            return closed_words(shown, found, dirs.path)
    return None


def _folders(layout: Layout) -> list[str]:
    """The first directories of the paths of messages, where the layout names them; "." for messages in the queue itself."""
    first = (match.template.text.split("/") for match in layout.matches)
    names = (parts[0] if len(parts) > 1 else "." for parts in first)
    return list(dict.fromkeys(name for name in names if "{" not in name and "*" not in name))
