"""Draws where a followed message is and was, step by step."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from ..tracking.timeline import TimelineStep
from .elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, pad, plain, safe, shown, wrap
from .every_screen.header import when
from .panels.frame import WIDEST, inner_width, panel_frame

_TIME = 10
_ID = 16


def follow_lines(
    ids: Sequence[str],
    steps: Sequence[TimelineStep],
    now: Mapping[str, str],
    width: int,
    height: int,
    *,
    since: float | None,
    zone: datetime.tzinfo | None = None,
    scroll: int = 0,
) -> list[Line]:
    """A panel of at most ``height`` lines: the current place, and below it the steps, oldest first, the newest visible;
    ``scroll`` lines back from there. ``since`` is when following began (None: not yet). With several messages the end of its
    id precedes each step."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    name = safe(ids[0]) if len(ids) == 1 else f"{len(ids):,} messages"
    title = f"Following {clip_left(name, max(8, width - 38))}"
    head = _now(ids, now, inner, max(1, (height - 4) // 3)) if since is not None else [plain("looking for it…", inner, Style.DIM)]
    step_lines = [line for step in steps for line in _step(step, inner, len(ids) > 1, zone)]
    room = max(1, height - 2 - len(head) - 1)
    end = max(min(room, len(step_lines)), len(step_lines) - max(0, scroll))
    seen = step_lines[max(0, end - room) : end]
    above = len(step_lines) - len(seen)
    if above and seen and end - room > 0:
        seen[0] = plain(f"… {end - room + 1:,} lines above, k goes up", inner, Style.DIM)
    right = f"since {when(since, zone)}" if since is not None else ""
    return panel_frame(title, right, [*head, BLANK, *seen], width)[:height]


def _now(ids: Sequence[str], now: Mapping[str, str], inner: int, most: int) -> list[Line]:
    """The places of the messages. Where there are many: those that still exist, as far as they fit, and their number."""
    if len(ids) == 1:
        return [crop(join(Span("now  ", Style.DIM), Span(shown(now.get(ids[0], "not found")), Style.STRONG)), inner)]
    left = [id for id in ids if now.get(id, "gone") != "gone"]
    gone = sum(1 for id in ids if now.get(id) == "gone")
    lines = [crop(join(Span("now  ", Style.DIM), Span(f"{gone:,} gone, {len(left):,} left", Style.STRONG)), inner)]
    lines += [plain(f"     {pad(clip_left(safe(id), _ID), _ID)} {shown(now[id])}", inner) for id in left[:most]]
    if len(left) > most:
        lines.append(plain(f"     … {len(left) - most:,} more", inner, Style.DIM))
    return lines


def _step(step: TimelineStep, inner: int, several: bool, zone: datetime.tzinfo | None) -> list[Line]:
    who = f"{pad(clip_left(safe(step.id), _ID), _ID)} " if several else ""
    indent = _TIME + len(who)
    parts = wrap(shown(step.words), max(8, inner - indent))
    style = Style.BAD if step.bad else Style.NORMAL
    first = join(Span(pad(when(step.at, zone), _TIME), Style.DIM), who, Span(parts[0], style))
    return [crop(first, inner), *(plain(f"{' ' * indent}{part}", inner, style) for part in parts[1:])]
