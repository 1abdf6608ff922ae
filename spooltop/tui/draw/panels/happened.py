"""Draws what happened, newest first: problems that began and ended, operations, reverted cursors, consumers that exited."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import pairwise

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot

from ...tracking.event_log import LoggedEvent
from ..elements.spans import Line, Span, Style, clip_left, crop, join, plain, safe, shown
from ..every_screen.freshness import when
from ..one_cursor import written
from ..problems import SIGNS

_VALUE = 16
"""Cells of a cursor's value."""


def happened_lines(
    snapshot: Snapshot, events: Sequence[LoggedEvent], width: int, rows: int, *, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """At most ``rows`` lines. ``events`` are newest first."""
    found = [(event.at, _event(event)) for event in events[:rows]] + _reverts(snapshot)[:rows]
    found.sort(key=lambda one: one[0], reverse=True)
    if not found:
        return [plain(f" nothing since watching began {units.span(snapshot.watched_for)} ago", width, Style.DIM)][:rows]
    return [crop(join(Span(f" {when(at, zone)} ", Style.DIM), line), width) for at, line in found[:rows]]


def _event(event: LoggedEvent) -> Line:
    sign = Span("✓", Style.GOOD) if event.ended else Span("·", Style.DIM) if event.severity is None else SIGNS[event.severity]
    return join(sign, f" {shown(event.words)}")


def _reverts(snapshot: Snapshot) -> list[tuple[float, Line]]:
    """The lost updates in the histories of the cursors, newest first."""
    found: list[tuple[float, Line]] = []
    for cursor in snapshot.cursors:
        for write, before in pairwise(cursor.history):
            if write.lost:
                values = f"{clip_left(written(before), _VALUE)} → {clip_left(written(write), _VALUE)}"
                others = f", as {', '.join(map(safe, write.also_changed))} wrote" if write.also_changed else ""
                found.append((write.at, join(_REVERTED, f" {safe(cursor.source)} reverted {values}{others}")))
    found.sort(key=lambda one: one[0], reverse=True)
    return found


_REVERTED = Span("↓", Style.BAD)
