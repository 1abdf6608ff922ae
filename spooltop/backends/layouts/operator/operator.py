"""Changes the queue of another program by the steps of its layout. Everything is journalled before and can be undone after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from spooltop.engine.atomic import publish_new
from spooltop.errors import AuditFailed
from spooltop.model.backend import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import BATCH, Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Progress
from spooltop.model.vocabulary import Action, Box, Json, Verdict

from ...journal.item_operator import EndedStep, ItemOperator, Skipped, changed, outcome_of
from ...journal.log_store import FULL, STATE_DIR, LogFiles, PathLogs
from ...journal.record_log import ItemOutcome, LoggedOperation
from ...surroundings import Surroundings
from ..definition import Layout
from ..queue_dirs import ASIDE, QueueDirs, aside, is_aside, keep_name, shown_location
from ..reader import LayoutReader, can_change
from ..sort_files import META, QueueFile, encode_meta
from ..verdicts import judge
from .changes import Verb
from .performer import (
    MESSAGES,
    HalfDone,
    LayoutIntent,
    LayoutOutcome,
    MessageChanges,
    Patience,
    Performer,
    own_turn,
    program_locked,
)
from .planning import Chooser, MessagePlan, location_of, match_of, placed
from .undo import entries, finished, remove_drafts, undo_candidates

# The journal of another program's queue.


class QueueLogs(PathLogs):
    """The logs in spooltop's own directory of the queue at ``path``, which is opened for each call: a ``LogStore``."""

    def __init__(self, path: str, side_dir: str, files: LogFiles, *, state_dir: str) -> None:
        super().__init__(path, partial(QueueDirs, path, side_dir, files), files, state_dir=state_dir)


PATIENCE = 10.0
"""Seconds that a change waits for a lock; after that nothing is changed."""
_STEP_ENDS = 1.0
"""Seconds after which a step ends, so that who waits for the lock of a program sees how far it came, and others get a turn."""
_FRESH = 1.0
"""Seconds for which the proof that holders are dead is not asked again."""


class LayoutOperator(ItemOperator[LayoutIntent, LayoutOutcome]):
    """Implements ``model.protocols.Operator`` for the queue at ``path``. ``around`` answers questions about processes. ``wait``
    sleeps some seconds; ``patience`` is how many seconds a change waits for a lock."""

    at_once = BATCH

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
        logs = QueueLogs(path, layout.side_dir, self._files, state_dir=state_dir)
        super().__init__(path, logs, MESSAGES, clock=clock, read_only=read_only, user=user, wait=wait)
        self._layout = layout
        self._around = around
        self._monotonic = monotonic
        self._patience = patience
        self._dirs: QueueDirs | None = None
        self._looked_after: set[str] = set()
        self._finished: dict[str, str] = {}
        """Messages that were finished before the plan began, and why, by location."""
        self._proofs: tuple[float, Mapping[str, str]] = (float("-inf"), {})

    def capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        with self._translate_errors(), self._opened() as dirs:
            return can_change(self._layout, dirs)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        with self._translate_errors(), self._opened() as dirs:
            reader = LayoutReader(self._path, self._layout, self._around, clock=self._clock)
            try:
                reader.see()
                if action is Action.UNDO:
                    return self._undo(dirs, str(options.get("undoes", "")), reader)
                chooser = Chooser(self._layout, dirs, reader, at=now)
                found = chooser.choose(action, selection, force=force, now=bool(options.get("now")), progress=progress)
                return replace(found, notes=(*found.notes, *self._cut_off())) if found.items else found
            finally:
                reader.close()

    def _cut_off(self) -> list[str]:
        """Sentences about operations that a crash cut off."""
        cut_off = [logged.operation for logged in self._log.unfinished() if logged.trusted]
        return [f"Operation {one} was cut off; what it left half done is finished first." for one in cut_off]

    @contextmanager
    def _turn(self, plan: Plan, stop: Callable[[], bool]) -> Iterator[None]:
        with self._translate_errors(), self._opened() as dirs, own_turn(dirs, self._patient(stop)):
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
                    with program_locked(dirs, self._layout.lock, self._patient(stop)):
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
        def changes(number: int, ref: MessagePlan) -> MessageChanges:
            return MessageChanges(
                ref.id, ref.message, placed(ref.changes, plan.operation, number), dict(ref.pins), ref.reverses
            )

        messages = tuple(changes(number, _ref_of(item)) for number, item in enumerate(items, place))
        return LayoutIntent(plan.operation, place, plan.action, self._clock(), self._user, plan.undoes, messages)

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
        ref = _ref_of(item)
        performer = Performer(dirs, changes.pins, changes.message)

        def change() -> None:
            if dirs.identity != ref.queue:
                raise Skipped("the directory was replaced since the list was made")
            with program_locked(dirs, self._layout.lock, self._patient(stop)):
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
        at, known = self._proofs
        if self._monotonic() - at > _FRESH:
            at, known = self._monotonic(), {}
        path = item.row.name
        if path not in known:
            found = match_of(self._layout, item.row)
            file = QueueFile(path, None if found is None else found[0])
            one = judge(self._layout, dirs.root, [file], self._around, self._clock())[path]
            words = "" if one.verdict in (Verdict.DEAD, Verdict.ABANDONED) else one.evidence or "no longer provable"
            known = {**known, path: words}
        self._proofs = at, known
        if known[path]:
            raise Skipped(f"{known[path]}")

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

    def _records(
        self,
        operations: Mapping[str, LoggedOperation[LayoutIntent, LayoutOutcome]],
        undone_by: Mapping[str, str],
        progress: Progress,
    ) -> list[OperationRecord]:
        return entries(operations, undone_by)

    def _undo(self, dirs: QueueDirs, undoes: str, reader: LayoutReader) -> Candidates:
        logged, undos, problems = self._logged(undoes)
        if logged is None:
            return Candidates((), (), problems)
        if not logged.trusted:
            why = "its journal may have been written by another user, so nothing is reversed by it"
            return Candidates((), (), (why, *problems))
        seen = {location_of(row): row for box in Box for row in reader.rows(box)}
        items, refused, notes = undo_candidates(dirs, self._layout, logged, [one for one in undos if changed(one)], seen)
        return Candidates(items, refused, (*notes, *problems))

    def _patient(self, stop: Callable[[], bool]) -> Patience:
        return Patience(self._patience, self._wait, stop)

    def _opened(self) -> QueueDirs:
        return QueueDirs(self._path, self._layout.side_dir, self._files)


def _ref_of(item: Item) -> MessagePlan:
    if not isinstance(item.ref, MessagePlan):
        raise TypeError(f"not a message that was pinned: {item.ref!r}")
    return item.ref


def _batch_outcome(outcomes: Sequence[ItemOutcome]) -> LayoutOutcome:
    return LayoutOutcome(len(outcomes), {place: one for place, one in enumerate(outcomes) if not one.changed or one.reason})
