"""Decides whether a message may go and where: the rules of the moves, and what the message looks like now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from spooltop.engine import names
from spooltop.model.queue import again_words
from spooltop.model.row import Row
from spooltop.model.text import escape, program
from spooltop.model.vocabulary import NOT_A_CLAIM, Action, Box, Json, Verdict
from spooltop.records import dataclass

from ...storage.location import Found, kind_of
from ..rules import FORCEABLE
from .destination import Destination, destination_of
from .same_ids import SameIds

__all__ = ["POISON", "Decider", "Decision", "Remark"]

POISON = 3
"""Attempts that ended by a death from which on the message itself may be what kills."""


class Remark(StrEnum):
    """A fact about the move of one message that the notes of a plan count."""

    POISON = "poison"
    FORCED = "forced"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"
    HELD = "held"
    REJECTED = "rejected"


class Decision(NamedTuple):
    """The destination of a message, and why it stays where it is instead; "" where it may go. ``forceable``: force moves it
    anyway."""

    destination: Destination
    blocked_by: str
    forceable: bool
    warning: str
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides on each message of one plan for the spool ``path``. ``now`` deletes what would go to the trash; ``hold_poison``
    holds a message that may be what kills its consumers. ``half_moved`` are inodes that may have a second name. ``process_here``
    names the process of this machine that may have made a claim: by its pid, its host if known, and the epoch second of the
    claim; "" if none can have."""

    path: str
    action: Action
    now: bool
    hold_poison: bool
    same_ids: SameIds
    half_moved: frozenset[int]
    process_here: Callable[[int, str | None, float], str]

    def decide(self, row: Row, name: names.Name, metadata: Mapping[str, Json], found: Found) -> Decision:
        """Decides on one message by its row, its parsed name, the metadata beside it and its status."""
        poison = _poison(row) if self.action is Action.REQUEUE else ""
        hold = poison if self.hold_poison and row.box is Box.CUR else ""
        ended = names.DIED if row.verdict is Verdict.DEAD else None  # a holder who was forced to give it up may live
        destination = destination_of(self.action, row.box, name, metadata, ended=ended, poison=hold, now=self.now)
        blocked_by, forceable = self._blocked_by(row, name, found, destination)
        forced = "taken from a running consumer, whose ack will fail with ClaimLost" if row.verdict is Verdict.ALIVE else ""
        if row.owner is not None and row.owner.moves_to is not None:
            forced = "; ".join(filter(None, (forced, f"it may be in {escape(row.owner.moves_to)} as well")))
        warning = "; ".join(filter(None, (destination.warning, forced))) or poison
        return Decision(destination, blocked_by, forceable, warning, tuple(self._remarks(row, name, destination, poison)))

    def _blocked_by(self, row: Row, name: names.Name, found: Found, destination: Destination) -> tuple[str, bool]:
        kind = kind_of(found)
        if kind:
            return f"{kind}, not a message", False
        other = self.same_ids.in_new.get(row.id) if destination.box is Box.NEW else None
        half_moved = other == found.st_ino
        if other is not None and not half_moved:
            return "conflict: new has another message with this id; both are kept", False
        if row.box is Box.CUR and row.id in self.same_ids.claimed_twice:
            return "conflict: two claims have this id; both are kept", False
        if found.st_nlink != 1 and not half_moved and not (found.st_nlink == 2 and found.st_ino in self.half_moved):
            return "has another hard link", False
        if row.verdict is Verdict.WRITING:
            return f"is being written: {row.evidence}", False
        if row.verdict is Verdict.ALIVE:
            return _held_by(row), self.action in FORCEABLE
        if row.owner is not None and row.owner.moves_to is not None and self.action in FORCEABLE:
            return again_words(self.path, row.owner.moves_to), True
        if row.verdict is None and row.box is Box.CUR:
            return NOT_A_CLAIM, True
        if row.verdict is Verdict.UNKNOWN and row.box is Box.CUR and name.token is not None and name.pid is not None:
            host = None if row.owner is None else row.owner.host
            if process := self.process_here(name.pid, host, (name.claimed_us or 0) / 1e6):
                return f"{process} is running here and may be its holder: {row.evidence}", True
        return destination.blocked_by, True

    def _remarks(self, row: Row, name: names.Name, destination: Destination, poison: str) -> list[Remark]:
        remarks = []
        if row.verdict is Verdict.UNKNOWN or (row.verdict is None and row.box is Box.CUR):
            remarks.append(Remark.UNKNOWN)
        if row.box is Box.CUR:
            if poison:
                remarks.append(Remark.POISON)
            if row.verdict is Verdict.ALIVE:
                remarks.append(Remark.FORCED)
            elif name.token is None:
                remarks.append(Remark.FOREIGN)
        if self.action is Action.REQUEUE and destination.box is Box.HELD:
            remarks.append(Remark.HELD)
        elif self.action is Action.REQUEUE and destination.box is Box.REJECTED:
            remarks.append(Remark.REJECTED)
        return remarks


def _held_by(row: Row) -> str:
    """The holder and the evidence that it is running; the evidence alone where it names the holder."""
    owner = row.owner
    if owner is None or owner.pid is None or re.search(rf"\b{owner.pid}\b", row.evidence):
        return row.evidence or "its holder is running"
    return f"{' '.join(filter(None, (str(owner.pid), program(owner.command or ''))))}: {row.evidence or 'running'}"


def _poison(row: Row) -> str:
    if row.attempt is None or row.attempt < POISON or row.box not in (Box.CUR, Box.REJECTED):
        return ""
    return f"{row.attempt} consumers died while processing it" if row.verdict is Verdict.DEAD else f"attempts: {row.attempt}"
