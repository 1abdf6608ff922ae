"""The file that a person names for the text of test messages: read once, when the plan is made, so that what is put is what was
shown."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from spooltop.errors import UsageError
from spooltop.model.text import escape
from spooltop.model.vocabulary import Json

__all__ = ["MOST_BYTES", "with_file"]

MOST_BYTES = 16 << 20


def with_file(options: Mapping[str, Json]) -> dict[str, Json]:
    """The options with the content of ``file``, where one is named, as ``text``. Raises ``UsageError`` for what is no plain file
    that can be read, of at most 16 MiB; a fifo is not waited for."""
    name = options.get("file")
    if name is None:
        return dict(options)
    if not isinstance(name, str) or not name or "\0" in name:
        raise UsageError("inject: the file has no name")
    if options.get("text") is not None or options.get("size") is not None:
        raise UsageError("inject: a file and a text or a size at once", advice="give one of them")
    path = os.path.expanduser(name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise UsageError(f"inject: {escape(name)} cannot be read: {error.strerror}", advice="name a file of yours") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise UsageError(f"inject: {escape(name)} is no plain file", advice="name one that holds the message")
    with open(fd, "rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UsageError(f"inject: {escape(name)} is larger than 16 MiB", advice="give --size for large messages")
    return {**options, "text": os.fsdecode(data)}
