"""Makes the changes of one message out of the steps of a layout's action, with the files that they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from spooltop.errors import Refused, UsageError
from spooltop.model.plan import Candidates, Item, Refusal, Request, Selection
from spooltop.model.vocabulary import Action, Box, Row, Verdict, escape

from ..definition import Filling, Layout, LayoutAction, Match
from ..queue_dirs import QueueDirs, aside, in_queue, is_aside
from ..reader import BUILT_IN, LayoutReader, location_of, sources_of
from .performer import NOTHING, FileChange, MessageChanges, Verb, pins_of, read_text, same_file

_HERE = "?"
"""Stands for the operation and the number of the item, which are not known while a plan is made."""


class NotPlanned(Exception):
    """The message cannot be changed so. The text says why."""


class MessagePlan(Struct, frozen=True):
    """The pinned changes of one message: a ``Ref``. ``queue`` is the identity of the queue's directory. ``proved``: the holder
    was dead when the list was made, which is asked again."""

    queue: tuple[int, int]
    changes: MessageChanges
    proved: bool = False


def pinned_changes(
    dirs: QueueDirs, id: str, message: str, changes: Sequence[FileChange], *, reverses: int | None = None, without: str = ""
) -> MessageChanges:
    """The ``changes`` of the message ``id`` at the location ``message``, with pins of it and of what they need that lies in its
    place before the first of them. ``without``: as long as nothing lies there. Raises ``OSError``."""
    free = [change.path for change in changes if change.verb is Verb.WRITE] + ([without] if without else [])
    needed = [message, *(change.path for change in changes if change.verb not in (Verb.MKDIR, Verb.POKE))]
    needed += [change.to for change in changes if change.verb is Verb.UNLINK]
    pins = dict.fromkeys(free, NOTHING) | pins_of(dirs, dict.fromkeys(needed))
    return MessageChanges(id, message, tuple(changes), pins, reverses)


def placed(planned: MessageChanges, operation: str, place: int) -> MessageChanges:
    """Fills the operation and the number of the item into the locations to which files are set aside."""
    here = f"/{_HERE}/{_HERE}/"
    there = f"/{operation}/{place}/"

    def filled(location: str) -> str:
        return location.replace(here, there, 1) if is_aside(location) else location

    changes = tuple(replace(change, path=filled(change.path), to=filled(change.to)) for change in planned.changes)
    return replace(planned, changes=changes)


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
        self._now = now
        self._given = at, next_number
        self._places = {path: location}
        """Locations of what lies elsewhere than its path in the queue says."""
        self._made: set[str] = set()
        self._changes: list[FileChange] = []

    def plan(self, action: LayoutAction, id: str, *, proved: bool) -> MessagePlan:
        """Raises ``NotPlanned``, ``OSError``."""
        self._needed(self._location)
        for step in action.steps:
            if is_aside(self._location) and step.verb != "trash":
                continue  # its program does not see it: there is nothing to lock
            path = self._path(step.words[0])
            if step.verb == "write":
                self._write(path, step.words[1].fill(self._fields, *self._given))
            else:
                self._step(step.verb, path, *map(self._path, step.words[1:]))
        if not self._changes:
            raise NotPlanned("there is nothing to change")
        return MessagePlan(self._dirs.identity, pinned_changes(self._dirs, id, self._location, self._changes), proved)

    def _path(self, word: Filling) -> str:
        path = word.path_of(self._fields, *self._given)
        if path is None:
            raise NotPlanned("its name leads out of the queue")
        return path

    def _step(self, verb: str, path: str, second: str = "") -> None:
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
            if not _is_half_moved(self._dirs, location, message):
                raise NotPlanned(f"{escape(location)} is no second name of the message")
        self._add(FileChange(Verb.UNLINK, location, message))

    def _write(self, path: str, text: str) -> None:
        try:
            before = read_text(self._dirs, path)
        except OSError as error:
            raise NotPlanned(f"{escape(path)} cannot be read: {error.strerror or error}") from error
        self._add(FileChange(Verb.WRITE, path, text=text, before=before), path)

    def _add(self, change: FileChange, made: str = "") -> None:
        self._changes.append(change)
        if made:
            self._made.add(made)

    def _free(self, location: str, why: str) -> None:
        if self._dirs.status(location) is not None:
            raise NotPlanned(f"{escape(location)}: {why}")

    def _needed(self, location: str) -> None:
        """Something must lie at ``location``, unless a step before has made it or brought it there."""
        made = any(location == one or location.startswith(f"{one}/") for one in self._made)
        if not made and self._dirs.status(location) is None:
            raise NotPlanned("gone" if location == self._location else f"{escape(location)} is missing")


def moved_back(dirs: QueueDirs, id: str, locations: Sequence[str]) -> MessagePlan:
    """Plans that a message that was set aside goes back to its place, after everything that went with it. The message comes last
    in ``locations``. Raises ``NotPlanned``, ``OSError``."""
    for location in locations:
        if dirs.status(in_queue(location)) is not None and not _is_half_moved(dirs, location, in_queue(location)):
            raise NotPlanned(f"{escape(in_queue(location))} is there already")
    changes = [FileChange(Verb.MOVE, location, in_queue(location)) for location in locations]
    return MessagePlan(dirs.identity, pinned_changes(dirs, id, locations[-1], changes))


def _is_half_moved(dirs: QueueDirs, location: str, to: str) -> bool:
    """True where both are names of one file: a move by link and unlink was cut off, and is finished before."""
    return same_file(dirs.status(location), dirs.status(to))


def removed(dirs: QueueDirs, id: str, path: str, *, without: str = "") -> MessagePlan:
    """Plans that a register or a lock that was left over moves to the trash, as long as the message ``without`` is not there.
    Raises ``OSError``."""
    change = FileChange(Verb.MOVE, path, aside("trash", _HERE, _HERE, path))
    return MessagePlan(dirs.identity, pinned_changes(dirs, id, path, [change], without=without))


def deleted(dirs: QueueDirs, id: str, message: str) -> MessagePlan:
    """Plans that a message in the trash is deleted for good, with everything that went with it. Raises ``OSError``."""
    folder = aside(*message.removeprefix("//").split("/")[:3])
    return MessagePlan(dirs.identity, pinned_changes(dirs, id, folder, [FileChange(Verb.DELETE, folder)]))


# Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not.

_PROVED = (Verdict.DEAD, Verdict.ABANDONED)
_HELD = (Verdict.ALIVE, Verdict.WRITING)
_TWICE = "nobody can be shown to have left it: it may be processed twice"


def match_of(layout: Layout, row: Row) -> tuple[Match, Mapping[str, str]] | None:
    """The rule that a message fits, in the queue or where it lay before it was set aside, and the pieces of its path."""
    path = in_queue(location_of(row))
    for match in layout.matches:
        if match.box == row.box.value or is_aside(location_of(row)):
            fields = match.template.match(path)
            if fields is not None:
                return match, fields
    return None


class Chooser:
    """Pins messages of the queue that ``reader`` has just looked at."""

    def __init__(self, layout: Layout, dirs: QueueDirs, reader: LayoutReader, request: Request) -> None:
        self._layout = layout
        self._dirs = dirs
        self._reader = reader
        self._request = request
        self._now = bool(request.options.get("now"))
        self._next: dict[str, int] = {}
        self._waiting: dict[str, list[str]] | None = None

    def choose(self) -> Candidates:
        """Raises ``Refused`` for a box that the action does not apply to, ``UsageError`` for a filter that makes no sense,
        ``OSError``, ``Stopped``."""
        action, selection = self._request.action, self._request.selection
        if action is Action.UNLOCK:
            return self._unlock(selection)
        sources = sources_of(self._layout, action)
        if selection.box is Box.CUR and action is Action.REQUEUE and Box.CUR not in sources:
            selection = replace(selection, box=None)  # what a requeue means where nothing else is said
            sources = tuple(box for box in sources if box is not Box.HELD)
        if selection.box is not None and selection.box not in sources:
            advice = f"choose {', '.join(sorted(sources))}"
            raise Refused(f"{action} is not possible for messages in {selection.box}", path=self._dirs.path, advice=advice)
        if selection.empty:
            return Candidates()
        items: list[Item] = []
        refused: list[Refusal] = []
        named: set[str] = set()
        notes: dict[str, None] = {}
        effects: dict[str, None] = {}
        matches = selection.matcher(self._request.at)
        for row in self._request.progress.each(self._rows(action, selection.box, sources)):
            if not matches(row):
                continue
            named |= {row.id, row.name}
            rule = self._rule(action, row)
            found = self._pinned(action, rule, row)
            if isinstance(found, Item):
                items.append(found)
                effects["" if rule is None else rule.effect] = None
                if rule is not None and rule.note:
                    notes[rule.note] = None
            else:
                refused.append(found)
        missing = tuple(id for id in dict.fromkeys(selection.ids or ()) if id not in named)
        if action is Action.PURGE:
            items += [self._lost(id) for id in missing if id in self._reader.lost]
            missing = tuple(id for id in missing if id not in self._reader.lost)
        effect = next(iter(effects)) if len(effects) == 1 else ""
        if effect:
            effect = f"{'It' if len(items) == 1 else 'Each'} {effect}."
        return Candidates(items, refused, tuple(f"{_sentence(note)}" for note in notes), missing, effect=effect)

    def _lost(self, id: str) -> Item:
        """Pins an entry of a register whose message is nowhere."""
        path = self._reader.lost[id]
        row = Row(key=(Box.NEW.value, path), box=Box.NEW, id=id, name=path, note="its message is nowhere")
        return Item(row, removed(self._dirs, id, path), warning=f"only {escape(path)} is left of it, which moves to the trash")

    def _unlock(self, selection: Selection) -> Candidates:
        """Pins locks whose message is not there, named by their path or file name, or all of them."""
        chosen = [str(one) for one in (*(selection.ids or ()), *(selection.keys or ()))]
        if not chosen and not selection.everything:
            raise UsageError("unlock: which lock?", advice="name it as spooltop locks lists it, or ALL for all that are stale")
        items, named = [], set()
        for path, (message, words) in self._reader.alone.items():
            shown = os.path.join(os.path.abspath(self._dirs.path), path)
            names = {one for one in chosen if one in (path, os.path.basename(path)) or os.path.abspath(one) == shown}
            if names or selection.everything:
                named |= names
                row = Row(key=shown, box=Box.CUR, id=shown, name=path)
                items.append(Item(row, removed(self._dirs, path, path, without=message), words=f"{escape(path)}: {words}"))
        return Candidates(items, missing=tuple(one for one in chosen if one not in named))

    def _rows(self, action: Action, box: Box | None, sources: Sequence[Box]) -> Iterator[Row]:
        """The messages in the order in which their queue takes them; those that it holds itself only where a rule says how."""
        for one in sources if box is None else (box,):
            rows = [
                row
                for row in self._reader.rows(one)
                if one is not Box.HELD or is_aside(location_of(row)) or self._rule(action, row) is not None
            ]
            yield from sorted(rows, key=lambda row: row.enqueued_at or row.in_box_since or 0.0)

    def _rule(self, action: Action, row: Row) -> LayoutAction | None:
        if action in BUILT_IN and is_aside(location_of(row)):
            return None
        found = match_of(self._layout, row)
        box = row.box.value if found is None else found[0].box
        return next((one for one in self._layout.actions if one.name == action.value and box in one.boxes), None)

    def _pinned(self, action: Action, rule: LayoutAction | None, row: Row) -> Item | Refusal:
        if rule is not None and not is_aside(location_of(row)):
            blocked, forceable = _blocked(rule, row)
            if blocked and not (forceable and self._request.force):
                return Refusal(row, blocked, forceable)
        else:
            blocked = ""
        try:
            plan = self._plan(action, rule, row, proved=rule is not None and rule.needs_dead and not blocked)
        except NotPlanned as error:
            return Refusal(row, str(error))
        except OSError as error:
            return Refusal(row, f"{error.strerror or error}")
        if blocked and row.verdict is None:
            row = row.judged(Verdict.UNKNOWN, blocked, row.owner)
        return Item(row, plan, warning=_TWICE if blocked else "")

    def _plan(self, action: Action, rule: LayoutAction | None, row: Row, *, proved: bool) -> MessagePlan:
        if action is Action.EMPTY:
            return deleted(self._dirs, row.id, location_of(row))
        if action in (Action.RELEASE, Action.RESTORE, Action.REQUEUE) and is_aside(location_of(row)):
            self._no_other(row)
            return moved_back(self._dirs, row.id, self._reader.together(location_of(row)))
        found = match_of(self._layout, row)
        if rule is None or found is None:
            raise NotPlanned(f"its layout does not say how to {action} it")
        if action in (Action.REQUEUE, Action.RELEASE) and row.box is not Box.NEW:
            self._no_other(row)
        planner = Planner(
            self._dirs, location_of(row), found[1], at=self._request.at, now=self._now, next_number=self._next_number
        )
        return planner.plan(rule, row.id, proved=proved)

    def _no_other(self, row: Row) -> None:
        """Raises ``NotPlanned`` where another message with this id waits. A second name of the file itself is none: a move was
        cut off, and is finished before this one."""
        if self._waiting is None:
            self._waiting = {}
            for one in self._reader.rows(Box.NEW):
                self._waiting.setdefault(one.id, []).append(location_of(one))
        for other in self._waiting.get(row.id, ()):
            found, own = self._dirs.status(other), self._dirs.status(location_of(row))
            if found is not None and own is not None and not os.path.samestat(found, own):
                raise NotPlanned("conflict: another message with this id waits; both are kept")

    def _next_number(self, piece: str) -> int:
        if piece not in self._next:
            self._next[piece] = max(self._numbers(piece), default=0)
        self._next[piece] += 1
        return self._next[piece]

    def _numbers(self, piece: str) -> Iterator[int]:
        for box in Box:
            for row in self._reader.rows(box):
                found = match_of(self._layout, row)
                text = "" if found is None else found[1].get(piece, "")
                if text.isascii() and text.isdigit():
                    yield int(text)


def _blocked(rule: LayoutAction, row: Row) -> tuple[str, bool]:
    """Why a message may not go, "" where it may, and if force moves it all the same."""
    if row.verdict in _HELD:
        return f"{'is being written' if row.verdict is Verdict.WRITING else 'in use'}: {escape(row.evidence)}", False
    if rule.needs_dead and row.verdict not in _PROVED:
        return row.evidence or "its holder is not known", True
    if rule.force:
        return row.evidence or "what was delivered may be done, running or lost", True
    return "", False


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
