"""Draws the cursors: as a short table, as a list, and a single one with the writes that were seen and their writers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap

from spooltop.locks.draw import holder_info
from spooltop.model import Item, Outcome, Result, Snapshot, age, duration, escape, interval, program, same_json, since, span
from spooltop.model.query import Fields
from spooltop.tui.draw.elements import (
    BLANK,
    Line,
    Lines,
    Moment,
    Style,
    clip,
    clip_left,
    crop,
    dim,
    first_fit,
    join,
    line_text,
    line_width,
    numbered,
    pad,
    pad_left,
    paragraph,
    safe,
    select,
    shown,
    spread,
    text_width,
    visible,
    when,
    within,
    wrap,
)

from .model import Cursor, CursorSection, direction, pick
from .model import shown as cursor_text

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
_STAMPED = r"\[?\d"


def verdict_words(cursor: Cursor) -> Line:
    """The verdict, highlighted where it is a problem, and its evidence on the same line."""
    loud = LOUD.get(cursor.verdict)
    word, rest = shown(cursor.verdict.upper() if loud else cursor.verdict), shown(cursor.because)
    if cursor.verdict == "reverted" and cursor.reverts_recent:
        word += f" {'≥' if cursor.reverts_is_bound else ''}{cursor.reverts_recent}×"
        rest = rest and f":{rest.removeprefix(':')}"
    return join((loud or Style.NORMAL)(word), rest)


def cursor_detail(cursor: Cursor, snapshot: Snapshot, width: int, height: int, moment: Moment, *, chosen: int) -> Lines:
    """A source: its file, the evidence of its verdict, and the writes that were seen, newest first. ``chosen`` -1: none is
    chosen."""
    head = [_cursor_title(cursor, snapshot, width), *_wrapped(verdict_words(cursor), width, 3 if height >= 16 else 1)]
    head.append(_labelled("now", _stand(cursor, moment)))
    facts = [*starmap(_labelled, _facts(cursor, snapshot, moment))]
    advice = paragraph(_STOPS, width, Style.STRONG, margin=" ") if cursor.verdict == "reverted" else []
    room = height - len(head)
    least = min(_ROWS, max(1, len(cursor.history))) + 1
    if room - len(advice) < least:
        advice = []
    facts = facts[: max(0, room - len(advice) - least)]
    room -= len(facts) + len(advice)
    ring = _ring(cursor, snapshot, width, room, chosen, moment) if room >= 2 else []
    gap = [BLANK] if len(ring) < room and (facts or advice) else []
    return [*head, *ring, *gap, *facts, *advice]


def _cursor_title(cursor: Cursor, snapshot: Snapshot, width: int) -> Line:
    sharers = sum(1 for one in snapshot.cursors if one.file == cursor.file)
    shared = f"shared by {sharers}" if cursor.in_file else f"{sharers} group{'' if sharers == 1 else 's'}"
    where = f"{safe(cursor.file)}, {shared if cursor.shared else 'of its own'}"
    name = f" Cursors › {safe(cursor.source)}"
    right = f"{clip_left(where, max(10, width - 30 - text_width(name)))} · watched for {span(snapshot.watched_for)}"
    return spread(join(Style.TITLE(name)), join(right), width - 1)


def _stand(cursor: Cursor, moment: Moment) -> str:
    moved = since(cursor.moved_at, moment.now)
    bound = "at least " if cursor.moved_is_bound else ""
    every = f"every {interval(cursor.every)}" if cursor.every is not None else "update interval not known yet"
    if cursor.behind is not None:
        every += f" · lag {cursor.lag}"
    return f"{shown(cursor.shown)} · moved {when(cursor.moved_at, moment.zone)}, {bound}{age(moved)} ago · {every}"


def _labelled(label: str, words: str) -> Line:
    return join(dim(f" {label:<{_LABEL - 1}}"), words)


def _facts(cursor: Cursor, snapshot: Snapshot, moment: Moment) -> Iterator[tuple[str, str]]:
    """The facts about the writers, the most telling first."""
    if (end := snapshot.muted.get(cursor.source)) is not None:
        yield "muted", f"until {when(end, moment.zone)}; its problems are not shown"
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
        line = shown(last.line) if re.match(_STAMPED, last.line) else f"{when(last.at, moment.zone)} {shown(last.line)}"
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
    head = verdict[0]
    parts = wrap(line_text(verdict), max(1, width - 2))
    if len(parts) > most or not parts[0].startswith(head.text):
        return [join(" ", verdict)]
    first = join(" ", head, parts[0].removeprefix(head.text))
    return [first, *(join(f" {part}") for part in parts[1:])]


def written(write: CursorSection) -> str:
    """The value that a write left, as it is drawn."""
    return shown(write.shown or cursor_text(write.value))


def _ring(cursor: Cursor, snapshot: Snapshot, width: int, room: int, chosen: int, moment: Moment) -> Lines:
    """The writes in ``room`` lines. The values take the cells that the longest needs, the other changes what is left."""
    writes = cursor.history
    if not writes:
        what = "write was seen" if cursor.in_file else "entry was delivered"
        return [join(f" no {what} since watching began")]
    longest = max(text_width(written(write)) for write in writes[:40])
    value = max(4, min(longest, 10 + max(0, width - 60) // 6 if cursor.in_file else (width - 20) // 2))
    change = 2 * value + 7
    also = lock = writer = 0
    if cursor.in_file:
        lock = 0 if width < 64 else 10 if width < 110 else 20
        writer = 0 if width < 72 else 17 if width < 110 else 30
        also = max(0, width - 13 - change - lock - writer)
    title = f"   {'time':<10}{pad(clip(safe(cursor.source), change - 2), change)}"
    title += pad("the same write also changed" if also > 27 else "also changed", also)
    lines = [dim(f"{title}{pad('lock', lock)}{'writer' if writer else ''}")]
    for i in visible(len(writes), room - 1, chosen):
        write = writes[i]
        text, others = _change(cursor, i, value, snapshot)
        style = Style.BAD if write.lost else Style.WARN if write.back else Style.NORMAL
        line = join(
            Style.KEY("▌" if i == chosen else " "), f"  {pad(when(write.at, moment.zone), 10)}",
            style(pad(f"{text}{' ↓' if write.back else ''}", change)), pad(clip(others, also - 1), also),
            pad(clip(_lock(write), lock - 1), lock),
            clip(holder_info(write.writer) if write.writer else "not seen", writer - 1),
        )  # fmt: skip
        lines.append(numbered(None if chosen < 0 else i, select(line) if i == chosen else line))
    return lines


def _change(cursor: Cursor, at: int, cells: int, snapshot: Snapshot) -> tuple[str, str]:
    """The change of the value by a write, each value in at most so many cells, and what else the write changed."""
    write, before = cursor.history[at], cursor.history[at + 1 : at + 2]
    to = clip_left(written(write), cells)
    if not before:
        return to, "as it was first seen"
    others = ", ".join(_also(name, write, cursor, snapshot) for name in write.also_changed)
    old = written(before[0])
    text = f"{to} again" if old == written(write) else f"{clip_left(old, cells)} → {to}"
    return text, others or ("nothing" if write.back else "—")


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
_CLAUSE = r"[,;] |(?<=\?) "
"""Boundaries at which the evidence of a verdict may be cut."""
_ASKED = r"idle or \w+\?"
"""Text for what is not known: in a short line more useful than the time, which has a column of its own."""


def _counted(cursors: Sequence[Cursor]) -> bool:
    """True if all are kept by a server, which counts what comes after each."""
    return all(not one.in_file for one in cursors)


def _cells(
    width: int, counted: bool, source: str, value: str, moved: str, every: str, last: str, cut: Callable[[str, int], str]
) -> str:
    """The columns before the verdict; ``cut`` is for the value. ``counted``: the last one is what comes after each cursor in
    place of the writes of a file, and needs less."""
    extra = max(0, width - 80)
    left, right = 11 + min(6, extra // 8), (17 if counted and width >= 72 else 12) + min(12, extra // 4)
    text = f"{pad(clip(source, left - 1), left)}{pad(cut(value, right - 1), right)}{pad_left(moved, 5)}"
    if width >= 52:
        text += pad_left(every, 7)
    if counted:
        return text + pad_left(last, 9)
    return f"{text}  {pad(last, 15)}" if width >= 72 else text


def _title(snapshot: Snapshot, width: int) -> Line:
    counted = _counted(snapshot.cursors)
    names = ("group", "last delivered", "moved", "every", "lag") if counted else (
        "source", "cursor", "moved", "every", "writes seen")  # fmt: skip
    return dim(f" {_cells(width, counted, *names, clip)}  verdict")


def _verdict_in(cursor: Cursor, room: int) -> Line:
    """The verdict as the list shows it, with the clauses of its evidence that fit; without evidence where the columns show it."""
    whole = verdict_words(cursor)
    if cursor.verdict == "advancing":
        return verdict_words(cursor.replace(evidence=""))
    evidence = shown(cursor.evidence)
    asked = re.search(_ASKED, evidence)
    ends = [clause.start() for clause in re.finditer(_CLAUSE, evidence[: max(0, room)])]
    briefs = [*((asked[0], "idle?") if asked else ()), *(evidence[:at] for at in reversed(ends)), ""]
    lines = (verdict_words(cursor.replace(evidence=brief)) for brief in briefs)
    return first_fit(room, whole, *lines, crop(whole, max(0, room)))


def _writes(cursor: Cursor) -> str:
    if cursor.writes is None:
        return "?  shared file"
    return f"{cursor.writes:,}" + (f" ({cursor.reverts_recent:,} ↓)" if cursor.reverts_recent else "")



def _row(cursor: Cursor, snapshot: Snapshot, width: int, moment: Moment, *, chosen: bool = False) -> Line:
    counted = _counted(snapshot.cursors)
    last, every = cursor.lag if counted else _writes(cursor), interval(cursor.every)
    moved = cursor.moved(moment.now)
    cells = _cells(width, counted, safe(cursor.source), shown(cursor.shown), moved, every, last, clip_left)
    muted = snapshot.muted.get(cursor.source)
    mute = "" if muted is None else f" · muted to {_end(muted, moment)}"
    room = width - text_width(cells) - 3 - text_width(mute)
    if mute and line_width(verdict_words(cursor.replace(evidence=""))) > room:
        cursor = cursor.replace(evidence="", reverts_recent=0)  # the mute is more useful here than the number
    line = join("▌" if chosen else " ", cells, "  ", _verdict_in(cursor, room), dim(mute))
    return select(line) if chosen else line


def _end(at: float, moment: Moment) -> str:
    """The time of day; month and day where the time is a day or more away (it is always within a year)."""
    if at - moment.now < 86_400:
        return when(at, moment.zone)[:5]
    return datetime.datetime.fromtimestamp(at, datetime.UTC).astimezone(moment.zone).strftime("%m-%d")


def cursor_glance(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """A title and one line per source, at most ``rows`` lines. Where not all fit, a source with a problem takes the place of one
    without; all others keep theirs."""
    cursors, moment = snapshot.cursors, Moment(snapshot.taken_at)
    if not cursors or rows < 2:
        return []
    fit = len(cursors) if len(cursors) < rows else max(1, rows - 2)
    listed, hidden = list(cursors[:fit]), list(cursors[fit:])
    for place in reversed(range(fit)):
        loud = next((at for at, one in enumerate(hidden) if one.verdict in LOUD), None)
        if loud is not None and listed[place].verdict not in LOUD:
            listed[place], hidden[loud] = hidden[loud], listed[place]
    lines = [_title(snapshot, width), *(_row(one, snapshot, width, moment) for one in listed)]
    if hidden:
        problems = sum(one.verdict in LOUD for one in hidden)
        tail = f", {problems} of them with problems" if problems else ""
        lines.append(join(f"   {len(hidden)} more{tail}, ", Style.KEY("5"), " shows all"))
    return lines


def cursor_table(snapshot: Snapshot, width: int, height: int, moment: Moment, *, chosen: int = 0) -> Lines:
    """The list of sources with one chosen, and below it the facts about that one."""
    cursors = snapshot.cursors
    if not cursors:
        return [join(" no cursor file was found in the spool or next to it")]
    chosen = within(chosen, len(cursors))
    loud = sum(one.verdict in LOUD for one in cursors)
    problems = Style.BAD(f" · {loud:,} with problems" if loud else "")
    title = [join(Style.TITLE(f" Cursors {len(cursors):,}"), problems)] if height >= _TITLED else []
    height -= len(title)
    below = max(6, height - len(cursors) - 2) if height >= 14 else 0
    room = max(1, height - 1 - (below + 1 if below else 0))
    rows = (
        numbered(i, _row(cursors[i], snapshot, width, moment, chosen=i == chosen))
        for i in visible(len(cursors), room, chosen)
    )
    lines = [*title, _title(snapshot, width), *rows]
    if below:
        lines += [BLANK, *cursor_detail(cursors[chosen], snapshot, width, below, moment, chosen=-1)]
    return lines


def cursor_facts(cursor: Cursor, now: float) -> Fields:
    """The facts that a filter finds. ``age`` is the time since it moved."""
    source = escape(cursor.source)
    age = since(cursor.moved_at, now)
    texts = (source, escape(cursor.shown), cursor.verdict, cursor.verdict.upper(), cursor.evidence, escape(cursor.file))
    return Fields(texts, (source,), (source,), age, verdict=cursor.verdict)


def cursor_since(result: Result, was: Item, snapshot: Snapshot) -> tuple[str, ...]:
    """Says whether the cursor still has the value that it was set to, and who overwrote it. Empty before the first look after
    that."""
    if snapshot.taken_at < result.finished_at or not result.count(Outcome.DONE):
        return ()
    cursor = snapshot.cursor(was.id, was.name)
    if cursor is None or cursor.verdict in ("missing", "unreadable"):
        return (f"{escape(was.id)} cannot be read now: {cursor.evidence if cursor is not None else 'its file is gone'}",)
    if same_json(cursor.value, was.value):
        return (f"still {cursor.shown}: nobody has written over it for {age(snapshot.taken_at - result.finished_at)}",)
    first = None
    for write in cursor.history:  # newest first
        if same_json(write.value, was.value):
            break
        first = write
    step = direction(pick(was.value, cursor.field), pick(cursor.value, cursor.field))
    after = "" if first is None else f" after {duration(max(0.0, first.at - result.finished_at))}"
    writer = first.writer if first is not None else None
    by = "" if writer is None else f" by {writer.pid} {escape(program(writer.command or ''))}".rstrip()
    change = f"{cursor_text(was.value, cursor.field)} → {cursor.shown}"
    if step == 1:
        return (f"advanced{after}{by}: {change}",)
    return (
        f"OVERWRITTEN{after}{by}: {change}; a poller wrote back what it had read before: stop it, then set the cursor",
    )
