"""Notes of a plan: sentences for the person who decides, made from counts."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.model.units import size
from spooltop.model.vocabulary import Action, Box
from spooltop.records import dataclass

from .decision import Remark

__all__ = ["Tally", "notes_of"]


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a plan. ``box`` is the one that was selected, ``items`` is the number of messages that go, ``deletes`` is
    True where they are deleted, ``disk_bytes`` is the space that they take on the disk, ``without_age`` is the number of
    messages that were left out because their age is not known."""

    action: Action
    box: Box | None
    deletes: bool
    items: int
    disk_bytes: int
    without_age: int
    remarks: Mapping[Remark, int]


def notes_of(tally: Tally) -> tuple[str, ...]:
    action, remarks = tally.action, tally.remarks
    notes: list[str] = []
    if forced := remarks.get(Remark.FORCED):
        consequence = "may be processed twice" if action is Action.REQUEUE else "the holder continues to process it"
        notes.append(f"{forced} held by running consumers: {consequence}; the holder's ack will fail with ClaimLost.")
    if foreign := remarks.get(Remark.FOREIGN):
        notes.append(f"{foreign} claimed by other programs: checked again just before each move, but the evidence is not proof.")
    if unknown := remarks.get(Remark.UNKNOWN):
        who = "writer" if tally.box is Box.TMP else "holder"
        notes.append(f"{unknown} unknown: no evidence here shows whether the {who} is running.")
    if tally.deletes and tally.items:
        notes.append(f"Frees {size(tally.disk_bytes)} of disk space. This cannot be undone.")
    elif action is Action.PURGE and tally.items:
        notes.append("Moving to the trash frees no disk space; undo moves the messages back.")
    elif action is Action.HOLD and tally.items:
        notes.append("Consumers do not take held messages until they are released.")
    if held := remarks.get(Remark.HELD):
        notes.append(f"{held} held instead of requeued: consumers do not take them until they are released.")
    if rejected := remarks.get(Remark.REJECTED):
        notes.append(
            f"{rejected} rejected instead of requeued: the limit is {MAX_ATTEMPTS} attempts. "
            "A requeue from rejected starts at attempt 1 again."
        )
    if tally.without_age:
        notes.append(f"{tally.without_age} left out: their age in the box is not known.")
    return tuple(notes)
