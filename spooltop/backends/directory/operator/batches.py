"""The moves of a plan, batch by batch: the exact source and target of each message, and the metadata written beside it there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from spooltop.model.chunked import CHUNK, expand
from spooltop.model.plan import Item, Outcome, Plan, item_columns
from spooltop.model.results import Columns, Results
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Json, Verdict

from ..journal.moves import MoveColumns
from ..journal.outcomes import BatchOutcome
from ..storage.folders import Folders
from ..storage.location import Place, Ref, in_folder
from .packed_items import BOX, VERDICT, Batch
from .rules import FORCEABLE, RULES

__all__ = ["Move", "MoveBatch", "MoveMode", "UniformBatch", "batch_item_by_item", "batches_of"]


class MoveMode(NamedTuple):
    """The part that most messages of a batch have in common.

    ``meta`` goes beside a message that is set aside: a JSON object still open, the name to come. ``gone`` says what it means
    that the message is not there. ``alone``: nobody else moves anything to that target, its folder is this operation's own.
    ``elsewhere``: why the message goes not where the action says.
    """

    forced: bool
    meta: str
    gone: str
    alone: bool
    elsewhere: str = ""


class Move(NamedTuple):
    """A message to move, or to delete: then ``to_box`` is None and so is all of the target. ``was`` is the metadata of a
    message that had been set aside, which goes with the move. The tuple is flat, because a million of them are made."""

    box: Box
    name: str
    folder: str
    ino: int
    size: int
    ctime_ns: int
    folder_id: tuple[int, int]
    token: str | None
    to_box: Box | None
    to_name: str
    to_folder: str
    planned: Verdict | None
    mode: MoveMode
    was: Mapping[str, Json] | None = None


_flat = partial(tuple.__new__, Move)


class UniformBatch(NamedTuple):
    """The part that all messages of a batch out of one box into one box have in common. None of them has a folder or metadata.
    """

    box: Box
    folder_id: tuple[int, int]
    to_box: Box
    to_folder: str
    mode: MoveMode


class MoveBatch:
    """The moves of one batch, by columns: each is made when its turn comes. ``ids`` are those of the messages. ``uniform`` is
    None where the moves differ. ``again`` makes the results of a uniform batch once more where all its moves are done."""

    def __init__(
        self,
        columns: Sequence[Sequence[Any]],
        ids: Sequence[str],
        uniform: UniformBatch | None = None,
        again: Callable[[], Results] | None = None,
    ) -> None:
        self._columns = columns
        self._ids = ids
        self.uniform = uniform
        self._again = again

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Move]:
        return map(_flat, zip(*self._columns, strict=True))

    def __getitem__(self, place: int) -> Move:
        return Move._make([column[place] for column in self._columns])

    def column(self, field: str) -> Sequence[Any]:
        return self._columns[Move._fields.index(field)]

    def to_recheck(self) -> Iterable[tuple[Box, str, str | None]]:
        """The (box, name in its folder, token) of the messages that a running holder keeps where they are."""
        if self.uniform is not None and (self.uniform.mode.forced or self.uniform.box is Box.NEW):
            return ()
        columns = zip(*map(self.column, ("box", "name", "folder", "token", "mode")), strict=True)
        return ((box, in_folder(name, folder), token) for box, name, folder, token, mode in columns if not mode.forced)

    def removes_claims(self) -> bool:
        """True where a claim is to leave the boxes, or to be deleted."""
        if self.uniform is not None:
            return self.uniform.box is Box.CUR and self.uniform.to_box not in LIVE
        return any(box is Box.CUR and to not in LIVE for box, to in zip(self.column("box"), self.column("to_box"), strict=True))

    def moves(self) -> Iterator[MoveColumns]:
        """The moves as the journal announces them."""
        boxes, names, folders, inos, sizes, ctimes_ns, _, tokens, to_boxes, to_names, to_folders, _, _, metas = self._columns
        start = 0
        for folder, run in groupby(zip(boxes, folders, to_boxes, to_folders, metas, strict=True)):
            box, here, to_box, there, meta = folder
            part = slice(start, start + sum(1 for _ in run))
            start = part.stop
            yield MoveColumns(
                (box, here), None if to_box is None else (to_box, there), meta, names[part], to_names[part], inos[part],
                sizes[part], ctimes_ns[part], tokens[part],
            )  # fmt: skip

    def results(self, outcome: BatchOutcome) -> Results:
        """The results of the moves; ``outcome`` goes as far as the batch went."""
        count = len(outcome)
        names, to_names, modes = (self.column(field)[:count] for field in ("name", "to_name", "mode"))
        outcomes, reasons, there = outcome.columns()
        if self.uniform is None:  # what is uniform goes where the action says
            reasons = [
                reason or (mode.elsewhere if really else "") for reason, mode, really in zip(reasons, modes, there, strict=True)
            ]
        became = to_names if all(there) else [name if really else "" for name, really in zip(to_names, there, strict=True)]
        plain = self.uniform is not None and not outcome.others and count == len(self)
        return Results(Columns(self._ids[:count], names, outcomes, reasons, became), self._again if plain else None)


def _all_done(items: Sequence[Item], start: int) -> Results:
    """The results of the uniform chunk of a plan that begins at ``start``, when all its moves are done."""
    chunk = Batch.of(items[start : start + CHUNK])
    columns, refs = item_columns(chunk), chunk.refs
    became = columns.names if refs.target_box == (None,) else expand(refs.target_name, CHUNK)
    return Results(Columns(columns.ids, columns.names, [Outcome.DONE] * CHUNK, [""] * CHUNK, became))


def batches_of(
    folders: Folders, plan: Plan, parts: Iterable[slice], *, user: str, clock: Callable[[], float]
) -> Iterator[MoveBatch]:
    """Yields the moves of each of ``parts`` of the items of ``plan``, in their order, at least one each. ``clock`` returns epoch
    seconds."""
    for part in parts:
        items, at = plan.items[part], clock()
        uniform = _uniform_batch(_Modes(plan, user, at), Batch.of(items), partial(_all_done, plan.items, part.start))
        yield uniform or batch_item_by_item(folders, plan, items, user=user, at=at)


def batch_item_by_item(folders: Folders, plan: Plan, items: Sequence[Item], *, user: str, at: float) -> MoveBatch:
    """The moves of ``items`` of any kind, each looked at. ``at`` is now, in epoch seconds."""
    modes = _Modes(plan, user, at)
    moves = [_move_of(folders, modes, item) for item in items]
    return MoveBatch(list(zip(*moves, strict=True)), item_columns(items).ids)


class _Modes:
    """The modes of one batch, each made once, and the target of a message whose pin names none."""

    def __init__(self, plan: Plan, user: str, at: float) -> None:
        self.requeues = plan.action is Action.REQUEUE
        self.operation = plan.operation
        self._undo = plan.action is Action.UNDO
        self._forced = plan.force and plan.action in FORCEABLE
        reason = f"undo of {plan.undoes}" if self._undo else f"{plan.action} by {user}"
        self._said: dict[str, Json] = {"reason": reason, "at": at, "who": user, "operation": plan.operation}
        self._user = user
        # The undo of what was put sets it aside.
        self._into = Box.TRASH if self._undo else None if plan.deletes else RULES[plan.action].target
        self._folder = Place(Box.TRASH, "any", plan.operation).folder  # a place below it needs no check but that of its name
        self._known: dict[tuple[Box, str], MoveMode] = {}

    def target(self, box: Box | None) -> tuple[Box | None, str]:
        """The (box, folder) of a message that goes to ``box``, or where that is None, to where the action says."""
        into = box or self._into
        if into is not None and into not in ASIDE:
            raise ValueError(f"what it is called in {into} is not said")
        return into, "" if into is None else self._folder

    def usual(self, box: Box, to_folder: str) -> MoveMode:
        mode = self._known.get((box, to_folder))
        if mode is None:
            meta = self.meta(box)
            mode = MoveMode(self._forced, meta, _gone(box, self._undo), to_folder == self.operation)
            self._known[box, to_folder] = mode
        return mode

    def meta(self, box: Box, **more: Json) -> str:
        return _open_json({"origin": box.value, **self._said, **more})

    def elsewhere(self, box: Box, why: str) -> str:
        """The metadata of a message that goes not where the action says."""
        return self.meta(box, reason=f"{why}, by {self._user}")


def _uniform_batch(modes: _Modes, items: Batch, again: Callable[[], Results]) -> MoveBatch | None:
    """The moves of messages out of one box into one box, as nearly all of a million are, without a look at each; None where
    they differ in more than that."""
    refs, count = items.refs, len(items)
    one = (refs.box, refs.folder, refs.folder_id, refs.target_box, refs.target_folder, refs.meta, refs.to)
    if not all(isinstance(column, tuple) for column in one):
        return None
    (box,), (folder,), (folder_id,), (target_box,), (to_folder,), (meta,), (to,) = one
    if folder or meta is not None or (to is not None and modes.requeues):
        return None
    to_box, names, to_names = None if target_box is None else BOX[target_box], refs.name, refs.target_name
    if to_box is None:
        to_box, to_folder = modes.target(None if to is None else BOX[to])
        to_names = ("",) if to_box is None else names
    source = BOX[box]
    columns = (
        (source,), names, ("",), refs.ino, refs.size, refs.ctime_ns, (folder_id,), refs.token, (to_box,), to_names, (to_folder,),
        list(map(VERDICT.__getitem__, expand(refs.verdict, count))), (modes.usual(source, to_folder),), (None,),
    )  # fmt: skip
    uniform = None if to_box is None else UniformBatch(source, folder_id, to_box, to_folder, modes.usual(source, to_folder))
    return MoveBatch([expand(column, count) for column in columns], item_columns(items).ids, uniform, again)


def _move_of(folders: Folders, modes: _Modes, item: Item) -> Move:
    ref = item.ref
    if not isinstance(ref, Ref):
        raise TypeError(f"not pinned by a directory spool: {ref!r}")
    place, target = ref.place, ref.target
    to_box, to_folder = (target.box, target.folder) if target is not None else modes.target(ref.box)
    to_name = target.name if target is not None else "" if to_box is None else place.name
    mode = modes.usual(place.box, to_folder)
    was = (folders.metadata_of(place) or None) if place.folder and to_box is not None else None
    elsewhere = item.warning if ref.box is not None and modes.requeues else ""
    if ref.meta:
        mode = mode._replace(meta=_open_json(ref.meta), elsewhere=elsewhere)
    elif elsewhere:
        mode = mode._replace(meta=modes.elsewhere(place.box, elsewhere), elsewhere=elsewhere)
    elif was is not None and to_folder:
        # Where it had been set aside, and why, is kept for the day when it goes back there.
        mode = mode._replace(meta=modes.meta(place.box, was={k: v for k, v in was.items() if k != "was"}))
    return Move(
        place.box, place.name, place.folder, ref.ino, ref.size, ref.ctime_ns, ref.folder_id, ref.token, to_box, to_name,
        to_folder, item.verdict, mode, was,
    )  # fmt: skip


def _gone(box: Box, undo: bool) -> str:
    if box is Box.NEW:
        return "already claimed by a consumer" if undo else "claimed or moved meanwhile"
    return "gone" if undo else "acknowledged or moved meanwhile"


def _open_json(meta: Mapping[str, Json]) -> str:
    return json.dumps(meta)[:-1]
