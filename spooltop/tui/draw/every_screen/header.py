"""Draws the two lines on top of every screen: the spool, how fresh the figures are, free disk space, and the user."""

from __future__ import annotations

import datetime

from spooltop.model import units
from spooltop.model.look.observation import capacity_words
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.vocabulary import Action

from ..elements.spans import Line, Span, Style, clip, clip_left, crop, join, line_width, restyle, safe, shown, spread, text_width
from .freshness import Freshness, freshness_line, freshness_of, stale_line, when

_WHO = 16
"""Cells of the name of who paused the spool."""


def header(
    snapshot: Snapshot | None,
    width: int,
    *,
    target: str,
    now: float,
    freshness: Freshness = Freshness(),  # noqa: B008  frozen
    zone: datetime.tzinfo | None = None,
) -> list[Line]:
    """The spool and how fresh the figures are; then the free space on its file system and the rights of the user."""
    second = disk_line(snapshot, width)
    freshness = freshness_of(snapshot, freshness)
    if snapshot is not None and freshness.stale_for is not None:  # the part that does not answer is on the first line
        seen = f" as of {when(snapshot.observation.as_of, zone, offset=True)} ·"
        second = crop(restyle(join(seen, *disk_line(snapshot, width - text_width(seen))), Style.DIM), width)
    return [_first(snapshot, width, target, freshness, zone), second]


def is_mail(snapshot: Snapshot) -> bool:
    """True for a mail folder: its ``cur`` is read mail."""
    return snapshot.observation.is_mail


def _first(snapshot: Snapshot | None, width: int, target: str, freshness: Freshness, zone: datetime.tzinfo | None) -> Line:
    title = Span(" spooltop ", Style.TITLE)
    path = safe(target)
    # shown nowhere else: it has to fit
    least: Line = (Span(" · "), Span("READ-ONLY", Style.WARN)) if snapshot is not None and is_mail(snapshot) else ()
    most = least or (join(f" · watched for {units.span(snapshot.watched_for)}") if snapshot is not None else ())
    room = width - text_width(title.text) - 2  # a gap, and a cell at the edge
    paused, briefly = _paused(snapshot)
    freshness_lines = [
        join(paused, freshness_line(snapshot, freshness=freshness, zone=zone), most),
        join(paused, freshness_line(snapshot, freshness=freshness, zone=zone), least),
        join(paused, freshness_line(snapshot, freshness=freshness, zone=zone, offset=False), least),
        join(briefly, freshness_line(snapshot, freshness=freshness, zone=zone, offset=False), least),
        join(briefly, freshness_line(snapshot, freshness=freshness, zone=zone, short=True, offset=False), least),
    ]
    if least and line_width(freshness_lines[-1]) > room - 8:
        freshness_lines.append(least[1:])
    if freshness.stale_for is not None:
        freshness_lines = [stale_line(freshness)]
    whole, cut = text_width(path), min(text_width(path), max(12, room // 5))
    # the whole path is more important than the time watched, but less than the time of the look
    fit_whole = [one for one in freshness_lines[:2] if line_width(one) + whole <= room]
    fit_cut = [one for one in freshness_lines[1:] if line_width(one) + cut <= room]
    right = [*fit_whole, *fit_cut, freshness_lines[-1]][0]
    left = (title, Span(clip_left(path, max(8, room - line_width(right)))))
    return crop(spread(left, right, max(0, width - 1)), width)


def _paused(snapshot: Snapshot | None) -> tuple[Line, Line]:
    """``PAUSED by root for 2h · `` and the same in fewer words; nothing where the spool is not paused."""
    if snapshot is None or (pause := snapshot.observation.paused) is None:
        return (), ()
    by = "" if pause.by is None else f" by {clip(safe(pause.by), _WHO)}"
    length = units.age(max(0.0, snapshot.taken_at - pause.at))
    words = (f"PAUSED{by} for {length}", f"PAUSED {length}")
    return join(Span(words[0], Style.WARN), " · "), join(Span(words[1], Style.WARN), " · ")


def disk_line(snapshot: Snapshot | None, width: int) -> Line:
    """``ext4 12GB free 41%, inodes free 88% · you are memex, read-write``."""
    if snapshot is None:
        return ()
    observation = snapshot.observation
    capacities = observation.capacities
    full = any(one.free == 0 for one in capacities)
    words = [safe(one) for one in capacity_words(capacities, observation.disk)]
    most = [", ".join(words), words[0] if words and (not full or capacities[0].free == 0) else ", ".join(words)]
    who = "read-only" if is_mail(snapshot) else observation.who.words
    if not who:
        why = observation.capabilities.why_not(Action.REQUEUE)
        who = "read-write" if observation.capabilities.change else f"read-only{f': {why}' if why else ''}"
    variants = [
        join(
            " ",
            Span(one, Style.BAD if full else Style.NORMAL),
            Span(", mounted read-only" if any(one.readonly for one in capacities) else "", Style.BAD),
            f"{' · ' if one else ''}you are {safe(observation.who.user)}, {shown(who)}",
        )
        for one in most
    ]
    return crop(next((line for line in variants if line_width(line) < width), variants[-1]), width)
