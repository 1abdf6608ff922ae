"""The operations of the journal, how much of each is still in effect, and the moves that undo one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress, groupby, islice
from operator import attrgetter
from typing import NamedTuple

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import is_inode
from spooltop.model.chunked import CHUNK, column_of, columns_of, expand
from spooltop.model.plan import Candidates, OperationRecord, Outcome, Refusal
from spooltop.model.progress import Progress
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.records import dataclass

from ..journal.journal import MoveOperation, moves_of
from ..journal.moves import LoggedMove
from ..journal.record_log import newest_first, operation_record, undone_by, undos_of, why_not_undo
from ..journal.summaries import MoveSummary
from ..storage.folders import Folders
from ..storage.location import Place, kind_of
from ..storage.name_forms import NameForms
from .packed_items import KEEP, Message, MessageColumns, PackedItems, TargetColumns, is_claimed

__all__ = ["records", "undo_candidates"]


class _Step(NamedTuple):
    """A move that did happen. ``ino`` and the ctime, one between ``from_ns`` and ``until_ns``, are those at the target, 0 where
    they were not recorded. A message that left and came back between the two, a tenth of a second, counts as one that stayed."""

    move: LoggedMove
    target: Place
    ino: int
    from_ns: int = 0
    until_ns: int = 0

    def between(self) -> tuple[object, ...]:
        """Returns the two folders of the move."""
        target, source = self.target, self.move.source
        return target[0], target[2], source and (source[0], source[2])

    def went_on(self, ctime_ns: int) -> bool:
        """True where the file with this ctime is known to have been moved again since."""
        return self.until_ns != 0 and not self.from_ns <= ctime_ns <= self.until_ns


@dataclass(frozen=True, slots=True)
class _Account:
    """Numbers of moves of an operation: those with a result by outcome, those that were ``made``, the ``unsure`` ones without a
    result, and of these the ones that were ``found`` made."""

    outcomes: Counter[Outcome]
    made: int
    unsure: int
    found: int


def records(
    dirs: SpoolDirs,
    operations: Mapping[str, MoveSummary],
    in_full: Callable[[str], Mapping[str, MoveOperation]],
    progress: Progress,
) -> list[OperationRecord]:
    """The entries of the operations in the list, newest first. The outcome of a batch without a result is found by looking.
    ``in_full`` reads an operation with those that undo it. Raises ``Stopped``."""
    undos = undos_of(operations)
    folders = Folders(dirs)
    accounts: dict[str, _Account] = {}
    for logged in operations.values():
        taken_back: set[Place | None] = set()
        if logged.open and logged.operation in undos:
            taken_back = _taken_back(folders, undos_of(in_full(logged.operation)).get(logged.operation, ()))
        accounts[logged.operation] = _account(folders, logged, taken_back, progress)
    found: list[OperationRecord] = []
    for logged in operations.values():
        first, account, own_undos = logged.first, accounts[logged.operation], undos.get(logged.operation, [])
        undone = undone_by(own_undos, lambda undo: accounts[undo.operation].made > 0)
        left = account.made - sum(accounts[undo.operation].made for undo in own_undos)
        deletes = any(batch.deletes for batch, _ in logged.steps.values())
        if deletes and account.made:
            why_not: str | None = "deleted permanently"
        else:
            why_not = why_not_undo(changed=account.made > 0, undone=None if left > 0 else undone, other=None)
        words = f"{first.action} {first.count}" + (f" of {logged.undoes}" if logged.undoes else "")
        if first.action is Action.PURGE and deletes:
            words += " at once, without the trash"
        untried = first.count - account.outcomes.total()
        whole = len(logged.steps) > max(logged.steps)  # else a part of the journal with some batches has gone
        if logged.open:
            words += f"; interrupted: {account.found} of the last {account.unsure} were found moved"
        elif untried > 0 and not whole:
            words += f"; {untried:,} of them can no longer be undone"
        elif untried > 0:
            words += f"; interrupted: {untried:,} were not attempted"
        found.append(
            operation_record(
                logged, account.outcomes, count=first.count, found=account.found,
                unfinished=logged.open or (whole and untried > 0), undone=undone, why_not=why_not, words=words,
            )
        )  # fmt: skip
    return newest_first(found)


def _account(folders: Folders, logged: MoveSummary, taken_back: Container[Place | None], progress: Progress) -> _Account:
    """Counts the moves of an operation; those that an undo has ``taken_back`` had been made. Raises ``Stopped``."""
    tallies = [tally for _, tally in logged.steps.values() if tally is not None]
    unsure = [move for batch, tally in logged.steps.values() if tally is None for move in batch.moves()]
    progress.begin(f"moves of {logged.operation} looked at", len(unsure))
    found = sum(move.target in taken_back or _happened(folders, move) for move in progress.each(unsure))
    outcomes: Counter[Outcome] = Counter()
    for tally in tallies:
        outcomes.update(dict(zip(Outcome, tally[:3], strict=True)))
    return _Account(outcomes, found + sum(tally.moved for tally in tallies), len(unsure), found)


def undo_candidates(
    dirs: SpoolDirs, operations: Mapping[str, MoveOperation], undoes: str, progress: Progress,
    *, hosts: str = presence.ANY_MACHINE,
) -> Candidates:  # fmt: skip
    """The moves of ``undoes`` backwards, each pinned as it is now, or why it cannot be undone; nothing for an unknown
    operation. ``hosts`` as for ``Vantage``. Raises ``Stopped``."""
    logged = operations.get(undoes)
    if logged is None:
        return Candidates((), (), (f"no operation {undoes} in the journal",))
    undos = undos_of(operations)
    folders = Folders(dirs)
    progress.begin("moves read", logged.first.count)
    returned = _taken_back(folders, undos.get(undoes, ()))
    steps = list(progress.each(_moved(folders, logged, taken_back=returned)))
    left = [step for step in steps if step.target not in returned]
    notes = [f"{len(steps) - len(left)} of {len(steps)} undone already."] if len(left) < len(steps) else []
    if logged.open:
        notes.append("That operation was interrupted; its moves were found by looking at the files.")
    if not steps and any(_moved(folders, logged, deleted=True)):
        notes.append("It deleted the messages permanently; they cannot be restored.")
    progress.begin("looked at", len(left))
    back = _Backwards(dirs, folders, hosts)
    for _, run in groupby(left, _Step.between):
        while some := list(islice(run, CHUNK)):
            back.add(some)
            progress.advance(len(some))
    return Candidates(back.items.as_list(), back.refused, tuple(notes))


class _Backwards:
    """Pins moves backwards, by columns of up to a thousand between two folders."""

    def __init__(self, dirs: SpoolDirs, folders: Folders, hosts: str) -> None:
        self.items = PackedItems()
        self.refused: list[Refusal] = []
        self._dirs = dirs
        self._folders = folders
        self._vantage = presence.Vantage.of(dirs, hosts)
        self._claims: dict[str, str] | None = None
        self._holders: dict[str | None, tuple[str | None, bool]] = {None: (Verdict.UNKNOWN.value, False)}

    def add(self, steps: Sequence[_Step]) -> None:
        """Adds at least one step; all are between the same folders."""
        place, back = steps[0].target, steps[0].move.source
        holders: list[tuple[str | None, bool]]
        if back is None or back.box is not Box.CUR:
            holders = [(None, False)] * len(steps)
        else:
            tails = NameForms.of([step.move.source.name for step in steps if step.move.source], claimed=True).tails
            holders = [self._holder(tail[3:35] if tail[:1] == "," else None) for tail in tails]
        found = [self._status(step, *holder) for step, holder in zip(steps, holders, strict=True)]
        there = [status is not None for status in found]
        steps, holders = list(compress(steps, there)), list(compress(holders, there))
        if not steps:
            return
        names = [step.target.name for step in steps]
        forms = NameForms.of(names, claimed=is_claimed(place.box))
        token_at = [len(name) - len(tail) + 3 if tail[:1] == "," else 0 for name, tail in zip(names, forms.tails, strict=True)]
        mode, nlink, ino, size, mtime_ns, ctime_ns, since = columns_of(map(_STATUS, compress(found, there)))
        messages = MessageColumns(
            (place.box.value,), (place.folder,), names, column_of(forms.id_ends),
            column_of(token_at) if place.box is Box.CUR else (0,), mode, nlink, ino, size, mtime_ns, ctime_ns,
            (self._folders.of(place.box, place.folder).id,), column_of([word for word, _ in holders]), (_goes(back),), (None,),
            since, ("",),
        )  # fmt: skip
        self.items.add(messages, _targets(steps, back), expand(since, len(names)))

    def _status(self, step: _Step, verdict: str | None, cleared: bool) -> os.stat_result | None:
        """Takes the status of the message of a step; None where it is refused."""
        place, back = step.target, step.move.source
        found: os.stat_result | None = None
        try:
            found = self._folders.files.stat(place.name, self._folders.of(place.box, place.folder).fd)
            why = _why_not(self._folders, step, found, cleared=cleared)
        except FileNotFoundError:
            if self._claims is None:
                self._claims = _claims(self._dirs)
            id = names.parse(place.name, claimed=is_claimed(place.box)).id
            why = _whereabouts(place, id, self._claims)
        except OSError as error:
            why = f"cannot be accessed: {error.strerror}"
        if not why:
            return found
        message = Message(place.box.value, place.folder, place.name, verdict=verdict, evidence=_goes(back))
        if found is not None:
            message = message._replace(size=found.st_size, since=found.st_ctime)
        self.refused.append(Refusal(message.row, why))
        return None

    def _holder(self, token: str | None) -> tuple[str | None, bool]:
        """The verdict on a claim that an undo would restore, and whether its consumer has no presence file any more."""
        known = self._holders.get(token)
        if known is None:
            seen = presence.look(self._dirs, token or "")
            known = self._holders[token] = presence.judge(seen, self._vantage)[0].value, seen.state == "missing"
        return known


_STATUS = attrgetter("st_mode", "st_nlink", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ctime")


def _targets(steps: Sequence[_Step], back: Place | None) -> TargetColumns:
    """The way back. What was put goes to the trash."""
    if back is None:
        return TargetColumns((None,), ("",), (0,), ("",), (None,), (None,), ("",))
    names = [step.move.source.name if step.move.source is not None else "" for step in steps]
    same = [name == step.target.name for name, step in zip(names, steps, strict=True)]
    kept, suffix = [KEEP if one else 0 for one in same], ["" if one else name for one, name in zip(same, names, strict=True)]
    metas = [None if step.move.meta is None else dict(step.move.meta) for step in steps]
    return TargetColumns(
        (back.box.value,), (back.folder,), column_of(kept), column_of(suffix), column_of(metas), (None,), ("",)
    )


def _why_not(folders: Folders, step: _Step, found: os.stat_result, *, cleared: bool) -> str:
    """Why the file that was found at the target of a step does not go back; "" where it does. ``cleared``: the consumer whose
    claim it was has no presence file any more."""
    place, back = step.target, step.move.source
    half_moved = found.st_nlink == 2 and _is(folders, back or Place(Box.TMP, place.name), found.st_ino)
    changed = place.box in (Box.NEW, Box.CUR) and step.went_on(found.st_ctime_ns) and not half_moved
    if kind_of(found) or (step.ino and found.st_ino != step.ino):
        return f"{place.box} has another file of that name now"
    if changed:
        return "changed since: claimed and returned, or its permissions were changed"
    if found.st_nlink != 1 and not half_moved:
        return "has another hard link"
    if cleared:
        return f"its consumer has exited and left no presence file: it stays in {place.box}"
    if back is not None and _taken(folders, back, found.st_ino):
        return f"{back.box} has another file of that name now"
    return ""


def _moved(
    folders: Folders, logged: MoveOperation, *, deleted: bool = False, taken_back: Container[Place | None] = ()
) -> Iterator[_Step]:
    """The moves that can be reversed; where ``deleted``, those that deleted, with their source. A message that an undo has
    ``taken_back`` had been moved, though nothing at its target shows that any more."""
    for move, result in moves_of(logged):
        place = move.source if deleted else move.target
        if place is None or (move.target is None) is not deleted:
            continue
        if result is None:
            if move.target in taken_back or _happened(folders, move):
                yield _Step(move, place, move.ino)
        elif result.moved and result.outcome is Outcome.DONE:
            yield _Step(move, place, result.ino, result.ctime_ns, result.until_ns)
        elif result.moved:
            yield _Step(move, place, result.ino)


def _happened(folders: Folders, move: LoggedMove) -> bool:
    """True where a move without a recorded outcome was done: the file is at its target, or it left its source for ``new``,
    where consumers are quick."""
    if move.source is None:
        return move.target is not None and _is(folders, move.target, move.ino)
    if _is(folders, move.source, move.ino):
        return False  # also where it has both names: a half move is none yet
    return move.target is None or move.target.box is Box.NEW or _is(folders, move.target, move.ino)


def _taken_back(folders: Folders, undos: Iterable[MoveOperation]) -> set[Place | None]:
    """The places from which ``undos`` moved something back."""
    return {step.move.source for undo in undos for step in _moved(folders, undo)}


def _is(folders: Folders, place: Place, ino: int) -> bool:
    """True where ``place`` holds the inode; 0 is any."""
    try:
        return is_inode(folders.files, place.name, folders.of(place.box, place.folder).fd, ino or None)
    except OSError:
        return False  # not there, or not to be seen: nothing is known to stand there


def _taken(folders: Folders, place: Place, ino: int) -> bool:
    return _is(folders, place, 0) and not _is(folders, place, ino)


def _claims(dirs: SpoolDirs) -> dict[str, str]:
    """The ids of the claims in ``cur``, each with the pid in its name, in words."""
    if dirs.cur is None:
        return {}
    found: dict[str, str] = {}
    for raw in dirs.files.scan(dirs.cur):
        name = names.parse(raw, claimed=True)
        found[name.id] = "" if name.pid is None else f", pid {name.pid}"
    return found


def _goes(back: Place | None) -> str:
    return "back to trash" if back is None else f"back to {back.box}"


def _whereabouts(place: Place, id: str, claimed: Mapping[str, str]) -> str:
    if place.box is Box.NEW:
        return f"already claimed by a consumer{claimed[id]}" if id in claimed else "too late: already claimed by a consumer"
    return f"no longer in {place.box}"
