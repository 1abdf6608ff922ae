"""System errors in the words of the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.errors import Refused, SpoolFull, SpooltopError

__all__ = ["advice", "translate", "translating"]

_ADVICE = {
    errno.EIO: "look at the kernel's log (dmesg): the disk or its server fails; try again when it is mended",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or open less",
    errno.ENFILE: "raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.ESTALE: "the server has another directory there now: open it again",
    errno.ENOENT: "somebody took it away: look whether the directory is all there",
    errno.ENOSPC: "free some on this file system",
    errno.EDQUOT: "free some on this file system",
    errno.EROFS: "mount it for writing",
}


def advice(error: OSError) -> str:
    """Advice for a system error about which nothing more is known."""
    return _ADVICE.get(error.errno or 0, "nothing else was changed; try again")


@contextmanager
def translating(path: str, doing: str) -> Iterator[None]:
    """Converts an ``OSError`` raised in the block to a ``SpooltopError``, as ``translate`` does."""
    try:
        yield
    except OSError as error:
        raise translate(error, path, doing) from error


def translate(error: OSError, path: str, doing: str) -> SpooltopError:
    """The error to raise for ``error`` while ``doing`` ("put", "claim"): ``SpoolFull``, ``Refused``, or the plain
    ``SpooltopError``, each with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "quota exceeded" if error.errno == errno.EDQUOT else "no space or no inodes left"
        acks = ": acks go on meanwhile" if doing in ("put", "claim") else ""
        return SpoolFull(f"{doing}: {what}", path=path, advice=f"free some on this file system{acks}")
    if error.errno == errno.EROFS:
        return Refused(f"{doing}: {os.strerror(error.errno)}", path=path, advice="mount it for writing")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refused(f"{doing}: {os.strerror(error.errno)}", path=path, advice=_as_owner(path))
    if error.errno == errno.EXDEV:
        return SpooltopError(f"{doing}: the boxes are on different file systems", path=path, advice="mount the spool as a whole")
    return SpooltopError(f"{doing}: {os.strerror(error.errno) if error.errno else error}", path=path, advice=advice(error))


def _as_owner(path: str) -> str:
    """Advice for a user who may not write something in the spool."""
    import pwd  # only for somebody who may not write
    import shlex

    try:
        uid = os.stat(os.path.join(path, "new")).st_uid
    except OSError:
        try:
            uid = os.stat(path).st_uid
        except OSError:
            return "run it as its owner: sudo -u OWNER …"
    if uid == os.geteuid():
        root = shlex.quote(path)
        return f"you own it, but not all that is in it: sudo chown -R --reference={root}/new {root}/.spooltop"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"'#{uid}'"
    return f"run it as its owner: sudo -u {owner} …"
