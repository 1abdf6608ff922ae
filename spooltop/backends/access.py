"""Names the owner of a file, and the command to try for users who may not change it."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from functools import cache

from spooltop.model import escape


@cache
def user_name(uid: int) -> str:
    """Returns the name of a user, or the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Returns the name of a group, or the number if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def sudo_name(uid: int) -> str:
    """Returns the user as an argument of ``sudo -u``, which takes a number as ``#uid`` (sudo(8))."""
    name = user_name(uid)
    return _quote(f"#{uid}" if name == str(uid) else name)


def quoted(path: str) -> str:
    """Quotes a path for a shell, and escapes what is not printable."""
    return _quote(escape(path))


def _quote(text: str) -> str:
    from shlex import quote  # only for hints

    return quote(text)


def why_read_only(folder: int) -> str | None:
    """Why nothing in the open directory can be changed, or None."""
    return f"the file system is read-only ({os.strerror(errno.EROFS)})" if os.fstatvfs(folder).f_flag & os.ST_RDONLY else None


def why_closed(above: int, name: str, shown: str, *command: str, mode: int = os.R_OK | os.W_OK | os.X_OK) -> str | None:
    """Why this user may not use what has the ``name`` in the open directory ``above`` as ``mode`` says (access(2); a directory
    is written), or None. ``shown`` is what it is called, ``command`` as for ``closed_words``. Raises ``OSError``."""
    if os.access(name, mode, dir_fd=above, effective_ids=True):
        return None
    return why_read_only(above) or closed_words(shown, os.stat(name, dir_fd=above, follow_symlinks=False), *command)


def closed_words(what: str, found: os.stat_result, *command: str) -> str:
    """``you are deploy, cur belongs to memex 0750. Try: sudo -u memex spooltop …``, where ``found`` is the status of ``what``
    and ``command`` the words behind ``spooltop``."""
    ownership = f"{what} belongs to {user_name(found.st_uid)} {stat.S_IMODE(found.st_mode):04o}"
    words = " ".join(quoted(word) for word in command)
    return f"you are {user_name(os.geteuid())}, {ownership}. Try: sudo -u {sudo_name(found.st_uid)} spooltop {words}"
