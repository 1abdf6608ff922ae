"""The moves of a plan, batch by batch, in runs of messages that go from one folder into one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from spooltop.engine.set_aside import meta_name
from spooltop.model.operations.chunked import CHUNK, Column, column_of, expand
from spooltop.model.operations.plan import Item, Outcome, Plan, item_columns
from spooltop.model.operations.results import Columns, Results
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Json, Verdict

from ..journal import BatchOutcome, MoveColumns
from ..storage.location import Folders, Place, in_folder
from .packed_items import BOX, VERDICT, Refs, refs_of
from .rules import FORCEABLE, RULES


class MoveMode(NamedTuple):
    """The rules for the messages of a run.

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
    """The part of a move that is its own: the pinned message, and its name at the target, "" where it is deleted."""

    name: str
    ino: int
    size: int
    ctime_ns: int
    token: str | None
    planned: Verdict | None
    to_name: str


class Run(NamedTuple):
    """Moves out of one folder into one, by columns. Where ``to_box`` is None the messages are deleted. ``was`` is the metadata of
    messages that had been set aside; ``own_metadata``: each may have a file of them beside it. ``columns`` are those of ``Move``.
    """

    box: Box
    folder: str
    folder_id: tuple[int, int]
    to_box: Box | None
    to_folder: str
    mode: MoveMode
    was: Mapping[str, Json] | None
    own_metadata: bool
    columns: Sequence[Sequence[Any]]

    @property
    def names(self) -> Sequence[str]:
        return self.columns[0]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The moves, each as the values of a ``Move``."""
        return zip(*self.columns, strict=True)

    def column(self, field: str) -> Sequence[Any]:
        return self.columns[Move._fields.index(field)]

    @property
    def held_by_a_lock(self) -> bool:
        """True where a holder that runs keeps the messages where they are."""
        return self.box in (Box.CUR, Box.TMP) and not self.mode.forced


class MoveBatch:
    """The moves of one batch in their order. ``ids`` are those of the messages. ``again`` makes the results once more where all
    its moves are done."""

    def __init__(self, runs: Sequence[Run], ids: Sequence[str], again: Callable[[], Results] | None = None) -> None:
        self.runs = runs
        self._ids = ids
        self._again = again

    def __len__(self) -> int:
        return len(self._ids)

    def column(self, field: str) -> Sequence[Any]:
        """A column of all runs."""
        return self.runs[0].column(field) if len(self.runs) == 1 else list(chain(*(run.column(field) for run in self.runs)))

    def to_recheck(self) -> Iterator[tuple[Box, str, str | None]]:
        """The (box, name in it, token) of the messages whose holders no lock on a token decides about."""
        for run in self.runs:
            if run.held_by_a_lock and (run.box is Box.TMP or None in run.column("token")):
                tokens = zip(run.names, run.column("token"), strict=True)
                yield from ((run.box, in_folder(name, run.folder), token) for name, token in tokens)

    def removes_claims(self) -> bool:
        """True where a claim is to leave the boxes, or to be deleted."""
        return any(run.box is Box.CUR and run.to_box not in LIVE for run in self.runs)

    def moves(self) -> Iterator[MoveColumns]:
        """The moves as the journal announces them."""
        for run in self.runs:
            names, inos, sizes, ctimes_ns, tokens, _, to_names = run.columns
            target = None if run.to_box is None else (run.to_box, run.to_folder)
            yield MoveColumns((run.box, run.folder), target, run.was, names, to_names, inos, sizes, ctimes_ns, tokens)

    def results(self, outcome: BatchOutcome) -> Results:
        """The results of the moves; ``outcome`` goes as far as the batch went."""
        count = len(outcome)
        names, to_names = self.column("name")[:count], self.column("to_name")[:count]
        outcomes, reasons, there = outcome.columns()
        elsewhere = any(run.mode.elsewhere for run in self.runs)
        if elsewhere:
            said = chain(*([run.mode.elsewhere] * len(run.names) for run in self.runs))
            reasons = [
                reason or (why if really else "") for reason, why, really in zip(reasons, islice(said, count), there, strict=True)
            ]
        became = to_names if all(there) else [name if really else "" for name, really in zip(to_names, there, strict=True)]
        plain = not elsewhere and not outcome.others and count == len(self)
        return Results(Columns(self._ids[:count], names, outcomes, reasons, became), self._again if plain else None)


def _all_done(plan: Plan, start: int) -> Results:
    """The results of the chunk of a plan that begins at ``start``, when all its moves are done as the action says."""
    items = plan.items[start : start + CHUNK]
    became, columns = _to_names(refs_of(items), CHUNK, deletes=plan.deletes), item_columns(items)
    return Results(Columns(columns.ids, columns.names, [Outcome.DONE] * CHUNK, [""] * CHUNK, became))


def batches_of(
    folders: Folders, plan: Plan, parts: Iterable[slice], *, user: str, clock: Callable[[], float], many: bool = False
) -> Iterator[MoveBatch]:
    """Yields the moves of each of ``parts`` of the items of ``plan``, in their order, at least one each. ``clock`` returns epoch
    seconds. ``many``: the names of the metadata in a folder are listed once, rather than asked for with each message."""
    for part in parts:
        items = plan.items[part]
        runs = list(_runs(folders, _Modes(plan, user, clock()), items, many=many))
        yield MoveBatch(runs, item_columns(items).ids, partial(_all_done, plan, part.start))


def _runs(folders: Folders, modes: _Modes, items: Sequence[Item], *, many: bool) -> Iterator[Run]:
    refs, count = refs_of(items), len(items)
    elsewhere: Column = ("",)
    if modes.requeues and refs.to != (None,):
        elsewhere = [item.warning if to else "" for item, to in zip(items, expand(refs.to, count), strict=True)]
    beside = _metadata_beside(folders, refs, count, read=not modes.deletes, many=many)
    columns = [expand(column, count) for column in (refs.name, refs.ino, refs.size, refs.ctime_ns, refs.token)]
    columns += [list(map(VERDICT.__getitem__, expand(refs.verdict, count))), _to_names(refs, count, deletes=modes.deletes)]
    common = (refs.box, refs.folder, refs.folder_id, refs.target_box, refs.target_folder, refs.meta, refs.to, elsewhere, beside)
    for (box, folder, folder_id, target_box, to_folder, meta, to, why, metadata), part in _alike(common, count):
        source, (was, own) = BOX[box], metadata
        to_box = None if target_box is None else BOX[target_box]
        if to_box is None:
            to_box, to_folder = modes.target(None if to is None else BOX[to])
        mode = modes.mode(source, to_folder, meta, why, was)
        yield Run(source, folder, folder_id, to_box, to_folder, mode, was, own, [column[part] for column in columns])


def _alike(columns: Sequence[Column], count: int) -> Iterator[tuple[tuple[Any, ...], slice]]:
    """Yields the runs of rows with equal values: the values and the part of the ``count`` rows."""
    if all(isinstance(column, tuple) for column in columns):
        yield tuple(column[0] for column in columns), slice(0, count)
        return
    start = 0
    for values, run in groupby(zip(*[expand(column, count) for column in columns], strict=True)):
        part = slice(start, start + sum(1 for _ in run))
        start = part.stop
        yield values, part


def _to_names(refs: Refs, count: int, *, deletes: bool) -> Sequence[str]:
    """The names at the target: those of the pins where they have any, else the messages keep theirs."""
    if deletes:
        return [""] * count
    names, targets = expand(refs.name, count), expand(refs.target_name, count)
    if isinstance(refs.target_box, tuple):
        return names if refs.target_box == (None,) else targets
    return [to or name for to, name in zip(targets, names, strict=True)]


def _metadata_beside(folders: Folders, refs: Refs, count: int, *, read: bool, many: bool) -> Column:
    """A column of the metadata of messages that had been set aside, None where there are none or they are not to be ``read``, and
    whether a message may have a file of its own. A file is written before its message arrives, so a list of them that is made
    after the plan has those of all messages of the plan."""
    found: list[tuple[Mapping[str, Json] | None, bool]] = []
    for (box, folder), part in _alike((refs.box, refs.folder), count):
        if BOX[box] not in ASIDE:
            found += [(None, False)] * (part.stop - part.start)
            continue
        own = folders.own_metadata(BOX[box], folder) if many else None
        shared = (folders.shared(BOX[box], folder) or None) if read and own is not None else None
        for name in expand(refs.name, count)[part]:
            if own is not None and (not own or meta_name(name) not in own):
                found.append((shared, False))
            else:
                found.append(((folders.metadata_of(Place(BOX[box], name, folder)) or None) if read else None, True))
    return column_of(found)


class _Modes:
    """Makes the modes of one batch, and finds the target of a message whose pin names none."""

    def __init__(self, plan: Plan, user: str, at: float) -> None:
        self.requeues = plan.action is Action.REQUEUE
        self.operation = plan.operation
        self.deletes = plan.deletes
        self._undo = plan.action is Action.UNDO
        self._forced = plan.force and plan.action in FORCEABLE
        reason = f"undo of {plan.undoes}" if self._undo else f"{plan.action} by {user}"
        self._said: dict[str, Json] = {"reason": reason, "at": at, "who": user, "operation": plan.operation}
        self._user = user
        # The undo of what was put sets it aside.
        self._into = Box.TRASH if self._undo else None if plan.deletes else RULES[plan.action].target
        self._folder = Place(Box.TRASH, "any", plan.operation).folder  # a place below it needs no check but that of its name

    def target(self, box: Box | None) -> tuple[Box | None, str]:
        """The (box, folder) of a message that goes to ``box``, or where that is None, to where the action says."""
        into = box or self._into
        if into is not None and into not in ASIDE:
            raise ValueError(f"what it is called in {into} is not said")
        return into, "" if into is None else self._folder

    def mode(
        self, box: Box, to_folder: str, meta: Mapping[str, Json] | None, elsewhere: str, was: Mapping[str, Json] | None
    ) -> MoveMode:
        """The mode of messages out of ``box``. ``meta`` is that of their pins; ``elsewhere`` says why they go not where the
        action says; ``was`` is the metadata that they had."""
        more: dict[str, Json] = {}
        if elsewhere:
            more["reason"] = f"{elsewhere}, by {self._user}"
        elif was is not None and to_folder:
            # Where it had been set aside, and why, is kept for the day when it goes back there.
            more["was"] = {name: value for name, value in was.items() if name != "was"}
        words = json.dumps(meta or {"origin": box.value, **self._said, **more})[:-1]
        return MoveMode(self._forced, words, _gone(box, self._undo), to_folder == self.operation, elsewhere)


def _gone(box: Box, undo: bool) -> str:
    if box is Box.NEW:
        return "already claimed by a consumer" if undo else "claimed or moved meanwhile"
    return "gone" if undo else "acknowledged or moved meanwhile"
