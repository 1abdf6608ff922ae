"""Puts the files of a queue into boxes, as its layout says: the first match that fits a file wins."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from spooltop.records import dataclass

from .conditions import TAIL, Conditions, last_line
from .definition.layout import Fact, Layout, Match
from .definition.units import DOMAIN, domain_of, time_of
from .inside import MOST, PathEntry, read, read_end, status, walk
from .queue_file import ENVELOPE, record

__all__ = ["QueueFile", "fact_of", "sort_files"]

_JSON_LIMIT = 65_536
_SMALL = 4096
_LARGEST = 1 << 63
"""Numbers from here on tell nothing of a message, and some are too large for a calendar or a column."""


@dataclass(frozen=True, slots=True)
class QueueFile:
    """A file of a queue. ``match`` is the rule that put it into its box, None where none fits; ``fields`` are the pieces of its
    path; ``role`` says of a file without a box what else it is ("a cross_check")."""

    path: str
    match: Match | None
    fields: Mapping[str, str]
    role: str = ""

    @property
    def id(self) -> str:
        """The id of the message: the piece of that name, else its file name."""
        return self.fields.get("id") or os.path.basename(self.path)


def sort_files(
    layout: Layout, root: int, most: int = MOST, conditions: Conditions | None = None
) -> tuple[list[QueueFile], str]:
    """Returns the files below ``root`` (a descriptor), and why these may not be all of them, "" if they are: at most ``most``
    names are read, and only directories that may be. Directories are left out unless a match takes them, and so is spooltop's
    own. Raises ``OSError`` where the root cannot be read."""
    hidden: list[str] = []

    def unread(folder: str, error: OSError) -> None:
        if any(match.template.leads_through(folder) for match in layout.matches):
            hidden.append(f"{folder}/: {error.strerror or error}")

    entries = list(walk(root, layout.depth, most, without=layout.side_dir, unread=unread))
    asked = conditions or Conditions(root)
    found = (_sorted(layout, asked, entry) for entry in entries)
    files = [file for file in found if file is not None]
    if len(entries) >= most:
        return files, f"more than {most:,} names"
    return files, hidden[0] + (f", and {len(hidden) - 1} more" if len(hidden) > 1 else "") if hidden else ""


def _sorted(layout: Layout, conditions: Conditions, entry: PathEntry) -> QueueFile | None:
    for match in layout.matches:
        fields = match.template.match(entry.path) if match.template.directory == entry.directory else None
        if fields is not None and (match.when is None or conditions.hold(match.when, entry.path, fields)):
            return QueueFile(entry.path, match, fields)
    if entry.directory:
        return None
    return QueueFile(entry.path, None, {}, _role(layout, entry.path))


def _role(layout: Layout, path: str) -> str:
    if any(path == lock.path for lock in layout.locks):
        return "a lock"
    if any(check.template.match(path) for check in layout.checks):
        return "a cross_check"
    if any(rule.alone is not None and rule.alone.match(path) for rule in layout.problems):
        return "judged by a problem"
    if path == layout.lock:
        return "the lock of all changes"
    return ""


def fact_of(fact: Fact, root: int, file: QueueFile) -> float | int | str | None:
    """A fact about a message: epoch seconds where it has a unit or is a time of the file, else a number or a text. None where it
    is not there or says nothing."""
    fields = {**file.fields, "path": file.path, "name": os.path.basename(file.path)}
    try:
        path = file.path if fact.path is None else fact.path.path_of(fields)
        if path is None:
            return None
        if fact.kind in ("mtime", "ctime"):
            found = status(root, path)
            return found.st_mtime if fact.kind == "mtime" else found.st_ctime
        if fact.kind == "name":
            return time_of(fact.unit, fields[fact.name]) if fact.unit else fields[fact.name]
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
