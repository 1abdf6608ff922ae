"""The messages of one step of an operation, in runs that go from one folder into one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from spooltop.engine.set_aside import meta_name
from spooltop.model.operations.plan import ItemResult, Outcome, Plan
from spooltop.model.vocabulary import ASIDE, Action, Box, Json

from ..journal import BatchOutcome, MoveIntent, MoveRun, folder_text
from ..storage.location import Folders, Place
from .messages import Group, Message, MessageResults, Pinned, Way
from .rules import FORCEABLE


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


class Move(Struct, frozen=True, gc=False):
    """The move of a message; ``to_name`` is its name at the target, "" where it is deleted."""

    message: Message
    to_name: str


class Run(NamedTuple):
    """Moves out of one folder into one. Where ``to_box`` is None the messages are deleted. ``was`` is the metadata of messages
    that had been set aside; ``own_metadata``: each may have a file of them beside it."""

    box: Box
    folder: str
    folder_id: tuple[int, int]
    to_box: Box | None
    to_folder: str
    mode: MoveMode
    was: Mapping[str, Json] | None
    own_metadata: bool
    moves: Sequence[Move]

    @property
    def held_by_a_lock(self) -> bool:
        """True where a holder that runs keeps the messages where they are."""
        return self.box in (Box.CUR, Box.TMP) and not self.mode.forced

    def logged(self) -> MoveRun:
        """The run as the journal announces it."""
        messages = [move.message for move in self.moves]
        return MoveRun.of(
            folder_text(self.box, self.folder), None if self.to_box is None else folder_text(self.to_box, self.to_folder),
            [one.name for one in messages], [move.to_name for move in self.moves],
            [one.st_ino for one in messages], [one.st_size for one in messages], [one.st_ctime_ns for one in messages],
            [one.group.token for one in messages], self.was,
        )  # fmt: skip


class MoveBatch(MoveIntent, frozen=True):
    """The intent of a batch with its ``runs``, of which the journal holds only what identifies the messages."""

    runs: tuple[Run, ...]

    @property
    def recorded(self) -> MoveIntent:
        moves = [run.logged() for run in self.runs]
        return MoveIntent(self.operation, self.step, self.action, self.at, self.user, self.undoes, moves)

    def results(self, pinned: Sequence[Pinned], outcome: BatchOutcome) -> MessageResults:
        """The results of the messages that were tried."""
        said = {one.place: one for one in outcome.others if one.outcome is not Outcome.DONE or one.reason}
        others: dict[int, ItemResult] = {}
        if not said and not any(run.mode.elsewhere for run in self.runs):
            return MessageResults(pinned[: outcome.tried], others)
        each = ((run.mode.elsewhere, move) for run in self.runs for move in run.moves)
        for place, (elsewhere, move) in enumerate(islice(each, outcome.tried)):
            one = said.get(place)
            if elsewhere or one is not None:
                moved = one is None or one.moved
                reason = (one.reason if one is not None else "") or (elsewhere if moved else "")
                message, to_name = move.message, move.to_name
                how = Outcome.DONE if one is None else one.outcome
                others[place] = ItemResult(message.id, message.name, how, reason, to_name if moved else "")
        return MessageResults(pinned[: outcome.tried], others)


def runs_of(
    folders: Folders, plan: Plan, pinned: Sequence[Pinned], *, user: str, at: float, many: bool = False
) -> Iterator[Run]:
    """The moves of a batch in their order. ``at`` is the time in epoch seconds. ``many``: the names of the metadata in a folder
    are listed once, rather than asked for with each message."""
    modes = _Modes(plan, user, at)

    known: dict[tuple[Group, Way], _Common] = {}

    def common(one: Pinned) -> _Common:
        message, way, group = one.message, one.way, one.message.group
        found = known.get((group, way))
        if found is None:
            elsewhere = way.warning if plan.action is Action.REQUEUE and way.box is not Box.NEW else ""
            to_folder = way.folder if way.folder is not None else plan.operation if way.box in ASIDE else ""
            found = _Common(group.box, group.folder, group.folder_id, way.box, to_folder, way.meta, elsewhere)
            known[group, way] = found
        if group.box in ASIDE:
            was, own = _metadata_beside(folders, message, read=not plan.deletes, many=many)
            return found._replace(was=was, own_metadata=own)
        return found

    for alike, part in groupby(zip(map(common, pinned), pinned, strict=True), itemgetter(0)):
        box, folder, folder_id, to_box, to_folder, meta, elsewhere, was, own = alike
        mode = modes.mode(box, to_folder, meta, elsewhere, was)
        moves = [Move(one.message, one.way.name_of(one.message)) for _, one in part]
        yield Run(box, folder, folder_id, to_box, to_folder, mode, was, own, moves)


class _Common(NamedTuple):
    """The values that the messages of a run have in common: the members of a ``Run``, and what its mode is made of."""

    box: Box
    folder: str
    folder_id: tuple[int, int]
    to_box: Box | None
    to_folder: str
    meta: Mapping[str, Json] | None
    elsewhere: str
    was: Mapping[str, Json] | None = None
    own_metadata: bool = False


def _metadata_beside(
    folders: Folders, message: Message, *, read: bool, many: bool
) -> tuple[Mapping[str, Json] | None, bool]:
    """The metadata of a message that had been set aside, None where there are none or they are not to be ``read``, and whether it
    may have a file of its own. A file is written before its message arrives, so a list of them that is made after the plan has
    those of all messages of the plan."""
    box, folder = message.group.box, message.group.folder
    own = folders.own_metadata(box, folder) if many else None
    if own is not None and (not own or meta_name(message.name) not in own):
        return (folders.shared(box, folder) or None) if read else None, False
    return (folders.metadata_of(Place(box, message.name, folder)) or None) if read else None, True


class _Modes:
    """Makes the modes of one batch."""

    def __init__(self, plan: Plan, user: str, at: float) -> None:
        self._operation = plan.operation
        self._undo = plan.action is Action.UNDO
        self._forced = plan.force and plan.action in FORCEABLE
        reason = f"undo of {plan.undoes}" if self._undo else f"{plan.action} by {user}"
        self._said: dict[str, Json] = {"reason": reason, "at": at, "who": user, "operation": plan.operation}
        self._user = user

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
        return MoveMode(self._forced, words, _gone(box, self._undo), to_folder == self._operation, elsewhere)


def _gone(box: Box, undo: bool) -> str:
    if box is Box.NEW:
        return "already claimed by a consumer" if undo else "claimed or moved meanwhile"
    return "gone" if undo else "acknowledged or moved meanwhile"
