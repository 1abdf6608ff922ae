"""Changes the queue of another program by the steps of its layout. Everything is journalled before and can be undone after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from msgspec.structs import replace

from spooltop.engine.atomic import discard, open_shared, publish_new
from spooltop.engine.system.files import closing
from spooltop.errors import AuditFailed, Refused
from spooltop.model.backend import Capabilities
from spooltop.model.plan import BATCH, Candidates, Item, ItemResult, Outcome, Plan, Refusal, Request
from spooltop.model.vocabulary import Box, Row, Verdict, escape

from ...journal.item_operator import (
    Account,
    EndedStep,
    ItemOperator,
    Skipped,
    changed,
    outcome_of,
    ref_of,
)
from ...journal.log_store import FULL, STATE_DIR, LogFiles, LogStore
from ...journal.record_log import ItemOutcome, LoggedOperation
from ...surroundings import Surroundings
from ..definition import Layout
from ..queue_dirs import ASIDE, QueueDirs, aside, in_queue, is_aside, keep_name, shown_location
from ..reader import LayoutReader, can_change, location_of
from ..sort_files import META, QueueFile, encode_meta
from ..verdicts import judge
from .performer import (
    DRAFT,
    MESSAGES,
    FileChange,
    HalfDone,
    LayoutIntent,
    LayoutOutcome,
    MessageChanges,
    Performer,
    Verb,
    inverse,
    pins_of,
    stage_of,
)
from .planning import Chooser, MessagePlan, match_of, pinned_changes, placed

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
    for step, (batch, outcome) in sorted(logged.steps.items()):
        for number, changes in enumerate(batch.items if outcome is None else batch.items[: outcome.tried]):
            yield LoggedMessage(step + number, changes, batch.at, None if outcome is None else outcome.at(number))


def stage_now(dirs: QueueDirs, intent: MessageChanges, at: float, *, ended: bool, latest: bool) -> tuple[int, bool] | None:
    """The number of changes of ``intent``, of the time ``at``, that are in effect, all or none where it ``ended``, as
    ``stage_of`` says. None where something else has happened since. Raises ``OSError``."""
    stage = stage_of(dirs, intent.changes, intent.pins, latest=latest)
    if stage is None or (stage[0] in (0, len(intent.changes)) and not stage[1]):
        return stage
    if ended:
        return None
    # Cut off in the middle: a lock that was made then looks like one that its program made later, but for its time.
    newest = 0
    for change in intent.changes:
        for location in (change.path, change.to):
            found = dirs.status(location) if location else None
            newest = max(newest, 0 if found is None else found.st_ctime_ns)
    return stage if newest / 1e9 < at + DURING else None


def _location_after(location: str, changes: Sequence[FileChange]) -> str:
    for change in changes:
        if change.verb is Verb.MOVE and change.path == location:
            location = change.to
    return location


def _row(layout: Layout, intent: MessageChanges, number: int | None, seen: Mapping[str, Row]) -> Row:
    """The row of a message where it lies after ``number`` changes, as it was ``seen`` if it was."""
    location = _location_after(intent.message, intent.changes[: number or 0])
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
    message = _location_after(intent.message, intent.changes[:number])
    pins = pins_of(dirs, [one for change in intent.changes for one in (change.path, change.to) if one])
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
        why = error.strerror if isinstance(error, OSError) else str(error)
        return ItemOutcome(Outcome.SKIPPED, f"cut short and reversed: {why}")
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
    """Implements ``model.backend.Operator`` for the queue at ``path``. ``around`` answers questions about processes. ``wait``
    sleeps some seconds; ``patience`` is how many seconds a change waits for a lock."""

    at_once = BATCH
    untrusted = "reversed by it"

    def __init__(
        self,
        path: str,
        layout: Layout,
        around: Surroundings,
        files: LogFiles | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
        state_dir: str = STATE_DIR,
        read_only: str | None = None,
        user: str | None = None,
    ) -> None:
        self._files = files or LogFiles()
        logs = LogStore(path, self._files, state_dir=state_dir, opening=self._opened)
        super().__init__(path, logs, MESSAGES, clock=clock, read_only=read_only, user=user, wait=wait)
        self._layout = layout
        self._around = around
        self._monotonic = monotonic
        self._patience = patience
        self._dirs: QueueDirs | None = None
        self._looked_after: set[str] = set()
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
        return replace(found, notes=(*found.notes, *self._cut_off())) if found.items else found

    def _cut_off(self) -> list[str]:
        """Sentences about operations that a crash cut off."""
        cut_off = [logged.operation for logged in self._log.unfinished() if logged.trusted]
        return [f"Operation {one} was cut off; what it left half done is finished first." for one in cut_off]

    @contextmanager
    def _locked(self, dirs: QueueDirs, fd: int, stop: Callable[[], bool], otherwise: Exception) -> Iterator[None]:
        """Holds the lock of the file ``fd``, and closes it. Raises ``otherwise`` where that takes long or ``stop`` says so."""
        with closing(dirs.files, fd):
            left = self._patience
            while not dirs.files.lock(fd):
                if left <= 0 or stop():
                    raise otherwise
                self._wait(_TICK)
                left -= _TICK
            yield

    def _own_turn(self, dirs: QueueDirs, stop: Callable[[], bool]) -> AbstractContextManager[None]:
        """Keeps other operators out, so that a message whose record has no result was cut off, and is not being changed. Raises
        ``Refused``, ``OSError``."""
        own = dirs.private_dir(create=True)
        assert own is not None  # create=True makes it or raises
        why = f"another spooltop has been changing this queue for {self._patience:.0f} s"
        refused = Refused(why, path=dirs.path, advice=f"try again; {dirs.own_name}/{OPERATE_LOCK} is its lock")
        return self._locked(dirs, open_shared(dirs.files, OPERATE_LOCK, own, dirs.files.fstat(own)), stop, refused)

    def _program_locked(self, dirs: QueueDirs, stop: Callable[[], bool]) -> AbstractContextManager[None]:
        """Holds the lock of the queue's program, which takes it around each change of its own, where it has one. Raises
        ``Skipped`` where it cannot be had, ``OSError``."""
        path = self._layout.lock
        if not path:
            return nullcontext()
        with dirs.parent(path) as (at, name):
            fd = dirs.files.reopen(name, at)
        skipped = Skipped(f"{escape(path)} has been locked by its program for {self._patience:.0f} s")
        return self._locked(dirs, fd, stop, skipped)

    @contextmanager
    def _turn(self, plan: Plan, stop: Callable[[], bool]) -> Iterator[None]:
        with self._translate_errors(), self._opened() as dirs, self._own_turn(dirs, stop):
            self._dirs = dirs
            try:
                self._keep_name(dirs, plan)
                self._finish_others(dirs, plan, stop)
                yield
            finally:
                self._dirs = None

    def _keep_name(self, dirs: QueueDirs, plan: Plan) -> None:
        """Keeps the name of the layout before the first record: the operation may take the last file that it is known by."""
        try:
            keep_name(dirs, self._layout.name)
        except OSError as error:
            if not (plan.works_when_full and error.errno in FULL):
                raise

    def _finish_others(self, dirs: QueueDirs, plan: Plan, stop: Callable[[], bool]) -> None:
        """Completes once for each plan what a crash cut off, but for the operation that the plan undoes."""
        if plan.operation in self._looked_after:
            return
        self._looked_after.add(plan.operation)
        self._finished = {}
        try:
            remove_drafts(dirs)
            for logged in self._log.unfinished():
                if logged.operation in (plan.undoes, plan.operation) or not logged.trusted:
                    continue
                for batch, _ in logged.steps.values():
                    with self._program_locked(dirs, stop):
                        outcomes = [finished(dirs, one, batch.at) for one in batch.items]
                    dirs.sync_touched()
                    for one, outcome in zip(batch.items, outcomes, strict=True):
                        if outcome is not None and outcome.outcome is Outcome.DONE:
                            self._finished[one.message] = f"finished now: operation {batch.operation} was cut off at it"
                    if None not in outcomes:
                        self._log_result(batch, _batch_outcome([one for one in outcomes if one is not None]))
        except Skipped:
            return  # its program holds its lock: the next operation finishes it
        except (AuditFailed, OSError) as error:
            full = error.full if isinstance(error, AuditFailed) else error.errno in FULL
            if not (plan.works_when_full and full):
                raise

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> LayoutIntent:
        changes = (placed(ref_of(item, MessagePlan).changes, plan.operation, number) for number, item in enumerate(items, place))
        return LayoutIntent(items=tuple(changes))

    def _apply(self, items: Sequence[Item], intent: LayoutIntent, stop: Callable[[], bool]) -> EndedStep[LayoutOutcome]:
        dirs = self._dirs
        assert dirs is not None  # only in a turn
        results: list[ItemResult] = []
        half_done = False
        until = self._monotonic() + _STEP_ENDS
        for item, changes in zip(items, intent.items, strict=True):
            # Of a step that stays open nobody knows how far it came: its messages must not be in the next one as well.
            if results and (stop() or (self._monotonic() > until and not half_done)):
                break
            try:
                results.append(self._change(dirs, item, intent, changes, stop))
            except HalfDone as error:
                half_done = True
                results.append(ItemResult(changes.id, item.row.name, Outcome.FAILED, str(error)))
        outcome, why = outcome_of(dirs.sync_touched)
        if outcome is not Outcome.DONE:
            why = f"it may not survive a power loss: {why}"
            results = [
                one._replace(outcome=Outcome.FAILED, reason=why) if one.outcome is Outcome.DONE else one for one in results
            ]
            left = zip(items[len(results) :], intent.items[len(results) :], strict=True)
            results += [ItemResult(changes.id, item.row.name, Outcome.SKIPPED, "not reached") for item, changes in left]
        if half_done or outcome is not Outcome.DONE:  # the next operation finds out by looking
            return EndedStep(results, None)
        return EndedStep(results, _batch_outcome([ItemOutcome(one.outcome, one.reason) for one in results]))

    def _change(
        self, dirs: QueueDirs, item: Item, batch: LayoutIntent, changes: MessageChanges, stop: Callable[[], bool]
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
                if ref.proved and not self._layout.lock:  # else the lock is the proof
                    self._prove_again(dirs, item)
                self._note(dirs, batch, changes)
                performer.run(changes.changes)

        outcome, reason = outcome_of(change)
        shown = shown_location(performer.message, self._layout.side_dir, self._path)
        became = shown if outcome is Outcome.DONE else ""
        return ItemResult(changes.id, item.row.name, outcome, reason or performer.remark, became)

    def _prove_again(self, dirs: QueueDirs, item: Item) -> None:
        """Asks again if the holder is dead. Raises ``Skipped``."""
        path = item.row.name
        found = match_of(self._layout, item.row)
        file = QueueFile(path, None if found is None else found[0])
        one = judge(self._layout, dirs.root, [file], self._around, self._clock())[path]
        if one.verdict not in (Verdict.DEAD, Verdict.ABANDONED):
            raise Skipped(one.evidence or "no longer provable")

    def _note(self, dirs: QueueDirs, batch: LayoutIntent, changes: MessageChanges) -> None:
        """Notes beside what the operation sets aside who did it, when and how."""
        for change in changes.changes:
            if change.verb is Verb.MOVE and is_aside(change.to):
                box, operation, *_ = change.to.removeprefix(ASIDE).split("/")
                location, content = aside(box, operation, META), encode_meta(batch.action.value, self._user, batch.at)
                if dirs.status(location) is None:
                    with dirs.parent(location, create=True) as (at, name):
                        publish_new(self._files, at, name, content, self._files.fstat(at))
                return

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
        seen = {location_of(row): row for box in Box for row in reader.rows(box)}
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
                at_end = _location_after(intent.message, done)
                back = pinned_changes(dirs, intent.id, at_end, inverse(done), reverses=place)
                items.append(Item(row, MessagePlan(dirs.identity, back)))
            elif place in cut_off:
                items.append(Item(row, MessagePlan(dirs.identity, cut_off[place])))  # it is finished first
            else:
                refused.append(Refusal(row, "too late: its program, or somebody else, has changed it since"))
        notes = (f"{len(reversed_by)} of {logged.first.count} undone already.",) if reversed_by else ()
        return Candidates(items, refused, notes)

    def _opened(self) -> QueueDirs:
        return QueueDirs(self._path, self._layout.side_dir, self._files)


def _batch_outcome(outcomes: Sequence[ItemOutcome]) -> LayoutOutcome:
    return LayoutOutcome(len(outcomes), {place: one for place, one in enumerate(outcomes) if not one.changed or one.reason})
