"""Makes the changes of one message, in order. Each is checked just before: the file must be the one that was pinned.

Where a change does not happen, those before it are reversed. What cannot be reversed stays as it is, and the result says so.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import chain, groupby
from typing import Annotated

from msgspec import Meta, field

from spooltop.engine.atomic import discard, write_new
from spooltop.engine.files import read_small
from spooltop.model import Frozen, Outcome, escape

from ...journal import PART, Intent, ItemOutcome, Number, RecordType, Skipped, Told, Whole, check_sizes
from ..queue_dirs import ASIDE, QueueDirs, aside, is_aside
from ..sort_files import META

# The steps of one message with every word filled in, as the journal holds them, and their inverses.

_LOCATION = rf"(?:{ASIDE})?{PART}(?:/{PART})*"
Location = Annotated[str, Meta(pattern=rf"\A{_LOCATION}\Z")]
"""A location that leads out of no directory."""
_LocationOrNone = Annotated[str, Meta(pattern=rf"\A(?:{_LOCATION})?\Z")]
Pin = tuple[Whole, Whole, Whole]
"""Identifies a file: device, inode, ctime in ns. All are 0 where no file is expected."""

_Text = Annotated[str, Meta(max_length=65_536)]


class Verb(StrEnum):
    """Kinds of changes. MOVE never replaces; LINK and MKDIR fail where the name is taken."""

    MOVE = "move"
    LINK = "link"
    UNLINK = "unlink"
    MKDIR = "mkdir"
    RMDIR = "rmdir"
    WRITE = "write"
    TOUCH = "touch"
    POKE = "poke"
    DELETE = "delete"


class FileChange(Frozen, omit_defaults=True, rename={"verb": "do"}):
    """A change of the file at the location ``path``. ``to`` is the target of MOVE and LINK, and for UNLINK the location of the
    file under its other name. WRITE replaces the text ``before`` by ``text``; None: there is no such file."""

    verb: Verb
    path: Location
    to: _LocationOrNone = ""
    text: _Text | None = None
    before: _Text | None = None

    def __post_init__(self) -> None:
        if bool(self.to) != (self.verb in (Verb.MOVE, Verb.LINK, Verb.UNLINK)):
            raise ValueError(f"{self.verb}: a path too many or too few")

    @property
    def sets_aside(self) -> bool:
        """True for a move into spooltop's own directory."""
        return self.verb is Verb.MOVE and is_aside(self.to) and not is_aside(self.path)


def is_within(location: str, folder: str) -> bool:
    """True where ``location`` is ``folder``, or lies in it."""
    return f"{location}/".startswith(f"{folder}/")


def location_after(location: str, changes: Iterable[FileChange]) -> str:
    """The location to which ``changes`` bring what lies at ``location``."""
    for change in changes:
        if change.verb is Verb.MOVE and is_within(location, change.path):
            location = change.to + location[len(change.path) :]
    return location


def inverse(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """The changes that reverse ``changes``. They run backwards, but what was set aside comes back in the order in which it left:
    the message last, when all that its program asks about it is there again. Deletions have no inverse."""
    backwards = [change for change in reversed(changes) if change.verb is not Verb.DELETE]
    runs = [(set_aside, [*map(_inverse, run)]) for set_aside, run in groupby(backwards, lambda change: change.sets_aside)]
    return tuple(chain.from_iterable(run[::-1] if set_aside else run for set_aside, run in runs))


_OPPOSITE = {Verb.LINK: Verb.UNLINK, Verb.UNLINK: Verb.LINK, Verb.MKDIR: Verb.RMDIR, Verb.RMDIR: Verb.MKDIR}


def _inverse(change: FileChange) -> FileChange:
    path, to = (change.to, change.path) if change.to else (change.path, "")
    return FileChange(_OPPOSITE.get(change.verb, change.verb), path, to, change.before, change.text)


# The record of messages whose changes are about to begin, as the journal of a queue holds it.


class MessageChanges(Frozen, omit_defaults=True):
    """The changes of one message: its ``id``, and ``message``, its location before the first of them. ``reverses`` is the place
    of the message in the operation that this one undoes."""

    id: str
    message: Location
    changes: Annotated[tuple[FileChange, ...], Meta(min_length=1)]
    pins: dict[Location, Pin]
    reverses: Number | None = None

    def __post_init__(self) -> None:
        check_sizes(*chain.from_iterable(self.pins.values()))


class LayoutIntent(Intent):
    """The intent to change the messages ``items``. The step is the place of the first."""

    items: Annotated[tuple[MessageChanges, ...], Meta(min_length=1)]

    def told(self) -> Iterator[Told]:
        for one in self.items:
            moved = [change.to for change in one.changes if change.verb is Verb.MOVE]
            yield one.id, one.message, moved[-1] if moved else ""


class LayoutOutcome(Frozen):
    """How a batch ended, of which the first ``tried`` messages were reached: all are done but the ``others``, by place in the
    batch."""

    tried: Number
    others: dict[Number, ItemOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(place >= self.tried for place in self.others):
            raise ValueError("an outcome of nothing")

    def each(self) -> Iterator[ItemOutcome]:
        return map(self.at, range(self.tried))

    def at(self, place: int) -> ItemOutcome:
        """The outcome of the message at ``place``."""
        return self.others.get(place, _DONE)


_DONE = ItemOutcome(Outcome.DONE, "")


MESSAGES = RecordType("messages", "the journal", "first", LayoutIntent, LayoutOutcome)
"""The record type of the journal of another program's queue."""


NOTHING: Pin = (0, 0, 0)
"""The pin of a location where no file is expected."""
DRAFT = ".draft."
"""Beginning of the names of files that are being written, in spooltop's own directory."""
_GONE = "gone: its program took it meanwhile"
_CHANGED = "changed since the list was made"
_SMALL = 65_536


class HalfDone(Exception):
    """A change failed, and what was done before it could not be reversed. The message says both."""


def why(error: Exception) -> str:
    """The words of an error, for a person."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def pin_of(found: os.stat_result | None) -> Pin:
    """The pin of a file with this status; that of no file for None."""
    return NOTHING if found is None else (found.st_dev, found.st_ino, found.st_ctime_ns)


def same_file(found: os.stat_result | None, other: os.stat_result | None) -> bool:
    """True where both are there, and are the same file."""
    return found is not None and other is not None and os.path.samestat(found, other)


def pins_of(dirs: QueueDirs, locations: Iterable[str]) -> dict[Location, Pin]:
    """Pins what lies at ``locations`` now; nothing is pinned where there is no file. Raises ``OSError``."""
    pins = {location: pin_of(dirs.status(location)) for location in locations}
    return {location: pin for location, pin in pins.items() if pin != NOTHING}


def locations_of(changes: Iterable[FileChange]) -> list[str]:
    """All locations that ``changes`` name."""
    return [location for change in changes for location in (change.path, change.to) if location]


def read_text(dirs: QueueDirs, location: str) -> str | None:
    """The text of a small file, None where there is none. Raises ``OSError``, also for one that is large or no text."""
    try:
        at, name = dirs.parent(location)
        data = read_small(name, at, files=dirs.files, limit=_SMALL, whole=True).data
    except FileNotFoundError:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise OSError(errno.EINVAL, "it is no text", location) from None


class Performer:
    """Makes the changes of one message in the open queue ``dirs``. ``pins`` are the files that they need, by location; they are
    kept up to date with each change, as ``message`` is, the location of the message itself."""

    def __init__(self, dirs: QueueDirs, pins: Mapping[str, Pin], message: str) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._pins = dict(pins)
        self._message = message
        self._done: list[FileChange] = []
        """The changes that are in effect, though what followed the last may have failed."""
        self.remark = ""
        """Remark on a message that is done."""

    @property
    def message(self) -> str:
        return location_after(self._message, self._done)

    def check(self) -> None:
        """Checks all that was pinned. Raises ``Skipped``, ``OSError``."""
        for location in self._pins:
            self._check(location)

    def run(self, changes: Sequence[FileChange]) -> None:
        """Makes all changes, or none. Raises ``Skipped`` where something is not as it was pinned, ``OSError`` for what failed,
        ``HalfDone`` where what was done before could not be reversed."""
        try:
            for change in changes:
                self._do(change)
                if len(changes) > 1 and not self._dirs.keeps_order:  # the files tell how far a crash, or power loss, let it come
                    self._dirs.sync_touched()
        except (Skipped, OSError) as error:
            self._roll_back(error)
            self.tidy([change.to for change in changes])
            raise
        self.tidy([change.path for change in changes])

    def _roll_back(self, error: Exception) -> None:
        """Reverses what is done. A register that was set aside stays there where its message is gone: its program has taken it,
        and an entry without a message would refuse its id."""
        gone = self._is_gone()
        back = [change for change in self._done if not (gone and change.sets_aside and change.to != self.message)]
        try:
            for change in inverse(back):
                self._do(change)
            self._dirs.sync_touched()
        except (Skipped, OSError) as second:
            words = f"{why(error)}; it stays half done, as reversing it failed too: {why(second)}; undo tries again"
            raise HalfDone(words) from second

    def _is_gone(self) -> bool:
        try:
            found = self._dirs.status(self.message)
        except OSError:
            return False
        return pin_of(found)[:2] != self._pins.get(self.message, NOTHING)[:2]

    def _do(self, change: FileChange) -> None:
        """Makes one change. Raises ``Skipped``, ``OSError``."""
        verb, path, to = change.verb, change.path, change.to
        if verb is Verb.POKE:
            self._poke(path)
            self._done.append(change)
            return
        for location in filter(None, (path, to)):
            self._dirs.renew(location)
        found = self._check(path)
        if found is None and verb not in (Verb.MKDIR, Verb.WRITE):
            raise Skipped(self._gone(path))
        if verb is Verb.WRITE and read_text(self._dirs, path) != change.before:
            raise Skipped(f"{escape(path)} {_CHANGED}")
        if verb is Verb.UNLINK and not same_file(found, self._dirs.status(to)):
            raise Skipped(f"{escape(path)} is no second name of the message")
        create = verb is Verb.MOVE and (is_aside(path) or is_aside(to))
        at, target = self._dirs.parent(path), self._dirs.parent(to or path, create=create)
        try:
            self._call(change, found, at, target)
        except FileExistsError:
            if verb not in (Verb.LINK, Verb.MKDIR):
                raise
            raise Skipped(f"locked meanwhile: {escape(to or path)} was made") from None
        except OSError:
            if verb is Verb.WRITE and read_text(self._dirs, path) == change.text:
                self._done.append(change)
                self._pin(path)
            raise
        self._note(change)
        if found is not None and stat.S_ISDIR(found.st_mode):  # it was moved or removed
            self._dirs.forget(path)  # last, as a descriptor may fail to close

    def _call(
        self, change: FileChange, found: os.stat_result | None, at: tuple[int, str], target: tuple[int, str]
    ) -> None:
        """Asks the system for the change of what is ``found`` ``at`` its place, and of what it has as ``target``."""
        files, (folder, name) = self._files, at
        match change.verb:
            case Verb.MOVE:
                assert found is not None
                self._move_file(found, folder, name, *target, change.to)
                if not files.is_inode(target[1], target[0], found.st_ino):
                    files.move(target[1], target[0], name, folder)
                    raise Skipped(_CHANGED)
            case Verb.LINK:
                files.link(name, folder, target[1], target[0])
            case Verb.UNLINK:
                files.unlink(name, folder)
            case Verb.MKDIR:
                files.mkdir(name, folder)
                self._done.append(change)
                with files.closing(files.open_dir(name, folder)) as fd:
                    files.copy_owner(fd, files.fstat(folder))
            case Verb.RMDIR:
                files.rmdir(name, folder)
            case Verb.WRITE:
                self._write_text(change, found, name, folder)
            case Verb.TOUCH:
                files.touch(name, folder)
            case Verb.DELETE:
                self._delete_tree(name, folder)

    def _note(self, change: FileChange) -> None:
        """Notes that a change has happened: what is pinned is now elsewhere, has another status or is gone."""
        verb, path, to = change.verb, change.path, change.to
        if verb is not Verb.MKDIR:  # else it is there since it was made
            self._done.append(change)
        if verb is Verb.MOVE:
            for location in [one for one in self._pins if is_within(one, path)]:
                self._pins[location_after(location, (change,))] = self._pins.pop(location)
        elif verb in (Verb.UNLINK, Verb.RMDIR, Verb.DELETE):
            self._pins.pop(path, None)
        if verb not in (Verb.RMDIR, Verb.DELETE):
            self._pin(to or path)
        self._pin_above(path)
        if verb is not Verb.TOUCH:
            self._dirs.touched(to if verb in (Verb.MOVE, Verb.LINK) else path)
        if verb is Verb.MOVE:
            self._dirs.touched(path, lost=True)

    def _check(self, location: str) -> os.stat_result | None:
        """Checks that the file at ``location`` is the one that was pinned, and returns its status. Raises ``Skipped``."""
        found = self._dirs.status(location)
        expected = self._pins.get(location)
        if expected is not None and pin_of(found) != expected:
            if found is None:
                raise Skipped(self._gone(location))
            if expected == NOTHING:
                raise Skipped(f"{escape(location)} was made meanwhile")
            raise Skipped(_CHANGED if location == self.message else f"{escape(location)} {_CHANGED}")
        return found

    def _gone(self, location: str) -> str:
        return _GONE if location == self.message else f"{escape(location)} is gone"

    def _pin(self, location: str) -> None:
        """Pins a file as it is now, under each of its names, and the pinned directories in which one of them lies."""
        new = pin_of(self._dirs.status(location))
        for other, pin in self._pins.items():
            if pin[:2] == new[:2]:
                self._pins[other] = new
        self._pins[location] = new
        self._pin_above(location)

    def _pin_above(self, location: str) -> None:
        above = location.rpartition("/")[0]
        if above in self._pins:
            self._pins[above] = pin_of(self._dirs.status(above))

    def _move_file(self, found: os.stat_result, source: int, name: str, target: int, to: str, shown: str) -> None:
        try:
            self._files.move(name, source, to, target, found.st_ino)
        except FileExistsError:
            if not (stat.S_ISREG(found.st_mode) and self._files.is_inode(to, target, found.st_ino)):
                raise Skipped(f"{escape(shown)} is there already") from None
            self._files.unlink(name, source)  # it was cut off between link and unlink, and has both names
        except OSError as error:
            # link(2) takes no directories, so without renameat2 a plain rename does it; it replaces an empty directory at most.
            if error.errno != errno.EPERM or not stat.S_ISDIR(found.st_mode):
                raise
            self._files.rename(name, source, to, target)

    def _write_text(self, change: FileChange, found: os.stat_result | None, name: str, at: int) -> None:
        """Writes the text beside the queue first, so that nothing incomplete ever lies where its program looks."""
        if change.text is None:
            self._files.unlink(name, at)
            return
        own, draft = self._dirs.parent(aside(f"{DRAFT}{os.urandom(8).hex()}"), create=True)
        like = self._files.fstat(at) if found is None else found
        write_new(self._files, own, draft, change.text.encode(), like)
        try:
            if found is None:
                self._files.move(draft, own, name, at)
            else:
                self._files.rename(draft, own, name, at)
        except BaseException as error:
            discard(self._files, draft, own)
            if isinstance(error, FileExistsError):
                raise Skipped(f"{escape(change.path)} was made meanwhile") from None
            raise

    def _poke(self, path: str) -> None:
        """Wakes the program by a byte into its FIFO. The message has moved by then; a program that does not listen finds it at
        its next look."""
        try:
            at, name = self._dirs.parent(path)
            self._files.poke(name, at)
        except OSError as error:
            heard = "nobody reads it" if error.errno == errno.ENXIO else why(error)
            self.remark = f"{escape(path)}: {heard}; its program finds the message at its next look"

    def _delete_tree(self, name: str, at: int) -> None:
        if not stat.S_ISDIR(self._files.stat(name, at).st_mode):
            self._files.unlink(name, at)
            return
        with self._files.closing(self._files.open_dir(name, at)) as fd:
            for one in sorted(self._files.list(fd)):
                self._delete_tree(one, fd)
        self._files.rmdir(name, at)

    def tidy(self, locations: Sequence[str]) -> None:
        """Removes the directories of spooltop's own that are empty now, and with the last message of an operation what is noted
        about it. Changes nothing where somebody else is quicker or something lies there."""
        for folder in dict.fromkeys(location.rpartition("/")[0] for location in locations if is_aside(location)):
            parts = folder.removeprefix(ASIDE).split("/")
            with suppress(OSError):  # not empty, or gone already: it is only tidied
                for count in range(len(parts), 1, -1):
                    at, name = self._dirs.parent(one := aside(*parts[:count]))
                    if count == 2:
                        self._drop_notes(name, at)
                    self._files.rmdir(name, at)
                    self._dirs.forget(one)

    def _drop_notes(self, name: str, at: int) -> None:
        """Removes the note about an operation, and drafts of it that were cut off, once nothing else lies in its directory."""
        with self._files.closing(self._files.open_dir(name, at)) as fd:
            if self._files.fstat(fd).st_nlink > 2:
                return  # directories of other messages; some file systems count none, and are listed
            notes = self._files.list(fd)
            if all(META in note for note in notes):
                for note in notes:
                    discard(self._files, note, fd)


# Tells from the files how many of its changes a message has behind it, for what a crash cut off and for an undo.

_ANY = -1
_Expected = int | str
"""A file that is expected at a location: its inode, 0 for none and -1 for any, or its text."""


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
    if isinstance(expected, str):
        try:
            return bool(ino) and read_text(dirs, location) == expected
        except OSError:
            return False
    return bool(ino) if expected == _ANY else ino == expected


def expected_after(changes: Sequence[FileChange], pins: Mapping[str, Pin]) -> list[dict[str, _Expected]]:
    """The files that are expected before the first change and after each, by location."""
    touched = locations_of(change for change in changes if change.verb is not Verb.POKE)
    now: dict[str, _Expected] = {location: pins[location][1] if location in pins else 0 for location in touched}
    stages = [dict(now)]
    for change in changes:
        path, to = change.path, change.to
        match change.verb:
            case Verb.MOVE:
                for location in [one for one in now if is_within(one, path)]:
                    moved, now[location] = now[location], 0
                    if (there := location_after(location, (change,))) in now:
                        now[there] = moved
            case Verb.LINK:
                now[to] = now[path]
            case Verb.UNLINK | Verb.RMDIR | Verb.DELETE:
                now[path] = 0
            case Verb.MKDIR:
                now[path] = _ANY
            case Verb.WRITE:
                now[path] = 0 if change.text is None else change.text
        stages.append(dict(now))
    return stages
