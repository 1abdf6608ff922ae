"""The operations of the journal, how much of each is still in effect, and the moves that undo one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice

from msgspec import Struct

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode
from spooltop.model.plan import BATCH, Candidates, Outcome, Progress, Refusal
from spooltop.model.vocabulary import Action, Box, Verdict

from ...journal.item_operator import Account, undos_of
from ..journal import LoggedMove, MoveOperation, MoveRun, unsure_moves
from ..storage.location import Folders, Place, kind_of, plain_meta
from ..storage.rows import NameForms, tokens_of, tokens_of_claims
from .messages import Group, Message, Pinned, PinnedItems, Way, is_claimed, message_of
from .moving import forgotten_words


class _Made(Struct, frozen=True, gc=False):
    """A move that did happen. ``ino`` and the ctime, which is ``between`` two, are those at the target, 0 where not recorded. A
    message that left and came back between the two, a tenth of a second, counts as one that stayed."""

    move: LoggedMove
    run: MoveRun
    ino: int
    between: tuple[int, int]


def facts(
    dirs: SpoolDirs,
    operations: Mapping[str, MoveOperation],
    in_full: Callable[[str], Mapping[str, MoveOperation]],
    progress: Progress,
) -> Iterator[Account]:
    """Yields what the list of operations says of each. The outcome of a batch without a result is found by looking. ``in_full``
    reads an operation with those that undo it. Raises ``Stopped``."""
    undone = {logged.undoes for logged in operations.values()}
    folders = Folders(dirs)
    for logged in operations.values():
        first, taken_back = logged.first, set[Place | None]()
        if logged.open and logged.operation in undone:
            taken_back = _taken_back(folders, undos_of(in_full(logged.operation)).get(logged.operation, ()))
        ended = [outcome for _, outcome in logged.steps.values() if outcome is not None]
        unsure = list(unsure_moves(logged))
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
        yield Account(words, "deleted permanently" if deletes else None, outcomes, found, made, unfinished=whole and untried > 0)


def _is_whole(logged: MoveOperation) -> bool:
    """False where a part of the journal with some of the batches has gone."""
    end = 0
    for first, (batch, outcome) in sorted(logged.steps.items()):
        if first != end:
            return False
        end += len(batch) if outcome is None else outcome.tried
    return True


def undo_candidates(
    dirs: SpoolDirs, logged: MoveOperation, undos: Sequence[MoveOperation], progress: Progress,
    *, hosts: str = presence.ANY_MACHINE,
) -> Candidates:  # fmt: skip
    """The moves of an operation backwards, each pinned as it is now, or why it cannot be undone. ``undos`` are the operations
    that undo it; ``hosts`` as for ``HostView``. Raises ``Stopped``."""
    folders = Folders(dirs)
    returned = _taken_back(folders, undos)
    progress.begin("looked at", logged.first.count)
    back = _Backwards(dirs, folders, hosts)
    count = Counter[str]()
    moves = progress.each(_moves_done(folders, logged, returned))
    while chunk := list(islice(moves, BATCH)):  # there may be a million
        moved = [one for one in chunk if one.move.target]
        left = [one for one in moved if one.move.target not in returned]
        count.update(deleted=len(chunk) - len(moved), moved=len(moved), undone=len(moved) - len(left))
        for _, part in groupby(left, lambda one: id(one.run)):
            back.add(list(part))
        progress.found(back.items)
    notes = [f"{count['undone']} of {count['moved']} undone already."] if count["undone"] else []
    if logged.open:
        notes.append("That operation was interrupted; its moves were found by looking at the files.")
    if count["deleted"] and not count["moved"]:
        notes.append("It deleted the messages permanently; they cannot be restored.")
    return Candidates(back.items, back.refused, tuple(notes))


class _Backwards:
    """Pins moves backwards."""

    def __init__(self, dirs: SpoolDirs, folders: Folders, hosts: str) -> None:
        self.items = PinnedItems([])
        self.refused: list[Refusal] = []
        self._dirs = dirs
        self._folders = folders
        self._vantage = presence.HostView.of(dirs, hosts)
        self._claims: dict[str, str] | None = None
        self._holders: dict[str, tuple[Verdict, bool]] = {"": (Verdict.UNKNOWN, False)}

    def add(self, made: Sequence[_Made]) -> None:
        """Adds moves of one run, at least one, which are not deletions."""
        run = made[0].run
        target, back = run.target_folder, run.source_folder
        assert target is not None
        box, folder = target
        names = [one.move.target.name for one in made if one.move.target is not None]
        forms = NameForms.of(names, claimed=is_claimed(box))
        tokens = tokens_of(forms.tails) if box is Box.CUR else [""] * len(names)
        restored = back is not None and back[0] is Box.CUR
        owners = tokens_of_claims([one.move.source.name if one.move.source else "" for one in made]) if restored else tokens
        groups: dict[tuple[str, str], Group] = {}
        meta, evidence = None if run.meta is None else plain_meta(run.meta), _destination_text(back)
        ways: dict[tuple[str | None, str], Way] = {}
        for one, name, id_end, token, owner in zip(made, names, forms.id_ends, tokens, owners, strict=True):
            verdict, cleared = self._holder(owner) if restored else (None, False)
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
            message = message_of(name, id_end, known, found)
            if back is None:
                way = Way(Box.TRASH)  # what was put
            else:
                assert one.move.source is not None
                way = Way.to(*back, message, one.move.source.name, meta)
                way = ways.setdefault((way.suffix, way.name), way)
            self.items.pinned.append(Pinned(message, way))

    def _look(self, made: _Made, *, cleared: bool, held: bool) -> tuple[os.stat_result | None, str]:
        """The status of the message of a move, None where it cannot be seen, and why it does not go back; "" where it does.
        ``cleared``: the consumer whose claim it was has no presence file any more; ``held``: a running one has claimed it."""
        place, back, folders = made.move.target, made.move.source, self._folders
        assert place is not None  # what was deleted does not come back
        try:
            found = folders.files.stat(place.name, folders.of(place.box, place.folder).fd)
        except FileNotFoundError:
            if self._claims is None:
                self._claims = _claims(self._dirs)
            return None, _whereabouts(place, names.parse(place.name, claimed=is_claimed(place.box)).id, self._claims)
        except OSError as error:
            return None, f"cannot be accessed: {error.strerror}"
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

    def _holder(self, token: str) -> tuple[Verdict, bool]:
        """The verdict on a claim, and whether its consumer has no presence file any more."""
        known = self._holders.get(token)
        if known is None:
            seen = presence.look(self._dirs, token)
            known = self._holders[token] = presence.judge(seen, self._vantage)[0], seen.state == "missing"
        return known


def _moves_done(
    folders: Folders, logged: MoveOperation, taken_back: Container[Place | None] = ()
) -> Iterator[_Made]:
    """The moves that happened, also those that deleted. A message that an undo has ``taken_back`` had been moved, though nothing
    at its target shows that any more."""
    for _, (batch, outcome) in sorted(logged.steps.items()):
        moves = ((move, run) for run in batch.moves for move in run.moves())
        if outcome is None:
            for move, run in moves:
                if move.target in taken_back or _happened(folders, move):
                    yield _Made(move, run, move.ino, (0, 0))
            continue
        others, between = {one.place: one for one in outcome.others}, outcome.between or (0, 0)
        for place, (move, run) in enumerate(islice(moves, outcome.tried)):
            one = others.get(place)
            if one is None:
                yield _Made(move, run, move.ino, between)
            elif one.moved:
                known = one.ctime if one.outcome is Outcome.DONE else 0
                yield _Made(move, run, one.ino or move.ino, (known, known))


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
    return {one.move.source for undo in undos for one in _moves_done(folders, undo) if one.move.target}


def _has_inode(folders: Folders, place: Place, ino: int) -> bool:
    """True where ``place`` holds the inode; 0 is any."""
    try:
        return is_inode(folders.files, place.name, folders.of(place.box, place.folder).fd, ino or None)
    except OSError:
        return False  # not there, or not to be seen: nothing is known to stand there


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
