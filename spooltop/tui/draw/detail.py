"""Draws a message: its origin, its holder and the evidence for that, and its payload, safely escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from spooltop.model import EXITED, RUNNING, Box, Payload, Percentiles, Row, Verdict, escape, kept_words
from spooltop.model import vocabulary as units

from ..messages import PayloadRead
from .elements import (
    BLANK,
    Fact,
    Line,
    Lines,
    Moment,
    Span,
    Style,
    clip_left,
    dim,
    fact_label,
    fact_lines,
    join,
    rule,
    safe,
    safe_pieces,
    shown,
    text_width,
    when,
)
from .lists import owner_text

_LABEL = 9
_DRAWN = ("enqueued", "waits", "source", "holder", "writer")
"""Facts of a reader that are drawn from the row, or at a place of their own."""
_SHORT = {"set aside": "reason", "operation": "by op"}
"""Labels of a reader that are wider than their column."""
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
    return f"{units.size(row.size if read.payload is None else read.payload.size)}{f' {safe(row.source)}' if row.source else ''}"


def _rule(row: Row, read: PayloadRead, width: int) -> Line:
    right = clip_left(size_text(row, read), max(4, width // 3) - 3)
    return rule(clip_left(safe(row.id), max(4, width - text_width(right) - 8)), Style.RULE(right), width)


def fact_line(label: str, text: str, style: Style = Style.NORMAL) -> Line:
    """A fact on one line, with its label in a column of its own."""
    return join(fact_label(label, _LABEL), style(text))


def _fact_lines(row: Row, read: PayloadRead, width: int, moment: Moment, worked: Percentiles | None = None) -> Lines:
    return fact_lines(_facts(row, read.payload.facts if read.payload is not None else (), width, moment, worked), width, _LABEL)


def _facts(
    row: Row, told: Sequence[tuple[str, str]], width: int, moment: Moment, worked: Percentiles | None
) -> Iterator[Fact]:
    """The facts about a message, with those that a reader ``told``."""
    now, zone, facts = moment.now, moment.zone, dict(told)
    put = facts.get("enqueued")
    if put is not None:
        whole = _once(shown(put))
        parts = [whole] if text_width(whole) <= width - _LABEL - 1 else whole.split(" · ")
        for i, part in enumerate(parts):
            yield "" if i else "enqueued", part
        history = f"{units.age(row.age(now))} since put"
    else:
        known = row.enqueued_at is not None
        history = f"{when(row.enqueued_at, zone)}, {units.age(row.age(now))} ago" if known else "not known"
    held = units.age(row.in_box_age(now))
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
        history += f" · others {units.duration(worked.p99)} (p99 of {worked.samples:,})"
    yield "age" if put else "enqueued", history
    if row.not_before is not None and row.not_before > now:
        yield "waits", f"until {when(row.not_before, zone)}, {units.age(row.not_before - now)} more"
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


def _once(put: str) -> str:
    """Shortens ``2026-11-21 02:00:01 +0100 · claimed 02:00:03``: the part that both times share is written once."""
    first, stop, second = put.partition(" · claimed ")
    a, b = first.split(" "), second.split(" ")
    same = stop and len(a) == len(b) == 3 and (a[0], a[2]) == (b[0], b[2])
    return f"{first}{stop}{b[1]}" if same else put


def _why(row: Row, facts: dict[str, str]) -> str:
    """The evidence for the verdict without repetitions: the reader's sentence without its subject, which the owner's line names,
    and what the list knows in addition."""
    reason = facts.get("holder") or facts.get("writer") or ""
    if row.owner is not None and row.owner.pid is not None:
        reason = reason.removeprefix(f"pid {row.owner.pid} ")
        reason = reason.removeprefix(f"({escape(row.owner.command or '')}) ").removeprefix("is ").removeprefix("has ")
    known = [part for part in row.evidence.split(" · ") if part and part not in reason and (part not in _BARE or not reason)]
    return shown(" · ".join([reason, *known] if reason else known))


class PayloadLines:
    """The lines of a payload: non-text is escaped, long lines are broken. Only as much is drawn as is asked for; a last line says
    where the payload is incomplete. ``note``: a single line that says why there is nothing to read."""

    def __init__(self, payload: Payload, width: int, note: Line = BLANK) -> None:
        self.note = note
        self.drawn = 0
        """Bytes that were drawn so far."""
        self._payload = payload
        self._lines = [note] if note else []
        self._next = safe_pieces(payload.data, max(2, width - 2))
        self._ended = bool(note)

    def lines(self, count: int) -> Lines:
        """The first ``count`` lines."""
        while len(self._lines) < count and not self._ended:
            self._draw()
        return self._lines[: max(0, count)]

    def more(self, shown: int) -> str:
        """A text about the lines after the first ``shown`` ones; "" where there are none."""
        left = len(self._payload.data) - self.drawn
        if left > _COUNTED:
            return f"{units.size(left)} more"
        while not self._ended:
            self._draw()
        hidden = len(self._lines) - shown
        return f"{hidden + 1:,} more lines" if hidden > 0 else ""

    def _draw(self) -> None:
        piece, self.drawn = next(self._next, (None, len(self._payload.data)))
        if piece is not None:
            self._lines.append((Span(f" {piece}"),) if piece else BLANK)
            return
        self._ended = True
        payload = self._payload
        if payload.truncated:
            self._lines.append(dim(f" … the first {len(payload.data):,} of {payload.size:,} bytes"))


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
