"""Notes of a plan: sentences for the person who decides, made from counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spooltop.engine.limits import MAX_ATTEMPTS
from spooltop.model.units import size
from spooltop.model.vocabulary import Action, Box

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
        again = "worked on twice then" if action is Action.REQUEUE else "its holder goes on working on it"
        notes.append(f"{forced} of living holders: {again}; the holder's ack will find out (ClaimLost).")
    if foreign := remarks.get(Remark.FOREIGN):
        notes.append(f"{foreign} by other consumers: the evidence is read again just before each move, but it is no proof.")
    if unknown := remarks.get(Remark.UNKNOWN):
        who = "writer" if tally.box is Box.TMP else "holder"
        notes.append(f"{unknown} unknown: nobody here can tell whether the {who} lives.")
    if tally.deletes and tally.items:
        notes.append(f"Frees {size(tally.disk_bytes)} on the disk. Nothing brings them back: there is no undo.")
    elif action is Action.PURGE and tally.items:
        notes.append("A purge to the trash frees nothing: the messages move, and undo brings them back.")
    elif action is Action.HOLD and tally.items:
        notes.append("No consumer takes what is held, until it is released.")
    if held := remarks.get(Remark.HELD):
        notes.append(f"{held} held instead of requeued, where no consumer takes them, until released.")
    if rejected := remarks.get(Remark.REJECTED):
        notes.append(
            f"{rejected} rejected instead of requeued: in work {MAX_ATTEMPTS} times or more, which is the limit. "
            "A requeue from rejected counts anew."
        )
    if tally.without_age:
        notes.append(f"{tally.without_age} left out: how long they stand there is not known.")
    return tuple(notes)
