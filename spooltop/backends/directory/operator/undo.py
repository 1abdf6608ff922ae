"""The operations of the journal, how much of each is still in effect, and the moves that undo one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import is_inode
from spooltop.model.chunked import CHUNK, columns_of
from spooltop.model.plan import Candidates, OperationRecord, Outcome, Refusal
from spooltop.model.progress import Progress
from spooltop.model.vocabulary import Action, Box, Json, Verdict
from spooltop.records import dataclass

from ..journal.journal import MoveOperation, moves_of
from ..journal.moves import LoggedMove
from ..journal.record_log import newest_first, operation_record, undone_by, undos_of, why_not_undo
from ..journal.summaries import MoveSummary
from ..storage.folders import Folders
from ..storage.location import Place, kind_of
from .packed_items import KEEP, Message, MessageColumns, PackedItems, TargetColumns, is_claimed

__all__ = ["records", "undo_candidates"]


@dataclass(frozen=True, slots=True)
class _Step:
    """A move that did happen. ``ino`` and the ctime, one between ``from_ns`` and ``until_ns``, are those at the target, 0 where
    they were not recorded. A message that left and came back between the two, a tenth of a second, counts as one that stayed."""

    move: LoggedMove
    target: Place
    ino: int
    from_ns: int = 0
    until_ns: int = 0

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
    claimed: dict[str, str] | None = None
    verdicts: dict[str | None, Verdict] = {}
    vantage = presence.Vantage.of(dirs, hosts)
    refused: list[Refusal] = []
    if not steps and any(_moved(folders, logged, deleted=True)):
        notes.append("It deleted the messages permanently; they cannot be restored.")
    progress.begin("looked at", len(left))
    items = PackedItems()
    for start in range(0, len(left), CHUNK):
        chunk: list[tuple[Message, tuple[Any, ...]]] = []
        for step in left[start : start + CHUNK]:
            place, back = step.target, step.move.source
            message = _message(place, evidence=_goes(back), verdict=_verdict(dirs, back, vantage, verdicts))
            try:
                folder = folders.of(place.box, place.folder)
                found = folders.files.stat(place.name, folder.fd)
            except FileNotFoundError:
                if claimed is None:
                    claimed = _claims(dirs)
                refused.append(Refusal(message.row, _whereabouts(place, message.parsed.id, claimed)))
                continue
            except OSError as error:
                refused.append(Refusal(message.row, f"cannot be accessed: {error.strerror}"))
                continue
            message = message._replace(
                mode=found.st_mode, nlink=found.st_nlink, ino=found.st_ino, size=found.st_size, mtime_ns=found.st_mtime_ns,
                ctime_ns=found.st_ctime_ns, folder_id=folder.id, since=found.st_ctime,
            )  # fmt: skip
            if why := _why_not(dirs, folders, step, found):
                refused.append(Refusal(message.row, why))
            else:
                chunk.append((message, _move_back(message, back, step.move.meta)))
        if chunk:
            messages, moves = zip(*chunk, strict=True)
            items.add(MessageColumns.of(messages), TargetColumns._make(columns_of(moves)), [one.since for one in messages])
        progress.advance(min(CHUNK, len(left) - start))
    return Candidates(items.as_list(), refused, tuple(notes))


def _why_not(dirs: SpoolDirs, folders: Folders, step: _Step, found: os.stat_result) -> str:
    """Why the file that was found at the target of a step does not go back; "" where it does."""
    place, back = step.target, step.move.source
    half_moved = found.st_nlink == 2 and _is(folders, back or Place(Box.TMP, place.name), found.st_ino)
    changed = place.box in (Box.NEW, Box.CUR) and step.went_on(found.st_ctime_ns) and not half_moved
    if kind_of(found) or (step.ino and found.st_ino != step.ino):
        return f"{place.box} has another file of that name now"
    if changed:
        return "changed since: claimed and returned, or its permissions were changed"
    if found.st_nlink != 1 and not half_moved:
        return "has another hard link"
    if back is not None and back.box is Box.CUR and _cleared(dirs, back):
        return f"its consumer has exited and left no presence file: it stays in {place.box}"
    if back is not None and _taken(folders, back, found.st_ino):
        return f"{back.box} has another file of that name now"
    return ""


def _move_back(message: Message, back: Place | None, meta: Mapping[str, Json] | None) -> tuple[Any, ...]:
    """The members of ``TargetColumns``. What was put goes to the trash."""
    target = (None, "", "") if back is None else (back.box.value, back.folder, back.name)
    kept = (KEEP, "") if target[2] == message.name else (0, target[2])
    return target[0], target[1], *kept, None if meta is None else dict(meta), None, ""


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


def _cleared(dirs: SpoolDirs, place: Place) -> bool:
    """True where the consumer that a claim names has no presence file any more."""
    token = names.parse(place.name, claimed=True).token
    return token is not None and presence.look(dirs, token).state == "missing"


def _taken(folders: Folders, place: Place, ino: int) -> bool:
    return _is(folders, place, 0) and not _is(folders, place, ino)


def _message(place: Place, evidence: str, verdict: Verdict | None) -> Message:
    """The message at ``place``, before its status is taken."""
    name = names.parse(place.name, claimed=is_claimed(place.box))
    token_at = place.name.rindex(name.token) if name.token is not None and place.box is Box.CUR else 0
    id_end = len(name.id) if place.name.startswith(name.id) else 0
    word = None if verdict is None else verdict.value
    return Message(place.box.value, place.folder, place.name, id_end, token_at, verdict=word, evidence=evidence)


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


def _verdict(
    dirs: SpoolDirs, back: Place | None, vantage: presence.Vantage, known: dict[str | None, Verdict]
) -> Verdict | None:
    """The verdict on the claim that an undo would restore, None where it restores none. ``known``: the verdicts by token."""
    if back is None or back.box is not Box.CUR:
        return None
    token = names.parse(back.name, claimed=True).token
    if token not in known:
        known[token] = Verdict.UNKNOWN if token is None else presence.judge(presence.look(dirs, token), vantage)[0]
    return known[token]


def _whereabouts(place: Place, id: str, claimed: Mapping[str, str]) -> str:
    if place.box is Box.NEW:
        return f"already claimed by a consumer{claimed[id]}" if id in claimed else "too late: already claimed by a consumer"
    return f"no longer in {place.box}"
