"""What to say of a path that is not quite a spool: the error for it, with the hint that fits. Creates nothing."""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat

from ...errors import NotASpool, SpooltopError, Unreadable
from ...model.text import escape
from ...model.words import LIVE, Box
from .glimpse import boxes_in, first_names, is_spool_like, open_path
from .whose import quoted, sudo_name, user_name

__all__ = ["for_denied", "for_directory", "for_error", "for_file"]

_SIBLINGS = 2000
"""How many names beside a missing one are looked at for a typo."""

_NAME_ONE = "name the directory that holds tmp, new and cur"

_DIRQ_FOLDER = re.compile(r"[0-9a-f]{8}\Z")
_DIRQ_ELEMENT = re.compile(r"[0-9a-f]{14}(\.lck|\.tmp)?\Z")


def for_file(path: str) -> SpooltopError:
    """``path``, or a component of it, is no directory."""
    culprit = path
    for prefix in _prefixes(path):
        if os.path.lexists(prefix) and not os.path.isdir(prefix):
            culprit = prefix
            break
    what = "a file, not a spool" if os.path.isfile(culprit) else "not a directory"
    folder = os.path.dirname(os.path.abspath(culprit))
    if spool := _spool_of_box(folder):
        name = escape(os.path.basename(culprit))
        advice = f"open its spool: spooltop {quoted(spool)} (it is {name} there)"
        return NotASpool(f"{what}; it lies in the box {os.path.basename(folder)}", path=culprit, advice=advice)
    if _spool_at(folder):
        return NotASpool(what, path=culprit, advice=f"it lies in a spool: spooltop {quoted(folder)}")
    return NotASpool(what, path=culprit, advice=_NAME_ONE)


def for_error(path: str, error: OSError | ValueError) -> SpooltopError:
    """Opening ``path`` as a directory failed."""
    if isinstance(error, ValueError):
        return NotASpool("a path cannot hold a NUL byte", path=path, advice=_NAME_ONE)
    if error.errno == errno.ENOENT:
        return _for_missing(path)
    if error.errno == errno.EACCES:
        for prefix in _prefixes(path)[:-1]:
            if not os.access(prefix, os.X_OK, effective_ids=True):
                try:
                    return for_denied(prefix, os.stat(prefix), path)
                except OSError:
                    break  # it changed meanwhile; the plain error says enough
    if error.errno == errno.ELOOP:
        return NotASpool("symbolic links lead in a circle", path=path, advice="mend the link, or name the directory itself")
    return Unreadable(f"cannot be opened: {os.strerror(error.errno or 0)}", path=path, advice=_NAME_ONE)


def for_denied(culprit: str, found: os.stat_result, path: str | None = None) -> SpooltopError:
    """``culprit``, a directory with this ``stat``, may not be entered or listed by this user."""
    mode = stat.S_IMODE(found.st_mode)
    shown = quoted(path or (os.path.dirname(culprit) if os.path.basename(culprit) in LIVE else culprit))
    if found.st_uid == os.geteuid():
        advice = f"it is yours: chmod u+rwx {quoted(culprit)}"
    else:
        advice = f"look as its owner: sudo -u {sudo_name(found.st_uid)} spooltop {shown}"
    return Unreadable(f"no permission: it is {escape(user_name(found.st_uid))}'s, mode {mode:04o}", path=culprit, advice=advice)


def for_directory(path: str, fd: int, modes: dict[Box, int], names: list[str]) -> SpooltopError:
    """``path`` is a directory (``fd``) with these first ``names``, and no spool."""
    if spool := _spool_of_box(os.path.abspath(path)):
        box = os.path.basename(os.path.abspath(path))
        return NotASpool(f"only the box {box} of a spool", path=path, advice=f"open the spool: spooltop {quoted(spool)}")
    if not names:
        return NotASpool("an empty directory", path=path, advice=f"make a spool of it: spooltop init {quoted(path)}")
    if foreign := _foreign(fd, names):
        return NotASpool(f"{foreign}, which spooltop does not read", path=path, advice=_NAME_ONE)
    if inside := _spools_in(fd, names):
        shown = " or ".join(quoted(os.path.join(path, name)) for name in inside[:4]) + (" …" if len(inside) > 4 else "")
        return NotASpool(f"no spool itself; {len(inside)} inside", path=path, advice=f"name one: spooltop {shown}")
    if tickets := [name for name in sorted(names) if name.endswith(".queue") and _has(fd, name, "seq")]:
        advice = f"look at them: spooltop {quoted(os.path.join(path, tickets[0]))}"
        return NotASpool("no spool itself; tickets inside", path=path, advice=advice)
    there = [box for box in LIVE if stat.S_ISDIR(modes.get(box, 0))]
    missing = " and ".join(box for box in LIVE if box not in there)
    if there:
        return NotASpool(f"{missing} missing, only {' and '.join(there)} there", path=path, advice=_near_or_init(path))
    return NotASpool("no spool: tmp, new and cur are missing", path=path, advice=_near_or_init(path))


def _for_missing(path: str) -> SpooltopError:
    """``path`` does not exist: where does it end, and what is near?"""
    for prefix in _prefixes(path):
        if os.path.lexists(prefix):
            if os.path.islink(prefix) and not os.path.exists(prefix):
                return NotASpool("a symbolic link to nothing", path=prefix, advice="mend the link, or name the directory itself")
            continue
        rest = os.path.relpath(path, prefix) if path != prefix else "."
        near = [os.path.normpath(os.path.join(found, rest)) for found in _near(prefix)]
        near.sort(key=lambda found: not os.path.isdir(found))  # stable: the nearest name first among those that exist
        if near:
            return NotASpool("no such directory", path=path, advice="did you mean " + " or ".join(map(quoted, near)) + "?")
        break
    return NotASpool("no such directory", path=path, advice=f"make a spool there: spooltop init {quoted(path)}")


def _near_or_init(path: str) -> str:
    """Advice for a directory with something else in it: a spool with a similar name, or what a spool is."""
    near = [found for found in _near(os.path.abspath(path)) if _spool_at(found)]
    if near:
        return "did you mean " + " or ".join(map(quoted, near)) + "?"
    return "name the directory that holds tmp, new and cur, or make one: spooltop init PATH"


def _near(path: str) -> list[str]:
    """Up to three directories beside ``path`` whose names are like its own, the nearest first."""
    parent, name = os.path.split(path)
    try:
        fd = open_path(parent or ".")
    except OSError:
        return []  # no hint from a parent that cannot be seen
    try:
        names = first_names(".", fd, _SIBLINGS)
    except OSError:
        return []
    finally:
        os.close(fd)
    close = difflib.get_close_matches(name, [other for other in names if other != name], n=3, cutoff=0.6)
    return [found for other in close if os.path.isdir(found := os.path.join(parent, other))]


def _prefixes(path: str) -> list[str]:
    """``a/b/c`` as ``a``, ``a/b``, ``a/b/c``; absolute paths begin with ``/``."""
    current = "/" if path.startswith("/") else ""
    prefixes = [current] if current else []
    for part in filter(None, path.split("/")):
        current = os.path.join(current, part)
        prefixes.append(current)
    return prefixes


def _spool_at(path: str) -> bool:
    try:
        fd = open_path(path)
    except (OSError, ValueError):
        return False  # what cannot be seen is no hint
    try:
        return is_spool_like(boxes_in(fd))
    except OSError:
        return False
    finally:
        os.close(fd)


def _spool_of_box(path: str) -> str | None:
    """The spool that the absolute ``path`` is a box of, or lies below the ``.spooltop`` of."""
    parent, name = os.path.split(path)
    if name in (*LIVE, ".spooltop") and _spool_at(parent):
        return parent
    above, sep, _ = path.partition("/.spooltop/")
    return above if sep and _spool_at(above) else None


def _spools_in(fd: int, names: list[str]) -> list[str]:
    """Which of ``names`` are spools."""
    found = []
    for name in sorted(names):
        try:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except OSError:
            continue  # a file, a link, or gone
        try:
            if is_spool_like(boxes_in(inner)):
                found.append(name)
        except OSError:
            continue  # not ours to look into
        finally:
            os.close(inner)
    return found


def _foreign(fd: int, names: list[str]) -> str | None:
    """The name of a layout of others that is known by its folders."""
    have = set(names)
    if {"queue", "schedule", "results"} <= have and (".lock" in have or "counters" in have):
        return "a huey FileStorage"
    if {"queue", "processing", "jobs"} <= have:
        return "a job-queue FileStorage"
    if {"active", "incoming", "deferred"} <= have:
        return "a Postfix queue (postqueue -p lists it)"
    folders = [name for name in names if _DIRQ_FOLDER.match(name)]
    for folder in folders[:4]:
        try:
            inside = first_names(folder, fd)
        except OSError:
            continue  # no directory, or not ours to look into
        if any(_DIRQ_ELEMENT.match(name) for name in inside):
            return "a dirq directory queue"
    return None


def _has(fd: int, folder: str, name: str) -> bool:
    try:
        return name in first_names(folder, fd)
    except OSError:
        return False  # no directory, or not ours to look into: no hint
