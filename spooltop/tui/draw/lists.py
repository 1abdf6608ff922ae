"""Draws the lists of messages and of consumers, and what is chosen in them: their columns as data, the line above them, the
titles, a row, and the facts about a consumer or a message. Changing values are leftmost, numbers aligned right, names last and
cut at the left. One module, because a message is told in the words of its row."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import Any, TypeVar

from spooltop.model import ConsumerList, ConsumerRow, Percentiles, Snapshot, Sort, Usage, kept_words, nameless_words
from spooltop.model.vocabulary import (
    ASIDE,
    EXITED,
    RUNNING,
    Box,
    Frozen,
    Owner,
    Payload,
    Row,
    Verdict,
    age,
    at_most,
    count,
    duration,
    escape,
    rate,
    size,
)

from ..messages import PayloadRead
from .elements import (
    ALONE,
    BLANK,
    Ends,
    Fact,
    Line,
    Lines,
    Moment,
    Span,
    Style,
    Times,
    ago,
    clip,
    clip_left,
    cut_apart,
    dim,
    fact_label,
    fact_lines,
    filled,
    first_fit,
    freshness_line,
    join,
    line_width,
    merge,
    numbered,
    pad,
    pad_left,
    point_out,
    restyle,
    rule,
    safe,
    safe_pieces,
    select,
    shown,
    spread,
    text_width,
    visible,
    when,
    within,
    wrap,
)

MARGIN = 3
"""Cells at the left of each row: the cursor, the mark, and a gap."""


class Column(Frozen):
    """A column of a list. ``width`` is in cells; free space goes to the columns that ``grow``, by their weight, up to ``most``
    cells. A window narrower than ``min_screen`` omits the column. ``align`` is "left" or "right". ``sort`` is the name of this
    column in a ``Sort``, "" where the list cannot be sorted by it."""

    title: str
    width: int
    value: Callable[[Any, Moment], Span | str]
    align: str = "left"
    min_screen: int = 0
    sort: str = ""
    grow: int = 0
    most: int = 1000
    is_time: bool = False
    shorten: Callable[[str, int, Ends], str] | None = None
    """Cuts too long text, which is cut at the right else; knows what all rows share."""
    least: int = 0
    """Cells to which it shrinks before a column is omitted; 0: it keeps its width."""
    gap: int = 2
    """Blank cells after it, where another one follows."""

    def padded(self, text: str) -> str:
        """Exactly as wide as the column."""
        return (pad_left if self.align == "right" else pad)(text, self.width)


def short_id(id: str, width: int, ends: Ends = ALONE) -> str:
    """Shortens an id, already ``safe``, to at most ``width`` cells, so that the part that differs between messages stays: ids of
    spooltop differ in their random part, those that begin with a precise time in that, and others in what is not shared by all of
    the list (``ends``).

    >>> short_id("1795222801446548.P4290R00000cf8e525dd13.vm", 10), short_id("1795222801446548.4290.vm", 10)
    ('…8e525dd13', '…801446548')
    >>> short_id("1795414165720-2", 10)
    '…4165720-2'
    """
    if text_width(id) <= width:
        return id
    if _STREAM_ID.fullmatch(id):
        return clip_left(id, width)
    own = _OWN_ID.fullmatch(id)
    if own is not None:
        return clip_left(own[1], width) if len(own[1]) > width - 1 else "…" + own[1]
    head, dot, _ = id.partition(".")
    timed = dot and head.isdecimal() and len(head) >= _TIME_DIGITS
    return clip_left(head, width) if timed else cut_apart(id, width, ends)


_STREAM_ID = re.compile(r"[0-9]{13}-[0-9]+")
_OWN_ID = re.compile(r"[0-9]{16}\.P[0-9]+R([0-9a-f]{16})\..+")
_TIME_DIGITS = 13
"""Digits from which on a time is distinct; a shorter one (a Maildir's seconds) is shared by many messages."""


def owner_text(owner: Owner | None) -> str:
    """``5200 worker.py``: the pid and the program without path, interpreter and arguments. The host where no process is known;
    ``—`` where there is no owner."""
    if owner is None:
        return "—"
    if label := owner.label:
        return safe(label)
    return f"on {safe(owner.host)}" if owner.host else "?"


def age_text(since: float | None, moment: Moment, *, bound: bool = False) -> str:
    """An age, or with ``times`` LOCAL or UTC the time itself; ``≤`` precedes an age that is an upper bound."""
    if since is None:
        return "—"
    if moment.times is Times.AGE:
        return (at_most if bound else age)(max(0.0, moment.now - since))
    try:
        time = datetime.datetime.fromtimestamp(since, datetime.UTC).astimezone(moment.zone)
    except (ValueError, OverflowError, OSError):  # a time outside the calendar: a name may contain any number
        return "—"
    near = abs(moment.now - since) < 86400 / 2
    return time.strftime("%H:%M:%S" if near else "%m-%d %H:%M") + ("Z" if moment.times is Times.UTC else "")


_VERDICTS = {Verdict.DEAD: Style.BAD, Verdict.ABANDONED: Style.WARN}


def verdict_span(row: Row) -> Span:
    """The verdict of a row in its style; ``—`` where it is not judged."""
    if row.verdict is None:
        return Span("—")
    loud = row.verdict in (Verdict.DEAD, Verdict.WRITING)
    return Span(row.verdict.upper() if loud else row.verdict, _VERDICTS.get(row.verdict, Style.NORMAL))


def _in_box(row: Row, moment: Moment) -> str:
    return age_text(row.in_box_since, moment, bound=row.since_is_bound)


def _evidence(row: Row, moment: Moment) -> Span:
    return Style.WARN(shown(row.note)) if row.note else Span(shown(row.evidence))


def _state(row: Row, moment: Moment) -> Span:
    if row.note:
        return Style.WARN(shown(row.note))
    if row.not_before is not None and row.not_before > moment.now:
        return Span(f"waits {age(row.not_before - moment.now)}")
    return Span("ready, a test" if row.canary else "ready")


def _reason(row: Row, moment: Moment) -> Span:
    if row.note:
        return Style.WARN(shown(row.note))
    if row.expired(moment.now):
        return Style.WARN("expired" + (f" · {shown(row.reason)}" if row.reason else ""))
    return Span(shown(row.reason) or "—")


_TRIES = Column("tries", 6, lambda row, _: row.tries, "right", 50, "tries")
_SIZE = Column("size", 6, lambda row, _: size(row.size), "right", 46, "size")
_SOURCE = Column(
    "source", 12, lambda row, _: "—" if row.source is None else safe(row.source), "left", 72, "source", grow=1, most=20
)
_MESSAGE = Column("message", 8, lambda row, _: safe(row.id), sort="name", grow=4, shorten=short_id)
_AGE = Column("age", 5, lambda row, moment: age_text(row.enqueued_at, moment), "right", 0, "age", is_time=True)

_ASIDE = (
    Column("aside", 6, _in_box, "right", 0, "held", is_time=True),
    _AGE.replace(min_screen=60),
    _SIZE,
    _TRIES,
    _SOURCE,
    Column("reason", 18, _reason, min_screen=56, grow=3, most=60, least=8),
    _MESSAGE,
)

COLUMNS: Mapping[Box, tuple[Column, ...]] = {
    Box.NEW: (
        _AGE,
        Column("state", 13, _state, min_screen=56, grow=1, most=30),
        _SIZE,
        _TRIES,
        _SOURCE,
        _MESSAGE,
    ),
    Box.CUR: (
        Column("verdict", 8, lambda row, _: verdict_span(row), sort="verdict"),
        Column("held", 5, _in_box, "right", 0, "held", is_time=True),
        _TRIES,
        Column("owner", 18, lambda row, _: owner_text(row.owner), min_screen=60, grow=1, most=24),
        Column("evidence", 19, _evidence, min_screen=72, grow=3, most=60, least=12),
        _MESSAGE,
    ),
    Box.TMP: (
        Column("state", 9, lambda row, _: verdict_span(row), sort="verdict"),
        _AGE,
        _SIZE,
        Column("written", 7, lambda row, moment: age_text(row.written_at, moment), "right", 66, is_time=True),
        Column("evidence", 31, _evidence, min_screen=60, grow=3, most=60, least=12),
        _MESSAGE.replace(title="file"),
    ),
    **dict.fromkeys((*ASIDE, Box.DELIVERED), _ASIDE),
}
"""All columns of each list, in order."""

READ_MAIL = (
    _AGE,
    Column("in cur", 7, _in_box, "right", 50, "held", is_time=True),
    _SIZE,
    _MESSAGE,
)
"""The columns of ``cur`` in a mail folder: read mail has no holder."""

_TIME_WIDTH = {Times.LOCAL: 11, Times.UTC: 12}
_TIME_TITLE = {"age": "enqueued", "held": "claimed", "aside": "set aside", "written": "written"}
"""Titles of the columns that show a time instead of an age."""


@lru_cache(maxsize=64)
def columns_for(box: Box, width: int, *, times: Times = Times.AGE, mail: bool = False) -> tuple[Column, ...]:
    """The columns that fit into ``width`` cells, with their widths. Names and evidence share the space that is left. ``mail``:
    for a mail folder."""
    return fitting(READ_MAIL if mail and box is Box.CUR else COLUMNS[box], width, times=times)


def fitting(wanted: Sequence[Column], width: int, *, times: Times = Times.AGE, keep: int = 2) -> tuple[Column, ...]:
    """The ``wanted`` columns that fit into ``width`` cells, with their widths; ``keep`` are there in any case."""
    columns = [column for column in wanted if column.min_screen <= width]
    for i, column in enumerate(columns):
        if column.is_time and times is not Times.AGE:
            title = f"{_TIME_TITLE.get(column.title, column.title)}{' Z' if times is Times.UTC else ''}"
            columns[i] = column.replace(width=max(column.width, _TIME_WIDTH[times]), title=title)
    for i, column in enumerate(columns):
        if column.least and (over := _total(columns) - width) > 0:
            columns[i] = column.replace(width=max(column.least, column.width - over))
    while len(columns) > keep and _total(columns) > width:
        # the last but one goes first: the name stays, and changing values are at the left
        del columns[-2]
    # Free space is shared among those that grow. They take what others cannot use; the last one takes the rest.
    weight, left = sum(column.grow for column in columns), width - _total(columns)
    for i, column in enumerate(columns):
        if column.grow:
            share = left if i == len(columns) - 1 else min(left * column.grow // weight, column.most - column.width)
            columns[i] = column.replace(width=column.width + share)
            left -= share
            weight -= column.grow
    return tuple(columns)


def sort_title(sort: Sort, columns: Sequence[Column]) -> str:
    """The title of the column that a list is sorted by; the word of the order where that column is not among ``columns``."""
    return next((column.title for column in columns if column.sort == sort.column), sort.column)


def _total(columns: Sequence[Column]) -> int:
    return MARGIN + sum(column.width + column.gap for column in columns) - columns[-1].gap + 1  # a cell at the right edge


def list_header(
    snapshot: Snapshot, title: str, length: int | None, width: int, moment: Moment, *, sort: Sort | None = None,
    columns: Sequence[Column] = (), marked: int = 0, complete: bool = True, filter: str = "", total: int | None = None,
    pending: bool = False, share: float | None = None, ordered_over: int | None = None,
) -> Line:  # fmt: skip
    """``Claims 4 · sorted by held ↓ · 0 marked new 4,310 +1.8/s · live 02:41:09``; with a filter ``New 3,963 of 12,412 match
    src:email``, where ``total`` is the number of messages in the box. ``pending``: the list asked for is not ready, the rows
    are older ones, and ``length`` None means that the number of matches is not known. ``share`` of the work is done,
    ``length`` match so far: ``New ≥1,234 … of 12,412 match src:email · sorting by age ↓ 45%``. The order is named by its title
    among ``columns``. Only the first ``ordered_over`` messages were looked at: ``≥20,000 · first 20,000 sorted by size ↓``."""
    counted = "…" if pending and length is None else count(length, complete=complete)
    if share is not None and not pending:
        counted += " …"
    left: list[Span | str] = [Style.TITLE(f" {shown(title)} {counted}")]
    if filter:
        of = f" of {total:,}" if total is not None and total >= (length or 0) and (pending or length is not None) else ""
        left += [f"{of} match ", Style.KEY(safe(filter))]
    if sort is not None:
        how = "sorting" if pending or share is not None else "sorted"
        if ordered_over is not None and not pending:
            how = f"first {ordered_over:,} {how}"
        done = "" if share is None else f" {int(100 * share)}%"
        left.append(f" · {how} by {safe(sort_title(sort, columns))} {'↓' if sort.descending else '↑'}{done}")
    line = join(*left, Style.MARKED(f" · {marked:,} marked", marked))
    right = freshness_line(snapshot, moment, short=True, offset=False)
    if Box.NEW in snapshot.observation.boxes:
        state = snapshot.observation.boxes[Box.NEW]
        slope = snapshot.rates.new_per_s
        growth = f" {rate(slope, signed=True)}" if slope is not None else ""
        longer = join(f"new {count(state.count, complete=state.complete)}{growth} · ", right)
        right = first_fit(width - line_width(line) - 2, longer, right)
    return spread(line, right, width - 1)


def title_line(columns: Sequence[Column], sort: Sort | None = None) -> Line:
    """The titles above their columns; the column of the order has an arrow."""
    parts = []
    for column in columns:
        arrow = ""
        if sort is not None and column.sort == sort.column:
            arrow = "↓" if sort.descending else "↑"
        text = column.padded(clip(column.title, column.width - text_width(arrow)) + arrow)
        parts += [(Style.KEY if arrow else Style.DIM)(text), Style.DIM(" " * column.gap)]
    return join(" " * MARGIN, *parts[:-1])


def sort_at(columns: Sequence[Column], x: int) -> str:
    """The sort of the column whose title is at cell ``x``; "" where there is none."""
    edge = MARGIN
    for column in columns:
        edge += column.width + column.gap
        if x < edge:
            return column.sort
    return ""


def nearest_sort(columns: Sequence[Column], x: int) -> str:
    """The sort of the column whose title is nearest to cell ``x``, of those that can be sorted by; "" where there is none."""
    found = [(math.inf, "")]
    edge = MARGIN
    for column in columns:
        text = column.padded(column.title)
        first, last = edge + text_width(text) - text_width(text.lstrip()), edge + text_width(text.rstrip()) - 1
        if column.sort:
            found.append((max(first - x, x - last), column.sort))
        edge += column.width + column.gap
    return min(found)[1]


UNMARKED, MARKED = Style.MARKED(" "), Style.MARKED("*")
"""The sign of a row."""


def row_line(
    row: object, columns: Sequence[Column], moment: Moment, *, sign: Span = UNMARKED, selected: bool = False,
    ends: Ends = ALONE, texts: Sequence[str] = (),
) -> Line:  # fmt: skip
    """A row of the list, drawn by its ``columns``, with a ``sign`` before them. ``ends`` of the ids are what all rows share;
    ``texts`` are pointed out in the columns that a filter looks at."""
    parts = [Style.KEY("▌" if selected else " "), sign, Span(" ")]
    for column in columns:
        value = column.value(row, moment)
        span = value if isinstance(value, Span) else Span(value)
        text = span.text if column.shorten is None else column.shorten(span.text, column.width, ends)
        span = span._replace(text=column.padded(text))
        parts += point_out((span,), texts) if column.title in FILTERED else (span,)
        parts.append(Span(" " * column.gap))
    line = merge(parts[:-1])
    return select(line) if selected else line


FILTERED = frozenset({"source", "owner", "evidence", "state", "reason", "message", "file"})
"""The columns that a text of a filter may be found in."""


# Draws the consumers: a list, dead ones with claims first, and the facts about the chosen one below or next to it.

_STYLES = {"DEAD": Style.BAD, "stopped": Style.WARN, "unknown": Style.WARN, "exited": Style.DIM}
_SIDE_BY_SIDE = 120
_DETAIL = 11
"""Lines of the facts below the list, at most."""
_LABEL = 9
_MOST_IDS = 8
_MOST_LINES = 20


def consumer_name(one: ConsumerRow) -> str:
    """``5200 worker.py``."""
    return safe(one.owner.label) or (one.token or "?")[:12]


def _or(value: object, unknown: str = "?") -> str:
    """A value, where it is known."""
    return unknown if value is None or value == "" else safe(str(value))


def _user(one: ConsumerRow, moment: Moment) -> str:
    return _or(one.owner.user, "—" if one.gone else "?")


def _used(one: ConsumerRow, words: Callable[[Usage], str]) -> str:
    """Words for the usage of a consumer, where that was measured."""
    return words(one.usage) if one.usage is not None else "—" if one.gone else "?"


def _failed(one: ConsumerRow, moment: Moment) -> Span:
    return Span("—") if one.gone else Style.WARN(one.rate.words("failed"), one.rate.failed)


def _cpu(usage: Usage) -> str:
    return "·" if usage.cpu is None else f"{round(100 * usage.cpu)}%"


_VERDICT = Column("verdict", 8, lambda one, _: Span(one.word, _STYLES.get(one.word, Style.NORMAL)), sort="verdict")
_PID = Column("pid", 7, lambda one, _: _or(one.owner.pid), "right", sort="pid")
_COMMAND = Column("command", 11, lambda one, _: _or(one.owner.called), sort="command", grow=3, most=28, least=8)
_HOST = Column("host", 10, lambda one, _: _or(one.owner.host), min_screen=126, sort="host", grow=1, most=24)
_CLAIMS = Column("claims", 6, lambda one, _: f"{one.claims:,}", "right", sort="claims")


_TIMES: Mapping[str, Callable[[ConsumerRow], float | None]] = {
    "since": lambda one: one.owner.start, "held": lambda one: one.claimed_at,
    "last": lambda one: one.last_claim_at, "asked": lambda one: one.asked_at,
}  # fmt: skip
"""The columns of times, which are sorted by how long ago those are."""


def _time(key: str, min_screen: int) -> Column:
    def value(one: ConsumerRow, moment: Moment) -> str:
        at = _TIMES[key](one)
        return "?" if at is None else age_text(at, moment)

    return Column(key, 5, value, "right", min_screen, key, is_time=True)


_HELD = _time("held", 46).replace(
    value=lambda one, moment: age_text(one.claimed_at, moment, bound=one.claimed_is_bound)
)

CONSUMER_COLUMNS: tuple[Column, ...] = (
    _VERDICT,
    _PID,
    _COMMAND,
    Column("user", 8, _user, min_screen=106, sort="user", grow=1, most=14),
    _HOST,
    _time("since", 90),
    _CLAIMS,
    _HELD,
    _time("last", 98),
    Column("done/s", 6, lambda one, _: "—" if one.gone else one.rate.words("done"), "right", 58, "done"),
    Column("fail/s", 6, _failed, "right", 66, "failed"),
    Column("cpu", 5, lambda one, _: _used(one, _cpu), "right", 72, "cpu"),
    Column("mem", 5, lambda one, _: _used(one, lambda usage: size(usage.memory)), "right", 76, "memory"),
)
"""All columns, in order."""

_NAMED = (
    _VERDICT,
    _PID,
    _COMMAND.replace(title="consumer", width=16, grow=2, most=36),
    _HOST.replace(min_screen=106),
    _CLAIMS,
    _HELD,
    _time("asked", 58),
    Column("evidence", 14, lambda one, _: shown(one.evidence), min_screen=72, grow=4, most=60, least=8),
)
"""Columns where a server knows consumers by their names, and nobody measures their processes."""


def columns_of(found: ConsumerList | None) -> tuple[Column, ...]:
    """The columns that a list has."""
    return CONSUMER_COLUMNS if found is None or found.measured else _NAMED


def ranked_consumers(consumers: tuple[ConsumerRow, ...], sort: Sort) -> tuple[ConsumerRow, ...]:
    """The consumers in an order: by verdict dead ones with claims come first, then within each verdict who has held a claim for
    the longest time. What is not known comes last either way."""
    found = sorted(consumers, key=lambda one: (one.claimed_at is None, one.claimed_at or 0.0, one.owner.pid or 0, one.key))
    value = _ORDERS.get(sort.column, _ORDERS["verdict"])
    return tuple(ordered(found, value, descending=sort.descending is not (sort.column in _TIMES)))


T = TypeVar("T")


def ordered(rows: Sequence[T], value: Callable[[T], Any], *, descending: bool) -> list[T]:
    """The rows by a value, equal ones as they were; those of which it is not known come last."""
    known = [row for row in rows if value(row) is not None]
    return sorted(known, key=value, reverse=descending) + [row for row in rows if value(row) is None]


_ORDERS: Mapping[str, Callable[[ConsumerRow], float | str | None]] = {
    **_TIMES,
    "verdict": lambda one: one.rank, "pid": lambda one: one.owner.pid, "command": lambda one: one.owner.called or None,
    "user": lambda one: one.owner.user, "host": lambda one: one.owner.host, "claims": lambda one: one.claims,
    "done": lambda one: one.rate.done, "failed": lambda one: one.rate.failed,
    "cpu": lambda one: one.usage.cpu if one.usage is not None else None,
    "memory": lambda one: one.usage.memory if one.usage is not None else None,
}  # fmt: skip
"""The value of each column to sort by."""


def consumer_header(
    snapshot: Snapshot, found: ConsumerList | None, listed: int, width: int, moment: Moment, *, sort: Sort, filter: str
) -> Lines:
    """``Consumers 5 · 2 DEAD, first · sorted by verdict ↓ · rates over 1m``, and the titles of the columns."""
    right = freshness_line(snapshot, moment, short=True, offset=False)
    if found is None:
        return [spread(join(Style.TITLE(" Consumers …")), right, width - 1), BLANK]
    count = len(found.consumers) + found.more
    left = join(Style.TITLE(f" Consumers {listed if filter else count:,}"))
    if filter:
        left = join(left, f" of {count:,} match ", Style.KEY(shown(filter)))
    if dead := found.count("DEAD"):
        left = join(left, " · ", Style.BAD(f"{dead:,} DEAD"))
    across = list_width(width)
    columns = fitting(columns_of(found), across, times=moment.times)
    over = f" · rates over {age(found.window)}{', at least' if found.lower_bound else ''}"
    rates = over if found.window > 0 and found.measured else ""
    left = join(left, f" · sorted by {sort_title(sort, columns)} {'↓' if sort.descending else '↑'}", rates)
    return [spread(left, right, width - 1), title_line(columns, sort)]


def list_width(width: int) -> int:
    """Cells of the list in a window of ``width`` columns: the facts stand next to it in a wide one."""
    return width if width < _SIDE_BY_SIDE else width - max(42, width // 3)


def consumer_lines(
    snapshot: Snapshot, found: ConsumerList | None, listed: tuple[ConsumerRow, ...], width: int, height: int, moment: Moment, *,
    chosen: int, filter: str,
) -> Lines:  # fmt: skip
    """The list with one chosen, and the facts about that one; at most ``height`` lines."""
    if found is None:
        return [dim("   …")]
    if not listed:
        why = wrap(_why_none(snapshot, found, filter), max(8, width - 4))
        return [dim(f"   {part}") for part in why]
    one = listed[within(chosen, len(listed))]
    across = list_width(width)
    if across < width:
        rows = _rows(found, listed, across, height, chosen, moment)
        facts = _detail(one, found, width - across - 1, height, moment)
        return [
            join(filled(row, across), " ", fact) for row, fact in zip_longest(rows, facts, fillvalue=BLANK)
        ]
    below = 0 if height < 8 else min(_DETAIL, max(5, height // 2))
    rows = _rows(found, listed, width, height - below, chosen, moment)
    if not below:
        return rows
    return [*rows, *[BLANK] * (height - below - len(rows)), *_detail(one, found, width, below, moment)]


def _why_none(snapshot: Snapshot, found: ConsumerList, filter: str) -> str:
    if found.error:
        return shown(found.error)
    if filter:
        return f"nothing matches {shown(filter)}; Esc clears the filter"
    if not snapshot.observation.judges_claims:
        return "no consumers: this is not a job spool"
    if found.nameless:
        return f"no consumers: {nameless_words(found)}; 3 lists all claims"
    claims = snapshot.observation.boxes.get(Box.CUR)
    if claims is not None and claims.count is None and claims.note:
        return f"not visible: {shown(claims.note)}"
    if snapshot.observation.layout == "layout":
        return "no consumers: nothing is claimed, and only claims name them here"
    if not found.measured:
        return "no consumers: the group has none yet"
    return "no consumers: nothing is claimed, and no process has a presence file here"


def _rows(
    found: ConsumerList, listed: tuple[ConsumerRow, ...], width: int, height: int, chosen: int, moment: Moment
) -> Lines:  # fmt: skip
    columns = fitting(columns_of(found), width, times=moment.times)
    more = [f"{found.more:,} more are not listed"] if found.more else []
    more += [f"{nameless_words(found)}; 3 lists all claims"] if found.nameless else []
    more += [shown(found.error)] if found.error else []
    tail = [dim(f"   {one}") for one in more][: max(0, height - 1)]
    room = max(1, height - len(tail))
    lines = []
    for at in visible(len(listed), room, chosen, room // 2):
        line = row_line(listed[at], columns, moment, selected=at == chosen)
        lines.append(numbered(at, restyle(line, Style.DIM) if listed[at].exited and at != chosen else line))
    return [*lines, *tail]


def _detail(one: ConsumerRow, found: ConsumerList, width: int, height: int, moment: Moment) -> Lines:
    """A rule with the name, then what is known, the most important first."""
    name = clip(consumer_name(one), max(4, width - 16))
    head = rule(name, _STYLES.get(one.word, Style.NORMAL)(one.word), width)
    return [head, *fact_lines(_facts(one, found, width, height, moment), width, _LABEL)][:height]


def _facts(one: ConsumerRow, found: ConsumerList, width: int, height: int, moment: Moment) -> Iterator[Fact]:
    yield "verdict", shown(one.evidence) or one.word, _STYLES.get(one.word, Style.NORMAL), _MOST_LINES
    yield "holds", _holds(one, moment.now)
    yield "process", _process(one, moment), Style.NORMAL, _MOST_LINES
    if command := (one.usage.command if one.usage is not None else "") or one.owner.command:
        yield "command", safe(command), Style.NORMAL, max(2, height // 3)
    if not one.gone and found.measured:
        done = f"done {one.rate.words('done')}/s, failed {one.rate.words('failed')}/s over {age(found.window)}"
        yield "rates", "not watched yet" if one.rate.done is None else done
    if one.asked_at is not None:
        yield "asked", f"for a message {ago(one.asked_at, moment.now)} ago"
    ids = [short_id(safe(id), max(12, width - _LABEL - 2)) for id in one.ids[:_MOST_IDS]]
    for at, id in enumerate(ids):
        yield "" if at else "claims", id
    if one.claims > len(ids) > 0:
        yield "", f"{one.claims - len(ids):,} more; Enter lists them"


def _holds(one: ConsumerRow, now: float) -> str:
    last = "" if one.last_claim_at is None else f" · last claim {ago(one.last_claim_at, now)} ago"
    if not one.claims:
        return f"no claim{last}"
    return f"{'1 claim, for' if one.claims == 1 else f'{one.claims:,} claims, the oldest for'} {one.held_words(now)}{last}"


def _process(one: ConsumerRow, moment: Moment) -> str:
    owner, usage = one.owner, one.usage
    words = [f"pid {owner.pid}" if owner.pid is not None else safe(owner.name or "pid not known")]
    words[0] += f" of {safe(owner.user)}" if owner.user else ""
    words[0] += f" on {safe(owner.host)}" if owner.host else ""
    if owner.start is not None:
        words.append(f"started {when(owner.start, moment.zone)}, {ago(owner.start, moment.now)} ago")
    if usage is not None:
        cpu = "" if usage.cpu is None else f"cpu {round(100 * usage.cpu)}%, "
        words.append(f"{cpu}memory {size(usage.memory)}")
    return " · ".join(words)


# Draws a message: its origin, its holder and the evidence for that, and its payload, safely escaped.

_DRAWN = ("enqueued", "waits", "source", "holder", "writer")
"""Facts of a reader that are drawn from the row, or at a place of their own."""
_SHORT = {"set aside": "reason", "operation": "by op"}
"""Labels of a reader that are wider than their column."""
_SAME_DAY = re.compile(r"^((\S+) \S+ (\S+)) · claimed \2 (\S+) \3$")
"""Two times with the same day and zone, which are written once: ``2026-11-21 02:00:01 +0100 · claimed 02:00:03``."""
_BARE = (EXITED, RUNNING)
"""Evidence that says no more than the verdict does."""
LONGEST = 5000
"""Lines of a message that can be scrolled through."""
_COUNTED = 4096
"""Bytes that are drawn to count the lines that do not fit."""


def detail(
    row: Row | None, read: PayloadRead, width: int, height: int, *, moment: Moment, worked: Percentiles | None = None
) -> Lines:
    """At most ``height`` lines. ``read`` is its payload, as far as it was read. ``worked`` is how long other messages took, for
    comparison."""
    if row is None:
        return []
    room = max(0, height - 1)
    below = _fact_lines(row, read, width, moment, worked)
    body = _body(read, width)
    if len(below) + len(body.lines(height)) + 1 < height and not body.note:  # the blank line is left out where space is short
        below.append(BLANK)
    facts = len(below)
    below += body.lines(room - facts)
    seen = below[:room]
    if seen and (more := body.more(room - facts)):
        seen[-1] = dim(f" … {more}")
    return [_rule(row, read, width), *seen][:height]


def message_lines(
    row: Row, read: PayloadRead, width: int, height: int, *, scroll: int, moment: Moment
) -> tuple[Lines, int]:
    """A message in full, from line ``scroll`` on, and the line it begins with: that of the last page where ``scroll`` is beyond
    it."""
    top = [_rule(row, read, width), *_fact_lines(row, read, width, moment)]
    body = _body(read, width)
    if not body.note:
        top.append(BLANK)
    lines = [*top, *body.lines(min(scroll + height, LONGEST) - len(top))]
    scroll = max(0, min(scroll, len(lines) - height))
    if len(lines) == LONGEST and scroll + height >= LONGEST and (more := body.more(LONGEST - len(top))):
        lines[-1] = dim(f" … {more}; y copies all")
    return lines[scroll : scroll + height], scroll


def size_text(row: Row, read: PayloadRead) -> str:
    """``1.2kB email``: the size of a message, and its source."""
    return f"{size(row.size if read.payload is None else read.payload.size)}{f' {safe(row.source)}' if row.source else ''}"


def _rule(row: Row, read: PayloadRead, width: int) -> Line:
    right = clip_left(size_text(row, read), max(4, width // 3) - 3)
    return rule(clip_left(safe(row.id), max(4, width - text_width(right) - 8)), Style.RULE(right), width)


def fact_line(label: str, text: str, style: Style = Style.NORMAL) -> Line:
    """A fact on one line, with its label in a column of its own."""
    return join(fact_label(label, _LABEL), style(text))


def _fact_lines(row: Row, read: PayloadRead, width: int, moment: Moment, worked: Percentiles | None = None) -> Lines:
    told = read.payload.facts if read.payload is not None else ()
    return fact_lines(_message_facts(row, told, width, moment, worked), width, _LABEL)


def _message_facts(
    row: Row, told: Sequence[tuple[str, str]], width: int, moment: Moment, worked: Percentiles | None
) -> Iterator[Fact]:
    """The facts about a message, with those that a reader ``told``."""
    now, zone, facts = moment.now, moment.zone, dict(told)
    put = facts.get("enqueued")
    if put is not None:
        whole = _SAME_DAY.sub(r"\1 · claimed \4", shown(put))
        parts = [whole] if text_width(whole) <= width - _LABEL - 1 else whole.split(" · ")
        for i, part in enumerate(parts):
            yield "" if i else "enqueued", part
        history = f"{age(row.age(now))} since put"
    else:
        known = row.enqueued_at is not None
        history = f"{when(row.enqueued_at, zone)}, {age(row.age(now))} ago" if known else "not known"
    held = age(row.in_box_age(now))
    bound = "at most " if row.since_is_bound else ""
    if row.box is Box.CUR and row.verdict is not None:
        # A process that holds its message from the put on never claims it.
        at_once = put or row.in_box_since == row.enqueued_at
        history += f" · held {bound}{held}" if at_once else f" · claimed {when(row.in_box_since, zone)}, held {bound}{held}"
    elif row.box is not Box.NEW and row.in_box_since is not None:
        history += f" · in {row.box.value} for {bound}{held}"
    if row.attempt:
        history += f" · attempts: {row.attempt}"
    if row.box is Box.CUR and worked is not None and worked.p99 is not None:
        history += f" · others {duration(worked.p99)} (p99 of {worked.samples:,})"
    yield "age" if put else "enqueued", history
    if row.not_before is not None and row.not_before > now:
        yield "waits", f"until {when(row.not_before, zone)}, {age(row.not_before - now)} more"
    if row.verdict is not None:
        word, style = (row.verdict.upper(), Style.BAD) if row.verdict is Verdict.DEAD else (row.verdict, Style.NORMAL)
        why = _why(row, facts)
        stop = ", " if ": " in why else ": "
        yield "verdict", f"{word}{stop}{why}" if why else word, style
    if row.owner is not None and "owner" not in facts:
        host = f" on {safe(row.owner.host)}" if row.owner.host else ""
        user = f", {safe(row.owner.user)}" if row.owner.user else ""
        pid = "" if row.owner.name is None or row.owner.pid is None else f" · pid {row.owner.pid}"
        yield "owner", f"{owner_text(row.owner)}{pid}{host}{user}"
    if row.expires_at is not None:
        yield "kept", kept_words(row, now), Style.WARN if row.expired(now) else Style.NORMAL
    if row.reason and "set aside" not in facts:
        yield "reason", shown(row.reason)
    if row.note:
        yield "note", shown(row.note), Style.WARN
    for label, text in told:
        if label not in _DRAWN and text != row.evidence:
            yield _SHORT.get(label, shown(label)), shown(text)


def _why(row: Row, facts: dict[str, str]) -> str:
    """The evidence for the verdict without repetitions: the reader's sentence without its subject, which the owner's line names,
    and what the list knows in addition."""
    reason = facts.get("holder") or facts.get("writer") or ""
    if row.owner is not None and row.owner.pid is not None:
        reason = reason.removeprefix(f"pid {row.owner.pid} ")
        reason = reason.removeprefix(f"({escape(row.owner.command or '')}) ").removeprefix("is ").removeprefix("has ")
    known = [part for part in row.evidence.split(" · ") if part and part not in reason and (part not in _BARE or not reason)]
    return shown(" · ".join(filter(None, [reason, *known])))


class PayloadLines:
    """The lines of a payload: non-text is escaped, long lines are broken. Only as much is drawn as is asked for; a last line says
    where the payload is incomplete. ``note``: a single line that says why there is nothing to read."""

    def __init__(self, payload: Payload, width: int, note: Line = BLANK) -> None:
        self.note = note
        self._payload = payload
        self._drawn = 0
        """Bytes that were drawn so far."""
        self._lines: Lines = []
        self._next = iter([note]) if note else self._draw(width)

    def lines(self, count: int) -> Lines:
        """The first ``count`` lines."""
        self._lines += islice(self._next, max(0, count - len(self._lines)))
        return self._lines[: max(0, count)]

    def more(self, shown: int) -> str:
        """A text about the lines after the first ``shown`` ones; "" where there are none."""
        left = len(self._payload.data) - self._drawn
        if left > _COUNTED:
            return f"{size(left)} more"
        self._lines += self._next
        hidden = len(self._lines) - shown
        return f"{hidden + 1:,} more lines" if hidden > 0 else ""

    def _draw(self, width: int) -> Iterator[Line]:
        payload = self._payload
        for piece, self._drawn in safe_pieces(payload.data, max(2, width - 2)):
            yield (Span(f" {piece}"),) if piece else BLANK
        self._drawn = len(payload.data)
        if payload.truncated:
            yield dim(f" … the first {len(payload.data):,} of {payload.size:,} bytes")


_NOTHING = Payload(b"", 0, False)


def _body(read: PayloadRead, width: int) -> PayloadLines:
    payload = read.payload
    if payload is not None and payload.size:
        return _drawn(payload, width)
    words, style = ("being read…", Style.DIM) if payload is None else ("empty", Style.NORMAL)
    if read.error:
        words, style = shown(read.error), Style.WARN
    return PayloadLines(_NOTHING, width, fact_line("payload", words, style))


@lru_cache(maxsize=2)
def _drawn(payload: Payload, width: int) -> PayloadLines:
    """Cached: most looks find the same payload again."""
    return PayloadLines(payload, width)
