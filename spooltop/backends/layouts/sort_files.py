"""Puts the files of a queue into boxes, as its layout says: the first match that fits a file wins."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.json import decode, encode
from msgspec.structs import asdict, force_setattr

from spooltop.engine.files import read_small
from spooltop.model import Box, Frozen, escape

from ..surroundings import Surroundings, Users
from .definition import DOMAIN, LATEST, Fact, FileCondition, Layout, Match, Template, domain_of, time_of
from .queue_dirs import (
    MOST,
    QueueDirs,
    QueueFolder,
    aside,
    find,
    opened,
    parent,
    read,
    read_end,
    size_of_directory,
    status,
    walk,
)

# Reads the envelope of a queue file of Postfix: records of a letter, a length of seven bits a byte, and that many bytes. A file
# comes from anywhere. Only its beginning is read. A record that is longer than the rest of it ends the search, and so does the
# message itself, which comes behind the envelope.

ENVELOPE = 4096
"""Bytes that are read. Size, time and sender stand before the recipients, of which there may be thousands."""
_MESSAGE = ord("M")
_LONGEST = 5
"""Maximum number of bytes of a length."""


def record(data: bytes, letter: str) -> str | None:
    """Returns the text of the first record with this letter; None where the envelope has none, or is cut off before it."""
    at, wanted = 0, ord(letter)
    while at < len(data):
        kind = data[at]
        at += 1
        length = 0
        for place, byte in enumerate(data[at : at + _LONGEST]):
            length |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                at += place + 1
                break
        else:
            return None
        if at + length > len(data):
            return None
        if kind == wanted:
            return data[at : at + length].decode("utf-8", "replace")
        if kind == _MESSAGE:
            return None
        at += length
    return None


# Further conditions on files of a queue: another path is there, the file is executable, is locked, or ends with a line.

TAIL = 512
"""Bytes at the end of a file that are read for its last line."""


class _Conditions(Struct):
    """Judges conditions on the files below ``root`` (a descriptor) for one look. ``around`` is asked for locks once, by the first
    condition on one, after all names were read; without it nobody holds any."""

    _root: int
    _around: Surroundings | None
    _locks: Callable[[os.stat_result], Users] | None = None

    def hold(self, when: FileCondition, path: str, fields: Mapping[str, str], before: QueueFile | None) -> bool:
        """True where ``when`` holds for the file; False also where the file is gone. The end of a file that has not changed since
        it was ``before``, when it held, is not read again."""
        other = path if when.path is None else when.path.path_of(pieces_of(path, fields))
        if other is None:
            return False
        try:
            if when.kind == "exists":
                return find(self._root, other) is not None
            found = status(self._root, other)
            if when.kind == "mode":
                return bool(found.st_mode & stat.S_IXUSR)
            if when.kind == "flock":
                return self._may_be_locked(found)
            if before is not None and before.match is not None and before.match.when is when and _is_as_known(found, before):
                return True
            return when.text is not None and when.text.match(last_line(read_end(self._root, other, TAIL))) is not None
        except OSError:
            return False

    def _may_be_locked(self, found: os.stat_result) -> bool:
        """True also where it cannot be seen."""
        if self._around is None:
            return False
        if self._locks is None:
            self._locks = self._around.locks(self._root)
        users = self._locks(found)
        return bool(users.pids) or not users.complete


def last_line(data: bytes) -> str:
    """The last line that is not empty."""
    lines = data.decode("utf-8", "replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "")


# Tells which layout a directory has, by its names alone. Reads few of them, however many there are.

_SAMPLE = 4096
"""Maximum number of names that are read to find one that fits."""


def why_not(layout: Layout, root: int) -> str | None:
    """Says what the directory ``root`` (a descriptor) lacks; None where it has the layout. Raises ``OSError`` where it
    cannot be read."""
    for template in layout.detect:
        if not _has(template, root):
            return f"there is no {template.text} in it (detect)"
    needs = layout.needs_any
    if not needs or any(template.directory == directory for template in needs for directory in _matching(template, root)):
        return None
    return f"there is no {' or '.join(template.text for template in needs)} in it (needs_any)"


def _has(template: Template, root: int) -> bool:
    if not template.types and "*" not in template.text:
        try:
            mode = status(root, template.text).st_mode
        except OSError:
            return False
        return stat.S_ISDIR(mode) or not template.directory
    return any(directory or not template.directory for directory in _matching(template, root))


def _matching(template: Template, root: int) -> Iterator[bool]:
    """Tells of each of the first names that match if it is a directory."""
    for folder in walk(root, template.depth + 1, _SAMPLE):
        for name in folder.names:
            if template.match(folder.prefix + name) is not None:
                yield name in folder.directories


def open_root(path: str) -> int:
    """Opens the directory of a queue; links are followed, since a person named it. Raises ``OSError``."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL byte
        raise FileNotFoundError(errno.ENOENT, str(error), path) from error


_JSON_LIMIT = 65_536
_SMALL = 4096
_LONGEST_TEXT = 1000
"""Characters of a text that are kept."""
_LARGEST = 1 << 63
"""Numbers from here on tell nothing of a message, and some are too large for a calendar or a column."""


class QueueFile(Frozen, gc=False):
    """A file of a queue, which the garbage collector leaves alone: there may be 200,000. ``match`` is the rule that put it into
    its box, None where none fits; ``id`` is that of the message: the piece of that name, else the file name. ``ino`` is 0 if it
    has gone meanwhile; times are in epoch seconds; ``size`` is in bytes, of a directory None until it was read. What follows
    ``is_read`` are the facts that the layout tells about the message, all None until they were read."""

    path: str
    match: Match | None = None
    id: str = ""
    ino: int = 0
    mtime: float | None = None
    ctime: float | None = None
    size: int | None = None
    is_dir: bool = False
    is_read: bool = False
    enqueued_at: float | None = None
    since: float | None = None
    not_before: float | None = None
    expires: float | None = None
    attempts: int | None = None
    reason: str | None = None
    source: str | None = None

    @property
    def box(self) -> str:
        """The box that it lies in, "" for none."""
        return "" if self.match is None else self.match.box

    @property
    def fields(self) -> Mapping[str, str]:
        """The pieces of its path."""
        return (self.match and self.match.template.match(self.path)) or {}

    @property
    def pieces(self) -> Mapping[str, str]:
        """The pieces that may be filled in for it."""
        return pieces_of(self.path, self.fields)

    @property
    def in_box_since(self) -> float | None:
        """When it came into its box; of one that waits when it was put, as in a spool and a stream."""
        if self.since is not None:
            return self.since
        box = "" if self.match is None else self.match.box
        return self.enqueued_at if box == "new" else self.mtime if box == "tmp" else self.ctime

    @property
    def location(self) -> str:
        """Its place, as ``queue_dirs`` names it."""
        return self.path


def pieces_of(path: str, fields: Mapping[str, str]) -> dict[str, str]:
    """The pieces that may be filled in for the file at ``path``: ``fields``, and those that every message has."""
    return {**fields, "path": path, "name": path.rpartition("/")[2]}


def sort_files(
    layout: Layout, root: int, around: Surroundings | None = None, known: Mapping[str, QueueFile] = {}
) -> tuple[list[QueueFile], str]:
    """Returns the files below ``root`` (a descriptor), and why these may not be all of them, "" if they are: at most ``MOST``
    names are read, and only directories that may be. Directories are left out unless a match takes them, and so is spooltop's
    own. A file that has not changed since it was ``known``, by its path, is the same value. Raises ``OSError`` where the root
    cannot be read."""
    hidden: list[str] = []

    def unread(folder: str, error: OSError) -> None:
        if any(match.template.leads_through(folder) for match in layout.matches):
            hidden.append(f"{folder}/: {error.strerror or error}")

    conditions = _Conditions(root, around)
    files: list[QueueFile] = []
    left = MOST
    for folder in walk(root, layout.depth, MOST, without=layout.side_dir, unread=unread):
        left -= len(folder.names)
        files += _sorted(layout, root, conditions, folder, known)
    if left <= 0:
        return files, f"more than {MOST:,} names"
    return files, hidden[0] + (f", and {len(hidden) - 1} more" if len(hidden) > 1 else "") if hidden else ""


def _sorted(
    layout: Layout, root: int, conditions: _Conditions, folder: QueueFolder, known: Mapping[str, QueueFile]
) -> Iterator[QueueFile]:
    """The files of one directory."""
    depth = folder.prefix.count("/")
    matches = [match for match in layout.matches if match.template.depth == depth]
    for name in folder.names:
        path, directory = folder.prefix + name, name in folder.directories
        before = known.get(path)
        for match in matches:
            if match.template.directory != directory or (found := match.template.pattern.match(path)) is None:
                continue
            if match.when is None or conditions.hold(match.when, path, found.groupdict(), before):
                yield _found(root, folder.fd, match, found, name, before)
                break
        else:
            if not directory:
                yield QueueFile(path, id=name)


def _found(root: int, folder: int, match: Match, found: re.Match[str], name: str, before: QueueFile | None) -> QueueFile:
    """A file that the path ``found`` names, which lies in ``folder``."""
    path = found.string
    try:
        status = os.lstat(name, dir_fd=folder)
    except OSError:  # gone meanwhile, or it may not be looked at
        return QueueFile(path, match, found.groupdict().get("id") or name)
    if before is not None and before.match is match and _is_as_known(status, before):
        return before
    fields, is_dir = found.groupdict(), stat.S_ISDIR(status.st_mode)
    file = QueueFile(
        path, match, fields.get("id") or name, status.st_ino, status.st_mtime, status.st_ctime,
        None if is_dir else status.st_size, is_dir,
    )  # fmt: skip
    if not (is_dir or match.is_read):
        for fact, value in facts_of(root, file, fields).items():
            force_setattr(file, fact, value)  # not yet seen by anybody else
    return file


def _is_as_known(found: os.stat_result, before: QueueFile) -> bool:
    """True for a file that has not changed. A directory that is being written has always: bytes in its files leave its own times
    as they are."""
    if before.is_dir and before.box == "tmp":
        return False
    same_size = before.is_dir or before.size == found.st_size  # two writes may have one time
    return same_size and before.mtime == found.st_mtime and before.ctime == found.st_ctime and before.ino == found.st_ino


def role_of(layout: Layout, path: str) -> str:
    """The other role of a file that lies in no box ("a cross_check"), "" for none."""
    if any(path == lock.path for lock in layout.locks):
        return "a lock"
    if any(check.template.match(path) for check in layout.checks):
        return "a cross_check"
    if any(rule.alone is not None and rule.alone.match(path) for rule in layout.problems):
        return "judged by a problem"
    if path == layout.lock:
        return "the lock of all changes"
    return ""


def read_facts(root: int, file: QueueFile) -> QueueFile:
    """The file with its facts, and where it is a directory its size."""
    size = file.size
    if file.is_dir:
        try:
            with parent(root, file.path) as (folder, name):
                size = size_of_directory(folder, name)
        except OSError:
            size = None  # gone meanwhile, or it cannot be read
    return file.replace(size=size, **facts_of(root, file, file.fields))


def facts_of(root: int, file: QueueFile, fields: Mapping[str, str]) -> dict[str, Any]:
    """Reads the facts about a message with these ``fields``, by the attribute of its file that keeps each."""
    facts: dict[str, Any] = {"is_read": True}
    for name, fact in file.match.facts.items() if file.match is not None else ():
        if name in _KEPT and (value := fact_of(fact, root, file.path, fields, file)) is not None:
            facts[name] = _KEPT[name](value)
    if "source" in fields and not facts.get("source"):
        facts["source"] = fields["source"]
    return facts


def _time(value: float | int | str) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0.0 <= value < LATEST else None


_KEPT: Mapping[str, Callable[[float | int | str], object]] = {
    **dict.fromkeys(("enqueued_at", "since", "not_before", "expires"), _time),
    "attempts": lambda value: value if isinstance(value, int) and value >= 0 else None,
    **dict.fromkeys(("reason", "source"), lambda value: str(value)[:_LONGEST_TEXT]),
}
"""Functions from the value of a fact that a file keeps to what it keeps, None for no such value."""


def fact_of(
    fact: Fact, root: int, at: str, fields: Mapping[str, str], file: QueueFile | None = None
) -> float | int | str | None:
    """Reads a fact about the message at the path ``at`` with these ``fields`` out of its ``file`` or its name. A time is in epoch
    seconds, any other fact a number or a text. None if it is missing, or is no such value."""
    if fact.kind == "name":
        return time_of(fact.unit, fields[fact.name]) if fact.unit else fields[fact.name]
    try:
        path = at if fact.path is None else fact.path.path_of(pieces_of(at, fields))
        if path is None:
            return None
        if fact.kind in ("mtime", "ctime"):
            if file is not None and fact.path is None:
                return file.mtime if fact.kind == "mtime" else file.ctime
            found = status(root, path)
            return found.st_mtime if fact.kind == "mtime" else found.st_ctime
        if fact.kind == "json":
            return _member(read(root, path, _JSON_LIMIT), fact)
        if fact.kind == "file":
            text = read(root, path, _SMALL).decode("utf-8", "replace")
            return time_of(fact.unit, text) if fact.unit else text.strip()
        if fact.kind == "record":
            value = record(read(root, path, ENVELOPE), fact.name)
            if value is None or not fact.unit:
                return value
            return domain_of(value) if fact.unit == DOMAIN else time_of(fact.unit, value)
        return _of_last_line(read_end(root, path, TAIL), fact)
    except OSError:
        return None  # gone meanwhile, or not readable: nothing is known of it


def _member(data: bytes, fact: Fact) -> float | int | str | None:
    try:
        value = json.loads(data)
        for name in fact.name.split("."):
            value = value[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if not isinstance(value, str) and not abs(value) < _LARGEST:  # nor is NaN, which is less than nothing
        return None
    if fact.unit:
        return time_of(fact.unit, str(value))
    return value + fact.plus if fact.plus and not isinstance(value, str) else value


def _of_last_line(data: bytes, fact: Fact) -> str | None:
    """The piece ``reason``, or the first one, in the last line that is not empty."""
    fields = fact.text.match(last_line(data)) if fact.text is not None else None
    return None if not fields else fields.get("reason") or next(iter(fields.values()))


# Messages of another program's queue that spooltop has set aside: held, or in the trash. ``held/OPERATION/NUMBER/`` holds one
# message under the path that it had in the queue, with everything of it that was set aside together. ``held/OPERATION/.meta``
# says who did it, when and by which action. Somebody else may have put all of this there.

BOXES = (Box.HELD, Box.TRASH)
META = ".meta"
_META_AT_MOST = 4096


class AsideMessage(QueueFile, kw_only=True):
    """A message that was set aside into ``aside``, otherwise what it was in the queue. ``locations`` are all files of it, its own
    last. ``who`` says who did it; ``at`` is when, in epoch seconds, None if that is not known."""

    aside: Box
    locations: tuple[str, ...]
    who: str
    at: float | None

    @property
    def in_box_since(self) -> float | None:
        return super().in_box_since if self.at is None else self.at

    @property
    def location(self) -> str:
        return self.locations[-1]


class _Note(Struct):
    """The content of ``.meta``."""

    action: str
    user: str
    time: Annotated[float, Meta(ge=0, lt=1e12)]


def encode_meta(action: str, user: str, at: float) -> bytes:
    """The content of ``.meta``."""
    return encode(_Note(action, escape(user), at)) + b"\n"


def messages_aside(layout: Layout, dirs: QueueDirs) -> Iterator[AsideMessage]:
    """Yields at most ``MOST`` messages that were set aside. What cannot be read is passed over."""
    left = MOST
    for box in BOXES:
        for operation in _names(dirs, aside(box.value)):
            who, at = _noted(dirs, aside(box.value, operation))
            for number in _names(dirs, aside(box.value, operation)):
                if left <= 0:
                    return
                folder = aside(box.value, operation, number)
                if (found := _message(layout, dirs, folder)) is not None:
                    left -= 1
                    file, paths = found
                    locations = tuple(f"{folder}/{path}" for path in paths)
                    yield AsideMessage(**asdict(file), aside=box, locations=locations, who=who, at=at)


def _names(dirs: QueueDirs, location: str) -> Sequence[str]:
    try:
        with opened(*dirs.parent(location)) as fd:
            return sorted((name for name in os.listdir(fd) if not name.startswith(".")), key=_by_number)
    except OSError:
        return ()


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() and len(name) < 12 else (1 << 40, name)


def _message(layout: Layout, dirs: QueueDirs, folder: str) -> tuple[QueueFile, list[str]] | None:
    """The message in a folder, and the paths of all files there, its own last; None where there is none. A register or a lock
    that was removed alone counts as one."""
    try:
        with opened(*dirs.parent(folder)) as root:
            files = sort_files(layout, root)[0]
            if not files:
                return None
            message = next((file for file in files if file.match is not None), files[0])
            if not message.is_read:
                message = read_facts(root, message)
    except OSError:
        return None
    others = (file.path for file in files if not file.is_dir and not f"{file.path}/".startswith(f"{message.path}/"))
    return message, [*others, message.path]


def _noted(dirs: QueueDirs, location: str) -> tuple[str, float | None]:
    try:
        at, name = dirs.parent(f"{location}/{META}")
        note = decode(read_small(name, at, limit=_META_AT_MOST, whole=True).data, type=_Note)
    except (OSError, ValueError, RecursionError):  # a DecodeError, or of what is not UTF-8 a UnicodeDecodeError
        return "", None
    return f"{escape(note.action[:20])} by {escape(note.user[:40])}", note.time
