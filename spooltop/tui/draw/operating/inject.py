"""Draws the form for test messages: their properties, field by field."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, pad, plain, shown, text_width
from ..panels.frame import inner_width, panel_frame

_WIDEST, _NAME, _VALUE = 100, 8, 34


class Field(Struct, frozen=True):
    """A field of the form; ``hint`` explains it."""

    name: str
    text: str
    hint: str
    chosen: bool = False


def form_lines(fields: Sequence[Field], width: int, height: int) -> list[Line]:
    """A panel of at most ``height`` lines. A hint follows its field, on the next line where it does not fit."""
    width = min(width, _WIDEST)
    inner = inner_width(width)
    one_line = inner >= 2 + _NAME + _VALUE + 30
    room = _VALUE if one_line else max(1, inner - 2 - _NAME)
    body: list[Line] = []
    for field in fields:
        text = clip_left(shown(field.text), room - 2)  # text is typed at the end
        sign = Span("▌ " if field.chosen else "  ", Style.KEY)
        name = Span(pad(field.name, _NAME), Style.STRONG if field.chosen else Style.DIM)
        cursor = Span("█" if field.chosen else "", Style.KEY)
        gap = " " * (room - text_width(text) - len(cursor.text))
        hint = Span(field.hint, Style.DIM)
        body.append(crop(join(sign, name, text, cursor, gap, hint if one_line else ""), inner))
        if not one_line:
            body.append(crop(join(" " * (2 + _NAME), hint), inner))
    body += [BLANK, plain("They are marked as tests; consumers take them. Enter opens a plan first.", inner)]
    return panel_frame("Inject test messages into new", "", body[: max(1, height - 2)], width)[:height]
