"""Draws the form for the value of a cursor."""

from __future__ import annotations

import json

from spooltop.model.cursors import Cursor, ParsedValue

from ..elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, plain, safe, shown, wrap
from ..one_cursor import verdict_words
from ..panels.frame import inner_width, panel_frame

_WIDEST = 100
_LABEL = 8


def set_cursor_lines(cursor: Cursor, text: str, value: ParsedValue | None, width: int, height: int) -> list[Line]:
    """A panel of at most ``height`` lines. ``text`` is the raw text typed so far, ``value`` its meaning."""
    width = min(width, _WIDEST)
    inner = inner_width(width)
    room = max(1, inner - _LABEL)
    body = [
        _labelled("now", clip_left(shown(cursor.shown), room), inner),
        _labelled("new", clip_left(shown(text), room - 1), inner, Span("█", Style.KEY)),
        _labelled("stored", _stored(value, room), inner) if value is not None and cursor.in_file else BLANK,
        _labelled("file" if cursor.in_file else "stream", clip_left(safe(cursor.file), room), inner),
        crop(join(Span(f"{'verdict':<{_LABEL}}", Style.DIM), verdict_words(cursor)), inner),
        BLANK,
    ]
    advice = "Only this section of the file changes, under the lock next to it. Enter opens a plan first."
    if not cursor.in_file:
        advice = (
            "The id of the last entry that the group was given: 0 delivers every entry again, $ skips all that wait. "
            "Enter opens a plan first, which counts them. Claims stay as they are."
        )
    elif cursor.shared:
        advice += " Its poller may overwrite it with the value it holds in memory: stop it first."
    body += [plain(part, inner) for part in wrap(advice, inner)]
    return panel_frame(f"Set the cursor of {safe(cursor.source)}", "", body[: max(1, height - 2)], width)[:height]


def _stored(value: ParsedValue, room: int) -> str:
    """The value as it will be stored in the file, and how the text was read."""
    text = shown(json.dumps(value.value, ensure_ascii=False))
    words = f", {value.words}"
    return f"{clip_left(text, max(8, room - len(words)))}{words}"


def _labelled(label: str, text: str, inner: int, *more: Span) -> Line:
    return crop(join(Span(f"{label:<{_LABEL}}", Style.DIM), text, *more), inner)
