"""Tells from the files how many of its changes a message has behind it, for what a crash cut off and for an undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spooltop.records import dataclass

from ..queue_dirs import QueueDirs
from .changes import FileChange, Pin, Verb
from .performer import pin_of, read_text

__all__ = ["expected_after", "stage_of"]

_ANY = -1


@dataclass(frozen=True, slots=True)
class _Expected:
    """A file that is expected at a location: by its inode, 0 for none and -1 for any, or by its text."""

    ino: int
    text: str | None = None


def stage_of(
    dirs: QueueDirs, changes: Sequence[FileChange], pins: Mapping[str, Pin], *, latest: bool = False
) -> tuple[int, bool] | None:
    """The number of changes that are in effect: the lowest that agrees with the files, or the highest (``latest``); and True if
    a move was cut off between link and unlink, so that the file has two names. It is the next move, or with ``latest`` the last.
    None where no number agrees: something else has happened since. Raises ``OSError``."""
    stages = expected_after(changes, pins)
    found: dict[str, int] = {}
    for location in {location for stage in stages for location in stage}:
        found[location] = pin_of(dirs.status(location))[1]
    order = range(len(stages))
    for number in reversed(order) if latest else order:
        at = number - 1 if latest else number
        change = changes[at] if 0 <= at < len(changes) else None
        half = ""
        if change is not None and change.verb is Verb.MOVE and found[change.path] == found[change.to] != 0:
            half = change.path if latest else change.to
        if all(one == half or _agrees(dirs, one, found[one], expected) for one, expected in stages[number].items()):
            return number, bool(half)
    return None


def _agrees(dirs: QueueDirs, location: str, ino: int, expected: _Expected) -> bool:
    if expected.text is not None:
        try:
            return bool(ino) and read_text(dirs, location) == expected.text
        except OSError:
            return False
    return bool(ino) if expected.ino == _ANY else ino == expected.ino


def expected_after(changes: Sequence[FileChange], pins: Mapping[str, Pin]) -> list[dict[str, _Expected]]:
    """The files that are expected before the first change and after each, by location."""
    touched = {one for change in changes for one in (change.path, change.to) if one and change.verb is not Verb.POKE}
    now = {location: _Expected(pins[location][1] if location in pins else 0) for location in touched}
    stages = [dict(now)]
    for change in changes:
        _apply(change, now)
        stages.append(dict(now))
    return stages


def _apply(change: FileChange, now: dict[str, _Expected]) -> None:
    nothing = _Expected(0)
    match change.verb:
        case Verb.MOVE:
            inside = f"{change.path}/"
            for location in [one for one in now if one == change.path or one.startswith(inside)]:
                moved = now[location]
                now[location] = nothing
                to = change.to + location[len(change.path) :]
                if location == change.path or to in now:
                    now[to] = moved
        case Verb.LINK:
            now[change.to] = now[change.path]
        case Verb.UNLINK | Verb.RMDIR | Verb.DELETE:
            now[change.path] = nothing
        case Verb.MKDIR:
            now[change.path] = _Expected(_ANY)
        case Verb.WRITE:
            now[change.path] = nothing if change.text is None else _Expected(_ANY, change.text)
        case Verb.TOUCH | Verb.POKE:
            return
