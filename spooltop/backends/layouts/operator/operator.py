"""Changes the queue of another program by the steps of its layout. Everything is journalled before and can be undone after."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from spooltop.engine.atomic import discard, open_shared, publish_new
from spooltop.model import Action, AuditFailed, Box, Capabilities, Clock, Frozen, Refused, Row, Stop, UsageError, Verdict, escape
from spooltop.model.plan import BATCH, Candidates, Item, ItemResult, Outcome, Plan, Refusal, Request, RowItem, Selection

from ...journal import Account, EndedStep, ItemOperator, ItemOutcome, LoggedOperation, Skipped, changed, outcome_of, ref_of
from ...log_store import FULL, STATE_DIR, LogFiles, LogStore
from ...surroundings import Surroundings
from ..definition import Layout, LayoutAction
from ..queue_dirs import ASIDE, QueueDirs, aside, in_queue, is_aside, keep_name, shown_location
from ..reader import BUILT_IN, LayoutReader, can_change, sources_of
from ..sort_files import META, AsideMessage, QueueFile, encode_meta
from ..verdicts import HolderVerdict, is_final, judge
from .performer import (
    DRAFT,
    MESSAGES,
    NOTHING,
    FileChange,
    HalfDone,
    LayoutIntent,
    LayoutOutcome,
    MessageChanges,
    Performer,
    Verb,
    inverse,
    is_within,
    location_after,
    locations_of,
    pin_of,
    pins_of,
    read_text,
    same_file,
    stage_of,
    why,
)

_HERE = "?"
"""Stands for the operation and the number of the item, which are not known while a plan is made."""


class NotPlanned(Exception):
    """The message cannot be changed so. The text says why."""


class MessagePlan(Frozen):
    """The pinned changes of one message: a ``Ref``. ``queue`` is the identity of the queue's directory. ``proved`` is the file
    whose holder was dead when the list was made, which is asked again."""

    queue: tuple[int, int]
    changes: MessageChanges
    proved: QueueFile | None = None


def pin_changes(
    dirs: QueueDirs, id: str, message: str, changes: Sequence[FileChange], *, reverses: int | None = None, without: str = "",
    proved: QueueFile | None = None, check: bool = False,
) -> MessagePlan:  # fmt: skip
    """Plans the ``changes`` of the message ``id`` at the location ``message``, with pins of it and of what they need that lies in
    its place before the first of them, also where it has just gone. ``without``: as long as nothing lies there. Raises
    ``OSError``, and with ``check`` ``NotPlanned`` where a file is missing that a change needs, or lies where it makes one."""
    status = cache(dirs.status)
    pins = {without: NOTHING} if without else {}
    made: list[str] = []

    def need(location: str) -> None:
        """Something must lie at ``location``, unless a change before has made it or brought it there."""
        if (found := status(location)) is not None:
            pins[location] = pin_of(found)
        elif not any(is_within(location, one) for one in made):
            if check:
                raise NotPlanned("gone" if location == message else f"{escape(location)} is missing")
            pins[location] = NOTHING

    need(message)
    if check and not changes:
        raise NotPlanned("there is nothing to change")
    for change in changes:
        verb, path, to = change.verb, change.path, change.to
        if verb is Verb.WRITE:
            pins[path] = pin_of(status(path))
        elif verb not in (Verb.MKDIR, Verb.POKE):
            need(path)
        if verb is Verb.UNLINK:
            need(to)
            if check and path not in made and not same_file(status(path), status(to)):
                raise NotPlanned(f"{escape(path)} is no second name of the message")
        elif verb in (Verb.MOVE, Verb.LINK, Verb.MKDIR, Verb.WRITE):
            makes = to or path
            if check and verb is not Verb.WRITE and (found := status(makes)) is not None:
                if verb is not Verb.MOVE:
                    raise NotPlanned(f"{escape(makes)}: its program has it locked")
                if not same_file(status(path), found):  # else it was cut off between link and unlink, and is finished first
                    raise NotPlanned(f"{escape(makes)} is there already")
            made.append(makes)
    return MessagePlan(dirs.identity, MessageChanges(id, message, tuple(changes), pins, reverses), proved)


def placed(planned: MessageChanges, operation: str, place: int) -> MessageChanges:
    """Fills the operation and the number of the item into the locations to which files are set aside."""
    here = f"/{_HERE}/{_HERE}/"
    there = f"/{operation}/{place}/"

    def filled(location: str) -> str:
        return location.replace(here, there, 1) if is_aside(location) else location

    changes = tuple(change.replace(path=filled(change.path), to=filled(change.to)) for change in planned.changes)
    return planned.replace(changes=changes)


def moved_back(dirs: QueueDirs, id: str, locations: Sequence[str]) -> MessagePlan:
    """Plans that a message that was set aside goes back to its place, after everything that went with it. The message comes last
    in ``locations``. Raises ``NotPlanned``, ``OSError``."""
    changes = [FileChange(Verb.MOVE, location, in_queue(location)) for location in locations]
    return pin_changes(dirs, id, locations[-1], changes, check=True)


def removed(dirs: QueueDirs, id: str, path: str, *, without: str = "") -> MessagePlan:
    """Plans that a register or a lock that was left over moves to the trash, as long as the message ``without`` is not there.
    Raises ``OSError``."""
    change = FileChange(Verb.MOVE, path, aside("trash", _HERE, _HERE, path))
    return pin_changes(dirs, id, path, [change], without=without)


def deleted(dirs: QueueDirs, id: str, message: str) -> MessagePlan:
    """Plans that a message in the trash is deleted for good, with everything that went with it. Raises ``OSError``."""
    folder = aside(*message.removeprefix("//").split("/")[:3])
    return pin_changes(dirs, id, folder, [FileChange(Verb.DELETE, folder)])


# Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not.

_PROVED = (Verdict.DEAD, Verdict.ABANDONED)
_HELD = (Verdict.ALIVE, Verdict.WRITING)
_TWICE = "nobody can be shown to have left it: it may be processed twice"


class Chooser(Struct):
    """Pins messages of the queue that ``reader`` has just looked at."""

    _layout: Layout
    _dirs: QueueDirs
    _reader: LayoutReader
    _request: Request
    _next: dict[str, int] = {}
    _waiting: dict[str, list[str]] | None = None

    def choose(self) -> Candidates:
        """Raises ``Refused`` for a box that the action does not apply to, ``UsageError`` for a filter that makes no sense,
        ``OSError``, ``Stopped``."""
        action, selection = self._request.action, self._request.selection
        if action is Action.UNLOCK:
            return self._unlock(selection)
        sources = sources_of(self._layout, action)
        if selection.box is Box.CUR and action is Action.REQUEUE and Box.CUR not in sources:
            selection = selection.replace(box=None)  # what a requeue means where nothing else is said
            sources = tuple(box for box in sources if box is not Box.HELD)
        boxes = self._request.replace(selection=selection).boxes(sources, self._dirs.path)
        if selection.empty:
            return Candidates()
        items: list[Item] = []
        refused: list[Refusal] = []
        named: set[str] = set()
        words: dict[tuple[str, str], None] = {}
        """Notes and effects of the rules by which messages go."""
        matches = selection.matcher(self._request.at)
        for file, row in self._request.progress.each(self._messages(action, boxes)):
            if not matches(row):
                continue
            named |= {row.id, row.name}
            rule = self._rule(action, file)
            found = self._pinned(action, rule, file, row)
            if isinstance(found, Item):
                items.append(found)
                words[("", "") if rule is None else (rule.note, rule.effect)] = None
            else:
                refused.append(found)
        missing = tuple(id for id in dict.fromkeys(selection.ids or ()) if id not in named)
        if action is Action.PURGE:
            lost = {entry.id: entry.path for entry in self._reader.lost}
            items += [self._lost(id, lost[id]) for id in missing if id in lost]
            missing = tuple(id for id in missing if id not in lost)
        notes = tuple(_sentence(note) for note in dict.fromkeys(note for note, _ in words) if note)
        effects = {effect for _, effect in words}
        effect = f"{'It' if len(items) == 1 else 'Each'} {effects.pop()}." if len(effects) == 1 and effects != {""} else ""
        return Candidates(items, refused, notes, missing, effect=effect)

    def _lost(self, id: str, path: str) -> Item:
        """Pins an entry of a register whose message is nowhere."""
        row = Row(key=(Box.NEW.value, path), box=Box.NEW, id=id, name=path, note="its message is nowhere")
        return RowItem(row, removed(self._dirs, id, path), warning=f"only {escape(path)} is left of it, which moves to the trash")

    def _unlock(self, selection: Selection) -> Candidates:
        """Pins locks whose message is not there, named by their path or file name, or all of them."""
        chosen = [str(one) for one in (*(selection.ids or ()), *(selection.keys or ()))]
        if not chosen and not selection.everything:
            raise UsageError("unlock: which lock?", "name it as spooltop locks lists it, or ALL for all that are stale")
        items, named = [], set()
        for path, (message, words) in self._reader.alone.items():
            shown = os.path.join(os.path.abspath(self._dirs.path), path)
            names = {one for one in chosen if one in (path, os.path.basename(path)) or os.path.abspath(one) == shown}
            if names or selection.everything:
                named |= names
                row = Row(key=shown, box=Box.CUR, id=shown, name=path)
                items.append(RowItem(row, removed(self._dirs, path, path, without=message), words=f"{escape(path)}: {words}"))
        return Candidates(items, missing=tuple(one for one in chosen if one not in named))

    def _messages(self, action: Action, boxes: Sequence[Box]) -> Iterator[tuple[QueueFile, Row]]:
        """The messages in the order in which their queue takes them; those that it holds itself only where a rule says how."""
        for box in boxes:
            messages = [
                (file, row)
                for file, row in zip(self._reader.files(box), self._reader.rows(box), strict=True)
                if box is not Box.HELD or isinstance(file, AsideMessage) or self._rule(action, file) is not None
            ]
            yield from sorted(messages, key=lambda message: message[1].enqueued_at or message[1].in_box_since or 0.0)

    def _rule(self, action: Action, file: QueueFile) -> LayoutAction | None:
        if action in BUILT_IN and isinstance(file, AsideMessage):
            return None
        return next((one for one in self._layout.actions if one.name == action.value and file.box in one.boxes), None)

    def _pinned(self, action: Action, rule: LayoutAction | None, file: QueueFile, row: Row) -> Item | Refusal:
        blocked = ""
        if rule is not None and not isinstance(file, AsideMessage):
            blocked, forceable = _blocked(rule, row)
            if blocked and not (forceable and self._request.force):
                return Refusal(row, blocked, forceable)
        try:
            plan = self._plan(action, rule, file, proved=rule is not None and rule.needs_dead and not blocked)
        except (NotPlanned, OSError) as error:
            return Refusal(row, why(error))
        if blocked and row.verdict is None:
            row = row.judged(Verdict.UNKNOWN, blocked, row.owner)
        return RowItem(row, plan, warning=_TWICE if blocked else "")

    def _plan(self, action: Action, rule: LayoutAction | None, file: QueueFile, *, proved: bool) -> MessagePlan:
        if action is Action.EMPTY:
            return deleted(self._dirs, file.id, file.location)
        if isinstance(file, AsideMessage) and action in (Action.RELEASE, Action.RESTORE, Action.REQUEUE):
            self._no_other(file)
            return moved_back(self._dirs, file.id, file.locations)
        if rule is None:
            raise NotPlanned(f"its layout does not say how to {action} it")
        if action in (Action.REQUEUE, Action.RELEASE) and file.box != Box.NEW:
            self._no_other(file)
        changes = self._changes(rule, file)
        return pin_changes(self._dirs, file.id, file.location, changes, proved=file if proved else None, check=True)

    def _changes(self, rule: LayoutAction, file: QueueFile) -> Sequence[FileChange]:
        """The changes of a message by the steps of ``rule``. Raises ``NotPlanned``, ``OSError``."""
        given = file.pieces, self._request.at, self._next_number
        changes = [FileChange(Verb.MOVE, file.path, file.location)]  # where it lies, for the others
        for step in rule.steps:
            if is_aside(file.location) and step.verb != "trash":
                continue  # its program does not see it: there is nothing to lock
            words = step.words[:1] if step.verb == "write" else step.words
            paths = [path for word in words if (path := word.path_of(*given)) is not None]
            if len(paths) < len(words):
                raise NotPlanned("its name leads out of the queue")
            path, *to = paths
            location, message = (location_after(one, changes) for one in (path, file.path))
            match step.verb:
                case "write":
                    try:
                        before = read_text(self._dirs, path)
                    except OSError as error:
                        raise NotPlanned(f"{escape(path)} cannot be read: {why(error)}") from error
                    change = FileChange(Verb.WRITE, path, text=step.words[1].fill(*given), before=before)
                case "trash" | "held":
                    if location != message and self._dirs.status(location) is None:
                        continue  # a register that has no entry of it
                    if step.verb == "trash" and self._request.options.get("now"):
                        change = FileChange(Verb.DELETE, location)
                    else:
                        change = FileChange(Verb.MOVE, location, aside(step.verb, _HERE, _HERE, path))
                case "unlink":
                    change = FileChange(Verb.UNLINK, location, message)
                case verb:
                    change = FileChange(Verb.MOVE if verb == "rename" else Verb(verb), location, *to)
            changes.append(change)
        return changes[1:]

    def _no_other(self, file: QueueFile) -> None:
        """Raises ``NotPlanned`` where another message with this id waits. A second name of the file itself is none: a move was
        cut off, and is finished before this one."""
        if self._waiting is None:
            self._waiting = {}
            for one in self._reader.files(Box.NEW):
                self._waiting.setdefault(one.id, []).append(one.location)
        for other in self._waiting.get(file.id, ()):
            found, own = self._dirs.status(other), self._dirs.status(file.location)
            if found is not None and own is not None and not os.path.samestat(found, own):
                raise NotPlanned("conflict: another message with this id waits; both are kept")

    def _next_number(self, piece: str) -> int:
        if piece not in self._next:
            texts = (file.fields.get(piece, "") for box in Box for file in self._reader.files(box))
            self._next[piece] = max((int(text) for text in texts if text.isascii() and text.isdigit()), default=0)
        self._next[piece] += 1
        return self._next[piece]


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


# Reverses an operation from its records in the journal, and lists operations.

LoggedMessages = LoggedOperation[LayoutIntent, LayoutOutcome]
"""All that the journal holds of one operation on another program's queue."""

DURING = 60.0
"""Seconds after an intent within which its changes were made. A lock that is younger is not ours."""


class LoggedMessage(NamedTuple):
    """A message of an operation: its place there, its changes, when they were about to begin, and how they ended; None: that is
    not in the journal."""

    place: int
    changes: MessageChanges
    at: float
    outcome: ItemOutcome | None


def messages_of(logged: LoggedMessages) -> Iterator[LoggedMessage]:
    """The messages of ``logged`` that were begun, in order."""
    for batch, outcome in logged.steps.values():
        for number, changes in enumerate(batch.items if outcome is None else batch.items[: outcome.tried]):
            yield LoggedMessage(batch.step + number, changes, batch.at, None if outcome is None else outcome.at(number))


def stage_now(dirs: QueueDirs, intent: MessageChanges, at: float, *, ended: bool, latest: bool) -> tuple[int, bool] | None:
    """The number of changes of ``intent``, of the time ``at``, that are in effect, all or none where it ``ended``, as
    ``stage_of`` says. None where something else has happened since. Raises ``OSError``."""
    stage = stage_of(dirs, intent.changes, intent.pins, latest=latest)
    if stage is None or (stage[0] in (0, len(intent.changes)) and not stage[1]):
        return stage
    if ended:
        return None
    # Cut off in the middle: a lock that was made then looks like one that its program made later, but for its time.
    newest = max((ctime for _, _, ctime in pins_of(dirs, locations_of(intent.changes)).values()), default=0)
    return stage if newest / 1e9 < at + DURING else None


def _row(layout: Layout, intent: MessageChanges, number: int | None, seen: Mapping[str, Row]) -> Row:
    """The row of a message where it lies after ``number`` changes, as it was ``seen`` if it was."""
    location = location_after(intent.message, intent.changes[: number or 0])
    if location in seen:
        return seen[location]
    if is_aside(location):
        box = Box.HELD if location.startswith(aside("held/")) else Box.TRASH
    else:
        box = next((Box(match.box) for match in layout.matches if match.template.match(location) is not None), Box.NEW)
    return Row(key=(box.value, location), box=box, id=intent.id, name=in_queue(location))


# Completes what a crash cut off: the rest of the changes of a message, or if that is not possible, nothing of them.

def finished(dirs: QueueDirs, intent: MessageChanges, at: float) -> ItemOutcome | None:
    """Completes the changes of ``intent``, of the time ``at``, which has no result, or else reverses those that were made, and
    returns the result to log. None where neither is possible now. Raises ``OSError``."""
    stage = stage_now(dirs, intent, at, ended=False, latest=False)
    if stage is None:
        return ItemOutcome(Outcome.SKIPPED, "cut short, and changed by its program since")
    number, half = stage
    if number == 0 and not half:
        Performer(dirs, {}, intent.message).tidy([change.to for change in intent.changes])
        return ItemOutcome(Outcome.SKIPPED, "cut short before anything was changed")
    rest = intent.changes[number:]
    if not rest:
        return ItemOutcome(Outcome.DONE, "finished later")
    message = location_after(intent.message, intent.changes[:number])
    pins = pins_of(dirs, locations_of(intent.changes))
    performer = Performer(dirs, pins, message)
    try:
        performer.run(rest)
    except HalfDone:
        return None
    except (Skipped, OSError) as error:
        try:
            Performer(dirs, pins, message).run(inverse(intent.changes[:number]))
        except (HalfDone, Skipped, OSError):
            return None
        return ItemOutcome(Outcome.SKIPPED, f"cut short and reversed: {why(error)}")
    return ItemOutcome(Outcome.DONE, "finished later")


def remove_drafts(dirs: QueueDirs) -> None:
    """Removes texts that were not written to their end. Only in a turn: nobody else writes one then. Raises ``OSError``."""
    own = dirs.private_dir()
    for name in () if own is None else dirs.files.list(own):
        if name.startswith(DRAFT):
            assert own is not None  # else there are no names
            discard(dirs.files, name, own)


OPERATE_LOCK = "operate.lock"
"""The file in spooltop's own directory that an operator locks while it changes messages."""
_TICK = 0.05
"""Seconds between two attempts at a lock."""
PATIENCE = 10.0
"""Seconds that a change waits for a lock; after that nothing is changed."""
_STEP_ENDS = 1.0
"""Seconds after which a step ends, so that who waits for the lock of a program sees how far it came, and others get a turn."""


LayoutState = tuple[QueueDirs, LayoutReader]
"""The open queue, and its messages as they are now."""


class LayoutOperator(ItemOperator[LayoutIntent, LayoutOutcome, LayoutState]):
    """Implements ``model.backend.Operator`` for the queue at ``path``. ``around`` answers questions about processes;
    ``patience`` is how many seconds a change waits for a lock."""

    at_once = BATCH
    untrusted = "reversed by it"

    def __init__(
        self,
        path: str,
        layout: Layout,
        around: Surroundings,
        files: LogFiles | None = None,
        *,
        clock: Clock = time.time,
        monotonic: Clock = time.monotonic,
        patience: float = PATIENCE,
        state_dir: str = STATE_DIR,
        read_only: str | None = None,
        user: str | None = None,
    ) -> None:
        self._files = files or LogFiles()
        logs = LogStore(path, self._files, state_dir=state_dir, opening=self._opened)
        super().__init__(path, logs, MESSAGES, clock=clock, read_only=read_only, user=user)
        self._layout = layout
        self._around = around
        self._monotonic = monotonic
        self._patience = patience
        self._dirs: QueueDirs | None = None
        self._looked_after: set[str] = set()
        self._proved: Mapping[str, HolderVerdict] = {}
        self._finished: dict[str, str] = {}
        """Messages that were finished before the plan began, and why, by location."""

    def capabilities(self) -> Capabilities:
        with self._translate_errors(), self._opened() as dirs:
            return can_change(self._layout, dirs)

    @contextmanager
    def _state(self) -> Iterator[LayoutState]:
        with self._translate_errors(), self._opened() as dirs:
            reader = LayoutReader(self._path, self._layout, self._around, clock=self._clock)
            try:
                reader.see()
                yield dirs, reader
            finally:
                reader.close()

    def _choose(self, request: Request, state: LayoutState) -> Candidates:
        found = Chooser(self._layout, *state, request).choose()
        return found.replace(notes=(*found.notes, *self._cut_off())) if found.items else found

    def _cut_off(self) -> list[str]:
        """Sentences about operations that a crash cut off."""
        cut_off = [logged.operation for logged in self._log.unfinished() if logged.trusted]
        return [f"Operation {one} was cut off; what it left half done is finished first." for one in cut_off]

    @contextmanager
    def _locked(self, dirs: QueueDirs, fd: int, stop: Stop, otherwise: Exception) -> Iterator[None]:
        """Holds the lock of the file ``fd``, and closes it. Raises ``otherwise`` where that takes long or ``stop`` says so."""
        with dirs.files.closing(fd):
            left = self._patience
            while not dirs.files.lock(fd):
                if left <= 0 or stop():
                    raise otherwise
                self._wait(_TICK)
                left -= _TICK
            yield

    def _own_turn(self, dirs: QueueDirs, stop: Stop) -> AbstractContextManager[None]:
        """Keeps other operators out, so that a message whose record has no result was cut off, and is not being changed. Raises
        ``Refused``, ``OSError``."""
        own, name = dirs.parent(aside(OPERATE_LOCK), create=True)
        what = f"another spooltop has been changing this queue for {self._patience:.0f} s"
        refused = Refused(what, f"try again; {dirs.own_name}/{OPERATE_LOCK} is its lock", path=dirs.path)
        return self._locked(dirs, open_shared(dirs.files, name, own, dirs.files.fstat(own)), stop, refused)

    def _program_locked(self, dirs: QueueDirs, stop: Stop) -> AbstractContextManager[None]:
        """Holds the lock of the queue's program, which takes it around each change of its own, where it has one. Raises
        ``Skipped`` where it cannot be had, ``OSError``."""
        path = self._layout.lock
        if not path:
            return nullcontext()
        dirs.renew(path)
        at, name = dirs.parent(path)
        fd = dirs.files.reopen(name, at)
        skipped = Skipped(f"{escape(path)} has been locked by its program for {self._patience:.0f} s")
        return self._locked(dirs, fd, stop, skipped)

    @contextmanager
    def _turn(self, plan: Plan, stop: Stop) -> Iterator[None]:
        with self._translate_errors(), self._opened() as dirs, self._own_turn(dirs, stop):
            self._dirs = dirs
            try:
                try:
                    # Before the first record: the operation may take the last file that the layout is known by.
                    keep_name(dirs, self._layout.name)
                    if plan.operation not in self._looked_after:
                        self._finish_others(dirs, plan, stop)
                except (AuditFailed, OSError) as error:
                    full = error.full if isinstance(error, AuditFailed) else error.errno in FULL
                    if not (plan.works_when_full and full):
                        raise
                yield
            finally:
                self._dirs = None

    def _finish_others(self, dirs: QueueDirs, plan: Plan, stop: Stop) -> None:
        """Completes once for each plan what a crash cut off, but for the operation that the plan undoes."""
        self._looked_after.add(plan.operation)
        self._finished = {}
        remove_drafts(dirs)
        for logged in self._log.unfinished():
            if logged.operation in (plan.undoes, plan.operation) or not logged.trusted:
                continue
            for batch, _ in logged.steps.values():
                try:
                    with self._program_locked(dirs, stop):
                        outcomes = [finished(dirs, one, batch.at) for one in batch.items]
                except Skipped:
                    return  # its program holds its lock: the next operation finishes it
                dirs.sync_touched()
                for one, outcome in zip(batch.items, outcomes, strict=True):
                    if outcome is not None and outcome.outcome is Outcome.DONE:
                        self._finished[one.message] = f"finished now: operation {batch.operation} was cut off at it"
                if None not in outcomes:
                    self._log_result(batch, _batch_outcome([one for one in outcomes if one is not None]))

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> LayoutIntent:
        changes = (placed(ref_of(item, MessagePlan).changes, plan.operation, number) for number, item in enumerate(items, place))
        return LayoutIntent(items=tuple(changes))

    def _apply(self, items: Sequence[Item], intent: LayoutIntent, stop: Stop) -> EndedStep[LayoutOutcome]:
        dirs = self._dirs
        assert dirs is not None  # only in a turn
        results: list[ItemResult] = []
        half_done = False
        until = self._monotonic() + _STEP_ENDS
        proved = [file for item in items if (file := ref_of(item, MessagePlan).proved) is not None and is_final(file)]
        self._proved = judge(self._layout, dirs.root, proved, self._around, self._clock())
        for item, changes in zip(items, intent.items, strict=True):
            # Of a step that stays open nobody knows how far it came: its messages must not be in the next one as well.
            if results and (stop() or (self._monotonic() > until and not half_done)):
                break
            try:
                results.append(self._change(dirs, item, intent, changes, stop))
            except HalfDone as error:
                half_done = True
                results.append(ItemResult(changes.id, item.row.name, Outcome.FAILED, str(error)))
        outcome, reason = outcome_of(dirs.sync_touched)
        if outcome is not Outcome.DONE:
            reason = f"it may not survive a power loss: {reason}"
            results = [
                one.replace(outcome=Outcome.FAILED, reason=reason) if one.outcome is Outcome.DONE else one for one in results
            ]
            left = zip(items[len(results) :], intent.items[len(results) :], strict=True)
            results += [ItemResult(changes.id, item.row.name, Outcome.SKIPPED, "not reached") for item, changes in left]
        if half_done or outcome is not Outcome.DONE:  # the next operation finds out by looking
            return EndedStep(results, None)
        return EndedStep(results, _batch_outcome([ItemOutcome(one.outcome, one.reason) for one in results]))

    def _change(
        self, dirs: QueueDirs, item: Item, batch: LayoutIntent, changes: MessageChanges, stop: Stop
    ) -> ItemResult:
        """Changes one message. Raises ``HalfDone``."""
        ref = ref_of(item, MessagePlan)
        performer = Performer(dirs, changes.pins, changes.message)

        def change() -> None:
            if dirs.identity != ref.queue:
                raise Skipped("the directory was replaced since the list was made")
            with self._program_locked(dirs, stop):
                try:
                    performer.check()
                except Skipped as error:
                    raise Skipped(self._finished.get(changes.message, str(error))) from None
                if ref.proved is not None and not self._layout.lock:  # else the lock is the proof
                    self._prove_again(dirs, ref.proved)
                self._note(dirs, batch, changes)
                performer.run(changes.changes)

        outcome, reason = outcome_of(change)
        shown = shown_location(performer.message, dirs.own_name)
        became = shown if outcome is Outcome.DONE else ""
        return ItemResult(changes.id, item.row.name, outcome, reason or performer.remark, became)

    def _prove_again(self, dirs: QueueDirs, file: QueueFile) -> None:
        """Asks again if the holder is dead, for all of a step at once where that is final. Raises ``Skipped``."""
        one = self._proved.get(file.path) or judge(self._layout, dirs.root, [file], self._around, self._clock())[file.path]
        if one.verdict not in (Verdict.DEAD, Verdict.ABANDONED):
            raise Skipped(one.evidence or "no longer provable")

    def _note(self, dirs: QueueDirs, batch: LayoutIntent, changes: MessageChanges) -> None:
        """Notes beside what the operation sets aside who did it, when and how."""
        moved = (change.to for change in changes.changes if change.verb is Verb.MOVE and is_aside(change.to))
        if to := next(moved, ""):
            location = aside(*to.removeprefix(ASIDE).split("/")[:2], META)
            if dirs.status(location) is None:
                at, name = dirs.parent(location, create=True)
                content = encode_meta(batch.action.value, self._user, batch.at)
                publish_new(self._files, at, name, content, self._files.fstat(at))

    def _fact(self, logged: LoggedMessages) -> Account:
        messages = list(messages_of(logged))
        deletes = all(change.verb is Verb.DELETE for one in messages for change in one.changes.changes)
        words = ""
        if logged.open:
            first, *more = [escape(one.changes.id) for one in messages if one.outcome is None]
            where = f"between {first} and {more[-1]}" if more else f"at {first}"
            words = f"cut short {where}: undo reverses it, the next operation finishes it"
        return Account(words, "deleted permanently" if deletes else None)

    def _backwards(
        self, logged: LoggedMessages, undos: Sequence[LoggedMessages], request: Request, state: LayoutState
    ) -> Candidates:
        """Pins the messages of an operation that can go back to where they were, as far as no other has reversed them."""
        dirs, reader = state
        messages = (message for box in Box for message in zip(reader.files(box), reader.rows(box), strict=True))
        seen = {file.location: row for file, row in messages}
        reversing = [one for undo in undos if changed(undo) for one in messages_of(undo)]
        reversed_by = {one.changes.reverses for one in reversing if one.outcome is not None and one.outcome.changed}
        cut_off = {one.changes.reverses: one.changes for one in reversing if one.outcome is None}
        items: list[Item] = []
        refused: list[Refusal] = []
        for place, intent, at, outcome in messages_of(logged):
            if place in reversed_by or (outcome is not None and not outcome.changed):
                continue
            stage = stage_now(dirs, intent, at, ended=outcome is not None, latest=True)
            number = None if stage is None else stage[0]
            if number == 0:
                continue  # it was cut short before, or is back already
            row = _row(self._layout, intent, number, seen)
            if any(change.verb is Verb.DELETE for change in intent.changes):
                refused.append(Refusal(row, "deleted permanently"))
            elif number is not None:
                done = intent.changes[:number]
                message = location_after(intent.message, done)
                items.append(RowItem(row, pin_changes(dirs, intent.id, message, inverse(done), reverses=place)))
            elif place in cut_off:
                items.append(RowItem(row, MessagePlan(dirs.identity, cut_off[place])))  # it is finished first
            else:
                refused.append(Refusal(row, "too late: its program, or somebody else, has changed it since"))
        notes = (f"{len(reversed_by)} of {logged.first.count} undone already.",) if reversed_by else ()
        return Candidates(items, refused, notes)

    def _opened(self) -> QueueDirs:
        return QueueDirs(self._path, self._layout.side_dir, self._files)


def _batch_outcome(outcomes: Sequence[ItemOutcome]) -> LayoutOutcome:
    return LayoutOutcome(len(outcomes), {place: one for place, one in enumerate(outcomes) if not one.changed or one.reason})
