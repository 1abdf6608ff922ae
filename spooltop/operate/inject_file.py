"""File with the text of test messages, named by a person. It is read once, when the plan is made, so that the messages that are
put are those that were shown.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from spooltop.engine.system.files import NotRegular, read_small
from spooltop.errors import Refused, UsageError
from spooltop.model.text import escape
from spooltop.model.vocabulary import Json

MOST_BYTES = 16 << 20


def with_file(options: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the options with the content of ``file``, if it is given, as ``text``. Raises ``UsageError`` if it is not a
    readable regular file of at most 16 MiB; a fifo is not waited for."""
    name = options.get("file")
    if name is None:
        return dict(options)
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError("inject: empty file name")
    if options.get("text") is not None or options.get("size") is not None:
        raise UsageError("inject: a file cannot be combined with a text or a size", advice="give one of them")
    path = os.path.expanduser(name)
    try:
        data = read_small(path, limit=MOST_BYTES, whole=True, follow=True).data
    except NotRegular:
        raise UsageError(f"inject: {escape(name)} is not a regular file", advice="name one that holds the message") from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UsageError(f"inject: {escape(name)} is larger than 16 MiB", advice="give --size for large messages") from None
        raise UsageError(f"inject: {escape(name)} cannot be read: {error.strerror}", advice="name a file of yours") from None
    return {**options, "text": os.fsdecode(data)}


# Saves bytes to a file of the user's own, which never replaces another one.

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
