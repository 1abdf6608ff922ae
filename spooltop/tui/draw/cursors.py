"""Draws the cursors: as a short table, as a list, and a single one with the writes that were seen."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from msgspec.structs import replace

from spooltop.model import units
from spooltop.model.cursors import Cursor
from spooltop.model.look.snapshot import Snapshot

from .elements.spans import (
    BLANK,
    Line,
    Span,
    Style,
    clip,
    clip_left,
    crop,
    join,
    line_width,
    pad,
    pad_left,
    plain,
    safe,
    select,
    shown,
    text_width,
)
from .every_screen.header import when
from .one_cursor import LOUD, cursor_detail, verdict_words

_TITLED = 12
"""Lines from which on the list has a title."""
_CLAUSE = re.compile(r"[,;] |(?<=\?) ")
"""Boundaries at which the evidence of a verdict may be cut."""
_ASKED = re.compile(r"idle or \w+\?")
"""Text for what is not known: in a short line more useful than the time, which has a column of its own."""


def _widths(width: int, *, counted: bool) -> tuple[int, int]:
    """Widths in cells of the source and of the value. ``counted``: in place of the writes of a file there is what comes after
    each cursor, which needs less."""
    extra = max(0, width - 80)
    return 11 + min(6, extra // 8), (17 if counted and width >= 72 else 12) + min(12, extra // 4)


def _counted(cursors: Sequence[Cursor]) -> bool:
    """True if all are kept by a server, which counts what comes after each."""
    return all(not one.in_file for one in cursors)


def _title(width: int, *, counted: bool) -> Line:
    source, value = _widths(width, counted=counted)
    names = ("group", "last delivered") if counted else ("source", "cursor")
    text = f" {pad(names[0], source)}{pad(clip(names[1], value - 1), value)}{'moved':>5}"
    if width >= 52:
        text += f"{'every':>7}"
    if counted:
        text += f"{'lag':>9}"
    elif width >= 72:
        text += f"  {'writes seen':<15}"
    return crop((Span(f"{text}  verdict", Style.DIM),), width)


def _verdict_in(cursor: Cursor, room: int) -> Line:
    """The verdict as the list shows it, with the clauses of its evidence that fit; without evidence where the columns show it."""
    whole = verdict_words(cursor)
    if cursor.verdict == "advancing":
        return verdict_words(replace(cursor, evidence=""))
    evidence = shown(cursor.evidence)
    if line_width(whole) <= room:
        return whole
    if asked := _ASKED.search(evidence):
        for question in (asked[0], "idle?"):
            brief = verdict_words(replace(cursor, evidence=question))
            if line_width(brief) <= room:
                return brief
    fits = evidence[: max(0, room)]
    for at in (*(found.start() for found in reversed(list(_CLAUSE.finditer(fits)))), 0):
        brief = verdict_words(replace(cursor, evidence=evidence[:at]))
        if line_width(brief) <= room:
            return brief
    return crop(whole, max(0, room))


def _writes(cursor: Cursor) -> str:
    if cursor.writes is None:
        return "?  shared file"
    return f"{cursor.writes:,}" + (f" ({cursor.reverts_recent:,} ↓)" if cursor.reverts_recent else "")


def _lag(cursor: Cursor) -> str:
    return "?" if cursor.behind is None else units.count(cursor.behind, complete=not cursor.behind_is_bound)


def _row(
    cursor: Cursor, width: int, now: float, *, counted: bool, chosen: bool | None = None, muted: float | None = None,
    zone: datetime.tzinfo | None = None,
) -> Line:  # fmt: skip
    source, value = _widths(width, counted=counted)
    age = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    moved = (units.at_least if cursor.moved_is_bound else units.age)(age)
    value_text = pad(clip_left(shown(cursor.shown), value - 1), value)
    text = f"{'▌' if chosen else ' '}{pad(clip(safe(cursor.source), source - 1), source)}{value_text}{pad_left(moved, 5)}"
    if width >= 52:
        text += pad_left(units.interval(cursor.every), 7)
    if counted:
        text += pad_left(_lag(cursor), 9)
    elif width >= 72:
        text += f"  {pad(_writes(cursor), 15)}"
    mute = "" if muted is None else f" · muted to {_end(muted, now, zone)}"
    room = width - text_width(text) - 2 - text_width(mute)
    if mute and line_width(verdict_words(replace(cursor, evidence=""))) > room:
        cursor = replace(cursor, evidence="", reverts_recent=0)  # the mute is more useful here than the number
    line = join(text, "  ", _verdict_in(cursor, room), Span(mute, Style.DIM))
    if chosen:
        return select(line, width)
    return crop(line, width)


def _end(at: float, now: float, zone: datetime.tzinfo | None) -> str:
    """The time of day; month and day where the time is a day or more away (it is always within a year)."""
    if at - now < 86_400:
        return when(at, zone)[:5]
    return datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone(zone).strftime("%m-%d")


def cursor_glance(snapshot: Snapshot, width: int, rows: int, *, now: float) -> list[Line]:
    """A title and one line per source, at most ``rows`` lines. Where not all fit, sources with problems come first."""
    cursors = list(snapshot.cursors)
    if not cursors or rows < 2:
        return []
    fits = rows - 1
    hidden: list[Cursor] = []
    if len(cursors) > fits:
        cursors, hidden = _fitting(cursors, max(1, fits - 1))
    counted = _counted(snapshot.cursors)
    lines = [_title(width, counted=counted)]
    lines += [_row(one, width, now, counted=counted, muted=snapshot.muted.get(one.source)) for one in cursors]
    if hidden:
        loud = sum(one.verdict in LOUD for one in hidden)
        tail = f", {loud} of them with problems" if loud else ""
        lines.append(crop((Span(f"   {len(hidden)} more{tail}, "), Span("5", Style.KEY), Span(" shows all")), width))
    return lines


def _fitting(cursors: list[Cursor], most: int) -> tuple[list[Cursor], list[Cursor]]:
    """Splits the cursors into those that are listed and those that do not fit. A cursor with a problem replaces one without; all
    others keep their place, whatever their verdicts."""
    listed, rest = cursors[:most], cursors[most:]
    for place in reversed(range(len(listed))):
        loud = next((one for one in rest if one.verdict in LOUD), None)
        if loud is not None and listed[place].verdict not in LOUD:
            rest[rest.index(loud)], listed[place] = listed[place], loud
    return listed, rest


def cursor_table(
    snapshot: Snapshot, width: int, height: int, *, now: float, chosen: int = 0, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """The list of sources with one chosen, and below it the facts about that one."""
    cursors = snapshot.cursors
    if not cursors:
        return [plain(" no cursor file was found in the spool or next to it", width)][:height]
    chosen = max(0, min(chosen, len(cursors) - 1))
    loud = sum(one.verdict in LOUD for one in cursors)
    problems = Span(f" · {loud:,} with problems" if loud else "", Style.BAD)
    title = [crop(join(Span(f" Cursors {len(cursors):,}", Style.TITLE), problems), width)] if height >= _TITLED else []
    height -= len(title)
    below = max(6, height - len(cursors) - 2) if height >= 14 else 0
    room = max(1, height - 1 - (below + 1 if below else 0))
    top = max(0, min(chosen - room + 1, len(cursors) - room))
    visible = range(top, min(len(cursors), top + room))
    mutes, counted = snapshot.muted, _counted(cursors)
    lines = [
        *title,
        _title(width, counted=counted),
        *(
            _row(one, width, now, counted=counted, chosen=i == chosen, muted=mutes.get(one.source), zone=zone)
            for i, one in ((i, cursors[i]) for i in visible)
        ),
    ]
    if below:
        lines.append(BLANK)
        lines += cursor_detail(cursors[chosen], snapshot, width, below, now=now, chosen=-1, zone=zone)
    return lines[: height + len(title)]
