"""System errors in the words of the user."""

from __future__ import annotations

import errno
import os

from spooltop.errors import Refused, SpoolFull, SpooltopError

__all__ = ["in_words"]


def in_words(error: OSError, path: str, doing: str) -> Exception:
    """The error to raise for ``error`` while ``doing`` ("put", "claim"): ``SpoolFull``, ``Refused``, or the error itself."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "quota exceeded" if error.errno == errno.EDQUOT else "no space or no inodes left"
        return SpoolFull(f"{doing}: {what}", path=path, advice="free some on this file system: acks go on meanwhile")
    if error.errno == errno.EROFS:
        return Refused(f"{doing}: {os.strerror(error.errno)}", path=path, advice="mount it for writing")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refused(f"{doing}: {os.strerror(error.errno)}", path=path, advice=f"run it as its owner: sudo -u {_owner(path)} …")
    if error.errno == errno.EXDEV:
        return SpooltopError(f"{doing}: the boxes are on different file systems", path=path, advice="mount the spool as a whole")
    return error


def _owner(path: str) -> str:
    """Whose the spool is: the name of the user that ``new`` belongs to, or the number."""
    import pwd  # only for somebody who may not write

    try:
        uid = os.stat(os.path.join(path, "new")).st_uid
    except OSError:
        uid = os.stat(path).st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"'#{uid}'"
