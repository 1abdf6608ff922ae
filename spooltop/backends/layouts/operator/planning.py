"""Makes the changes of one message out of the steps of a layout's action, with the files that they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from spooltop.model.text import escape
from spooltop.records import dataclass, replace

from ..definition.layout import LayoutAction
from ..queue_dirs import QueueDirs, aside, in_queue, is_aside
from .changes import FileChange, Pin, Verb
from .performer import NOTHING, pin_of, read_text

__all__ = ["MessagePlan", "NotPlanned", "Planner", "deleted", "moved_back", "placed", "removed"]

_HERE = "?"
"""Stands for the operation and the number of the item, which are not known while a plan is made."""
_LEADS_OUT = "its name leads out of the queue"


class NotPlanned(Exception):
    """The message cannot be changed so. The text says why."""


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The pinned changes of one message: a ``Ref``. ``message`` is its location, ``queue`` the identity of the queue's
    directory. ``proved``: the holder was dead when the list was made, which is asked again. ``reverses`` is the step that an undo
    reverses."""

    id: str
    message: str
    queue: tuple[int, int]
    changes: tuple[FileChange, ...]
    pins: tuple[tuple[str, Pin], ...]
    proved: bool = False
    reverses: int | None = None


def placed(changes: Sequence[FileChange], operation: str, place: int) -> tuple[FileChange, ...]:
    """Fills the operation and the number of the item into the locations to which files are set aside."""
    here = f"/{_HERE}/{_HERE}/"
    there = f"/{operation}/{place}/"

    def filled(location: str) -> str:
        return location.replace(here, there, 1) if is_aside(location) else location

    return tuple(replace(change, path=filled(change.path), to=filled(change.to)) for change in changes)


class Planner:
    """Plans the change of one message. ``fields`` are the pieces of its path in the queue, ``location`` is where it lies.
    ``now``: what would go to the trash is deleted. ``at`` is the time in epoch seconds; ``next_number`` gives the next number of
    a piece."""

    def __init__(
        self, dirs: QueueDirs, location: str, fields: Mapping[str, str], *, at: float, now: bool,
        next_number: Callable[[str], int],
    ) -> None:  # fmt: skip
        path = in_queue(location)
        self._dirs = dirs
        self._location = location
        self._fields = {**fields, "path": path, "name": os.path.basename(path)}
        self._at = at
        self._now = now
        self._next_number = next_number
        self._places = {path: location}
        """Locations of what lies elsewhere than its path in the queue says."""
        self._made: set[str] = set()
        self._pins: dict[str, Pin] = {}
        self._changes: list[FileChange] = []

    def plan(self, action: LayoutAction, id: str, *, proved: bool) -> MessagePlan:
        """Raises ``NotPlanned``, ``OSError``."""
        self._needed(self._location)
        for step in action.steps:
            if is_aside(self._location) and step.verb != "trash":
                continue  # its program does not see it: there is nothing to lock
            first, *rest = step.words
            path = self._path(first.path_of(self._fields, now=self._at, next_number=self._next_number))
            if step.verb == "write":
                self._write(path, rest[0].fill(self._fields, now=self._at, next_number=self._next_number))
            else:
                second = rest[0].path_of(self._fields, now=self._at, next_number=self._next_number) if rest else ""
                self._step(step.verb, path, self._path(second) if rest else "")
        return self.planned(id, proved=proved)

    def planned(self, id: str, *, proved: bool = False, reverses: int | None = None) -> MessagePlan:
        """Returns the plan so far. Raises ``NotPlanned`` if that is nothing."""
        if not self._changes:
            raise NotPlanned("there is nothing to change")
        return MessagePlan(
            id, self._location, self._dirs.identity, tuple(self._changes), tuple(self._pins.items()), proved, reverses
        )

    def _path(self, path: str | None) -> str:
        if path is None:
            raise NotPlanned(_LEADS_OUT)
        return path

    def _step(self, verb: str, path: str, second: str) -> None:
        location = self._resolved(path)
        match verb:
            case "trash" | "held":
                self._set_aside(path, location, delete=verb == "trash" and self._now, box=verb)
            case "rename":
                self._needed(location)
                if not _is_half_moved(self._dirs, location, second):
                    self._free(second, "is there already")
                self._move(path, location, second)
            case "link":
                self._needed(location)
                self._free(second, "its program has it locked")
                self._add(FileChange(Verb.LINK, location, second), second)
            case "mkdir":
                self._free(location, "its program has it locked")
                self._add(FileChange(Verb.MKDIR, location), location)
            case "unlink":
                self._unlink(location)
            case "rmdir":
                self._needed(location)
                self._add(FileChange(Verb.RMDIR, location))
            case "touch":
                self._needed(location)
                self._add(FileChange(Verb.TOUCH, location))
            case _:
                self._add(FileChange(Verb.POKE, location))

    def _resolved(self, path: str) -> str:
        """The location of ``path`` after the steps so far."""
        for before, after in reversed(self._places.items()):
            if path == before or path.startswith(f"{before}/"):
                return after + path[len(before) :]
        return path

    def _set_aside(self, path: str, location: str, *, delete: bool, box: str) -> None:
        if location != self._resolved(self._fields["path"]) and self._dirs.status(location) is None:
            return  # a register that has no entry of it
        self._needed(location)
        if delete:
            self._add(FileChange(Verb.DELETE, location))
        else:
            self._move(path, location, aside(box, _HERE, _HERE, path))

    def _move(self, path: str, location: str, to: str) -> None:
        self._add(FileChange(Verb.MOVE, location, to), to)
        self._places.pop(path, None)
        self._places[path] = to

    def _unlink(self, location: str) -> None:
        message = self._resolved(self._fields["path"])
        if location not in self._made:
            self._needed(location)
            if self._pins[location][:2] != self._pins.get(message, ())[:2]:
                raise NotPlanned(f"{escape(location)} is no second name of the message")
        self._add(FileChange(Verb.UNLINK, location, message))

    def _write(self, path: str, text: str) -> None:
        try:
            before = read_text(self._dirs, path)
        except OSError as error:
            raise NotPlanned(f"{escape(path)} cannot be read: {error.strerror or error}") from error
        self._pins[path] = pin_of(self._dirs.status(path))
        self._add(FileChange(Verb.WRITE, path, text=text, before=before), path)

    def _add(self, change: FileChange, made: str = "") -> None:
        self._changes.append(change)
        if made:
            self._made.add(made)

    def _free(self, location: str, why: str) -> None:
        if self._dirs.status(location) is not None:
            raise NotPlanned(f"{escape(location)}: {why}")

    def _needed(self, location: str) -> None:
        """Pins what lies at ``location``, unless a step before has made it or brought it there."""
        if location in self._pins or any(location == one or location.startswith(f"{one}/") for one in self._made):
            return
        found = self._dirs.status(location)
        if found is None:
            raise NotPlanned("gone" if location == self._location else f"{escape(location)} is missing")
        self._pins[location] = pin_of(found)


def moved_back(dirs: QueueDirs, id: str, locations: Sequence[str]) -> MessagePlan:
    """Plans that a message that was set aside goes back to its place, after everything that went with it. The message comes last
    in ``locations``. Raises ``NotPlanned``, ``OSError``."""
    for location in locations:
        if dirs.status(in_queue(location)) is not None and not _is_half_moved(dirs, location, in_queue(location)):
            raise NotPlanned(f"{escape(in_queue(location))} is there already")
    pins = tuple((location, pin_of(dirs.status(location))) for location in locations)
    changes = tuple(FileChange(Verb.MOVE, location, in_queue(location)) for location in locations)
    return MessagePlan(id, locations[-1], dirs.identity, changes, pins)


def _is_half_moved(dirs: QueueDirs, location: str, to: str) -> bool:
    """True where both are names of one file: a move by link and unlink was cut off, and is finished before."""
    found, other = dirs.status(location), dirs.status(to)
    return found is not None and other is not None and os.path.samestat(found, other)


def removed(dirs: QueueDirs, id: str, path: str, *, without: str = "") -> MessagePlan:
    """Plans that a register or a lock that was left over moves to the trash, as long as the message ``without`` is not there.
    Raises ``OSError``."""
    pins = {path: pin_of(dirs.status(path)), **({without: NOTHING} if without else {})}
    change = FileChange(Verb.MOVE, path, aside("trash", _HERE, _HERE, path))
    return MessagePlan(id, path, dirs.identity, (change,), tuple(pins.items()))


def deleted(dirs: QueueDirs, id: str, message: str) -> MessagePlan:
    """Plans that a message in the trash is deleted for good, with everything that went with it. Raises ``OSError``."""
    folder = aside(*message.removeprefix("//").split("/")[:3])
    pins = ((folder, pin_of(dirs.status(folder))),)
    return MessagePlan(id, folder, dirs.identity, (FileChange(Verb.DELETE, folder),), pins)
