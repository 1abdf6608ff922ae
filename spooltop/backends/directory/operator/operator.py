"""Changes a directory spool: pins a selection, moves what a plan lists, and keeps the journal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, cached_property, partial
from itertools import accumulate, chain, groupby, islice
from typing import Any

from msgspec import Struct, field

from spooltop.engine import names
from spooltop.engine.atomic import write_new
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.syscalls import advice
from spooltop.model import Capabilities, Clock, Operator, PutUnknown, Redactor, Unreadable, UsageError
from spooltop.model.plan import (
    BATCH,
    AuditTrail,
    Batches,
    Candidates,
    Item,
    ItemResult,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Refusal,
    Request,
    RowItem,
)
from spooltop.model.vocabulary import Action, Box, JsonObject, Row, Stop, Verdict, escape, program

from ...journal import Account, EndedStep, ItemOperator, undos_of
from ...log_store import FULL, STATE_DIR, LogStore
from ...plan_options import InjectedContent
from ..journal import MOVES, BatchOutcome, LoggedMove, MoveIntent, MoveOperation, MoveOutcome, MoveRun, unsure_moves
from ..processes import Process
from ..storage import Folders, OpenOptions, Place, System, can_change, kind_of, plain_meta, tokens_of_claims
from .moving import JudgeAgain, Mover, Recheck, Repaired, finish_half_moves, forgotten_words, half_moved
from .planning import BoxNames, Group, Look, Message, Way, find_candidates, message_of


def _is_whole(logged: MoveOperation) -> bool:
    """False where a part of the journal with some of the batches has gone."""
    steps = logged.steps.values()
    ends = accumulate(len(batch) if outcome is None else outcome.tried for batch, outcome in steps)
    return all(batch.step == end for (batch, _), end in zip(steps, chain((0,), ends), strict=False))


class _Backwards:
    """Pins moves backwards."""

    def __init__(self, dirs: SpoolDirs, folders: Folders, recheck: Recheck) -> None:
        self.items: list[Message] = []
        self.refused: list[Refusal] = []
        self._dirs = dirs
        self._folders = folders
        self._holder = cache(recheck.holder)

    def add(self, made: Sequence[LoggedMove]) -> None:
        """Adds moves of one run, at least one, which are not deletions."""
        run = made[0].run
        target, back = run.target_folder, run.source_folder
        assert target is not None
        box, folder = target
        names = [one.target.name for one in made if one.target is not None]
        tokens = tokens_of_claims(names) if box is Box.CUR else [""] * len(names)
        restored = back is not None and back[0] is Box.CUR
        owners = tokens_of_claims([one.source.name if one.source else "" for one in made]) if restored else tokens
        groups: dict[tuple[str, str], Group] = {}
        meta = None if run.meta is None else plain_meta(run.meta)
        way = Way(Box.TRASH) if back is None else Way(*back, meta=meta)  # for all that keep their names: may be a million
        evidence = "to the trash" if back is None else f"back to {back[0]}"
        for one, name, token, owner in zip(made, names, tokens, owners, strict=True):
            verdict, _, cleared = self._holder(owner) if restored else (None, "", False)
            held = self._holder(token)[0] is Verdict.ALIVE  # by a running consumer, from which an undo takes nothing
            found, why = self._look(one, cleared=cleared, held=held)
            if found is None or why:
                group = Group(box, folder, verdict=verdict, evidence=evidence, goes_back=found is not None)
                message = Message(name, 0, group) if found is None else message_of(name, 0, group, found)
                self.refused.append(Refusal(message.row, why))
                continue
            known = groups.get((token, owner))
            if known is None:
                here = self._folders.of(box, folder).id
                known = groups[token, owner] = Group(
                    box, folder, here, token=token or None, verdict=verdict, evidence=evidence, goes_back=True
                )
            message, to = message_of(name, 0, known, found), one.source  # None: it was put
            message.way = way if to is None or to.name == name else way.replace(suffix=to.name)
            self.items.append(message)

    @cached_property
    def _claims(self) -> dict[str, str]:
        """The ids of the claims in ``cur``, each with the pid in its name, in words."""
        cur, files = self._dirs.cur, self._dirs.files
        claims = (names.parse(raw, claimed=True) for raw in (() if cur is None else files.scan(cur)))
        return {name.id: "" if name.pid is None else f", pid {name.pid}" for name in claims}

    def _look(self, made: LoggedMove, *, cleared: bool, held: bool) -> tuple[os.stat_result | None, str]:
        """The status of the message of a move, None where it cannot be seen, and why it does not go back; "" where it does.
        ``cleared``: the consumer whose claim it was has no presence file any more; ``held``: a running one has claimed it."""
        place, back, folders = made.target, made.source, self._folders
        assert place is not None  # what was deleted does not come back
        try:
            found = folders.status(place)
        except OSError as error:
            return None, f"cannot be accessed: {error.strerror}"
        if found is None and place.box is not Box.NEW:
            return None, f"no longer in {place.box}"
        if found is None:
            pid = self._claims.get(names.parse(place.name, claimed=False).id)
            late, who = ("too late: ", "") if pid is None else ("", pid)
            return None, f"{late}already claimed by a consumer{who}"
        half_moved = found.st_nlink == 2 and _has_inode(folders, back or Place(Box.TMP, place.name), found.st_ino)
        went_on = made.between[1] != 0 and not made.between[0] <= found.st_ctime_ns <= made.between[1]
        why = ""
        if kind_of(found) or (made.ino and found.st_ino != made.ino):
            why = f"{place.box} has another file of that name now"
        elif place.box in (Box.NEW, Box.CUR) and went_on and not half_moved:
            why = "changed since: claimed and returned, or its permissions were changed"
        elif found.st_nlink != 1 and not half_moved:
            why = "has another hard link"
        elif cleared:
            why = forgotten_words(place.box)
        elif back is not None and _has_inode(folders, back, 0) and not _has_inode(folders, back, found.st_ino):
            why = f"{back.box} has another file of that name now"
        elif held:
            why = "claimed by a running consumer; requeue takes it with force"
        return found, why


def _moves_done(
    folders: Folders, logged: MoveOperation, taken_back: Container[Place | None] = ()
) -> Iterator[LoggedMove]:
    """The moves that happened, also those that deleted. A message that an undo has ``taken_back`` had been moved, though nothing
    at its target shows that any more."""
    for batch, outcome in logged.steps.values():
        if outcome is None:
            yield from (move for move in batch.each() if move.target in taken_back or _happened(folders, move))
            continue
        others, between = {one.place: one for one in outcome.others}, outcome.between or (0, 0)
        for place, move in enumerate(islice(batch.each(), outcome.tried)):
            one = others.get(place)
            if one is None:
                yield move.replace(between=between)
            elif one.moved:
                known = one.ctime if one.outcome is Outcome.DONE else 0
                yield move.replace(ino=one.ino or move.ino, between=(known, known))


def _happened(folders: Folders, move: LoggedMove) -> bool:
    """True where a move without a recorded outcome was done: the file is at its target, or it left its source for ``new``,
    where consumers are quick."""
    if move.source is None:
        return move.target is not None and _has_inode(folders, move.target, move.ino)
    if _has_inode(folders, move.source, move.ino):
        return False  # also where it has both names: a half move is none yet
    return move.target is None or move.target.box is Box.NEW or _has_inode(folders, move.target, move.ino)


def _taken_back(folders: Folders, undos: Iterable[MoveOperation]) -> set[Place | None]:
    """The places from which ``undos`` moved something back."""
    return {one.source for undo in undos for one in _moves_done(folders, undo) if one.target}


def _has_inode(folders: Folders, place: Place, ino: int) -> bool:
    """True where ``place`` holds the inode; 0 is any."""
    try:
        found = folders.status(place)
    except OSError:
        return False  # not to be seen: nothing is known to stand there
    return found is not None and ino in (0, found.st_ino)


# Chains the operator of a spool's messages with those of its cursors, its locks and its pause. Each side operator has its own
# actions and undoes its own operations; everything else goes to the main one. A side operator is made when it is first needed.

Side = tuple[Callable[[], ItemOperator[Any, Any, Any]], Sequence[Action]]
"""Makes an operator, and the actions that it has."""


class OperatorChain:
    """Implements ``model.backend.Operator``: each of ``sides`` has the actions beside it; ``main`` opens the operator that has
    the rest, anew for each call."""

    def __init__(
        self, main: Callable[[], AbstractContextManager[Operator]], *sides: Side, on_close: Callable[[], None] = lambda: None
    ) -> None:
        self._main = main
        self._sides = [(cache(side), actions) for side, actions in sides]
        self.close = on_close

    def why_not(self, action: Action) -> str | None:
        with self._of(action) as operator:
            return operator.why_not(action)

    def candidates(self, request: Request) -> Candidates:
        with self._of(request.action, request.undoes) as operator:
            return operator.candidates(request)

    def perform(self, plan: Plan, stop: Stop = lambda: False) -> Batches:
        with self._of(plan.action, plan.undoes) as operator:
            yield from operator.perform(plan, stop)

    def trail(self, operation: str) -> AuditTrail:
        with self._of(Action.UNDO, operation) as operator:
            return operator.trail(operation)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        with self._main() as main:
            each = (main, *(side() for side, _ in self._sides))
            records = [one for which in each for one in which.operations(progress, begins=begins, most=most)]
        return sorted(records, key=lambda record: -record.at)[:most]

    @contextmanager
    def _of(self, action: Action, undoes: str | None = None) -> Iterator[Operator]:
        for side, actions in self._sides:
            if action in actions or (action is Action.UNDO and undoes and side().knows(undoes)):
                yield side()
                return
        with self._main() as main:
            yield main


_CLOCK_STEPS = 60.0
"""Seconds after a claim by the wall clock, which may have been set, from which on a process started too late to have made it."""
_SETTLES = 1.1
"""Seconds for which a file in ``tmp`` has to be seen unchanged before it is called abandoned."""


class SpoolOpener(Struct, kw_only=True):
    """Opens the operator of the spool at ``path``, anew for each call, so that it acts on what the path leads to now.

    ``look`` lists and judges the messages of a box, ``again`` judges single names once more. The other fields are what is known
    from one call to the next.
    """

    path: str
    options: OpenOptions = OpenOptions()
    world: System = field(default_factory=System)
    look: Look
    again: JudgeAgain
    state_dir: str = STATE_DIR
    user: str | None = None
    repaired: bool = False
    watched_tmp: bool = False

    @contextmanager
    def opened(self) -> Iterator[DirectoryOperator]:
        """Turns what the system refuses outside of any single message into one error."""
        try:
            with SpoolDirs(self.path, self.world.files) as dirs:
                yield DirectoryOperator(self, dirs)
        except OSError as error:
            what = f"the spool cannot be accessed: {error.strerror or error}"
            raise Unreadable(what, advice(error), path=self.path) from error


class DirectoryOperator(ItemOperator[MoveIntent, BatchOutcome, None]):
    """Implements ``model.backend.Operator`` for an open spool, for one call: ``dirs`` are its boxes; ``of`` knows what lasts
    longer."""

    at_once = BATCH
    needs_log = True
    _work: Mover | Injector
    """The changer of the messages of a plan, made with its first step."""

    def __init__(self, of: SpoolOpener, dirs: SpoolDirs) -> None:
        logs = LogStore.beside(dirs, of.world.files, of.state_dir)
        super().__init__(of.path, logs, MOVES, clock=of.world.clock, read_only=of.options.read_only, user=of.user)
        self._of = of
        self._dirs = dirs

    def capabilities(self) -> Capabilities:
        return can_change(self._dirs)

    def _choose(self, request: Request, state: None) -> Candidates:
        if request.action is Action.INJECT:
            injector = Injector(self._dirs, request.options, self._clock)
            return Candidates(notes=injector.notes(int(request.at * 1e6), self._of.options.redactor))
        described = cache(partial(self._of.world.processes.process, described=True))
        return find_candidates(
            self._dirs, self._settled, request, half_moved=half_moved(self._log.unfinished()),
            process_here=partial(self._process_here, described),
        )  # fmt: skip

    def _backwards(
        self, logged: MoveOperation, undos: Sequence[MoveOperation], request: Request, state: None
    ) -> Candidates:
        """The moves of an operation backwards, each pinned as it is now, or why it cannot be undone."""
        progress, folders = request.progress, Folders(self._dirs)
        returned = _taken_back(folders, undos)
        progress.begin("looked at", logged.first.count)
        back = _Backwards(self._dirs, folders, Recheck(self._dirs, self._of.again, self._of.options.hosts))
        count = Counter[str]()
        for _, part in groupby(progress.each(_moves_done(folders, logged, returned)), lambda one: id(one.run)):
            made = list(part)
            moved = [one for one in made if one.target]
            left = [one for one in moved if one.target not in returned]
            count.update(deleted=len(made) - len(moved), moved=len(moved), undone=len(moved) - len(left))
            if left:
                back.add(left)
            progress.found(back.items)
        notes = [f"{count['undone']} of {count['moved']} undone already."] if count["undone"] else []
        if logged.open:
            notes.append("That operation was interrupted; its moves were found by looking at the files.")
        if count["deleted"] and not count["moved"]:
            notes.append("It deleted the messages permanently; they cannot be restored.")
        return Candidates(back.items, back.refused, tuple(notes))

    def _settled(self, box: Box, progress: Progress) -> BoxNames:
        """Looks at a box; at ``tmp`` a second time where the first look was too short to judge its files."""
        of = self._of
        found = of.look(box, progress)
        if box is not Box.TMP or of.watched_tmp:
            return found
        if any(judged.verdict is Verdict.UNKNOWN for names in found for judged in found.judge(names, ())):
            self._wait(_SETTLES)
            of.watched_tmp = True
            return of.look(box, progress)
        return found

    def _process_here(
        self, described: Callable[[int], Process | None], pid: int, host: str | None, claimed_at: float
    ) -> str:
        """Names the process that may have made a claim on ``host`` (None: not known) at ``claimed_at``; "" where none of this
        machine can have."""
        processes = self._of.world.processes
        if host not in (None, processes.machine().host) or not processes.exists(pid):
            return ""
        process = described(pid)
        if process is not None and (process.zombie or (process.since or 0.0) > claimed_at + _CLOCK_STEPS):
            return ""
        return f"pid {pid} ({escape(program(process.command))})" if process and process.command else f"pid {pid}"

    # The steps of an operation

    def _items(self, plan: Plan, place: int, at_most: int) -> Sequence[Item]:
        if not place:
            inject = plan.action is Action.INJECT
            self._work = Injector(self._dirs, plan.options, self._clock) if inject else self._make_mover(plan)
        return self._work.items(place, min(at_most, plan.count - place))

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> MoveIntent:
        return self._work.intent()

    def _apply(self, items: Sequence[Item], intent: MoveIntent, stop: Stop) -> EndedStep[BatchOutcome]:
        return self._work.run(stop)

    def _make_mover(self, plan: Plan) -> Mover:
        """The mover of a plan, once what a crash left half done is finished."""
        dirs, of = self._dirs, self._of
        recheck = Recheck(dirs, of.again, of.options.hosts)
        interrupted = self._log.unfinished()
        repaired = Repaired()
        if interrupted or not of.repaired:
            try:
                repaired = finish_half_moves(dirs, recheck, interrupted)
                of.repaired = True
            except OSError as error:
                if not (plan.deletes and error.errno in FULL):
                    raise  # but for what frees space, which the next change can repair after
        return Mover(dirs, recheck, repaired, plan, self._user, self._clock)

    def _facts(self, operations: Mapping[str, MoveOperation], progress: Progress) -> Iterator[Account]:
        """Yields what the list of operations says of each. The outcome of a batch without a result is found by looking."""
        undone, folders = {logged.undoes for logged in operations.values()}, Folders(self._dirs)
        for logged in operations.values():
            first, taken_back = logged.first, set[Place | None]()
            if logged.open and logged.operation in undone:
                in_full = self._log.read(progress, required=True, begins=logged.operation)[0]
                taken_back = _taken_back(folders, undos_of(in_full).get(logged.operation, ()))
            ended = [outcome for _, outcome in logged.steps.values() if outcome is not None]
            unsure = list(unsure_moves([logged]))
            progress.begin(f"moves of {logged.operation} looked at", len(unsure))
            found = sum(move.target in taken_back or _happened(folders, move) for move in progress.each(unsure))
            outcomes = {which: sum(outcome.count(which) for outcome in ended) for which in Outcome}
            deletes = any(batch.deletes for batch, _ in logged.steps.values())
            words = f"{first.action} {first.count}" + (f" of {logged.undoes}" if logged.undoes else "")
            if first.action is Action.PURGE and deletes:
                words += " at once, without the trash"
            untried, whole = first.count - sum(outcomes.values()), _is_whole(logged)
            if logged.open:
                words += f"; interrupted: {found} of the last {len(unsure)} were found moved"
            elif untried > 0 and not whole:
                words += f"; {untried:,} of them can no longer be undone"
            elif untried > 0:
                words += f"; interrupted: {untried:,} were not attempted"
            made = found + sum(outcome.count_moved for outcome in ended)
            why_not = "deleted permanently" if deletes else None
            yield Account(words, why_not, outcomes, found, made, unfinished=whole and untried > 0)


# Puts test messages: each is made whole in ``tmp``, moved into ``new``, and belongs to the owner of the spool.

_MOST_BYTES = 1 << 30


class Injector(InjectedContent):
    """Puts the messages that ``options`` describe, step by step. Their names are in their content. ``canary``: they are marked as
    test messages."""

    def __init__(self, dirs: SpoolDirs, options: JsonObject, clock: Clock) -> None:
        super().__init__(options, _MOST_BYTES)
        self._dirs = dirs
        self._clock = clock
        self._canary = bool(options.get("canary"))
        self._place = 0
        self._items: Sequence[Item] = ()

    def notes(self, us: int, redactor: Redactor) -> tuple[str, ...]:
        """The notes of a plan about the messages: how the first begins."""
        first = self._content(1, self._message(us))
        return self.first_notes(first, redactor.data(first))

    def items(self, place: int, at_most: int) -> Sequence[Item]:
        """The next messages. Chosen before the first is written, so that the intent line holds the names; they sort as put."""
        us, self._place = int(self._clock() * 1e6), place
        self._items = [self._message(us + number) for number in range(at_most)]
        return self._items

    def intent(self) -> MoveIntent:
        return MoveIntent([MoveRun(None, Box.NEW.value, [item.name for item in self._items], 0, 0, 0, None)])

    def run(self, stop: Stop) -> EndedStep[BatchOutcome]:
        """Puts one message after the other, until ``stop`` says so after one, and syncs them."""
        ended: list[MoveOutcome] = []
        for number, item in enumerate(self._items, self._place + 1):
            if ended and stop():
                break
            ended.append(self._put(item.name, self._content(number, item), len(ended)))
        try:
            if any(one.moved for one in ended):
                self._dirs.files.sync_dir(self._dirs.box(Box.NEW))
        except OSError as error:
            reason = f"put, but a power failure may remove it: {error.strerror}"
            ended = [one.replace(outcome=Outcome.FAILED, reason=reason) if one.moved else one for one in ended]
        results = [
            ItemResult(item.id, item.name, one.outcome, one.reason, item.name if one.moved else "")
            for item, one in zip(self._items, ended, strict=False)
        ]
        return EndedStep(results, BatchOutcome(tried=len(ended), others=ended))

    def _message(self, us: int) -> Item:
        """A message to put at ``us`` µs since the epoch. Raises ``UsageError`` for a source that is too long."""
        id = names.new_id(us, os.getpid(), os.uname().nodename)
        try:
            name = names.in_new(id, source=self.source, canary=self._canary)
        except ValueError as error:
            raise UsageError(f"inject: {error}") from error
        return RowItem(Row((Box.NEW.value, name), Box.NEW, id, name), name)

    def _content(self, number: int, message: Item) -> bytes:
        """The content of a message, which is put as the one with this ``number`` (from 1)."""
        return self.data(number, message.id, int(message.id[:16]) // 1_000_000)

    def _put(self, name: str, data: bytes, place: int) -> MoveOutcome:
        """Puts one message, synced before it moves. Never raises ``OSError``; a message that could not be put leaves nothing in
        ``tmp``."""
        from spooltop.engine.producer import TmpWriter  # few need it

        ino, dirs, like = 0, self._dirs, self._dirs.owner_model
        try:
            writer = TmpWriter(dirs)
            # For everyone who may read what is in new, whatever the umask: who tests a spool is not always who works on it.
            ino = write_new(dirs.files, dirs.box(Box.TMP), name, data, like, like.st_mode & 0o664, locked=True)
            writer.deliver(name, ino, keep=False)
        except PutUnknown as error:
            return MoveOutcome(place, Outcome.FAILED, f"put, but: {error.what}", True, ino)
        except OSError as error:
            return MoveOutcome(place, Outcome.FAILED, error.strerror or str(error))
        return MoveOutcome(place, Outcome.DONE, "", True, ino)
