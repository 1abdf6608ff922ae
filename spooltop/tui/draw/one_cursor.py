"""Draws one source's cursor: its verdict, the writes that were seen, and what is known of their writers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from spooltop.model import units
from spooltop.model.cursors import Cursor, CursorSection
from spooltop.model.cursors import shown as cursor_text
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
    line_text,
    merge,
    pad,
    plain,
    safe,
    select,
    shown,
    spread,
    text_width,
    wrap,
)
from .every_screen.header import when
from .locks import holder_info

LOUD = {
    "reverted": Style.BAD, "rewound": Style.BAD, "unreadable": Style.BAD, "missing": Style.BAD,
    "stalled": Style.WARN, "stopped": Style.WARN,
}  # fmt: skip

_STOPS = (
    "To stop it, every poller must change only its section, under .cursors.lock (CursorFile.advance), or use its own file. "
    'README, "Lost updates".'
)
_LABEL = 11
_ROWS = 4
"""Writes that are shown before anything is said about their writers."""
_STAMPED = re.compile(r"\[?\d")


def verdict_words(cursor: Cursor) -> Line:
    """The verdict, highlighted where it is a problem, and its evidence on the same line."""
    loud = LOUD.get(cursor.verdict)
    word = cursor.verdict.upper() if loud else cursor.verdict
    evidence = shown(cursor.evidence)
    if cursor.verdict == "reverted" and cursor.reverts_recent:
        bound = "≥" if cursor.reverts_is_bound else ""
        words = evidence.removeprefix("reverted ")
        return join(Span(f"{word} {bound}{cursor.reverts_recent}×", Style.BAD), f": {words}" if words else "")
    if evidence.startswith(f"{cursor.verdict} "):  # "not advancing for 2h, every 60s before" contains its verdict
        return join(Span(shown(word), loud or Style.NORMAL), evidence.removeprefix(cursor.verdict))
    return join(Span(shown(word), loud or Style.NORMAL), f": {evidence}" if evidence else "")


def cursor_detail(
    cursor: Cursor,
    snapshot: Snapshot,
    width: int,
    height: int,
    *,
    now: float,
    chosen: int,
    zone: datetime.tzinfo | None = None,
) -> list[Line]:
    """A source: its file, the evidence of its verdict, and the writes that were seen, newest first. ``chosen`` -1: none is
    chosen."""
    head = [_title(cursor, snapshot, width), *_wrapped(verdict_words(cursor), width, 3 if height >= 16 else 1)]
    head.append(_labelled("now", _stand(cursor, now, zone), width))
    facts = [_labelled(label, words, width) for label, words in _facts(cursor, snapshot, zone)]
    advice = [plain(f" {text}", width, Style.STRONG) for text in wrap(_STOPS, max(1, width - 2))]
    if cursor.verdict != "reverted":
        advice = []
    least = min(_ROWS, max(1, len(cursor.history))) + 1
    while advice and height - len(head) - len(advice) < least:
        advice = []
    facts = facts[: max(0, height - len(head) - len(advice) - least)]
    room = height - len(head) - len(facts) - len(advice)
    ring = _ring(cursor, snapshot, width, room, chosen, zone) if room >= 2 else []
    gap = [BLANK] if len(ring) < room and (facts or advice) else []
    return [*head, *ring, *gap, *facts, *advice][:height]


def _title(cursor: Cursor, snapshot: Snapshot, width: int) -> Line:
    sharers = sum(1 for one in snapshot.cursors if one.file == cursor.file)
    shared = f"shared by {sharers}" if cursor.in_file else f"{sharers} group{'' if sharers == 1 else 's'}"
    where = f"{safe(cursor.file)}, {shared if cursor.shared else 'of its own'}"
    name = f" Cursors › {safe(cursor.source)}"
    right = f"{clip_left(where, max(10, width - 30 - text_width(name)))} · watched for {units.span(snapshot.watched_for)}"
    return crop(spread((Span(name, Style.TITLE),), (Span(right),), width - 1), width)


def _stand(cursor: Cursor, now: float, zone: datetime.tzinfo | None) -> str:
    moved = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    bound = "at least " if cursor.moved_is_bound else ""
    every = f"every {units.interval(cursor.every)}" if cursor.every is not None else "update interval not known yet"
    if cursor.behind is not None:
        many = units.count(cursor.behind, complete=not cursor.behind_is_bound)
        every += f" · lag {many}"
    return f"{shown(cursor.shown)} · moved {when(cursor.moved_at, zone)}, {bound}{units.age(moved)} ago · {every}"


def _labelled(label: str, words: str, width: int) -> Line:
    return crop(join(Span(f" {label:<{_LABEL - 1}}", Style.DIM), words), width)


def _facts(cursor: Cursor, snapshot: Snapshot, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    """The facts about the writers, the most telling first."""
    if (end := snapshot.muted.get(cursor.source)) is not None:
        yield "muted", f"until {when(end, zone)}; its problems are not shown"
    lost = [write for write in cursor.history if write.lost][: cursor.reverts_recent]
    if lost:
        yield "suspect", _suspects(cursor, lost)
    if cursor.reverted_by:
        yield "wrote it", ", ".join(f"{shown(name)} {times} of {len(lost)}" for name, times in cursor.reverted_by)
    if cursor.writes_unread:
        many = f"{cursor.writes_unread:,} write{'' if cursor.writes_unread == 1 else 's'}"
        yield "unread", f"{many} not read: replaced too fast, so there may be more reverts"
    if cursor.cut:
        yield "section", "too large to be shown whole"
    unsafe = [shown(words) for words in cursor.unsafe]
    bare = sum(not write.held_by and not write.journaled for write in lost) if cursor.in_file else 0
    if bare and not any("writes" in words for words in unsafe):
        unsafe.insert(0, f"no lock seen held in {bare} of {len(lost)}")
    if unsafe:
        yield "unsafe", " · ".join(unsafe)
    if cursor.polls:
        last = cursor.polls[0]
        line = shown(last.line) if _STAMPED.match(last.line) else f"{when(last.at, zone)} {shown(last.line)}"
        same = f"same start {cursor.same_start}×   " if cursor.same_start > 1 else ""
        yield "poll log", f"{same}{line}"
    if cursor.lock_holders:
        yield "lock", f"held now by {', '.join(holder_info(one) for one in cursor.lock_holders)}"
    writes = cursor.history[:-1]
    if writes and cursor.in_file and not any(write.writer for write in writes):
        if snapshot.observation.writers_watched:
            yield "writer", "known from the next write on"
        elif snapshot.observation.who.uid == 0:
            yield "writer", "not seen; --who-writes shows the pid of each write"
        else:
            yield "writer", "not seen; needs root and --who-writes (fanotify)"


def _suspects(cursor: Cursor, lost: list[CursorSection]) -> str:
    alone = sum(not write.also_changed for write in lost)
    words = [f"{safe(source)}, which advanced in {times} of those {len(lost)} writes" for source, times in cursor.suspects[:2]]
    rest = f"{alone} changed nothing else" if words else f"none: {alone} of those {len(lost)} writes changed nothing else"
    return "; ".join([*words, *([rest] if alone else [])]) or "none: no other source advanced in those writes"


def _wrapped(verdict: Line, width: int, most: int) -> list[Line]:
    """The verdict over a limited number of lines, with its word highlighted."""
    head = verdict[0] if verdict else Span("")
    parts = wrap(line_text(verdict), max(1, width - 2))
    if len(parts) > most or not parts[0].startswith(head.text):
        return [crop(join(" ", verdict), width)]
    first = join(" ", head, parts[0].removeprefix(head.text))
    return [first, *(plain(f" {part}", width) for part in parts[1:])]


class _Columns:
    """Widths of the columns in cells: the values take what the longest needs, the other changes take the rest."""

    def __init__(self, cursor: Cursor, width: int) -> None:
        longest = max((text_width(written(write)) for write in cursor.history[:40]), default=0)
        most = 10 + max(0, width - 60) // 6 if cursor.in_file else (width - 20) // 2
        self.value = max(4, min(longest, most))
        self.change = 2 * self.value + 7
        self.lock = 0 if width < 64 or not cursor.in_file else 10 if width < 110 else 20
        self.writer = 0 if width < 72 or not cursor.in_file else 17 if width < 110 else 30
        self.also = max(0, width - 13 - self.change - self.lock - self.writer) if cursor.in_file else 0


def _ring(
    cursor: Cursor, snapshot: Snapshot, width: int, room: int, chosen: int, zone: datetime.tzinfo | None
) -> list[Line]:
    writes = list(cursor.history)
    if not writes:
        what = "write was seen" if cursor.in_file else "entry was delivered"
        return [plain(f" no {what} since watching began", width)]
    columns = _Columns(cursor, width)
    also = "the same write also changed" if columns.also > 27 else "also changed"
    title = f"   {'time':<10}{pad(clip(safe(cursor.source), columns.change - 2), columns.change)}"
    title += pad(clip(also, columns.also), columns.also) if columns.also else ""
    title += (pad("lock", columns.lock) if columns.lock else "") + ("writer" if columns.writer else "")
    lines = [plain(title, width, Style.DIM)]
    fits = room - 1
    top = max(0, min(chosen - fits + 1, len(writes) - fits))
    for i in range(top, min(len(writes), top + fits)):
        before = writes[i + 1] if i + 1 < len(writes) else None
        line = _write_line(cursor, writes[i], before, snapshot, columns, width, chosen=i == chosen, zone=zone)
        if i == chosen:
            line = select(line, width)
        lines.append(line)
    return lines


def written(write: CursorSection) -> str:
    """The value that a write left, as it is drawn."""
    return shown(write.shown or cursor_text(write.value))


def _write_line(
    cursor: Cursor,
    write: CursorSection,
    before: CursorSection | None,
    snapshot: Snapshot,
    columns: _Columns,
    width: int,
    *,
    chosen: bool,
    zone: datetime.tzinfo | None,
) -> Line:
    to = clip_left(written(write), columns.value)
    if before is None:
        text, also = to, "as it was first seen"
    else:
        same = written(before) == written(write)
        text = f"{to} again" if same else f"{clip_left(written(before), columns.value)} → {to}"
        others = [_also(name, write, cursor, snapshot) for name in write.also_changed]
        also = ", ".join(others) or ("nothing" if write.back else "—")
    cells = pad(f"{text}{' ↓' if write.back else ''}", columns.change)
    rest = pad(clip(also, max(0, columns.also - 1)), columns.also) if columns.also or before is None else ""
    if columns.lock:
        rest += pad(clip(_lock(write), columns.lock - 1), columns.lock)
    if columns.writer:
        rest += clip(holder_info(write.writer) if write.writer else "not seen", columns.writer - 1)
    return crop(
        merge(
            (
                Span("▌" if chosen else " ", Style.KEY),
                Span(f"  {pad(when(write.at, zone), 10)}"),
                Span(cells, Style.BAD if write.lost else Style.WARN if write.back else Style.NORMAL),
                Span(rest),
            )
        ),
        width,
    )


def _also(name: str, write: CursorSection, cursor: Cursor, snapshot: Snapshot) -> str:
    """``email 204510 → 204511``, where that source's own history still has the write."""
    for other in snapshot.cursors:
        if other.source == name and other.file == cursor.file:
            for place, one in enumerate(other.history[:-1]):
                if one.at == write.at:
                    return f"{safe(name)} {written(other.history[place + 1])} → {written(one)}"
    return safe(name)


def _lock(write: CursorSection) -> str:
    """The holder of the lock at a write. A look comes after the write: no visible holder does not mean that there was none,
    unless there is no lock file."""
    if write.held_by and write.writer is not None and {one.pid for one in write.held_by} == {write.writer.pid}:
        return "by writer"
    if write.held_by:
        return ", ".join(holder_info(one) for one in write.held_by)
    return "nobody" if write.lock_there is False else "not seen"
