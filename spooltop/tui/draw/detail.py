"""One message: where it came from, who holds it and what that rests on, and its payload, safely escaped."""

from __future__ import annotations

import datetime

from spooltop.model import units
from spooltop.model.expiry import kept_words
from spooltop.model.row import Payload, Row
from spooltop.model.snapshot import Percentiles
from spooltop.model.text import escape, escape_text
from spooltop.model.words import Box, Verdict

from .columns import owner_text
from .lamp import when
from .spans import BLANK, Line, Span, Style, clip_left, crop, cut, join, merge, plain, safe, shown, text_width, wrap

__all__ = ["detail", "payload_lines"]

_LABEL = 9
_DRAWN = ("enqueued", "waits", "source", "holder", "writer")
"""Facts of a reader that are drawn from the row, or at their own place."""
_SHORT = {"set aside": "reason"}
"""Labels of a reader that are wider than their column."""
_BARE = ("gone", "lives")
"""Evidence that says no more than the verdict does."""
_PAYLOAD_LINES = 20_000


def detail(
    row: Row | None,
    payload: Payload | None,
    width: int,
    height: int,
    *,
    now: float,
    zone: datetime.tzinfo | None = None,
    error: str = "",
    scroll: int = 0,
    worked: Percentiles | None = None,
) -> list[Line]:
    """At most ``height`` lines. ``payload`` None: being read, or ``error`` says why not. ``scroll`` lines of what is below the
    title are passed over. ``worked`` is how long others took, to compare with."""
    if row is None:
        return []
    below = _facts(row, payload, width, now, zone, worked)
    if error:
        below.append(_fact("payload", shown(error), width, Style.WARN))
    elif payload is None:
        below.append(_fact("payload", "being read…", width, Style.DIM))
    else:
        body = payload_lines(payload, width)
        gap = [BLANK] if len(below) + 1 + len(body) < height else []  # no room is given away where some is missing
        below += [_fact("payload", "empty", width)] if not payload.size else [*gap, *body]
    room = max(0, height - 1)
    scroll = max(0, min(scroll, len(below) - room))
    seen = below[scroll : scroll + room]
    hidden = len(below) - scroll - room
    if hidden > 0 and seen:
        seen[-1] = plain(f" … {hidden + 1:,} more lines", width, Style.DIM)
    return [_rule(row, payload, width), *seen][:height]


def _rule(row: Row, payload: Payload | None, width: int) -> Line:
    size = payload.size if payload is not None else row.size
    right = f" {units.size(size)}{f' {safe(row.source)}' if row.source else ''} ─"
    right = clip_left(right, max(4, width // 3))
    name = clip_left(safe(row.id), max(4, width - text_width(right) - 5))
    fill = "─" * max(0, width - 4 - text_width(name) - text_width(right) - 1)
    return crop(merge((Span(" ─ ", Style.RULE), Span(name, Style.TITLE), Span(f" {fill}{right}", Style.RULE))), width)


def _fact(label: str, text: str, width: int, style: Style = Style.NORMAL) -> Line:
    return crop(join(Span(f" {label[:_LABEL - 1]:<{_LABEL}}", Style.DIM), Span(text, style)), width)


def _wrapped(label: str, text: str, width: int, style: Style = Style.NORMAL) -> list[Line]:
    parts = wrap(text, max(8, width - _LABEL - 1))
    return [_fact(label if i == 0 else "", part, width, style) for i, part in enumerate(parts)]


def _facts(
    row: Row, payload: Payload | None, width: int, now: float, zone: datetime.tzinfo | None, worked: Percentiles | None
) -> list[Line]:
    lines: list[Line] = []
    facts = dict(payload.facts) if payload is not None else {}
    put = facts.get("enqueued")
    if put is not None:
        whole = _once(shown(put))
        parts = [whole] if text_width(whole) <= width - _LABEL - 1 else whole.split(" · ")
        for i, part in enumerate(parts):
            lines += _wrapped("" if i else "enqueued", part, width)
        history = f"{units.age(row.age(now))} since put"
    else:
        history = f"{when(row.enqueued_at, zone)}, {units.age(row.age(now))} ago"
    held = units.age(row.in_box_age(now))
    bound = "at most " if row.since_is_bound else ""
    if row.box is Box.CUR and row.verdict is not None:
        history += f" · held {bound}{held}" if put else f" · claimed {when(row.in_box_since, zone)}, held {bound}{held}"
    elif row.box is not Box.NEW and row.in_box_since is not None:
        history += f" · in {row.box.value} for {bound}{held}"
    if row.attempt:
        history += f" · in work {row.attempt}×"
    if row.box is Box.CUR and worked is not None and worked.p99 is not None:
        history += f" · others {units.duration(worked.p99)} (p99 of {worked.samples:,})"
    lines += _wrapped("age" if put else "enqueued", history, width)
    if row.not_before is not None and row.not_before > now:
        lines += _wrapped("waits", f"until {when(row.not_before, zone)}, {units.age(row.not_before - now)} more", width)
    if row.verdict is not None:
        style = Style.BAD if row.verdict is Verdict.DEAD else Style.NORMAL
        word = row.verdict.value.upper() if row.verdict is Verdict.DEAD else row.verdict.value
        why = _why(row, facts)
        stop = ", " if ": " in why else ": "
        lines += _wrapped("verdict", f"{word}{stop}{why}" if why else word, width, style)
    if row.owner is not None and "owner" not in facts:
        host = f" on {safe(row.owner.host)}" if row.owner.host else ""
        user = f", {safe(row.owner.user)}" if row.owner.user else ""
        lines += _wrapped("owner", f"{owner_text(row.owner)}{host}{user}", width)
    if row.expires_at is not None:
        lines += _wrapped("kept", kept_words(row, now), width, Style.WARN if row.expired(now) else Style.NORMAL)
    if row.reason and "set aside" not in facts:
        lines += _wrapped("reason", shown(row.reason), width)
    if row.note:
        lines += _wrapped("note", shown(row.note), width, Style.WARN)
    for label, text in payload.facts if payload is not None else ():
        if label not in _DRAWN and text != row.evidence:
            lines += _wrapped(_SHORT.get(label, shown(label)), shown(text), width)
    return lines


def _once(put: str) -> str:
    """``2026-11-21 02:00:01 +0100 · claimed 02:00:03``: what both moments share is said once."""
    first, stop, second = put.partition(" · claimed ")
    a, b = first.split(" "), second.split(" ")
    same = stop and len(a) == len(b) == 3 and (a[0], a[2]) == (b[0], b[2])
    return f"{first}{stop}{b[1]}" if same else put


def _why(row: Row, facts: dict[str, str]) -> str:
    """What the verdict rests on, once: the reader's sentence without whom it is about (the owner's own line says that), and what
    the list knows besides."""
    told = facts.get("holder") or facts.get("writer") or ""
    if row.owner is not None and row.owner.pid is not None:
        told = told.removeprefix(f"pid {row.owner.pid} ")
        told = told.removeprefix(f"({escape(row.owner.command or '')}) ").removeprefix("is ")
    known = [part for part in row.evidence.split(" · ") if part and part not in told and (part not in _BARE or not told)]
    return shown(" · ".join([told, *known] if told else known))


def payload_lines(payload: Payload, width: int) -> list[Line]:
    """The payload with everything escaped that is no text, its long lines broken; says so where it is not all of it."""
    room = max(2, width - 2)
    lines: list[Line] = []
    text = escape_text(payload.data)
    for raw in text.removesuffix("\n").split("\n"):
        rest = shown(raw)
        while text_width(rest) > room:
            head, rest = cut(rest, room)
            lines.append((Span(f" {head}"),))
        lines.append((Span(f" {rest}"),) if rest else BLANK)
        if len(lines) > _PAYLOAD_LINES:
            break
    if payload.truncated:
        lines.append(plain(f" … the first {len(payload.data):,} of {payload.size:,} bytes", width, Style.DIM))
    return lines
