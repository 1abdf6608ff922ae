"""What a plan lists, item by item, as errands: from where exactly to where exactly, and what is written beside it there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...model.plan import Item, ItemResult, Plan
from ...model.words import Action, Box, Json, Verdict
from .folders import Folders
from .journal import Move, Moved
from .metadata import known_of
from .moves import RULES
from .places import Place, Ref

__all__ = ["Errand", "errands_of"]


class Errand(NamedTuple):
    """One message to move.

    ``meta`` goes beside it where it is set aside: a JSON object still open, the name to come. ``gone`` says what it means that
    the message is not there. ``alone``: nobody else moves anything to that target, its folder is this operation's own. ``was``
    is what was known of it where it was set aside, which goes with the move.
    """

    ref: Ref
    target: Place
    planned: Verdict | None
    forced: bool
    meta: str
    gone: str
    alone: bool
    was: Mapping[str, Json] | None = None

    def as_move(self) -> Move:
        """As the journal announces it."""
        ref = self.ref
        return Move(ref.place, self.target, ref.ino, ref.size, ref.ctime_ns, ref.token, self.was)

    def result(self, item: Item, moved: Moved) -> ItemResult:
        became = self.target.name if moved.moved else ""
        return ItemResult(item.row.id, self.ref.place.name, moved.outcome, moved.reason, became)


def errands_of(folders: Folders, plan: Plan, items: Sequence[Item], *, user: str, at: float) -> Iterator[Errand]:
    """Of ``items`` of ``plan``, in their order. ``at`` is now, in epoch seconds."""
    undo = plan.action is Action.UNDO
    reason = f"undo of {plan.options.get('undoes')}" if undo else f"{plan.action} by {user}"
    forced = plan.force and plan.action is Action.REQUEUE
    said: dict[str, Json] = {"reason": reason, "at": at, "who": user, "operation": plan.operation}
    metas = {box: _open_json({"origin": box.value, **said}) for box in {item.row.box for item in items}}
    for item in items:
        ref = item.ref
        if not isinstance(ref, Ref):
            raise TypeError(f"not pinned by a directory spool: {ref!r}")
        place, target = ref.place, ref.target
        if target is None:
            # The undo of what was put sets it aside.
            target = Place(Box.TRASH if undo else RULES[plan.action].target, place.name, plan.operation)
        gone = "a consumer already has it" if undo and place.box is Box.NEW else "gone"
        if not undo:
            gone = "gone or requeued by another"
        meta = _open_json(ref.meta) if ref.meta else metas[place.box]
        was = (known_of(folders, place) or None) if place.folder else None
        yield Errand(ref, target, item.row.verdict, forced, meta, gone, target.folder == plan.operation, was)


def _open_json(meta: Mapping[str, Json]) -> str:
    return json.dumps(meta)[:-1]
