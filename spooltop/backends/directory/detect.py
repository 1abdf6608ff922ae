"""What a path is: a spool, a mail folder, cursors, tickets. What is none of them gets an error with the hint that fits.

Nothing is created or changed here, and of each directory only the first names are read.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Literal

from ...engine.names import is_mail_name, parse
from ...errors import NotASpool, Unreadable
from ...model.text import escape
from ...model.words import LIVE, Box
from . import hints
from .glimpse import boxes_in, first_names, is_spool_like, open_path
from .whose import quoted

__all__ = ["Kind", "Target", "identify", "mail_signs"]

Kind = Literal["spool", "mail", "cursors", "tickets"]

_MAIL_ROOT = re.compile(r"dovecot|courier|maildirfolder\Z")
_MAIL_FILES = (
    "maildirfolder", "dovecot-uidlist", "dovecot-uidvalidity", "dovecot.index", "dovecot.index.log", "dovecot-keywords",
    "courierimapuiddb", "courierimapsubscribed", "courierimapkeywords", "courierimaphieracl",
)  # fmt: skip
LOOKED_AT = 4096
"""How many names of a box are looked at for signs of mail."""
_TICKET = re.compile(r"[0-9]{20}\.")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path is. ``path`` is as given, but the directory where a ``cursors.json`` was named. ``read_only`` says in words why
    nothing may be changed; ``missing`` are the boxes of a spool that are not there."""

    kind: Kind
    path: str
    read_only: str | None = None
    missing: tuple[Box, ...] = ()


def identify(path: str, as_spool: bool = False) -> Target:
    """What ``path`` is; ``as_spool`` takes a mail folder for a job spool.

    Raises ``NotASpool`` with the hint that fits, ``Unreadable`` where a component or a box gives no permission.
    """
    if not path:
        raise NotASpool("an empty path", advice="name the directory that holds tmp, new and cur")
    try:
        fd = open_path(path)
    except NotADirectoryError:
        parent, name = os.path.split(path)
        if name == "cursors.json" and os.path.isfile(path):
            return Target("cursors", parent or ".")
        raise hints.for_file(path) from None
    except (OSError, ValueError) as error:
        raise hints.for_error(path, error) from None
    try:
        return _identify(path, fd, as_spool)
    except PermissionError:
        raise hints.for_denied(path, os.fstat(fd)) from None
    finally:
        os.close(fd)


def _identify(path: str, fd: int, as_spool: bool) -> Target:
    modes = boxes_in(fd)
    for box, mode in modes.items():
        if stat.S_ISLNK(mode):
            advice = f"a box must be a directory itself: name the spool that {box} points into"
            raise NotASpool(f"its {box} is a symbolic link", path=path, advice=advice)
    if is_spool_like(modes):
        missing = tuple(box for box in LIVE if not stat.S_ISDIR(modes.get(box, 0)))
        if not (signs := _looked_into(path, fd, missing)) or as_spool:
            return Target("spool", path, missing=missing)
        return Target("mail", path, read_only=_why_read_only(path, signs), missing=missing)
    names = first_names(".", fd)
    if _is_file(fd, "cursors.json") or (_is_dir(fd, "cursors") and _has_json(fd, "cursors")):
        return Target("cursors", path)
    if "seq" in names and all(name == "seq" or name.startswith(".") for name in names):
        return Target("tickets", path)  # a queue in which nobody waits
    if any(_TICKET.match(name) for name in names) and _is_file(fd, "seq"):
        return Target("tickets", path)
    raise hints.for_directory(path, fd, modes, names)


def _looked_into(path: str, fd: int, missing: tuple[Box, ...]) -> tuple[str, ...]:
    """Signs of a mail folder. Raises ``Unreadable`` where none of the boxes lets itself be listed."""
    seen: dict[Box, list[str]] = {}
    denied: list[Box] = []
    for box in LIVE:
        if box not in missing:
            try:
                seen[box] = first_names(box, fd, LOOKED_AT)
            except PermissionError:
                denied.append(box)
            except OSError:
                continue  # it went, or the disk fails: the scan that follows says so, with the error
    if denied and not seen:
        raise hints.for_denied(os.path.join(path, denied[0]), os.stat(denied[0], dir_fd=fd, follow_symlinks=False))
    try:
        root = first_names(".", fd)
    except PermissionError:
        root = []  # --x on the spool itself: the well-known names are still tried below
    root += [name for name in _MAIL_FILES if name not in root and _exists(fd, name)]
    return mail_signs(root, seen.get(Box.NEW, []), seen.get(Box.CUR, []))


def mail_signs(root: list[str], new: list[str], cur: list[str]) -> tuple[str, ...]:
    """Signs that these are the names of a mail folder (maildir(5), Dovecot, Courier), in words; empty where none."""
    signs = []
    if flags := next((flags for name in cur if (flags := parse(name, claimed=True).flags)), None):
        signs.append(f"cur has :2,{flags} flags")
    signs += sorted(escape(name) for name in root if _MAIL_ROOT.match(name))[:1]
    if not signs and (name := next((name for name in (*new, *cur) if is_mail_name(name)), None)):
        signs.append(f"names as of mail, {escape(name)}")
    return tuple(signs)


def _why_read_only(path: str, signs: tuple[str, ...]) -> str:
    return (
        f"this is a mail folder ({'; '.join(signs)}): its cur is read mail, not stuck work, so nothing here is judged stale "
        f"and nothing changes it; if it is a job spool all the same: spooltop --as spool {quoted(path)}"
    )


def _exists(fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_file(fd: int, name: str) -> bool:
    return _kind(fd, name) == stat.S_IFREG


def _is_dir(fd: int, name: str) -> bool:
    return _kind(fd, name) == stat.S_IFDIR


def _kind(fd: int, name: str) -> int:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _has_json(fd: int, name: str) -> bool:
    try:
        return any(entry.endswith(".json") for entry in first_names(name, fd))
    except PermissionError:
        raise Unreadable(f"{name}/ gives no permission to list it") from None
