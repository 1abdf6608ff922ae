"""What a plan lists, item by item, as errands: from where exactly to where exactly, and what is written beside it there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...model.plan import Item, ItemResult, Plan
from ...model.words import ASIDE, Action, Box, Json, Verdict
from .choose import FORCEABLE
from .folders import Folders
from .journal import Move, Moved
from .metadata import known_of
from .moves import RULES
from .places import Place, Ref

__all__ = ["Errand", "errands_of"]


class Way(NamedTuple):
    """What most messages of a batch have in common.

    ``meta`` goes beside a message that is set aside: a JSON object still open, the name to come. ``gone`` says what it means that
    the message is not there. ``alone``: nobody else moves anything to that target, its folder is this operation's own.
    ``elsewhere``: it goes not where the action says, and the warning of its item tells why.
    """

    forced: bool
    meta: str
    gone: str
    alone: bool
    elsewhere: bool = False


class Errand(NamedTuple):
    """One message to move, or to delete: then ``target`` is None. ``was`` is what was known of it where it was set aside, which
    goes with the move."""

    ref: Ref
    target: Place | None
    planned: Verdict | None
    way: Way
    was: Mapping[str, Json] | None = None

    def as_move(self) -> Move:
        """As the journal announces it."""
        ref = self.ref
        return Move(ref.place, self.target, ref.ino, ref.size, ref.ctime_ns, ref.token, self.was)

    def result(self, item: Item, moved: Moved) -> ItemResult:
        target = self.target
        became = target.name if moved.moved and target is not None else ""
        reason = moved.reason or (item.warning if moved.moved and self.way.elsewhere else "")
        return ItemResult(item.id, self.ref.place.name, moved.outcome, reason, became)


def errands_of(folders: Folders, plan: Plan, items: Sequence[Item], *, user: str, at: float) -> Iterator[Errand]:
    """Of ``items`` of ``plan``, in their order. ``at`` is now, in epoch seconds."""
    undo = plan.action is Action.UNDO
    reason = f"undo of {plan.undoes}" if undo else f"{plan.action} by {user}"
    forced = plan.force and plan.action in FORCEABLE
    said: dict[str, Json] = {"reason": reason, "at": at, "who": user, "operation": plan.operation}
    usual: dict[tuple[Box, str], Way] = {}
    folder = Place(Box.TRASH, "any", plan.operation).folder  # a place below it needs no other check than that of its name
    into = Box.TRASH if undo else None if plan.deletes else RULES[plan.action].target
    for item in items:
        ref = item.ref
        if not isinstance(ref, Ref):
            raise TypeError(f"not pinned by a directory spool: {ref!r}")
        place, target = ref.place, ref.target
        if target is None and (box := ref.box or into) is not None:
            # The undo of what was put sets it aside.
            target = Place._make((box, place.name, folder)) if box in ASIDE else Place(box, place.name, plan.operation)
        into_folder = "" if target is None else target.folder
        way = usual.get((place.box, into_folder))
        if way is None:
            meta = _open_json({"origin": place.box.value, **said})
            way = usual[place.box, into_folder] = Way(
                forced, meta, _gone(place.box, undo), into_folder == plan.operation
            )
        was = (known_of(folders, place) or None) if place.folder and target is not None else None
        elsewhere = ref.box is not None and plan.action is Action.REQUEUE
        if ref.meta:
            way = way._replace(meta=_open_json(ref.meta), elsewhere=elsewhere)
        elif elsewhere:
            meta = _open_json({"origin": place.box.value, **said, "reason": f"{item.warning}, by {user}"})
            way = way._replace(meta=meta, elsewhere=True)
        elif was is not None and into_folder:
            # Where it had been set aside, and why, is kept for the day when it goes back there.
            meta = _open_json({"origin": place.box.value, **said, "was": {k: v for k, v in was.items() if k != "was"}})
            way = way._replace(meta=meta)
        yield Errand(ref, target, item.verdict, way, was)


def _gone(box: Box, undo: bool) -> str:
    if box is Box.NEW:
        return "a consumer already has it" if undo else "gone: claimed meanwhile, or moved by another"
    return "gone" if undo else "gone or requeued by another"


def _open_json(meta: Mapping[str, Json]) -> str:
    return json.dumps(meta)[:-1]
