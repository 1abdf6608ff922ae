"""Where each source's poller stands: at a glance, as a list, and one with the writes that were seen."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace

from spooltop.model import units
from spooltop.model.sight import CursorSection
from spooltop.model.snapshot import Cursor, Snapshot

from .lamp import when
from .locks import party
from .spans import (
    BLANK,
    Line,
    Span,
    Style,
    clip,
    clip_left,
    crop,
    join,
    line_text,
    line_width,
    merge,
    pad,
    pad_left,
    plain,
    restyle,
    safe,
    shown,
    spread,
    text_width,
    wrap,
)

__all__ = ["cursor_detail", "cursor_glance", "cursor_table", "verdict_words"]

_CLAUSE = re.compile(r"[,;] |(?<=\?) ")
"""Where what a verdict rests on may end."""

_STOPS = (
    "What stops it: every poller must change its section only, under .cursors.lock (CursorFile.advance), or one file per source."
)

_LOUD = {
    "reverted": Style.BAD, "rewound": Style.BAD, "unreadable": Style.BAD, "missing": Style.BAD,
    "stalled": Style.WARN, "stopped": Style.WARN,
}  # fmt: skip


def _widths(width: int) -> tuple[int, int]:
    """Cells for the source and for the value."""
    extra = max(0, width - 80)
    return 11 + min(6, extra // 8), 12 + min(12, extra // 4)


def _title(width: int) -> Line:
    source, value = _widths(width)
    text = f" {pad('source', source)}{pad('cursor', value)}{'moved':>5}"
    if width >= 52:
        text += f"{'every':>7}"
    if width >= 72:
        text += f"  {'writes seen':<15}"
    return crop((Span(f"{text}  verdict", Style.DIM),), width)


def verdict_words(cursor: Cursor) -> Line:
    """The verdict, loud where it is trouble, and in the same line what it rests on."""
    loud = _LOUD.get(cursor.verdict)
    word = cursor.verdict.upper() if loud else cursor.verdict
    times = f" {cursor.put_back}×" if cursor.put_back and cursor.verdict == "reverted" else ""
    return join(Span(f"{shown(word)}{times}", loud or Style.NORMAL), f": {shown(cursor.evidence)}" if cursor.evidence else "")


def _verdict_in(cursor: Cursor, room: int) -> Line:
    """The verdict in a line of the list: of what it rests on the clauses that fit, and none where the columns say it."""
    whole = verdict_words(cursor)
    if cursor.verdict == "advancing":
        return verdict_words(replace(cursor, evidence=""))
    evidence = shown(cursor.evidence)
    for at in (len(evidence), *(found.start() for found in reversed(list(_CLAUSE.finditer(evidence)))), 0):
        brief = verdict_words(replace(cursor, evidence=evidence[:at]))
        if line_width(brief) <= room:
            return brief
    return crop(whole, max(0, room))


def _writes(cursor: Cursor) -> str:
    if cursor.writes is None:
        return "?  shared file"
    return f"{cursor.writes:,}" + (f" ({cursor.put_back} put back)" if cursor.put_back else "")


def _row(cursor: Cursor, width: int, now: float, *, chosen: bool | None = None) -> Line:
    source, value = _widths(width)
    age = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    moved = ("≥" if cursor.moved_is_bound else "") + units.age(age)
    value_text = pad(clip_left(shown(cursor.shown), value - 1), value)
    text = f"{'▌' if chosen else ' '}{pad(clip(safe(cursor.source), source - 1), source)}{value_text}{pad_left(moved, 5)}"
    if width >= 52:
        text += pad_left(units.interval(cursor.every), 7)
    if width >= 72:
        text += f"  {pad(_writes(cursor), 15)}"
    line = join(text, "  ", _verdict_in(cursor, width - text_width(text) - 2))
    if chosen:
        line = restyle((*line, Span(" " * (width - sum(len(span.text) for span in line)))), Style.SELECTED)
    return crop(line, width)


def cursor_glance(snapshot: Snapshot, width: int, rows: int, *, now: float) -> list[Line]:
    """A title and a line a source, in at most ``rows``. Where not all have room, the troubled ones do first."""
    cursors = list(snapshot.cursors)
    if not cursors or rows < 2:
        return []
    fits = rows - 1
    hidden: list[Cursor] = []
    if len(cursors) > fits:
        ranked = sorted(cursors, key=lambda one: one.verdict not in _LOUD)
        kept = ranked[: fits - 1]
        hidden = ranked[fits - 1 :]
        cursors = [one for one in cursors if one in kept]
    lines = [_title(width), *(_row(cursor, width, now) for cursor in cursors)]
    if hidden:
        loud = sum(one.verdict in _LOUD for one in hidden)
        tail = f", {loud} of them in trouble" if loud else ""
        lines.append(crop((Span(f"   {len(hidden)} more{tail}, "), Span("5", Style.KEY), Span(" shows all")), width))
    return lines


def cursor_table(
    snapshot: Snapshot, width: int, height: int, *, now: float, chosen: int = 0, zone: datetime.tzinfo | None = None
) -> list[Line]:
    """The list of sources with one chosen, and below it what is known of that one."""
    cursors = snapshot.cursors
    if not cursors:
        return [plain(" no cursor file was found in the spool or beside it", width)][:height]
    chosen = max(0, min(chosen, len(cursors) - 1))
    below = max(6, height - len(cursors) - 2) if height >= 14 else 0
    room = max(1, height - 1 - (below + 1 if below else 0))
    top = max(0, min(chosen - room + 1, len(cursors) - room))
    visible = range(top, min(len(cursors), top + room))
    lines = [_title(width), *(_row(cursors[i], width, now, chosen=i == chosen) for i in visible)]
    if below:
        lines.append(BLANK)
        lines += cursor_detail(cursors[chosen], snapshot, width, below, now=now, chosen=-1, zone=zone)
    return lines[:height]


def cursor_detail(
    cursor: Cursor,
    snapshot: Snapshot,
    width: int,
    height: int,
    *,
    now: float,
    chosen: int = 0,
    zone: datetime.tzinfo | None = None,
) -> list[Line]:
    """One source: its file, what it rests on, and the ring of writes that were seen, newest first."""
    sharers = sum(1 for one in snapshot.cursors if one.file == cursor.file)
    where = f"{safe(cursor.file)}{f', shared by {sharers}' if cursor.shared else ''}"
    name = f" Cursors › {safe(cursor.source)}"
    right = f"{clip_left(where, max(10, width - 30 - len(name)))} · watched for {units.span(snapshot.watched_for)}"
    lines: list[Line] = [
        crop(spread((Span(name, Style.TITLE),), (Span(right),), width - 1), width),
        *_wrapped(verdict_words(cursor), width, 3 if height >= 16 else 1),
    ]
    moved = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    bound = "at least " if cursor.moved_is_bound else ""
    every = units.interval(cursor.every) if cursor.every is not None else "not learnt yet"
    lock = ", ".join(party(one) for one in cursor.lock_holders)
    facts = [
        ("value", f"{shown(cursor.shown)} · moved {when(cursor.moved_at, zone)}, {bound}{units.age(moved)} ago · every {every}"),
        *_muted(cursor, snapshot, zone),
        ("lock", f"held by {lock}" if lock else "nobody held it when the file was read"),
        *_unsafe(cursor, snapshot),
    ]
    lines += [crop(join(Span(f" {label:<9}", Style.DIM), fact), width) for label, fact in facts]
    advice = [BLANK, *(plain(f" {text}", width) for text in wrap(_STOPS, max(1, width - 2)))]
    if cursor.verdict != "reverted" or height - len(lines) - len(advice) < 4:
        advice = []
    room = height - len(lines) - len(advice)
    if room >= 2:
        lines += _ring(cursor, width, room, chosen, zone)
    return [*lines, *advice][:height]


def _muted(cursor: Cursor, snapshot: Snapshot, zone: datetime.tzinfo | None) -> list[tuple[str, str]]:
    end = snapshot.muted.get(cursor.source)
    return [] if end is None else [("muted", f"until {when(end, zone)}; its trouble is not told")]


def _unsafe(cursor: Cursor, snapshot: Snapshot) -> list[tuple[str, str]]:
    """What was seen of writers that take no lock, or that share a temporary name."""
    words = []
    if cursor.shared and cursor.history:
        bare = sum(not write.held_by for write in cursor.history)
        if bare:
            words.append(f"lock not seen held in {bare} of {len(cursor.history)} writes")
    litter = [name for source in snapshot.sight.cursors if source.path == cursor.file for name in source.litter]
    if litter:
        words.append(f"common temp {safe(litter[0])}")
    return [("unsafe", " · ".join(words))] if words else []


def _wrapped(verdict: Line, width: int, most: int) -> list[Line]:
    """The verdict over at most so many lines, its word as loud as it is."""
    head = verdict[0] if verdict else Span("")
    parts = wrap(line_text(verdict), max(1, width - 2))
    if len(parts) > most or not parts[0].startswith(head.text):
        return [crop(join(" ", verdict), width)]
    first = join(" ", head, parts[0].removeprefix(head.text))
    return [first, *(plain(f" {part}", width) for part in parts[1:])]


def _ring(cursor: Cursor, width: int, room: int, chosen: int, zone: datetime.tzinfo | None) -> list[Line]:
    writes = list(cursor.history)
    if not writes:
        return [plain(" no write was seen since watching began", width)]
    _, value = _widths(width)
    change = 2 * value + 2
    lines = [plain(f"   {'time':<10}{pad('value', change)}{'lock held by':<16}also changed", width, Style.DIM)]
    fits = room - 1
    top = max(0, min(chosen - fits + 1, len(writes) - fits))
    for i in range(top, min(len(writes), top + fits)):
        before = writes[i + 1] if i + 1 < len(writes) else None
        line = _write_line(writes[i], before, width, value, change, chosen=i == chosen, zone=zone)
        if i == chosen:
            line = restyle((*line, Span(" " * (width - line_width(line)))), Style.SELECTED)
        lines.append(line)
    return lines


def _written(write: CursorSection) -> str:
    return shown(write.shown) if write.shown else safe(str(write.value))


def _less(one: str, other: str) -> bool:
    """True for two numbers of which the first is smaller; of opaque tokens nobody knows."""
    try:
        return float(one) < float(other)
    except ValueError:
        return False


def _write_line(
    write: CursorSection,
    before: CursorSection | None,
    width: int,
    value: int,
    change: int,
    *,
    chosen: bool,
    zone: datetime.tzinfo | None,
) -> Line:
    to = clip_left(_written(write), value - 1)
    back = before is not None and _less(_written(write), _written(before))
    text = to if before is None else f"{clip_left(_written(before), value - 1)} → {to}"
    also = ", ".join(safe(source) for source in write.also_changed) or "nothing"
    held = ", ".join(party(one) for one in write.held_by) or "nobody"
    return crop(
        merge(
            (
                Span("▌" if chosen else " ", Style.KEY),
                Span(f"  {pad(when(write.at, zone), 10)}"),
                Span(pad(f"{text}{' ↓' if back else ''}", change), Style.BAD if back else Style.NORMAL),
                Span(f"{pad(clip(held, 15), 16)}{also}"),
            )
        ),
        width,
    )
