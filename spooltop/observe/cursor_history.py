"""One source's cursor as it was seen to move: every write, which of them put it back, and its own rhythm."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..model.cursor_values import direction, order, pick, shown
from ..model.sight import CursorSection, CursorWrite, LockParty
from ..model.words import Json

__all__ = ["RING", "Change", "CursorHistory", "key_of"]

RING = 200
"""Writes kept of each source."""
_GAPS = 20
_FEWEST_GAPS = 2
_REMEMBERED = 3600.0
_RECENT = 8
_NEAR = 3.0
"""Seconds within which a line of the journal and a write that was seen are one."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write that changed the value. ``advanced`` are other sources that went forward in the same write. ``known``: the
    source itself had this value before; ``back``: it went back, or for a token without order, to one that it had before.
    ``journaled``: under the lock, of that section alone, so that it can lose nobody's update. ``writer`` where it was seen.
    """

    at: float
    old: Json
    new: Json
    back: bool
    known: bool
    also_changed: tuple[str, ...] = ()
    advanced: tuple[str, ...] = ()
    journaled: bool = False
    writer: LockParty | None = None


def key_of(value: Json, field: str | None = None) -> str:
    """What two equal cursors have in common: the kind and the text of what ``pick`` finds."""
    picked = pick(value, field)
    return f"{type(picked).__name__}:{picked!r}"


class CursorHistory:
    """Grows by ``write``, ``told`` and ``arrived``; everything else is read off it. ``field`` names what in a section is the
    cursor, None where that is found by itself. ``before``: ``value`` is what stood there before the first write that the
    journal tells of, and not what a look found."""

    def __init__(
        self, at: float, value: Json, inode: int, held_by: tuple[LockParty, ...], *, seen_at: float, field: str | None = None,
        writer: LockParty | None = None, lock_there: bool | None = None, before: bool = False,
    ) -> None:  # fmt: skip
        self.field = field
        self._before = before
        self.value = value
        self.first_seen = seen_at
        self.written_at = at
        self.moved_at: float = at
        self.moved_is_bound = True
        first = CursorSection(at, value, inode, (), held_by, shown(value, field), writer, lock_there)
        self.ring: deque[CursorSection] = deque([first], maxlen=RING)
        self.journal_writes: deque[float] = deque(maxlen=RING)
        """When the journal told of a write, also of one that changed nothing."""
        self.repeated = 0
        """Writes since the last move that left the value as it was."""
        self.repeats_ever = 0
        self.busy_repeats = 0
        """Those of them before each of which messages of this source had arrived."""
        self._arrived = 0
        self.changes: deque[Change] = deque(maxlen=RING)
        self.writes: deque[float] = deque(maxlen=RING)
        self._forward: deque[float] = deque(maxlen=_GAPS + 1)
        self._seen: dict[str, int] = {self.key(value): 0}
        self._top: Json = value
        """The high-water mark; for tokens without order the newest that was ever seen."""

    def key(self, value: Json) -> str:
        return key_of(value, self.field)

    def pick(self, value: Json) -> Json:
        return pick(value, self.field)

    def shown(self, value: Json) -> str:
        return shown(value, self.field)

    def step(self, old: Json, new: Json) -> int | None:
        """1 forward, -1 back, 0 equal in order; None for tokens without order."""
        return direction(self.pick(old), self.pick(new))

    def direction_to(self, value: Json) -> int:
        """1 where ``value`` would be forward, -1 back, 0 the same. A token without order is forward when it is new."""
        step = self.step(self.value, value)
        if step is not None:
            return step
        if self.key(value) == self.key(self.value):
            return 0
        if order(self.pick(value)) is not None or order(self.pick(self.value)) is not None:
            return 1  # the kind of value changed: a new beginning, not a step back
        place = self._seen.get(self.key(value))
        return 1 if place is None or place > self._seen.get(self.key(self.value), -1) else -1

    def arrived(self, messages: int) -> None:
        """So many messages of this source came into ``new``."""
        self._arrived += messages

    def write(
        self,
        at: float,
        value: Json,
        inode: int,
        also: tuple[str, ...],
        advanced: tuple[str, ...],
        held_by: tuple[LockParty, ...],
        writer: LockParty | None = None,
        *,
        lock_there: bool | None = None,
        journaled: bool = False,
    ) -> None:
        """Takes one write of this source's section, also one that changed nothing."""
        recent = {write.at for write in itertools.islice(self.ring, min(_RECENT, len(self.writes)))}
        while at in recent:
            at += 1e-6  # a file system's clock stands still for milliseconds; each write is known by its own time
        step = self.direction_to(value)
        self.ring.appendleft(
            CursorSection(
                at, value, inode, also, held_by, self.shown(value), writer, lock_there, back=step < 0, journaled=journaled
            )
        )
        self.writes.append(at)
        self.written_at = at
        key = self.key(value)
        if key == self.key(self.value):
            self.value = value
            self.repeated += 1
            self.repeats_ever += 1
            self.busy_repeats += self._arrived > 0
            self._arrived = 0
            return
        self.repeated = self.busy_repeats = self._arrived = 0
        self.changes.append(
            Change(at, self.value, value, step < 0, key in self._seen, also, advanced, journaled, writer)
        )
        if step > 0:
            self._forward.append(at)
        if key not in self._seen:
            if len(self._seen) > 10 * RING:
                del self._seen[next(iter(self._seen))]
            self._seen[key] = max(self._seen.values(), default=-1) + 1
        comparable = self.step(self._top, value)
        if comparable == 1 or (comparable is None and step > 0 and not self._behind_token(value)):
            self._top = value
        self.value = value
        self.moved_at, self.moved_is_bound = at, False

    def _behind_token(self, value: Json) -> bool:
        """True where the high-water mark is a token that came later than ``value``."""
        top = self._seen.get(self.key(self._top))
        return order(self.pick(value)) is None and top is not None and top > self._seen.get(self.key(value), top)

    def told(self, one: CursorWrite, now: float) -> None:
        """Takes one line of the journal. A write that was seen already gets its writer. What the line replaced, where that is not
        what stood here, was written in between by somebody who keeps no journal."""
        at = min(one.at, now)
        self.journal_writes.append(at)
        recent = list(itertools.islice(self.ring, _RECENT + 1))
        seen_writes = recent[:-1] if self._before and len(self.ring) == len(recent) else recent
        for place, seen in enumerate(seen_writes[:_RECENT]):
            before = recent[place + 1].value if place + 1 < len(recent) else one.old  # the first was no write that we saw
            if (
                not seen.journaled
                and (seen.writer is None or seen.writer.pid == one.writer.pid)
                and abs(seen.at - at) <= _NEAR
                and self.key(seen.value) == self.key(one.new)
                and self.key(before) == self.key(one.old)
            ):
                self.ring[place] = replace(
                    seen, writer=one.writer, held_by=seen.held_by or (one.writer,), also_changed=(), journaled=True
                )
                for turn in range(len(self.changes) - 1, -1, -1):
                    if self.changes[turn].at == seen.at:
                        self.changes[turn] = replace(
                            self.changes[turn], also_changed=(), advanced=(), journaled=True, writer=one.writer
                        )
                        break
                return
        if self.key(one.old) != self.key(self.value):
            self.write(at, one.old, 0, (), (), ())
        self.write(at, one.new, 0, (), (), (one.writer,), writer=one.writer, journaled=True)

    @property
    def top(self) -> Json:
        return self._top

    @property
    def below_top(self) -> bool:
        """True where it stands below its high-water mark."""
        step = self.step(self.value, self._top)
        return step == 1 if step is not None else self.key(self.value) != self.key(self._top)

    def recovered(self, change: Change) -> bool:
        """True where it has since gone past what it had when ``change`` put it back."""
        later = [other.new for other in self.changes if other.at > change.at]
        steps = [self.step(change.old, value) for value in later]
        place = self._seen.get(self.key(change.old), -1)
        return any(
            step == 1 if step is not None else self._seen.get(self.key(value), 0) > place
            for step, value in zip(steps, later, strict=True)
        )

    def put_backs(self, now: float) -> list[Change]:
        """Lost updates of the last hour, oldest first: back at an earlier value of its own in a write that changed another key,
        or put back to the same value at least twice. A single step back for itself is a rewind and not among them, nor is any
        that the journal tells of: such a write knew what it replaced.
        """
        back = [
            change for change in self.changes if change.back and not change.journaled and change.at >= now - _REMEMBERED
        ]
        times: dict[str, int] = {}
        for change in back:
            times[self.key(change.new)] = times.get(self.key(change.new), 0) + 1
        return [change for change in back if (change.known and change.also_changed) or times[self.key(change.new)] > 1]

    @property
    def every(self) -> float | None:
        """The learnt interval between forward moves (the median), None before three of them."""
        gaps = self._gaps(self._forward)
        return _median(gaps) if len(gaps) >= _FEWEST_GAPS else None

    def written_every(self, times: deque[float]) -> float | None:
        """The same between ``times``: its ``writes``, or its ``journal_writes``."""
        gaps = self._gaps(times)[-_GAPS:]
        return _median(gaps) if len(gaps) >= _FEWEST_GAPS else None

    @property
    def all_journaled(self) -> bool:
        """True where every write since watching began stands in the journal: no other hand writes this source."""
        return bool(self.writes) and all(write.journaled for write in itertools.islice(self.ring, len(self.writes)))

    def explained(self, times: deque[float] | None = None) -> float | None:
        """Seconds of silence that its own rhythm explains: thrice the usual, or half again the longest seen. Of its forward
        moves, or of ``times``."""
        gaps = self._gaps(self._forward if times is None else times)[-_GAPS:]
        return max(3 * _median(gaps), 1.5 * max(gaps)) + 2.0 if len(gaps) >= _FEWEST_GAPS else None

    @staticmethod
    def _gaps(times: deque[float]) -> list[float]:
        moments = list(times)
        return [later - earlier for earlier, later in itertools.pairwise(moments) if later > earlier]


def _median(values: Sequence[float]) -> float:
    """As ``statistics.median``, whose import takes longer than all else here."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
