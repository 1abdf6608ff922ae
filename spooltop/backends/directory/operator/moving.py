"""Moves of a plan: batches, rechecks, metadata, syncs, and what a crash left half done."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from stat import S_ISREG
from time import time_ns
from typing import Any, NamedTuple

from msgspec import Struct, field

from spooltop.engine import names, presence, set_aside
from spooltop.engine.atomic import open_shared, write_new
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import Files
from spooltop.model import ASIDE, LIVE, Action, Box, Clock, Json, JsonObject, Stop, Verdict, escape
from spooltop.model.plan import BATCH, Item, ItemResult, Outcome, Plan, Results

from ...journal import EndedStep, Skipped, ref_of
from ...log_store import plain_file
from ..journal import BatchOutcome, MoveIntent, MoveOperation, MoveOutcome, MoveRun, folder_text, unsure_moves
from ..storage import Folder, Folders, NameLookup, Place, drop_folder, in_folder, is_pinned, tokens_of_claims
from .planning import FORCEABLE, Group, Message

# The messages of one step of an operation, in runs that go from one folder into one.

class Run(NamedTuple):
    """Moves out of the folder of ``group``, which is that of the first, into another. Where ``to_box`` is None the messages are
    deleted.

    ``elsewhere``: why the messages go not where the action says. ``was`` is the metadata of messages that had been set aside and
    do not go for good; ``own_metadata``: each may have a file of them beside it. ``meta`` goes beside a message that is set
    aside.
    """

    group: Group
    to_box: Box | None
    to_folder: str
    elsewhere: str
    was: JsonObject
    own_metadata: bool
    meta: JsonObject
    moves: Sequence[Message]

    def logged(self) -> MoveRun:
        """The run as the journal announces it."""
        names, to_names = [one.name for one in self.moves], [one.to_name for one in self.moves]
        facts = [(one.st_ino, one.st_size, one.st_ctime_ns, one.group.token) for one in self.moves]
        inos, sizes, ctimes, tokens = map(_column, zip(*facts, strict=True))
        target = None if self.to_box is None else folder_text(self.to_box, self.to_folder)
        return MoveRun(
            folder_text(self.group.box, self.group.folder), target, names, inos, sizes, ctimes, tokens,
            None if target is None or to_names == names else to_names, dict(self.was) or None,
        )  # fmt: skip


def _column(values: tuple[Any, ...]) -> Any:
    """The value that all of ``values`` have, or else the list of them."""
    return values[0] if values.count(values[0]) == len(values) else list(values)


def describe(error: OSError) -> str:
    name = f" ({escape(os.fsdecode(error.filename))})" if isinstance(error.filename, (str, bytes)) else ""
    return f"{error.strerror or error}{name}"


# Syncs the folders that the moves of an operation have changed, as few of them as the file system allows.

class ChangedFolders(Struct):
    """The changed folders of one operation. No method raises ``OSError``: ``finish`` returns the first error."""

    _dirs: SpoolDirs
    _lookup: NameLookup
    _folders: dict[Folder, bool] = {}
    """The folders in the order of the last change, and whether each was a target."""
    _emptied: set[str] = set()
    _problem: str = ""
    _claims_synced: bool = False

    def note(self, run: Run, source: Folder, to: Folder | None) -> None:
        """Notes moves of ``run`` from ``source`` into ``to``; None: deletions."""
        if run.to_box is None and run.group.box is Box.TRASH:
            self._emptied.add(run.group.folder)
        for folder in (source, to):
            if folder is not None:
                self._folders[folder] = self._folders.pop(folder, False) or folder is to

    def sync_claims(self, folders: Folders) -> None:
        """Syncs the claims that are about to leave the boxes, at the first call. Where directories do not wait for each other
        (btrfs) a power cut would otherwise bring the messages back to ``new``, beside those that were set aside."""
        if self._claims_synced:
            return
        self._claims_synced = True
        try:
            new = folders.of(Box.NEW, "")
            if not self._lookup.ordered(new):
                self._dirs.files.sync_dir(new.fd)
        except OSError as error:
            self._problem = f"moved, but a power failure may return it to new: {describe(error)}"

    def sync(self) -> None:
        """Syncs the targets, then the sources, of all moves since the last call."""
        last = {folder.id[0]: folder for folder in self._folders}
        for folder in sorted(self._folders, key=self._folders.__getitem__, reverse=True):  # the targets first
            # Where changes of names keep their order the directory that was changed last stands for all of its device; one that
            # was changed before that may have been synced by somebody since, and then its sync does nothing.
            newest = last[folder.id[0]]
            if newest is not folder and self._lookup.ordered(newest):
                continue
            try:
                self._dirs.files.sync_dir(folder.fd)
            except OSError as error:
                self.report(f"moved, but a power failure may undo the move: {describe(error)}")
        self._folders.clear()

    def report(self, problem: str) -> None:
        """Keeps ``problem`` unless there was another before."""
        self._problem = self._problem or problem

    def finish(self) -> str:
        """Removes the folders in the trash that are empty now. Returns what went wrong since the last call, or ""."""
        for operation in self._emptied:
            drop_folder(self._dirs, Box.TRASH, operation)
        self._emptied.clear()
        problem, self._problem = self._problem, ""
        return problem


# The metadata of messages that are set aside: written before the message arrives, and once for all messages whose metadata are
# equal. For a few messages, metadata by links take a third of the time of the moves. For very many they take half of it: the
# names fill the directory, and with it the journal of the file system. Measured on ext4, a million: 47 s without, 91 s with a
# link for each, where a bare loop of renames takes 18 to 23. So the metadata that the messages of a large operation have in
# common are in one file beside its folder.

_SAME_TIME = 600.0
"""Seconds within which messages count as set aside at one time: at a low rate an operation takes days."""


def _encoded(said: JsonObject) -> bytes:
    return json.dumps(said).encode() + b"\n"


class MetaWriter:
    """Writes the metadata of one operation. The common part of a large operation lies beside the folders called ``shared``, which
    are its own; "": there is none."""

    def __init__(self, dirs: SpoolDirs, shared: str) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._shared = shared
        self._lookup = NameLookup(dirs.files)
        self._meta_names: dict[tuple[Folder, bytes], str] = {}
        self._common: dict[Box, tuple[int, JsonObject]] = {}
        """The common metadata in each box, after the inode of their file; empty: each message there has its own."""
        self._relied_on: set[Box] = set()

    def settle(self) -> None:
        """Writes the common metadata again where they are gone. To be called after a batch: whoever empties the folder
        meanwhile removes what lies beside it, and the operation may have put more into a new one. Raises ``OSError``."""
        for box in self._relied_on:
            above, (_, said) = self._dirs.private_dir(box.value), self._common[box]
            if said and (above is None or self._lookup.there(set_aside.meta_name(self._shared), above) is False):
                self._common[box] = self._write_common(box, said), said
        self._relied_on.clear()
        self._meta_names.clear()

    def covers(self, box: Box, said: JsonObject) -> bool:
        """True where ``said`` are the common metadata in ``box`` for all messages of this operation that have none of their own.
        The first ones asked for are written there. Never raises ``OSError``: an error shows where each message gets its own."""
        if not self._shared:
            return False
        ino, common = self._common.get(box, (0, None))
        try:
            seen = self._inode(box) if common else None
            if common is None or (common and seen is None):
                ino, common = self._write_common(box, said), said
            elif seen != ino:
                ino, common = 0, {}  # somebody else's
        except OSError:
            ino, common = 0, {}
        self._common[box] = ino, common
        first, now = common.get("at"), said.get("at")
        if not isinstance(first, float) or not isinstance(now, float) or not 0 <= now - first < _SAME_TIME:
            return False
        if {**said, "at": first} != common:
            return False
        self._relied_on.add(box)
        return True

    def _inode(self, box: Box) -> int | None:
        """The inode of the file of common metadata in ``box``, None where it is not seen."""
        above = self._dirs.private_dir(box.value)
        return None if above is None else self._lookup.inode(set_aside.meta_name(self._shared), above)

    def _write_common(self, box: Box, said: JsonObject) -> int:
        """Writes common metadata, and returns the inode of their file. They survive power loss when this returns, as they count
        for all the messages. Raises ``OSError``, and leaves nothing then."""
        above = self._dirs.own_dir(box.value)
        ino = write_new(self._files, above, set_aside.meta_name(self._shared), _encoded(said), self._dirs.owner_model)
        try:
            self._files.sync_dir(above)
        except OSError:
            self.drop(self._shared, above)
            raise
        return ino

    def write(self, name: str, folder: Folder, said: JsonObject) -> None:
        """Writes the metadata of one message in an open folder, or links equal ones of another: a third of the time of a file.
        Raises ``OSError``, and leaves nothing then."""
        meta_name, fd, like = set_aside.meta_name(name), folder.fd, self._dirs.owner_model
        shared = name in meta_name  # else the name is too long to stand there, and stands inside
        data = _encoded(said if shared else {**said, "name": name})
        if shared and (before := self._meta_names.get((folder, data))) is not None:
            # Writing them shows what is wrong: no links here, too many of them, or that one is gone.
            with suppress(OSError):
                self._files.link(before, fd, meta_name, fd)
                return
        try:
            write_new(self._files, fd, meta_name, data, like, durable=False)
        except FileExistsError:
            if self._lookup.inode(name, fd) is not None:
                raise
            self._files.unlink(meta_name, fd)  # left by one that was cut off
            write_new(self._files, fd, meta_name, data, like, durable=False)
        if shared:
            self._meta_names[folder, data] = meta_name

    def drop(self, name: str, folder: int) -> None:
        try:
            self._files.unlink(set_aside.meta_name(name), folder)
        except OSError:
            return  # metadata without a message are never shown; where the message stands is what counts


# Rechecks a holder just before its message is moved. Own claims are checked by the lock on their presence file, which is proof.
# For claims of other consumers and files in ``tmp`` the evidence is read again, which is no proof, and the plan says so.

JudgeAgain = Callable[[Box, Sequence[str]], Mapping[str, tuple[Verdict | None, str]]]
"""Judges names of ``tmp`` or ``cur`` now: name → (verdict, evidence). The name of a file in a staging directory is
``FOLDER/NAME``. Names that have gone are left out."""


def forgotten_words(box: Box) -> str:
    """Says why a message stays in ``box`` that was claimed by a consumer without a presence file."""
    return f"its consumer has exited and left no presence file: it stays in {box}"


class Recheck:
    """Rechecks the holders of one operation: a token that is dead stays dead and is tested once."""

    def __init__(self, dirs: SpoolDirs, again: JudgeAgain, hosts: str) -> None:
        self._dirs = dirs
        self._again = again
        self.dead: set[str] = set()
        """Tokens whose claims may go."""
        self._read: dict[tuple[Box, str], tuple[Verdict | None, str]] = {}
        self._vantage = presence.HostView.of(dirs, hosts)

    def prepare(self, items: Iterable[tuple[Box, str, str | None]]) -> None:
        """Reads the evidence on (box, name in its folder, token) again where no lock decides: once for a batch, just before
        its moves."""
        wanted: dict[Box, list[str]] = {}
        for box, name, token in items:
            if box is Box.TMP or (box is Box.CUR and token is None):
                wanted.setdefault(box, []).append(name)
        self._read = {
            (box, name): judged for box, asked in wanted.items() for name, judged in self._again(box, asked).items()
        }

    def blocked_by(self, box: Box, name: str, token: str | None, planned: Verdict | None) -> str | None:
        """Why ``name`` must stay where it is, or None. A claim that was planned as unknown may still be unknown."""
        verdict: Verdict | None
        if box is Box.CUR and token is not None:
            if token in self.dead:
                return None
            verdict, evidence, _ = self.holder(token)
            if verdict is Verdict.DEAD:
                self.dead.add(token)
        elif box in (Box.CUR, Box.TMP):
            verdict, evidence = self._read.get((box, name), (Verdict.UNKNOWN, "it was not found again"))
        else:
            return None
        if verdict in (Verdict.ALIVE, Verdict.WRITING):
            return f"{verdict}: {evidence}"
        if verdict is Verdict.UNKNOWN and planned not in (Verdict.UNKNOWN, None):
            return f"its holder may be running: {evidence}"
        return None

    def forgotten(self, claims: Sequence[str]) -> set[str]:
        """The names of claims whose consumers have no presence file. In ``cur`` nobody could ever tell that their holders are
        dead."""
        tokens = tokens_of_claims(claims)
        forgotten = {token: self.holder(token)[2] for token in {*tokens}}
        return {name for name, token in zip(claims, tokens, strict=True) if forgotten[token]}

    def holder(self, token: str) -> tuple[Verdict, str, bool]:
        """The verdict on the consumer with this token, the evidence, and True if it has no presence file any more. "" is the
        token of a consumer that is not spooltop's."""
        if not token:
            return Verdict.UNKNOWN, "", False
        seen = presence.look(self._dirs, token)
        return *presence.judge(seen, self._vantage), seen.state == "missing"


# Finishes what a crash left half done, at the first change and never by a viewer. Where a move had to be link and unlink, a
# crash between the two leaves two names of one file. A second name in ``cur`` whose holder is dead is removed when ``new``
# holds the same inode. A second name that an interrupted operation set aside is removed while the message is still in a box, or
# where it had been set aside before, and so is the one in ``tmp`` of an injected message. Two inodes under one id are no half
# move: they are left alone. The metadata of a message that was deleted are removed after it.

_LOCK = "repair.lock"
"""The lock file stays when the lock is released: removing it would allow two of them."""


class Repaired(Struct):
    """The names that were removed. ``in_cur``: (name in ``cur``, inode) of files whose name in ``new`` stays. ``inodes``: other
    files that lost a second name, which has changed their ctime."""

    in_cur: set[tuple[str, int]] = set()
    inodes: set[int] = set()


def half_moved(operations: Iterable[MoveOperation]) -> frozenset[int]:
    """The inodes that an interrupted operation was setting aside or putting back, so that they may have two names."""
    return frozenset(
        move.ino
        for move in unsure_moves(operations)
        if any(place is not None and place.box in ASIDE for place in (move.source, move.target))
    )


def finish_half_moves(dirs: SpoolDirs, recheck: Recheck, operations: Sequence[MoveOperation]) -> Repaired:
    """Removes the second names, unless somebody else is doing it, or there are no locks that would tell. Raises ``OSError``."""
    linked, repaired, files, cur, new = _linked_claims(dirs), Repaired(), dirs.files, dirs.cur, dirs.new
    if not linked and not any(_second_names(dirs, operations)) and not any(_left_behind(dirs, operations)):
        return repaired
    own = dirs.own_dir()
    with files.closing(open_shared(files, _LOCK, own, dirs.owner_model)) as fd:
        plain_file(files, fd, own, _LOCK, mend=True)
        try:
            if not files.lock_coarse(fd):
                return repaired
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            return repaired
        for place in list(_left_behind(dirs, operations)):
            set_aside.remove_meta(dirs, set_aside.Entry(place.box, place.folder, place.name))
            if place.box is Box.TRASH:
                drop_folder(dirs, place.box, place.folder)
        recheck.prepare((Box.CUR, name, token) for name, token, _, _ in linked)
        for name, token, ino, stays in linked:
            assert cur is not None and new is not None  # both names were seen
            blocked = recheck.blocked_by(Box.CUR, name, token, Verdict.DEAD) is not None
            if not blocked and files.is_inode(name, cur, ino) and files.is_inode(stays, new, ino):
                with suppress(FileNotFoundError):  # a consumer or another operator was quicker
                    files.unlink(name, cur)
                    repaired.in_cur.add((name, ino))
        if repaired.in_cur:
            files.sync_dir(dirs.box(Box.CUR))
        for place, ino in list(_second_names(dirs, operations)):
            repaired.inodes.add(ino)
            with suppress(FileNotFoundError):  # another operator was quicker
                folder = Folders(dirs).of(place.box, place.folder).fd
                files.unlink(place.name, folder)
                files.sync_dir(folder)
                if place.folder:
                    set_aside.remove_meta(dirs, set_aside.Entry(place.box, place.folder, place.name))
    return repaired


def _linked_claims(dirs: SpoolDirs) -> list[tuple[str, str | None, int, str]]:
    """The claims that have their other name in ``new``: name, token, inode, the other name."""
    files, cur, new = dirs.files, dirs.cur, dirs.new
    if cur is None or new is None or next(files.scan(new), None) is None:
        return []  # nothing waits: no claim has its other name there
    claims = _with_two_names(files, cur)
    waiting = _with_two_names(files, new) if claims else {}
    return [
        (name, names.parse(name, claimed=True).token, ino, waiting[ino]) for ino, name in claims.items() if ino in waiting
    ]


def _with_two_names(files: Files, folder: int) -> dict[int, str]:
    """The files with two names, one of them in the open directory: inode → name there. By their status: some FUSE file systems
    list other inodes than they have."""
    found = ((name, files.status(name, folder)) for name in files.scan(folder))
    return {status.st_ino: name for name, status in found if status is not None and status.st_nlink == 2}


def _second_names(dirs: SpoolDirs, operations: Iterable[MoveOperation]) -> Iterator[tuple[Place, int]]:
    """The second names of messages that interrupted operations were moving, each with its inode: a name set aside of a message
    that is still in a box, and a name in ``tmp`` of an injected one."""
    folders = Folders(dirs)
    for move in unsure_moves(operations):
        if move.target is None:
            continue
        if move.source is None:
            drafted = Place(Box.TMP, move.target.name)
            if (ino := _doubled_inode(folders, drafted)) is not None:
                yield drafted, ino
            continue
        if move.source.folder and move.target.folder:
            if move.ino == _doubled_inode(folders, move.target) == _doubled_inode(folders, move.source):
                yield move.target, move.ino
            continue
        for place in (move.source, move.target):
            if place.folder and _doubled_inode(folders, place) == move.ino and _in_a_box(dirs, move.ino):
                yield place, move.ino


def _left_behind(dirs: SpoolDirs, operations: Iterable[MoveOperation]) -> Iterator[Place]:
    """The places from which interrupted operations have deleted a message that had been set aside, while its metadata are still
    there, or beside the folder, which is empty."""
    folders = Folders(dirs)
    looked_at: set[str] = set()
    for move in unsure_moves(operations):
        place = move.source
        if move.target is not None or place is None or not place.folder:
            continue
        metadata = Place(place.box, set_aside.meta_name(place.name), place.folder)
        if folders.status(metadata) and not folders.status(place):
            yield place
        elif place.box is Box.TRASH and place.folder not in looked_at:
            looked_at.add(place.folder)
            if _emptied(folders, place):
                yield place


def _emptied(folders: Folders, place: Place) -> bool:
    """True where the folder is empty or gone, and the common metadata still lie beside it."""
    try:
        return bool(folders.shared(place.box, place.folder)) and not any(
            folders.files.scan(folders.of(place.box, place.folder).fd)
        )
    except FileNotFoundError:
        return True


def _doubled_inode(folders: Folders, place: Place) -> int | None:
    """The inode at ``place`` where it has two names."""
    found = folders.status(place)
    return found.st_ino if found is not None and found.st_nlink == 2 else None


def _in_a_box(dirs: SpoolDirs, ino: int) -> bool:
    files, boxes = dirs.files, (dirs.tmp, dirs.new, dirs.cur)
    return any(files.is_inode(name, fd, ino) for fd in boxes if fd is not None for name in files.list(fd))


# Moves messages between boxes, each pinned by identity, none ever replaced.

_SMALL = BATCH
"""Messages up to which each that is set aside has metadata of its own beside it."""
_FEW = 64
"""Messages up to which each that was moved is looked at."""
_SHORT_NS = 100_000_000
"""Nanoseconds for which the clock says when the messages of a batch were moved; after that each is looked at."""
_TICK_NS = 20_000_000
"""Nanoseconds by which the times of a file system can be behind the clock: they advance in ticks of 10 ms at most."""
_PLAIN = MoveOutcome(0, Outcome.DONE, "", True)


class _Tried(Struct):
    """The moves of a batch that were tried so far: their number, the outcomes of those that are not done as planned, and the time
    between which the others came to a box, in ns. ``by_clock``: that time says when; the clock has been steady, and it was
    short."""

    by_clock: bool
    count: int = 0
    others: list[MoveOutcome] = []
    from_ns: int = field(default_factory=time_ns)
    until_ns: int = field(default_factory=time_ns)


class Mover:
    """Moves the messages of ``plan`` for ``user``, step by step."""

    def __init__(
        self, dirs: SpoolDirs, recheck: Recheck, repaired: Repaired, plan: Plan, user: str, clock: Clock
    ) -> None:
        self._files = dirs.files
        self._recheck = recheck
        self._repaired = repaired
        self._plan = plan
        self._user = user
        self._clock = clock
        self._messages: Sequence[Message] = ()
        self._runs: list[Run] = []
        self._held = () if plan.force and plan.action in FORCEABLE else (Box.CUR, Box.TMP)
        """Boxes in which a holder that runs keeps a message where it is."""
        self._lookup = NameLookup(dirs.files)
        self._changed = ChangedFolders(dirs, self._lookup)
        self._folders = Folders(dirs, self._changed.sync)
        # Out of one box: what has metadata of its own and loses them to a power cut must not pass for what came from another.
        boxes = {item.box for item in plan.items}
        large = len(boxes) == 1 and not boxes.isdisjoint(LIVE) and len(plan.items) > _SMALL
        self._metas = MetaWriter(dirs, plan.operation if large else "")

    def items(self, place: int, at_most: int) -> Sequence[Item]:
        """The next messages of the plan."""
        self._messages = [ref_of(item, Message) for item in self._plan.items[place : place + at_most]]
        return self._messages

    def intent(self) -> MoveIntent:
        self._runs = list(self._runs_of(self._messages, self._clock()))
        return MoveIntent([run.logged() for run in self._runs])

    def _runs_of(self, messages: Sequence[Message], at: float) -> Iterator[Run]:
        plan = self._plan

        def route(message: Message) -> tuple[Any, ...]:
            group, way = message.group, message.way
            elsewhere = way.warning if plan.action is Action.REQUEUE and way.box is not Box.NEW else ""
            to_folder = way.folder if way.folder is not None else plan.operation if way.box in ASIDE else ""
            # Where they are many, the names of metadata are listed once, rather than asked for with each message.
            listed = self._folders.own_metadata(group.box, group.folder) if plan.count > _SMALL and group.box in ASIDE else None
            beside = self._folders.beside(group.box, group.folder, message.name, listed, read=not plan.deletes)
            return group.box, group.folder, group.folder_id, way.box, to_folder, elsewhere, *beside, way.meta

        reason = f"undo of {plan.undoes}" if plan.action is Action.UNDO else f"{plan.action} by {self._user}"
        for (box, _, _, to_box, to_folder, elsewhere, was, own, given), part in groupby(messages, route):
            said: dict[str, Json] = {
                "origin": box.value, "reason": reason, "at": at, "who": self._user, "operation": plan.operation,
            }  # fmt: skip
            if elsewhere:
                said["reason"] = f"{elsewhere}, by {self._user}"
            elif was and to_folder:
                # Where it had been set aside, and why, is kept for the day when it goes back there.
                said["was"] = {name: value for name, value in was.items() if name != "was"}
            moves = list(part)
            yield Run(moves[0].group, to_box, to_folder, elsewhere, was, own, given or said, moves)

    def run(self, stop: Stop) -> EndedStep[BatchOutcome]:
        """Moves the messages of a batch one after the other, until ``stop`` says so after one, and syncs what was changed. Never
        raises ``OSError``: each message has its outcome."""
        runs = self._runs
        self._recheck.prepare(
            (run.group.box, in_folder(one.name, run.group.folder), one.group.token)
            for run in runs if run.group.box in self._held for one in run.moves
        )  # fmt: skip
        if any(run.group.box is Box.CUR and run.to_box not in LIVE for run in runs):
            self._changed.sync_claims(self._folders)
        tried = _Tried(sum(len(run.moves) for run in runs) > _FEW)
        for run in runs:
            if not self._move_run(run, tried, stop):
                break
        try:  # syncs all moves
            self._folders.close()
            self._metas.settle()
        except OSError as error:
            self._changed.report(f"moved, but: {describe(error)}")
        if problem := self._changed.finish():  # the moves may not survive power loss
            others = {one.place: one for one in tried.others}
            each = (others.get(place) or MoveOutcome(place, Outcome.DONE, "", True) for place in range(tried.count))
            tried.others = [one.replace(outcome=Outcome.FAILED, reason=problem) if one.moved else one for one in each]
        live = any(run.to_box in LIVE for run in runs)
        between = (tried.from_ns - _TICK_NS, tried.until_ns) if live else None
        return EndedStep(self._results(tried), BatchOutcome(tried=tried.count, between=between, others=tried.others))

    def _results(self, tried: _Tried) -> Results:
        ended, results = {one.place: one for one in tried.others}, list[ItemResult | None]()
        each = ((run.elsewhere, message) for run in self._runs for message in run.moves)
        for place, (elsewhere, message) in enumerate(islice(each, tried.count)):
            one, result = ended.get(place, _PLAIN), None
            if elsewhere or one.reason or one.outcome is not Outcome.DONE:
                reason, to_name = (one.reason or elsewhere, message.to_name) if one.moved else (one.reason, "")
                result = ItemResult(message.id, message.name, one.outcome, reason, to_name)
            results.append(result)
        return results

    def _move_run(self, run: Run, tried: _Tried, stop: Stop) -> bool:
        """Moves or deletes the messages of ``run``, False where ``stop`` has ended it. A message with anything else to say than
        that it is done has its outcome in ``tried.others``."""
        box, folder, to_box, dead = run.group.box, run.group.folder, run.to_box, self._recheck.dead
        live, free = to_box in LIVE, box not in self._held
        forgotten = self._recheck.forgotten([move.to_name for move in run.moves]) if to_box is Box.CUR else ()
        source: Folder | None = None
        to: Folder | None = None
        opened = changed = plain = stopped = False
        fd = to_fd = -1
        for message in run.moves:
            place, moving = tried.count, False
            if stopped := bool(place) and stop():
                break
            tried.count = place + 1
            name, to_name, ino = message.name, message.to_name, message.st_ino
            try:
                if to_name in forgotten:
                    raise Skipped(forgotten_words(box))
                if source is None:
                    source = self._folders.of(box, folder)
                    fd = source.fd
                found = self._files.stat(name, fd)
                pinned = is_pinned(found, ino, message.st_size, message.st_ctime_ns)
                single = pinned and found.st_nlink == 1 and S_ISREG(found.st_mode)
                if not (single and opened and (free or message.group.token in dead)):
                    group = message.group
                    if not single or source.id != group.folder_id:
                        self._compare(run, message, source, found)
                    why = None if free else self._recheck.blocked_by(box, in_folder(name, folder), group.token, group.verdict)
                    if why:
                        raise Skipped(why)
                    if not opened:
                        source, to, plain = self._opened(run)
                        fd, to_fd, opened = source.fd, -1 if to is None else to.fd, True
                        tried.by_clock = tried.by_clock and not (live and to and not self._lookup.ordered(to))
                moving = True
                if plain and (single or found.st_nlink == 1):
                    # Without its inode, in a box: another operator's move to the same name would pass for ours.
                    self._files.move(name, fd, to_name, to_fd, None if live else ino)
                else:
                    self._move_otherwise(run, message, source, to, half_moved=found.st_nlink != 1)
            except Skipped as why_not:
                tried.others.append(MoveOutcome(place, Outcome.SKIPPED, str(why_not)))
                continue
            except OSError as error:
                refused = MoveOutcome(place, *self._refused(run, message, source, to, error, moving=moving))
                tried.others.append(refused)
                changed = changed or refused.moved
                continue
            changed = True
            if run.own_metadata:
                self._metas.drop(name, fd)
            if live:  # only where others take from does it matter whether it went on and came back
                now = time_ns()
                # A clock that was set, or a pause in which a message can go on and come back: from there on each is looked at.
                tried.by_clock = tried.by_clock and tried.until_ns <= now < tried.from_ns + _SHORT_NS
                if tried.by_clock:
                    tried.until_ns = now
                else:
                    ctime = self._lookup.ctime_ns(to_name, to_fd, ino)
                    tried.others.append(MoveOutcome(place, Outcome.DONE, "", True, 0, ctime))
        if changed and source is not None:
            self._changed.note(run, source, to)
        return not stopped

    def _opened(self, run: Run) -> tuple[Folder, Folder | None, bool]:
        """Opens the source and the target, which is made where it is missing, and says whether the move of a message is all there
        is to do: it needs no metadata of its own. Raises ``OSError``."""
        group, to_box = run.group, run.to_box
        to = None if to_box is None else self._folders.of(to_box, run.to_folder, create=True)
        source = self._folders.of(group.box, group.folder)  # it may have been closed to make room
        if source.id != group.folder_id:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        covered = to_box is not None and self._is_own(run) and self._metas.covers(to_box, run.meta)
        return source, to, covered or to_box in LIVE

    def _is_own(self, run: Run) -> bool:
        """True where nobody else moves anything to the target: its folder is this operation's own."""
        return run.to_folder == self._plan.operation

    def _compare(self, run: Run, message: Message, source: Folder, found: os.stat_result) -> None:
        """Raises ``Skipped`` for a message that is not as it was pinned, unless only our own repair, or a half move, has changed
        it."""
        if source.id != run.group.folder_id:
            raise Skipped(f"the directory {run.group.box} was replaced since the plan")
        ino, size = message.st_ino, message.st_size
        mended = found.st_ino in self._repaired.inodes and (found.st_ino, found.st_size) == (ino, size)
        unchanged = mended or is_pinned(found, ino, size, message.st_ctime_ns)
        if not S_ISREG(found.st_mode) or not unchanged:
            raise Skipped("changed since the plan")
        if found.st_nlink != 1 and not (found.st_nlink == 2 and self._half_moved(run, message)):
            raise Skipped("has another hard link")

    def _half_moved(self, run: Run, message: Message) -> bool:
        """True where an interrupted link and unlink has left the same file at the target already."""
        if run.to_box is None:
            return False
        try:
            return self._lookup.inode(message.to_name, self._folders.of(run.to_box, run.to_folder).fd) == message.st_ino
        except FileNotFoundError:
            return False

    def _move_otherwise(self, run: Run, message: Message, source: Folder, to: Folder | None, *, half_moved: bool) -> None:
        """Deletes a message, before its metadata: while it exists, they do too. Finishes a half move. Or sets a message aside
        with metadata of its own, which are written first and dropped where it does not arrive. Raises ``OSError``."""
        if to is None:
            self._files.unlink(message.name, source.fd)
        elif half_moved:
            self._files.sync_dir(to.fd)
            self._files.unlink(message.name, source.fd)
        else:
            ino = message.st_ino
            self._metas.write(message.to_name, to, run.meta)
            try:
                self._files.move(message.name, source.fd, message.to_name, to.fd, ino if self._is_own(run) else None)
            except OSError:
                if self._lookup.inode(message.to_name, to.fd) != ino:
                    self._metas.drop(message.to_name, to.fd)
                raise

    def _refused(
        self, run: Run, message: Message, source: Folder | None, to: Folder | None, error: OSError, *, moving: bool
    ) -> tuple[Outcome, str, bool]:
        """The outcome of a message of which the status, the holder or, where it was ``moving``, the move raised ``error``: what
        happened to it is found by looking. Also the words, and True where it has moved."""
        name, ino, box, undo = message.name, message.st_ino, run.group.box, self._plan.action is Action.UNDO
        if moving and isinstance(error, FileExistsError):
            return Outcome.FAILED, f"{run.to_box} already has a file of that name; it stays in {box}", False
        in_place = source is not None and self._lookup.inode(name, source.fd) == ino
        if isinstance(error, FileNotFoundError) and not in_place:  # in place: its target is gone
            if box is Box.CUR and run.to_box is Box.NEW and (name, ino) in self._repaired.in_cur:
                return Outcome.DONE, "an interrupted move was finished", True
            if box is Box.NEW:
                return Outcome.SKIPPED, "already claimed by a consumer" if undo else "claimed or moved meanwhile", False
            return Outcome.SKIPPED, "gone" if undo else "acknowledged or moved meanwhile", False
        if to is not None:
            moved = moving and not in_place and self._lookup.inode(message.to_name, to.fd) == ino
        else:
            moved = moving and source is not None and self._lookup.there(name, source.fd) is False
        but = f"{'deleted' if to is None else 'moved'}, but: " if moved else ""
        return Outcome.FAILED, but + describe(error), moved
