"""Saves bytes to a file of the user's own, which never replaces another one."""

from __future__ import annotations

import os

from spooltop.errors import Refused
from spooltop.model.text import escape


def save_file(path: str, data: bytes) -> str:
    """Writes ``data`` into a new file that only its owner may read; returns its absolute path. Raises ``Refused`` where the file
    exists or cannot be written; nothing is left of it then."""
    path = os.path.abspath(os.path.expanduser(path))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Refused("exists already", path=escape(path), advice="give another name") from None
    except (OSError, ValueError) as error:
        raise Refused(_reason(error), path=escape(path), advice="give another name") from None
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(path)
        raise Refused(_reason(error), path=escape(path), advice="nothing was saved") from None
    return path


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
