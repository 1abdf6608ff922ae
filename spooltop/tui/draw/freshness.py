"""How fresh the picture is, in the words of the header."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum

from spooltop.model import units
from spooltop.model.snapshot import Snapshot

from .spans import Line, Span, Style, join, shown

__all__ = ["Lamp", "Times", "lamp_line", "stale", "stale_line", "when"]


class Times(StrEnum):
    """How a moment is written in lists (``t``)."""

    AGE = "age"
    LOCAL = "local"
    UTC = "utc"


@dataclass(frozen=True, slots=True)
class Lamp:
    """What the screen knows of its own picture: ``frozen_at`` (epoch seconds) since the display was frozen; ``stale_for``
    seconds since a look was begun that has not come back, with ``stale_why``: what does not answer.
    """

    frozen_at: float | None = None
    stale_for: float | None = None
    stale_why: str = ""


def stale(snapshot: Snapshot | None, lamp: Lamp) -> bool:
    """True where figures on the screen may be older than they look."""
    return lamp.frozen_at is not None or lamp.stale_for is not None


def stale_line(lamp: Lamp) -> Line:
    """``STALE 41s: readdir of new does not answer``."""
    return (Span(f"STALE {units.span(lamp.stale_for)}", Style.BAD), Span(f": {shown(lamp.stale_why) or 'a look is not back'}"))


def when(at: float | None, zone: datetime.tzinfo | None = None, *, offset: bool = False) -> str:
    """Time of day, ``—`` where not known."""
    return units.clock_time(at, zone, offset=offset)


def lamp_line(
    snapshot: Snapshot | None, *, lamp: Lamp, zone: datetime.tzinfo | None = None, short: bool = False, offset: bool = True
) -> Line:
    """``live · as of 02:41:09 +0100``; FROZEN and STALE take its place, because nothing moves then. ``short`` without words."""
    if snapshot is None:
        if lamp.stale_for is not None:
            why = shown(lamp.stale_why) or "the first look is not back"
            return (Span(f"STALE {units.span(lamp.stale_for)}", Style.BAD), Span(f": {why}"))
        return (Span("looking…"),)
    as_of = f"{'' if short else 'as of '}{when(snapshot.taken_at, zone, offset=offset)}"
    if lamp.stale_for is not None:
        return join(*(stale_line(lamp) if not short else stale_line(lamp)[:1]), f" · {as_of}")
    if lamp.frozen_at is not None:
        return join(Span("FROZEN", Style.WARN), f"{'' if short else ', Z goes on'} · {as_of}")
    watch = snapshot.sight.watch
    gap = " " if short else " · "
    if watch.mode == "live":
        besides = f", listed every {watch.period:g}s ({shown(watch.reason)})" if watch.period and not short else ""
        return join(Span("live", Style.GOOD), f"{besides}{gap}{as_of}")
    every = f"every {watch.period:g}s" if watch.period else ("scan" if watch.mode == "scan" else watch.mode)
    reason = f" ({shown(watch.reason)})" if watch.reason and not short else ""
    return join(Span(every, Style.WARN), f"{reason}{gap}{as_of}")
