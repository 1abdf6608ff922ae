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
        return SpoolFull(f"{doing}: {what}", path=path, advice="free some: acks go on, and so does emptying the trash")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Refused(f"{doing}: {os.strerror(error.errno)}", path=path, advice="run it as the spool's owner (sudo -u OWNER)")
    if error.errno == errno.EXDEV:
        return SpooltopError(f"{doing}: the boxes are on different file systems", path=path, advice="mount the spool as a whole")
    return error
