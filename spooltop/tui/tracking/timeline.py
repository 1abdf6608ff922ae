"""Records the steps of a few messages: pure functions from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from spooltop.model.operations.results import TrackedMessage
from spooltop.model.row import Row
from spooltop.model.text import escape, program
from spooltop.model.units import age, duration
from spooltop.model.vocabulary import Box, Verdict

from ..threads.messages import MessagesTracked

_HELD = {
    Box.HELD: "set aside in held", Box.REJECTED: "set aside in rejected", Box.TRASH: "in the trash", Box.DELIVERED: "delivered",
}  # fmt: skip


class TimelineStep(Struct, frozen=True):
    """A step of a message. ``seen``: ``at`` is the time it was seen, not the time it happened. ``bad``: it is a problem."""

    at: float
    id: str
    words: str
    seen: bool = True
    bad: bool = False


class Timeline:
    """``steps`` are oldest first and stay. ``now`` describes the present place of each id."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        self.steps: list[TimelineStep] = []
        self.now: dict[str, str] = {}
        self.began: float | None = None
        self._last: dict[str, TrackedMessage] = {}

    def take(self, tracked: MessagesTracked, rows: Mapping[str, Row]) -> bool:
        """Takes another look; ``rows`` are the claims and files in ``tmp`` of the same look by id. True where there is something
        new to show."""
        before = len(self.steps), dict(self.now)
        first = self.began is None
        self.began = tracked.taken_at if self.began is None else self.began
        for id in self.ids:
            if (one := tracked.found.get(id)) is not None:
                row = rows.get(id)
                if one.box in (None, Box.TMP) and row is not None and row.box is Box.TMP:
                    one = TrackedMessage(id, Box.TMP, verdict=row.verdict)
                self.steps += _steps(self._last.get(id), one, row, tracked.taken_at, first)
                self.now[id] = _now(one, row, tracked.taken_at)
                self._last[id] = one
        return (len(self.steps), self.now) != before


def _steps(old: TrackedMessage | None, new: TrackedMessage, row: Row | None, at: float, first: bool) -> list[TimelineStep]:
    """The steps between two looks, in order."""
    steps: list[TimelineStep] = []
    where = old.box if old is not None else None
    claimed = new.claimed_at is not None and (old is None or new.claimed_at != old.claimed_at)
    if where is Box.TMP and new.box is not Box.TMP and new.gone_at is None:
        steps.append(TimelineStep(at, new.id, "complete"))
    if claimed and new.claimed_at is not None:
        steps.append(TimelineStep(new.claimed_at, new.id, f"claimed {_by(new, row)}", seen=False))
    if new.gone_at is not None and (old is None or old.gone_at is None):
        steps.append(_gone(new))
    elif new.box is Box.CUR and not claimed and where is not Box.CUR:
        steps.append(TimelineStep(at, new.id, f"being processed {_by(new, row)}"))
    elif new.box is Box.NEW and (where is not Box.NEW or claimed):
        again = "back in new" if where not in (None, Box.TMP, Box.NEW) or claimed else "waits in new"
        steps.append(TimelineStep(at, new.id, f"{again}{_place(new)}"))
    elif new.box is Box.TMP and where is not Box.TMP:
        steps.append(TimelineStep(at, new.id, "being written in tmp"))
    elif new.box in _HELD and where is not new.box:
        reason = f": {row.reason}" if row is not None and row.reason else ""
        steps.append(TimelineStep(at, new.id, f"{_HELD[new.box]}{reason}"))
    elif first and new.box is None and new.gone_at is None:
        steps.append(TimelineStep(at, new.id, "not seen in any box"))
    if new.box is Box.CUR and new.verdict is Verdict.DEAD and (claimed or old is None or old.verdict is not Verdict.DEAD):
        who = f"its holder {new.pid}" if new.pid is not None else "its holder"
        steps.append(TimelineStep(at, new.id, f"{who} is DEAD; the message stays in cur until it is requeued", bad=True))
    return steps


def _gone(new: TrackedMessage) -> TimelineStep:
    gone = new.gone_at or 0.0
    if new.claimed_at is None:
        return TimelineStep(gone, new.id, "gone; consumer not seen", seen=False)
    return TimelineStep(gone, new.id, f"gone, done after {duration(max(0.0, gone - new.claimed_at))}", seen=False)


def _by(new: TrackedMessage, row: Row | None) -> str:
    words = f"by {new.pid}" if new.pid is not None else "by a process that is not visible"
    if row is not None and row.box is Box.CUR:
        owner = row.owner
        if owner is not None and new.pid is None and owner.pid is not None:
            words = f"by {owner.pid}"
        if owner is not None and owner.name:
            words = f"by {escape(owner.name)}"
        elif owner is not None and owner.command:
            words += f" {escape(program(owner.command))}"
        if row.attempt is not None:
            words += f", attempt {row.attempt}"
    return words


def _place(new: TrackedMessage) -> str:
    if new.place is None:
        return ""
    return f", place {new.place:,}" + (f" of {max(new.of, new.place):,}" if new.of is not None else "")


def _now(one: TrackedMessage, row: Row | None, at: float) -> str:
    """The present place of a message, with a description that changes while it stays there."""
    if one.gone_at is not None:
        return "gone"
    match one.box:
        case Box.NEW:
            return f"waits in new{_place(one)}"
        case Box.CUR:
            since = one.claimed_at if one.claimed_at is not None else row.in_box_since if row is not None else None
            held = f" for {age(max(0.0, at - since))}" if since is not None else ""
            verdict = " · DEAD" if one.verdict is Verdict.DEAD else " · unknown" if one.verdict is Verdict.UNKNOWN else ""
            return f"being processed {_by(one, row)}{held}{verdict}"
        case Box.TMP:
            return "being written in tmp" if one.verdict is not Verdict.ABANDONED else "in tmp, abandoned"
        case None:
            return "in no box at this look"
        case box:
            return _HELD[box]
