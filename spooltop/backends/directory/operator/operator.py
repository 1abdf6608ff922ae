"""Changes a directory spool: pins a selection, moves what a plan lists, keeps the journal and the audit log."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import Protocol, TypeVar

from msgspec.structs import replace

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode
from spooltop.engine.system.syscalls import advice
from spooltop.errors import AuditFailed, Refused, SpooltopError, Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import BATCH, Candidates, ItemResult, OperationRecord, Plan, Progress, boxes_of
from spooltop.model.operations.results import AuditLog
from spooltop.model.protocols import Operator
from spooltop.model.text import escape, program
from spooltop.model.vocabulary import LIVE, Action, Box, Json, Verdict

from ...access import user_name
from ...journal.log_store import AUDIT, FULL, STATE_DIR, SpoolLogs, audit_logs
from ...journal.record_log import LoggedOperation, RecordLog, RecordType, decode, step_of
from ..detect import identify
from ..journal import MOVES, SUMMARIES, BatchJournal, MoveColumns, MoveIntent, MoveLog, MoveOperation
from ..storage.location import folders_dir
from ..world import OpenOptions, System
from .batches import batches_of
from .inject import InjectedContent, put_batch, put_batches
from .moving import JudgeAgain, Mover, Recheck, Repaired, finish_half_moves, half_moved
from .planning import BoxNames, Look, find_candidates
from .rules import can_change
from .undo import records, undo_candidates

# Chains the operator of a spool's messages with those of its cursors, its locks and its pause. Each side operator has its own
# actions and undoes its own operations; everything else goes to the main one. A side operator is made when it is first needed.


class SideOperator(Operator, Protocol):
    """Operator that keeps nothing open between two calls."""

    def knows(self, operation: str) -> bool:
        """True where this operation was its own."""
        ...


class OperatorChain:
    """Implements ``model.protocols.Operator``: ``side`` makes the operator that has ``actions``; ``main`` has the rest and the
    audit log of both."""

    def __init__(self, main: Operator, side: Callable[[], SideOperator], *actions: Action) -> None:
        self._main = main
        self._side = cache(side)
        self._actions = actions

    def why_not(self, action: Action) -> str | None:
        return (self._side() if action in self._actions else self._main).why_not(action)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        which = self._of(action, options)
        return which.candidates(action, selection, force=force, options=options, now=now, progress=progress)

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        return self._of(plan.action, plan.options).perform(plan, stop)

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        self._main.audit(line, sync=sync)

    def audit_logs(self, operation: str) -> list[AuditLog]:
        return self._main.audit_logs(operation)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        both = [one for which in (self._main, self._side()) for one in which.operations(progress, begins=begins, most=most)]
        return sorted(both, key=lambda record: -record.at)[:most]

    def close(self) -> None:
        self._main.close()

    def _of(self, action: Action, options: Mapping[str, Json]) -> Operator:
        if action in self._actions or (action is Action.UNDO and self._side().knows(str(options.get("undoes", "")))):
            return self._side()
        return self._main


# Finds the parts of the journal by which nothing can be undone any more, so that they can go. A part is kept while a message is
# still where an operation in it has moved it. When all were claimed, moved on or deleted since, it goes. A part that ends or
# undoes what an earlier part began stays as long as any earlier part does. The two newest files stay in any case, and
# ``log_parts.MOST_PARTS`` bounds the others.

def ended_parts(dirs: SpoolDirs, logs: SpoolLogs, parts: Sequence[str]) -> Iterator[str]:
    """Yields those of ``parts`` of the journal, the oldest first, that nothing needs."""
    earlier = False
    for part in parts:
        try:
            with closing(iter(logs.part(part))) as lines:
                needed = _is_needed(dirs, lines, earlier)
        except OSError:
            needed = True  # what cannot be read or looked at may be needed
        if needed:
            earlier = True
        else:
            yield part


def _is_needed(dirs: SpoolDirs, lines: Iterable[bytes], earlier: bool) -> bool:
    """Tells of a part by its lines, the newest first. ``earlier``: an earlier part is kept."""
    ended: set[tuple[str, int]] = set()
    for line in lines:
        try:
            is_result, operation, step = step_of(line, MOVES)
            record = None if is_result else decode(line, MOVES)
        except (ValueError, RecursionError):
            continue  # what is no line cannot be undone
        if not isinstance(record, MoveIntent):
            ended.add((operation, step))
            continue
        ended.discard((operation, step))
        if (earlier and record.undoes is not None) or any(_is_there(dirs, run) for run in record.runs):
            return True
    return earlier and bool(ended)


def _is_there(dirs: SpoolDirs, run: MoveColumns) -> bool:
    """True where a message is still at its target. Raises ``OSError`` where that cannot be seen."""
    if run.target is None:
        return False
    box, folder = run.target
    if not folder:
        return _any_of(run.to_names, dirs, dirs.box(box))
    above = dirs.private_dir(folders_dir(box))
    if above is None:
        return False
    try:
        fd = dirs.files.open_dir(folder, above)  # apart from those that the operation in progress has open in ``dirs``
    except FileNotFoundError:
        return False
    try:
        return _any_of(run.to_names, dirs, fd)
    finally:
        dirs.files.close(fd)


def _any_of(names: Iterable[str], dirs: SpoolDirs, fd: int) -> bool:
    return any(is_inode(dirs.files, name, fd, None, unseen=True) for name in names)


ResultT = TypeVar("ResultT")

_TICK = 0.2
"""Seconds between two calls of ``stop`` while waiting for the rate."""
_SMALL = BATCH
"""Messages up to which each that is set aside has metadata of its own beside it."""
_CLOCK_STEPS = 60.0
"""Seconds after a claim by the wall clock, which may have been set, from which on a process started too late to have made it."""
_SETTLES = 1.1
"""Seconds for which a file in ``tmp`` has to be seen unchanged before it is called abandoned."""


class DirectoryOperator:
    """Implements ``model.protocols.Operator``. Opens the boxes anew for each call, so that it acts on what the path leads to
    now.

    ``look`` lists and judges the messages of a box, ``again`` judges single names once more. A mail folder
    is read-only unless the options say ``as_spool``. ``wait`` sleeps some seconds.
    """

    def __init__(
        self,
        path: str,
        options: OpenOptions | None = None,
        world: System | None = None,
        *,
        look: Look,
        again: JudgeAgain,
        wait: Callable[[float], None] = time.sleep,
        state_dir: str = STATE_DIR,
        user: str | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        options, world = options or OpenOptions(), world or System()
        self._path = path
        self._look = look
        self._again = again
        self._read_only = options.read_only or identify(path, options.as_spool).read_only
        self._hosts = options.hosts
        self._files = world.files
        self._clock = world.clock
        self._processes = world.processes
        self._wait = wait
        self._state_dir = state_dir
        self._user = user if user is not None else user_name(os.geteuid())
        self._on_close = on_close
        self._redactor = options.redactor
        self._performed: set[str] = set()
        self._repaired = False
        self._watched_tmp = False

    def capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        with self._translate_errors(), self._open() as dirs:
            return can_change(dirs)

    def why_not(self, action: Action) -> str | None:
        return self.capabilities().why_not(action)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        self._allowed(action)
        with self._translate_errors(), self._open() as dirs:
            if action is Action.INJECT:
                return Candidates((), notes=InjectedContent(options).notes(int(now * 1e6), self._redactor))
            if action is Action.UNDO:
                undoes = str(options.get("undoes", ""))
                operations, problems = self._read(dirs, MOVES, progress, begins=undoes)
                found = undo_candidates(dirs, operations, undoes, progress, hosts=self._hosts)
                return replace(found, notes=(*found.notes, *problems))
            halves = half_moved(self._interrupted(dirs))
            return find_candidates(
                dirs, self._settled, action, selection, force=force, now=now, options=options, half_moved=halves,
                process_here=partial(self._process_here, cache(self._holder)), progress=progress,
            )  # fmt: skip

    def _process_here(
        self, holder: Callable[[int], tuple[str, float]], pid: int, host: str | None, claimed_at: float
    ) -> str:
        """Names the process that may have made a claim on ``host`` (None: not known) at ``claimed_at``; "" where none of this
        machine can have."""
        if host not in (None, self._processes.machine().host):
            return ""
        words, since = holder(pid)
        return words if since <= claimed_at + _CLOCK_STEPS else ""

    def _holder(self, pid: int) -> tuple[str, float]:
        """Returns the words for the process with this pid, "" if there is none, and its start in epoch seconds, 0.0 if not
        known."""
        if not self._processes.exists(pid):
            return "", 0.0
        process = self._processes.process(pid, described=True)
        if process is None or process.zombie:
            return f"pid {pid}" if process is None else "", 0.0
        words = f"pid {pid} ({escape(program(process.command))})" if process.command else f"pid {pid}"
        return words, process.since or 0.0

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        """Performs a plan. Raises ``Refused`` for what is not allowed or was performed already, ``AuditFailed`` where the
        journal cannot be written: that batch has not begun then. All else that goes wrong is in the results."""
        self._allowed(plan.action)
        if plan.operation in self._performed:
            raise Refused(f"operation {plan.operation} was performed already", path=self._path, advice="make a new plan")
        self._performed.add(plan.operation)
        with self._translate_errors(), self._open() as dirs, self._logs(dirs) as logs:
            log = RecordLog(logs, MOVES, partial(ended_parts, dirs, logs))
            yield from self._perform(dirs, log, plan, stop)

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        with self._translate_errors(AuditFailed), self._open() as dirs, self._logs(dirs) as logs:
            logs.append(AUDIT, line, sync=sync)

    def audit_logs(self, operation: str) -> list[AuditLog]:
        with self._translate_errors(), self._open() as dirs, self._logs(dirs) as logs:
            return audit_logs(logs, operation)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        def in_full(operation: str) -> Mapping[str, MoveOperation]:
            return self._read(dirs, MOVES, progress, begins=operation)[0]

        with self._translate_errors(), self._open() as dirs:
            summaries, _ = self._read(dirs, SUMMARIES, progress, begins=begins, most=most)
            found = records(dirs, summaries, in_full, progress)
        return [record for record in found if record.operation.startswith(begins)][:most]

    def close(self) -> None:
        self._on_close()

    # What one operation is made of

    def _perform(
        self, dirs: SpoolDirs, log: MoveLog, plan: Plan, stop: Callable[[], bool]
    ) -> Iterator[Sequence[ItemResult]]:
        parts = self._parts(plan, stop)
        if plan.action is not Action.INJECT:
            mover = self._mover(dirs, plan)
            many = len(plan.items) > _SMALL
            moves = batches_of(mover.folders, plan, parts, user=self._user, clock=self._clock, many=many)
            return BatchJournal(plan, log, self._clock, self._user).perform(moves, partial(mover.run, stop=stop))
        content = InjectedContent(plan.options)
        puts = put_batches(content, parts, self._clock)
        run = partial(put_batch, dirs, content, stop=stop)
        return BatchJournal(plan, log, self._clock, self._user).perform(puts, run)

    def _parts(self, plan: Plan, stop: Callable[[], bool]) -> Iterator[slice]:
        """Yields the parts of the plan that are done in one batch, each when its turn comes: at most a batch, and with a rate
        limit about a second of it. Ends where it is stopped."""
        size = BATCH if plan.rate is None else max(1, min(BATCH, int(plan.rate)))
        for start in range(0, plan.count, size):
            if start and plan.rate is not None and not self._pause(size / plan.rate, stop):
                return
            if stop():
                return
            yield slice(start, min(start + size, plan.count))

    def _mover(self, dirs: SpoolDirs, plan: Plan) -> Mover:
        """The mover of a plan, once what a crash left half done is finished."""
        recheck = Recheck(dirs, self._again, hosts=self._hosts)
        interrupted = self._interrupted(dirs)
        repaired = Repaired()
        if interrupted or not self._repaired:
            try:
                repaired = finish_half_moves(dirs, self._files, recheck, interrupted)
                self._repaired = True
            except OSError as error:
                if not (plan.deletes and error.errno in FULL):
                    raise  # but for what frees space, which the next change can repair after
        # Out of one box: what has metadata of its own and loses them to a power cut must not pass for what came from another.
        boxes = boxes_of(plan.items)
        large = len(boxes) == 1 and not boxes.isdisjoint(LIVE) and len(plan.items) > _SMALL
        return Mover(dirs, recheck, repaired, large=large)

    def _settled(self, box: Box, progress: Progress) -> BoxNames:
        """Looks at a box; at ``tmp`` a second time where the first look was too short to judge its files."""
        found = self._look(box, progress)
        if box is not Box.TMP or self._watched_tmp:
            return found
        if any(Verdict.UNKNOWN.value in found.judge(names, ()).verdict for names in found):
            self._wait(_SETTLES)
            self._watched_tmp = True
            return self._look(box, progress)
        return found

    def _pause(self, seconds: float, stop: Callable[[], bool]) -> bool:
        """Waits. False where it was stopped meanwhile."""
        while seconds > 0:
            if stop():
                return False
            self._wait(min(_TICK, seconds))
            seconds -= _TICK
        return True

    def _interrupted(self, dirs: SpoolDirs) -> list[MoveOperation]:
        """The operations with a batch that has no result, holding that batch alone."""
        with self._logs(dirs) as logs:
            return RecordLog(logs, MOVES).unfinished()

    def _read(
        self, dirs: SpoolDirs, kind: RecordType[MoveIntent, ResultT], progress: Progress, *, begins: str, most: int | None = None
    ) -> tuple[Mapping[str, LoggedOperation[MoveIntent, ResultT]], list[str]]:
        with self._logs(dirs) as logs:
            return RecordLog(logs, kind).read(progress, required=True, begins=begins, most=most)

    def _allowed(self, action: Action) -> None:
        reason = self.why_not(action)
        if reason is not None:
            raise Refused(f"{action}: {reason}", path=self._path)

    def _open(self) -> SpoolDirs:
        return SpoolDirs(self._path, self._files)

    def _logs(self, dirs: SpoolDirs) -> closing[SpoolLogs]:
        return closing(SpoolLogs(dirs, self._files, state_dir=self._state_dir))

    @contextmanager
    def _translate_errors(self, kind: type[SpooltopError] = Unreadable) -> Iterator[None]:
        """Turns what the system refuses outside of any single message into one error."""
        try:
            yield
        except OSError as error:
            what = f"the spool cannot be accessed: {error.strerror or error}"
            raise kind(what, path=self._path, advice=advice(error)) from error
