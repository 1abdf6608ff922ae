"""The columns of the lists, as data: what changes stands leftmost, numbers to the right, names last and cut at the left."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from spooltop.model import units
from spooltop.model.row import Row
from spooltop.model.text import program
from spooltop.model.words import Box, Owner, Verdict

from .lamp import Times
from .spans import Span, Style, safe, shown

__all__ = ["COLUMNS", "GAP", "MARGIN", "Column", "Moment", "age_text", "columns_for", "owner_text"]

GAP = 2
MARGIN = 3
"""Cells at the left of each row: the cursor, the mark, and one between."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a row is drawn, and how its times are written."""

    now: float
    zone: datetime.tzinfo | None = None
    times: Times = Times.AGE


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``width`` is in cells; what is left of the screen goes to the columns that ``grow``, by their weight, up to
    ``most`` cells. A screen narrower than ``min_screen`` goes without. ``align`` is "left" or "right"; ``cut`` is the side
    where too long text is cut. ``sort`` is the word for this column in a ``Sort``, "" where one cannot sort by it.
    """

    key: str
    title: str
    width: int
    value: Callable[[Row, Moment], Span]
    align: str = "left"
    min_screen: int = 0
    sort: str = ""
    cut: str = "right"
    grow: int = 0
    most: int = 1000
    is_time: bool = False


def owner_text(owner: Owner | None) -> str:
    """``5200 worker.py``, the program without its path, interpreter and arguments; the host where no process is known; ``—`` for
    nobody."""
    if owner is None:
        return "—"
    words = [str(owner.pid)] if owner.pid is not None else []
    if owner.command:
        words.append(safe(program(owner.command)))
    elif owner.pid is None and owner.host:
        words.append(f"on {safe(owner.host)}")
    return " ".join(words) or "?"


def age_text(since: float | None, moment: Moment, *, bound: bool = False) -> str:
    """An age, or with ``times`` LOCAL or UTC the moment itself; ``≤`` in front of an age that is an upper bound."""
    if since is None:
        return "—"
    if moment.times is Times.AGE:
        return (units.at_most if bound else units.age)(max(0.0, moment.now - since))
    zone = datetime.UTC if moment.times is Times.UTC else moment.zone
    text = units.clock_time(since, zone, offset=False)
    if abs(moment.now - since) < 86400 / 2 or text == "—":
        return text
    try:
        return datetime.datetime.fromtimestamp(since, datetime.UTC).astimezone(zone).strftime("%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):  # a time that no calendar has; any number may stand in a name
        return "—"


_VERDICTS = {Verdict.DEAD: Style.BAD, Verdict.ABANDONED: Style.WARN}


def _verdict(row: Row, moment: Moment) -> Span:
    if row.verdict is None:
        return Span("—")
    loud = row.verdict in (Verdict.DEAD, Verdict.WRITING)
    return Span(row.verdict.value.upper() if loud else row.verdict.value, _VERDICTS.get(row.verdict, Style.NORMAL))


def _age(row: Row, moment: Moment) -> Span:
    return Span(age_text(row.enqueued_at, moment))


def _in_box(row: Row, moment: Moment) -> Span:
    return Span(age_text(row.in_box_since, moment, bound=row.since_is_bound))


def _written(row: Row, moment: Moment) -> Span:
    return Span(age_text(row.written_at, moment))


def _tries(row: Row, moment: Moment) -> Span:
    return Span("—" if row.attempt is None else str(row.attempt))


def _size(row: Row, moment: Moment) -> Span:
    return Span(units.size(row.size))


def _source(row: Row, moment: Moment) -> Span:
    return Span("—" if row.source is None else safe(row.source))


def _owner(row: Row, moment: Moment) -> Span:
    return Span(owner_text(row.owner))


def _evidence(row: Row, moment: Moment) -> Span:
    return Span(shown(row.note), Style.WARN) if row.note else Span(shown(row.evidence))


def _state(row: Row, moment: Moment) -> Span:
    if row.note:
        return Span(shown(row.note), Style.WARN)
    if row.not_before is not None and row.not_before > moment.now:
        return Span(f"waits {units.age(row.not_before - moment.now)}")
    return Span("ready, a test" if row.canary else "ready")


def _reason(row: Row, moment: Moment) -> Span:
    if row.note:
        return Span(shown(row.note), Style.WARN)
    if row.expired(moment.now):
        return Span("expired" + (f" · {shown(row.reason)}" if row.reason else ""), Style.WARN)
    return Span(shown(row.reason) or "—")


def _message(row: Row, moment: Moment) -> Span:
    return Span(safe(row.id))


_TRIES = Column("tries", "tries", 6, _tries, "right", 50, "tries")
_SIZE = Column("size", "size", 6, _size, "right", 46, "size")
_SOURCE = Column("source", "source", 12, _source, "left", 72, "source", grow=1, most=20)
_MESSAGE = Column("message", "message", 8, _message, sort="name", cut="left", grow=4)
_AGE = Column("age", "age", 5, _age, "right", 0, "age", is_time=True)

_ASIDE = (
    Column("aside", "aside", 6, _in_box, "right", 0, "held", is_time=True),
    replace(_AGE, min_screen=60),
    _SIZE,
    _TRIES,
    _SOURCE,
    Column("reason", "reason", 18, _reason, min_screen=56, grow=3, most=60),
    _MESSAGE,
)

COLUMNS: Mapping[Box, tuple[Column, ...]] = {
    Box.NEW: (
        _AGE,
        Column("state", "state", 13, _state, min_screen=56, grow=1, most=30),
        _SIZE,
        _TRIES,
        _SOURCE,
        _MESSAGE,
    ),
    Box.CUR: (
        Column("verdict", "verdict", 8, _verdict, sort="verdict"),
        Column("held", "held", 5, _in_box, "right", 0, "held", is_time=True),
        _TRIES,
        Column("owner", "owner", 15, _owner, min_screen=60, grow=1, most=24),
        Column("evidence", "evidence", 22, _evidence, min_screen=72, grow=3, most=60),
        _MESSAGE,
    ),
    Box.TMP: (
        Column("state", "state", 9, _verdict, sort="verdict"),
        _AGE,
        _SIZE,
        Column("written", "written", 7, _written, "right", 66, is_time=True),
        Column("evidence", "evidence", 31, _evidence, min_screen=60, grow=3, most=60),
        replace(_MESSAGE, key="file", title="file"),
    ),
    Box.HELD: _ASIDE,
    Box.REJECTED: _ASIDE,
    Box.TRASH: _ASIDE,
}
"""All columns of each list, in their order."""

READ_MAIL = (
    _AGE,
    Column("in-cur", "in cur", 7, _in_box, "right", 50, "held", is_time=True),
    _SIZE,
    _MESSAGE,
)
"""The columns of ``cur`` in a mail folder: nobody holds what has been read."""

_TIME_WIDTH = 11


@lru_cache(maxsize=64)
def columns_for(box: Box, width: int, *, times: Times = Times.AGE, mail: bool = False) -> tuple[Column, ...]:
    """Those that a screen of ``width`` cells has room for, with their widths there. Names and evidence share what is left.
    ``mail``: of a mail folder."""
    columns = [column for column in (READ_MAIL if mail and box is Box.CUR else COLUMNS[box]) if column.min_screen <= width]
    if times is not Times.AGE:
        columns = [replace(one, width=max(one.width, _TIME_WIDTH)) if one.is_time else one for one in columns]
    while len(columns) > 2 and _total(columns) > width:
        # the last but one goes first: the name stays, and what changes stands at the left
        del columns[-2]
    return tuple(_grown(columns, width - _total(columns)))


def _total(columns: Sequence[Column]) -> int:
    return MARGIN + sum(column.width for column in columns) + GAP * (len(columns) - 1) + 1  # a cell at the right edge


def _grown(columns: list[Column], room: int) -> list[Column]:
    """Shares ``room`` among the columns that grow; what one cannot take goes to the others, the last one takes the rest."""
    grown = list(columns)
    weight = sum(column.grow for column in grown)
    left = max(0, room)
    for i, column in enumerate(grown):
        if not column.grow:
            continue
        share = left if i == len(grown) - 1 else min(left * column.grow // weight, column.most - column.width)
        grown[i] = replace(column, width=column.width + share)
        left -= share
        weight -= column.grow
    return grown
