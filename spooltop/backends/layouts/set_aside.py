"""Messages of another program's queue that spooltop has set aside: held, or in the trash.

``held/OPERATION/NUMBER/`` holds one message under the path that it had in the queue, with everything of it that was set aside
together. ``held/OPERATION/.meta`` says who did it, when and by which action. Somebody else may have put all of this there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spooltop.engine.system.files import read_small
from spooltop.model.operations.results import encode_line
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box
from spooltop.records import dataclass

from .definition.layout import Layout
from .inside import MOST, walk
from .queue_dirs import QueueDirs, aside
from .sort_files import QueueFile, sort_files

__all__ = ["BOXES", "META", "AsideMessage", "encode_meta", "messages_aside"]

BOXES = (Box.HELD, Box.TRASH)
META = ".meta"
_META_AT_MOST = 4096


@dataclass(frozen=True, slots=True)
class AsideMessage:
    """A message that was set aside. ``file`` is what it was in the queue; ``locations`` are all files of it, its own last.
    ``reason`` says who did it; ``at`` is when, in epoch seconds, None if that is not known."""

    box: Box
    file: QueueFile
    locations: tuple[str, ...]
    reason: str
    at: float | None

    @property
    def location(self) -> str:
        return self.locations[-1]


def encode_meta(action: str, user: str, at: float) -> bytes:
    """The content of ``.meta``."""
    return encode_line({"action": action, "user": escape(user), "time": at})


def messages_aside(layout: Layout, dirs: QueueDirs, most: int = MOST) -> Iterator[tuple[int, AsideMessage]]:
    """Yields at most ``most`` messages that were set aside, each with the descriptor of the directory that stands for the queue
    there, which is valid until the next. What cannot be read is passed over."""
    for box in BOXES:
        for operation in _names(dirs, aside(box.value)):
            reason, at = _noted(dirs, aside(box.value, operation))
            for number in _names(dirs, aside(box.value, operation)):
                if most <= 0:
                    return
                fd = _opened(dirs, aside(box.value, operation, number))
                if fd is None:
                    continue
                try:
                    found = _message(layout, fd)
                    if found is not None:
                        most -= 1
                        file, paths = found
                        locations = tuple(aside(box.value, operation, number, path) for path in paths)
                        yield fd, AsideMessage(box, file, locations, reason, at)
                finally:
                    os.close(fd)


def _opened(dirs: QueueDirs, location: str) -> int | None:
    try:
        with dirs.parent(location) as (at, name):
            return dirs.files.open_dir(name, at)
    except OSError:
        return None


def _names(dirs: QueueDirs, location: str) -> Sequence[str]:
    fd = _opened(dirs, location)
    if fd is None:
        return ()
    try:
        return sorted((name for name in os.listdir(fd) if not name.startswith(".")), key=_by_number)
    except OSError:
        return ()
    finally:
        os.close(fd)


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() and len(name) < 12 else (1 << 40, name)


def _message(layout: Layout, root: int) -> tuple[QueueFile, list[str]] | None:
    """The message below ``root``, and the paths of all files there, its own last; None where there is none. A register or a lock
    that was removed alone counts as one."""
    try:
        files, _ = sort_files(layout, root)
        paths = [entry.path for entry in walk(root, layout.depth) if not entry.directory]
    except OSError:
        return None
    if not files:
        return None
    message = next((file for file in files if file.match is not None), files[0])
    others = [path for path in paths if path != message.path and not path.startswith(f"{message.path}/")]
    return message, [*others, message.path]


def _noted(dirs: QueueDirs, location: str) -> tuple[str, float | None]:
    try:
        with dirs.parent(f"{location}/{META}") as (at, name):
            value: Mapping[str, Any] = json.loads(read_small(name, at, limit=_META_AT_MOST, whole=True).data)
        action, user, time = value["action"], value["user"], value["time"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "", None
    if not (isinstance(action, str) and isinstance(user, str) and isinstance(time, (int, float))) or not 0 <= time < 1e12:
        return "", None
    return f"{escape(action[:20])} by {escape(user[:40])}", float(time)
