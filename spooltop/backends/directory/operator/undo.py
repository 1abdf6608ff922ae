"""The operations of the journal, how much of each is still in effect, and the moves that undo one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from stat import S_ISREG
from typing import Any, NamedTuple

from msgspec import Struct

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode
from spooltop.model.operations.chunked import CHUNK, column_of, columns_of, expand
from spooltop.model.operations.plan import Candidates, OperationRecord, Outcome, Progress, Refusal
from spooltop.model.vocabulary import Action, Box, Verdict

from ...journal.item_operator import newest_first, operation_record, undone_by, undos_of, why_not_undo
from ..journal import LoggedMove, MoveColumns, MoveOperation, MoveSummary
from ..storage.location import Folders, NameLookup, Place, kind_of
from ..storage.rows import NameForms, tokens_of_claims
from .moving import forgotten_words
from .packed_items import KEEP, Message, MessageColumns, PackedItems, TargetColumns, is_claimed


class _MovesDone(NamedTuple):
    """Moves that did happen. The inodes of ``run`` and the ctimes, each ``between`` two, are those at the target, 0 where not
    recorded. A message that left and came back between the two, a tenth of a second, counts as one that stayed."""

    run: MoveColumns
    between: Sequence[tuple[int, int]]

    @property
    def target(self) -> tuple[Box, str]:
        assert self.run.target is not None  # what was deleted does not come back
        return self.run.target

    def only(self, mask: Sequence[bool]) -> _MovesDone:
        """Keeps the moves that ``mask`` selects."""
        if all(mask):
            return self
        return _MovesDone(MoveColumns._make([*self.run[:3], *_only(self.run[3:], mask)]), *_only([self.between], mask))


class _Account(Struct, frozen=True):
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
    operation. ``hosts`` as for ``HostView``. Raises ``Stopped``."""
    logged = operations.get(undoes)
    if logged is None:
        return Candidates((), (), (f"no operation {undoes} in the journal",))
    undos = undos_of(operations)
    folders = Folders(dirs)
    progress.begin("moves read", logged.first.count)
    returned = _taken_back(folders, undos.get(undoes, ()))
    made = list(_each(_moves_done(folders, logged, returned), progress))
    moved = [one for one in made if one.run.target]
    left = [one.only([move.target not in returned for move in one.run.moves()]) for one in moved] if returned else moved
    count, many = (sum(len(one.between) for one in some) for some in (moved, left))
    notes = [f"{count - many} of {count} undone already."] if many < count else []
    if logged.open:
        notes.append("That operation was interrupted; its moves were found by looking at the files.")
    if not count and made:
        notes.append("It deleted the messages permanently; they cannot be restored.")
    progress.begin("looked at", many)
    back = _Backwards(dirs, folders, hosts, many=many > CHUNK)
    for one in _each(left, progress):
        back.add(one)
        progress.found(back.items)
    return Candidates(back.items.as_list(), back.refused, tuple(notes))


class _Backwards:
    """Pins moves backwards, by columns of up to a thousand between two folders. Of ``many``, a folder that they go back to is
    listed instead of looked at for each."""

    def __init__(self, dirs: SpoolDirs, folders: Folders, hosts: str, *, many: bool) -> None:
        self.items = PackedItems()
        self.refused: list[Refusal] = []
        self._dirs = dirs
        self._folders = folders
        self._vantage = presence.HostView.of(dirs, hosts)
        self._many = many
        self._claims: dict[str, str] | None = None
        self._holders: dict[str, tuple[str | None, bool]] = {"": (Verdict.UNKNOWN.value, False)}
        self._names: dict[tuple[Box, str], frozenset[int]] = {}

    def add(self, made: _MovesDone) -> None:
        """Adds the moves of a run."""
        run, back = made.run, made.run.source
        box, folder = made.target
        verdicts: Sequence[str | None] = [None] * len(run.names)
        cleared = [False] * len(run.names)
        if back is not None and back[0] is Box.CUR:
            tokens = tokens_of_claims(run.names)
            holders = {token: self._holder(token) for token in set(tokens)}
            verdicts, cleared = [holders[token][0] for token in tokens], [holders[token][1] for token in tokens]
        found = self._statuses(made, cleared)
        there = [status is not None for status in found]
        if not all(there):
            run, verdicts, found = made.only(there).run, list(compress(verdicts, there)), list(compress(found, there))
        if not found:
            return
        names = list(run.to_names)
        forms = NameForms.of(names, claimed=is_claimed(box))
        mode, nlink, ino, size, mtime_ns, ctime_ns, since = columns_of(map(_STATUS, found))
        messages = MessageColumns(
            (box.value,), (folder,), names, column_of(forms.id_ends),
            column_of(forms.token_places(names)) if box is Box.CUR else (0,), mode, nlink, ino, size, mtime_ns, ctime_ns,
            (self._folders.of(box, folder).id,), column_of(verdicts), (_destination_text(back),),
            (None,), since, ("",),
        )  # fmt: skip
        self.items.add(messages, _targets(run, forms.id_ends), expand(since, len(names)))

    def _statuses(self, made: _MovesDone, cleared: Sequence[bool]) -> list[os.stat_result | None]:
        """Takes the status of each message; None where it is refused. A message with anything unusual about its file is looked
        at by itself."""
        run, (box, _) = made.run, made.target
        found: list[os.stat_result | None]
        try:
            fd, look = self._folders.of(*made.target).fd, NameLookup(self._folders.files).status
            found = [look(name, fd) for name in run.to_names]
            taken = self._perhaps_taken(run)
            columns = zip(found, run.inos, made.between, cleared, run.names, run.to_names, strict=True)
            unusual = [
                one is None or one.st_nlink != 1 or not S_ISREG(one.st_mode) or one.st_ino != (ino or one.st_ino) or gone
                or name in taken or _went_on(one.st_ctime_ns, between) or self._is_held(box, now)
                for one, ino, between, gone, name, now in columns
            ]  # fmt: skip
        except OSError:
            found, unusual = [None] * len(run.names), [True] * len(run.names)
        places = compress(range(len(found)), unusual)
        for place, move in zip(places, made.only(unusual).run.moves(), strict=True):
            found[place] = self._status(move, made.between[place], cleared=cleared[place])
        return found

    def _perhaps_taken(self, run: MoveColumns) -> Container[str]:
        """The names to go back to that another file may have."""
        if run.source is None or not self._many:
            return frozenset(run.names if run.source else ())
        names = self._names.get(run.source)
        if names is None:
            listed = self._folders.files.scan(self._folders.of(*run.source).fd)
            names = self._names[run.source] = frozenset(map(hash, listed))
        return {name for name in run.names if hash(name) in names} if names else ()

    def _status(self, move: LoggedMove, between: tuple[int, int], *, cleared: bool) -> os.stat_result | None:
        """Takes the status of the message of a move; None where it is refused."""
        place, back = move.target, move.source
        assert place is not None
        found: os.stat_result | None = None
        try:
            found = self._folders.files.stat(place.name, self._folders.of(place.box, place.folder).fd)
            why = _why_not(self._folders, move, between, found, cleared=cleared)
            if not why and self._is_held(place.box, place.name):
                why = "claimed by a running consumer; requeue takes it with force"
        except FileNotFoundError:
            if self._claims is None:
                self._claims = _claims(self._dirs)
            id = names.parse(place.name, claimed=is_claimed(place.box)).id
            why = _whereabouts(place, id, self._claims)
        except OSError as error:
            why = f"cannot be accessed: {error.strerror}"
        if not why:
            return found
        message = Message(place.box.value, place.folder, place.name, evidence=_destination_text(back and (back.box, back.folder)))
        if back is not None and back.box is Box.CUR:
            message = message._replace(verdict=self._holder(tokens_of_claims([back.name])[0])[0])
        if found is not None:
            message = message._replace(size=found.st_size, since=found.st_ctime)
        self.refused.append(Refusal(message.row, why))
        return None

    def _is_held(self, box: Box, name: str) -> bool:
        """Returns True if ``name`` is the claim of a running consumer, from which an undo takes nothing."""
        return box is Box.CUR and self._holder(tokens_of_claims([name])[0])[0] == Verdict.ALIVE.value

    def _holder(self, token: str) -> tuple[str | None, bool]:
        """The verdict on a claim that an undo would restore, and whether its consumer has no presence file any more."""
        known = self._holders.get(token)
        if known is None:
            seen = presence.look(self._dirs, token)
            known = self._holders[token] = presence.judge(seen, self._vantage)[0].value, seen.state == "missing"
        return known


_STATUS = attrgetter("st_mode", "st_nlink", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ctime")


def _targets(run: MoveColumns, id_ends: Sequence[int]) -> TargetColumns:
    """The way back. What was put goes to the trash."""
    if run.source is None:
        return TargetColumns((None,), ("",), (0,), ("",), (None,), (None,), ("",))
    (box, folder), back = run.source, zip(run.names, run.to_names, id_ends, strict=True)
    kept = [KEEP if name == now else end if name[:end] == now[:end] else 0 for name, now, end in back]
    suffix = [name[end:] for name, end in zip(run.names, kept, strict=True)]
    meta = None if run.meta is None else dict(run.meta)
    return TargetColumns((box.value,), (folder,), column_of(kept), column_of(suffix), (meta,), (None,), ("",))


def _why_not(folders: Folders, move: LoggedMove, between: tuple[int, int], found: os.stat_result, *, cleared: bool) -> str:
    """Why the file that was found at the target of a move (as in ``_MovesDone``) does not go back; "" where it does. ``cleared``:
    the consumer whose claim it was has no presence file any more."""
    place, back = move.target, move.source
    assert place is not None  # what was deleted does not come back
    half_moved = found.st_nlink == 2 and _has_inode(folders, back or Place(Box.TMP, place.name), found.st_ino)
    changed = place.box in (Box.NEW, Box.CUR) and _went_on(found.st_ctime_ns, between) and not half_moved
    if kind_of(found) or (move.ino and found.st_ino != move.ino):
        return f"{place.box} has another file of that name now"
    if changed:
        return "changed since: claimed and returned, or its permissions were changed"
    if found.st_nlink != 1 and not half_moved:
        return "has another hard link"
    if cleared:
        return forgotten_words(place.box)
    if back is not None and _taken(folders, back, found.st_ino):
        return f"{back.box} has another file of that name now"
    return ""


def _went_on(ctime_ns: int, between: tuple[int, int]) -> bool:
    """True where the file with this ctime is known to have been moved again since."""
    return between[1] != 0 and not between[0] <= ctime_ns <= between[1]


def _moves_done(folders: Folders, logged: MoveOperation, taken_back: Container[Place | None] = ()) -> Iterator[_MovesDone]:
    """The moves that happened, also those that deleted. A message that an undo has ``taken_back`` had been moved, though nothing
    at its target shows that any more."""
    for _, (batch, outcome) in sorted(logged.steps.items()):
        start = 0
        for run in batch.runs:
            if outcome is None:
                made = _MovesDone(run, [(0, 0)] * len(run.names))
                there = [move.target in taken_back or _happened(folders, move) for move in run.moves()]
            else:
                there, inos, times = outcome.pins(start, run.inos)
                made = _MovesDone(run._replace(inos=inos), times)
            start += len(run.names)
            if any(there):
                yield made.only(there)


def _each(made: Iterable[_MovesDone], progress: Progress) -> Iterator[_MovesDone]:
    """Yields runs, a step for each move."""
    for one in made:
        progress.advance(len(one.between))
        yield one


def _only(columns: Iterable[Sequence[Any]], mask: Sequence[bool]) -> Iterator[list[Any]]:
    return (list(compress(column, mask)) for column in columns)


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
    return {move.source for undo in undos for one in _moves_done(folders, undo) if one.run.target for move in one.run.moves()}


def _has_inode(folders: Folders, place: Place, ino: int) -> bool:
    """True where ``place`` holds the inode; 0 is any."""
    try:
        return is_inode(folders.files, place.name, folders.of(place.box, place.folder).fd, ino or None)
    except OSError:
        return False  # not there, or not to be seen: nothing is known to stand there


def _taken(folders: Folders, place: Place, ino: int) -> bool:
    return _has_inode(folders, place, 0) and not _has_inode(folders, place, ino)


def _claims(dirs: SpoolDirs) -> dict[str, str]:
    """The ids of the claims in ``cur``, each with the pid in its name, in words."""
    if dirs.cur is None:
        return {}
    found: dict[str, str] = {}
    for raw in dirs.files.scan(dirs.cur):
        name = names.parse(raw, claimed=True)
        found[name.id] = "" if name.pid is None else f", pid {name.pid}"
    return found


def _destination_text(back: tuple[Box, str] | None) -> str:
    return "to the trash" if back is None else f"back to {back[0]}"


def _whereabouts(place: Place, id: str, claimed: Mapping[str, str]) -> str:
    if place.box is Box.NEW:
        return f"already claimed by a consumer{claimed[id]}" if id in claimed else "too late: already claimed by a consumer"
    return f"no longer in {place.box}"
