"""Says how fresh the screen is, in the words of the header."""

from __future__ import annotations

import datetime
from enum import StrEnum

from msgspec import Struct

from spooltop.model import units
from spooltop.model.look.snapshot import Snapshot

from ..elements.spans import Line, Span, Style, join, shown


class Times(StrEnum):
    """The format of times in lists (``t``)."""

    AGE = "age"
    LOCAL = "local"
    UTC = "utc"


class Freshness(Struct, frozen=True):
    """The age of what the screen shows: ``frozen_at`` (epoch seconds) since the display was frozen; ``stale_for`` seconds since a
    look began that has not finished, and ``stale_why``, the part that does not answer."""

    frozen_at: float | None = None
    stale_for: float | None = None
    stale_why: str = ""


def freshness_of(snapshot: Snapshot | None, freshness: Freshness) -> Freshness:
    """Returns the freshness of a screen: what is shown of a queue that does not answer is stale, too."""
    if snapshot is None or freshness.stale_for is not None or not snapshot.observation.watch.away:
        return freshness
    watch = snapshot.observation.watch
    since = watch.since if watch.seen_at is None else watch.seen_at
    return Freshness(freshness.frozen_at, max(0.0, snapshot.taken_at - since), watch.reason)


def stale(snapshot: Snapshot | None, freshness: Freshness) -> bool:
    """True where figures on the screen may be older than they look."""
    found = freshness_of(snapshot, freshness)
    return found.frozen_at is not None or found.stale_for is not None


def stale_line(freshness: Freshness) -> Line:
    """``STALE 41s: readdir of new does not answer``."""
    why = shown(freshness.stale_why) or "a look has not finished"
    return (Span(f"STALE {units.span(freshness.stale_for)}", Style.BAD), Span(f": {why}"))


def when(at: float | None, zone: datetime.tzinfo | None = None, *, offset: bool = False) -> str:
    """The time of day; ``—`` where it is not known."""
    return units.clock_time(at, zone, offset=offset)


def freshness_line(
    snapshot: Snapshot | None, *, freshness: Freshness, zone: datetime.tzinfo | None = None, short: bool = False,
    offset: bool = True,
) -> Line:
    """``live · as of 02:41:09 +0100``. FROZEN and STALE replace it, because nothing changes then. ``short``: without the words.
    """
    freshness = freshness_of(snapshot, freshness)
    if snapshot is None:
        if freshness.stale_for is not None:
            why = shown(freshness.stale_why) or "the first look has not finished"
            return (Span(f"STALE {units.span(freshness.stale_for)}", Style.BAD), Span(f": {why}"))
        return (Span("looking…"),)
    as_of = f"{'' if short else 'as of '}{when(snapshot.observation.as_of, zone, offset=offset)}"
    if freshness.stale_for is not None:
        return join(*(stale_line(freshness) if not short else stale_line(freshness)[:1]), f" · {as_of}")
    if freshness.frozen_at is not None:
        return join(Span("FROZEN", Style.WARN), f"{'' if short else ', Z unfreezes'} · {as_of}")
    watch = snapshot.observation.watch
    gap = " " if short else " · "
    if watch.lag is not None:
        behind = f"replica ≤{units.span(watch.lag)}{'' if short else ' behind'}"
        return join(Span(behind, Style.WARN), f"{gap}{as_of}")
    if watch.mode == "live":
        besides = f", listed every {watch.period:g}s ({shown(watch.reason)})" if watch.period and not short else ""
        return join(Span("live", Style.GOOD), f"{besides}{gap}{as_of}")
    every = f"every {watch.period:g}s" if watch.period else ("scan" if watch.mode == "scan" else watch.mode)
    why = watch.reason or snapshot.observation.program
    reason = f" ({shown(why)})" if why and not short else ""
    return join(Span(every, Style.WARN), f"{reason}{gap}{as_of}")
