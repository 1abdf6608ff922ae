"""Draws the cursors: as a short table, as a list, and a single one with the writes that were seen and their writers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from spooltop.model import units
from spooltop.model.cursors import Cursor, CursorSection
from spooltop.model.cursors import shown as cursor_text
from spooltop.model.look.snapshot import Snapshot

from .header import Zone, when
from .locks import holder_info
from .spans import BLANK, Line, Lines, Span, Style, crop, fitted, join, line_text, line_width, paragraph, plain, select, spread
from .text import clip, clip_left, pad, pad_left, safe, shown, text_width, wrap

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
        return join(Style.BAD(f"{word} {bound}{cursor.reverts_recent}×"), f": {words}" if words else "")
    if evidence.startswith(f"{cursor.verdict} "):  # "not advancing for 2h, every 60s before" contains its verdict
        return join(Span(shown(word), loud or Style.NORMAL), evidence.removeprefix(cursor.verdict))
    return join(Span(shown(word), loud or Style.NORMAL), f": {evidence}" if evidence else "")


def cursor_detail(
    cursor: Cursor, snapshot: Snapshot, width: int, height: int, *, chosen: int, zone: Zone = None
) -> Lines:
    """A source: its file, the evidence of its verdict, and the writes that were seen, newest first. ``chosen`` -1: none is
    chosen."""
    head = [_cursor_title(cursor, snapshot, width), *_wrapped(verdict_words(cursor), width, 3 if height >= 16 else 1)]
    head.append(_labelled("now", _stand(cursor, snapshot.taken_at, zone), width))
    facts = [_labelled(label, words, width) for label, words in _facts(cursor, snapshot, zone)]
    advice = paragraph(_STOPS, width, Style.STRONG, margin=" ")
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


def _cursor_title(cursor: Cursor, snapshot: Snapshot, width: int) -> Line:
    sharers = sum(1 for one in snapshot.cursors if one.file == cursor.file)
    shared = f"shared by {sharers}" if cursor.in_file else f"{sharers} group{'' if sharers == 1 else 's'}"
    where = f"{safe(cursor.file)}, {shared if cursor.shared else 'of its own'}"
    name = f" Cursors › {safe(cursor.source)}"
    right = f"{clip_left(where, max(10, width - 30 - text_width(name)))} · watched for {units.span(snapshot.watched_for)}"
    return crop(spread((Style.TITLE(name),), (Span(right),), width - 1), width)


def _stand(cursor: Cursor, now: float, zone: Zone) -> str:
    moved = None if cursor.moved_at is None else max(0.0, now - cursor.moved_at)
    bound = "at least " if cursor.moved_is_bound else ""
    every = f"every {units.interval(cursor.every)}" if cursor.every is not None else "update interval not known yet"
    if cursor.behind is not None:
        many = units.count(cursor.behind, complete=not cursor.behind_is_bound)
        every += f" · lag {many}"
    return f"{shown(cursor.shown)} · moved {when(cursor.moved_at, zone)}, {bound}{units.age(moved)} ago · {every}"


def _labelled(label: str, words: str, width: int) -> Line:
    return fitted(width, Style.DIM(f" {label:<{_LABEL - 1}}"), words)


def _facts(cursor: Cursor, snapshot: Snapshot, zone: Zone) -> Iterator[tuple[str, str]]:
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


def _wrapped(verdict: Line, width: int, most: int) -> Lines:
    """The verdict over a limited number of lines, with its word highlighted."""
    head = verdict[0] if verdict else Span("")
    parts = wrap(line_text(verdict), max(1, width - 2))
    if len(parts) > most or not parts[0].startswith(head.text):
        return [fitted(width, " ", verdict)]
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
    cursor: Cursor, snapshot: Snapshot, width: int, room: int, chosen: int, zone: Zone
) -> Lines:
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
    zone: Zone,
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
    return crop((
                Style.KEY("▌" if chosen else " "),
                Span(f"  {pad(when(write.at, zone), 10)}"),
                Span(cells, Style.BAD if write.lost else Style.WARN if write.back else Style.NORMAL),
                Span(rest),
            ), width)


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
    return plain(f"{text}  verdict", width, Style.DIM)


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
    zone: Zone = None,
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
    line = join(text, "  ", _verdict_in(cursor, room), Style.DIM(mute))
    if chosen:
        return select(line, width)
    return crop(line, width)


def _end(at: float, now: float, zone: Zone) -> str:
    """The time of day; month and day where the time is a day or more away (it is always within a year)."""
    if at - now < 86_400:
        return when(at, zone)[:5]
    return datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone(zone).strftime("%m-%d")


def cursor_glance(snapshot: Snapshot, width: int, rows: int) -> Lines:
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
    lines += [_row(one, width, snapshot.taken_at, counted=counted, muted=snapshot.muted.get(one.source)) for one in cursors]
    if hidden:
        loud = sum(one.verdict in LOUD for one in hidden)
        tail = f", {loud} of them with problems" if loud else ""
        lines.append(crop((Span(f"   {len(hidden)} more{tail}, "), Style.KEY("5"), Span(" shows all")), width))
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
    snapshot: Snapshot, width: int, height: int, *, chosen: int = 0, zone: Zone = None
) -> Lines:
    """The list of sources with one chosen, and below it the facts about that one."""
    cursors = snapshot.cursors
    if not cursors:
        return [plain(" no cursor file was found in the spool or next to it", width)][:height]
    chosen = max(0, min(chosen, len(cursors) - 1))
    loud = sum(one.verdict in LOUD for one in cursors)
    problems = Style.BAD(f" · {loud:,} with problems" if loud else "")
    title = [fitted(width, Style.TITLE(f" Cursors {len(cursors):,}"), problems)] if height >= _TITLED else []
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
            _row(one, width, snapshot.taken_at, counted=counted, chosen=i == chosen, muted=mutes.get(one.source), zone=zone)
            for i, one in ((i, cursors[i]) for i in visible)
        ),
    ]
    if below:
        lines.append(BLANK)
        lines += cursor_detail(cursors[chosen], snapshot, width, below, chosen=-1, zone=zone)
    return lines[: height + len(title)]
