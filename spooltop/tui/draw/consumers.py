"""Draws the consumers: a list, dead ones with claims first, and the facts about the chosen one below or next to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest

from msgspec.structs import replace

from spooltop.model import vocabulary as units
from spooltop.model.backend import Sort
from spooltop.model.snapshot import ConsumerList, ConsumerRow, Snapshot, Usage, nameless_words
from spooltop.model.vocabulary import Box

from .elements import (
    BLANK,
    Fact,
    Lines,
    Moment,
    Span,
    Style,
    ago,
    clip,
    dim,
    fact_lines,
    filled,
    join,
    numbered,
    restyle,
    safe,
    shown,
    spread,
    visible,
    when,
    within,
    wrap,
)
from .header import freshness_line
from .lists import Column, age_text, fitting, row_line, short_id, sort_title, title_line

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


_HELD = replace(
    _time("held", 46), value=lambda one, moment: age_text(one.claimed_at, moment, bound=one.claimed_is_bound)
)

COLUMNS: tuple[Column, ...] = (
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
    Column("mem", 5, lambda one, _: _used(one, lambda usage: units.size(usage.memory)), "right", 76, "memory"),
)
"""All columns, in order."""

_NAMED = (
    _VERDICT,
    _PID,
    replace(_COMMAND, title="consumer", width=16, grow=2, most=36),
    replace(_HOST, min_screen=106),
    _CLAIMS,
    _HELD,
    _time("asked", 58),
    Column("evidence", 14, lambda one, _: shown(one.evidence), min_screen=72, grow=4, most=60, least=8),
)
"""Columns where a server knows consumers by their names, and nobody measures their processes."""


def columns_of(found: ConsumerList | None) -> tuple[Column, ...]:
    """The columns that a list has."""
    return COLUMNS if found is None or found.measured else _NAMED


def ranked(consumers: tuple[ConsumerRow, ...], sort: Sort) -> tuple[ConsumerRow, ...]:
    """The consumers in an order: by verdict dead ones with claims come first, then within each verdict who has held a claim for
    the longest time. What is not known comes last either way."""
    found = sorted(consumers, key=lambda one: (one.claimed_at is None, one.claimed_at or 0.0, one.owner.pid or 0, one.key))
    value = _ORDERS.get(sort.column, _ORDERS["verdict"])
    known = [one for one in found if value(one) is not None]
    known.sort(key=value, reverse=sort.descending is not (sort.column in _TIMES))  # type: ignore[arg-type]
    return (*known, *(one for one in found if value(one) is None))


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
    over = f" · rates over {units.age(found.window)}{', at least' if found.lower_bound else ''}"
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
    fill = "─" * max(0, width - 6 - len(name) - len(one.word) - 2)
    rule = join(Style.RULE(" ─ "), Style.TITLE(name), Style.RULE(f" {fill} "))
    head = join(rule, _STYLES.get(one.word, Style.NORMAL)(one.word), Style.RULE(" ─"))
    return [head, *fact_lines(_facts(one, found, width, height, moment), width, _LABEL)][:height]


def _facts(one: ConsumerRow, found: ConsumerList, width: int, height: int, moment: Moment) -> Iterator[Fact]:
    yield "verdict", shown(one.evidence) or one.word, _STYLES.get(one.word, Style.NORMAL), _MOST_LINES
    yield "holds", _holds(one, moment.now)
    yield "process", _process(one, moment), Style.NORMAL, _MOST_LINES
    if command := (one.usage.command if one.usage is not None else "") or one.owner.command:
        yield "command", safe(command), Style.NORMAL, max(2, height // 3)
    if not one.gone and found.measured:
        done = f"done {one.rate.words('done')}/s, failed {one.rate.words('failed')}/s over {units.age(found.window)}"
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
        words.append(f"{cpu}memory {units.size(usage.memory)}")
    return " · ".join(words)
