"""Glance at one target among several, and the order of several: worst first. Pure.

``status`` of several targets prints glances, and the Spools view draws them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from math import inf

from msgspec import Struct

from spooltop.model.snapshot import Observation, Problem, Rates, Snapshot, pause_words
from spooltop.model.units import span
from spooltop.model.vocabulary import ASIDE, Box

_NUMBER = re.compile(r"([0-9]+)")
_DIGITS = 20
"""Digits that numbers in names are compared by; longer ones are compared as text."""


class Level(IntEnum):
    """State of a target, the worst first, in the order of a monitoring plugin: what is known to be broken is worse than
    what is not known."""

    SILENT = 0
    CRITICAL = 1
    UNKNOWN = 2
    WARNING = 3
    NOTE = 4
    FINE = 5
    PENDING = 6


_NOT_SEEN = Snapshot(Observation("", "", 0.0, True, {}, proves_death=False), Rates())


class Glance(Struct, frozen=True):
    """All that is known of ``target``. ``counted`` are the names in its boxes before the first look (None: a box that cannot be
    counted), ``snapshot`` is the last look, ``error`` says why there is none. ``silent_for``: seconds for which it has not
    answered, and ``step`` the part that does not."""

    target: str
    counted: Mapping[Box, int | None] = {}
    snapshot: Snapshot | None = None
    error: str = ""
    silent_for: float | None = None
    step: str = ""

    @property
    def seen(self) -> Snapshot:
        """The last look; one without boxes and problems where there is none."""
        return self.snapshot or _NOT_SEEN

    @property
    def worst(self) -> Problem | None:
        """The worst of its problems: critical ones before warnings, then in the order of the codes."""
        return min(self.seen.problems, key=lambda one: (Level[one.severity.name], one.rank), default=None)

    @property
    def level(self) -> Level:
        if self.silent_for is not None:
            return Level.SILENT
        if self.error:
            return Level.UNKNOWN
        if self.snapshot is None:
            return Level.PENDING
        if (worst := self.worst) is not None:
            return Level[worst.severity.name]
        return Level.FINE if self.seen.observation.paused is None else Level.NOTE

    @property
    def troubled(self) -> bool:
        """True where somebody should look."""
        return self.level <= Level.WARNING

    @property
    def says(self) -> str:
        """The worst problem, or why nothing is known, in words whose names are escaped."""
        if self.silent_for is not None:
            return f"does not answer ({span(self.silent_for)})" + (f": {self.step}" if self.step else "")
        if self.error:
            return self.error
        if (worst := self.worst) is not None:
            return worst.text
        pause = self.seen.observation.paused
        return "" if pause is None else f"paused {pause_words(pause, self.seen.taken_at)}"

    @property
    def only_paused(self) -> bool:
        """True where nothing is worse than that it is paused."""
        worst = self.worst.code if self.worst is not None else ""
        return self.seen.observation.paused is not None and (self.level is Level.NOTE or worst == "paused")

    def count(self, *boxes: Box) -> int | None:
        """The number of messages in ``boxes``; None where that is not known."""
        counts = [self._count(box) for box in boxes]
        return None if None in counts else sum(count for count in counts if count is not None)

    def _count(self, box: Box) -> int | None:
        if self.snapshot is None:
            return self.counted.get(box)
        state = self.snapshot.observation.boxes.get(box)
        return state.count if state is not None else 0 if box in ASIDE else None

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Messages that come, and that are done, per second; None where that is not measured."""
        return self.seen.rates.in_per_s, self.seen.rates.done_per_s

    @property
    def figures(self) -> tuple[object, ...]:
        """All that is shown of it except ages. Two glances with equal figures look the same."""
        rates = tuple(None if rate is None else round(rate, 1) for rate in self.rates)
        counts = tuple(map(self._count, Box))
        return self.level, self.says, counts, self.complete, self.dead, self.oldest_at, rates, self.snapshot is None

    @property
    def complete(self) -> bool:
        """False where counts are lower bounds."""
        return self.seen.observation.complete

    @property
    def dead(self) -> int | None:
        """The number of claims of dead consumers; None where it is not judged, or nothing could prove it."""
        seen = self.seen.observation
        return seen.counts.dead if seen.judges_claims and seen.proves_death and self._count(Box.CUR) is not None else None

    @property
    def oldest_at(self) -> float | None:
        """When the oldest message in ``new`` was put, epoch seconds; None where there is none, or it is not known."""
        state = self.seen.observation.boxes.get(Box.NEW)
        return state.oldest_at if state is not None and state.count else None


def natural(name: str) -> tuple[str, ...]:
    """A key that sorts names by the numbers in them: ``spool2`` before ``spool10``."""
    return tuple(part.zfill(_DIGITS) if at % 2 else part for at, part in enumerate(_NUMBER.split(name)))


def _badness(one: Glance) -> tuple[int, int, float, tuple[str, ...]]:
    count = len(one.seen.problems)
    # Without a problem the oldest message says nothing, and lines would change their places with each message that is taken.
    oldest = inf if one.oldest_at is None or not count else one.oldest_at
    return one.level, -count, oldest, natural(one.target)


def worst_first(glances: Iterable[Glance]) -> list[Glance]:
    """The glances, worst first; equally bad ones by the number of their problems, then by the age of their oldest message in
    ``new``, then by name."""
    return sorted(glances, key=_badness)
