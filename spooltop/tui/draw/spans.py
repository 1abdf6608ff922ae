"""What every drawing is made of: lines of styled spans, measured in cells.

Nothing here knows Textual. Text that came from a spool goes through ``safe`` once; what is drawn by us needs it not.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from spooltop.model.text import escape

__all__ = [
    "BLANK", "Line", "Span", "Style", "clip", "clip_left", "crop", "cut", "join", "line_text", "line_width", "merge", "pad",
    "pad_left", "plain", "restyle", "safe", "shown", "spread", "text_width", "wrap",
]  # fmt: skip


class Style(StrEnum):
    """What a piece of text means. A colour only repeats what a word or a sign beside it says."""

    NORMAL = "normal"
    DIM = "dim"
    STRONG = "strong"
    BAD = "bad"
    WARN = "warn"
    GOOD = "good"
    TITLE = "title"
    KEY = "key"
    RULE = "rule"
    BAR = "bar"
    SELECTED = "selected"
    MARKED = "marked"


class Span(NamedTuple):
    """A piece of one line; ``text`` holds printable characters only."""

    text: str
    style: Style = Style.NORMAL


Line: TypeAlias = tuple[Span, ...]

BLANK: Line = ()
_ELLIPSIS = "…"


def text_width(text: str) -> int:
    """Width in cells."""
    return cell_len(text)


def line_width(line: Line) -> int:
    """Width in cells."""
    return sum(cell_len(span.text) for span in line)


def line_text(line: Line) -> str:
    """The words of a line without their styles."""
    return "".join(span.text for span in line)


def safe(name: str) -> str:
    r"""A raw name or value from a spool as it is drawn: ``escape``, and what ``shown`` escapes besides. ``unescape`` reads it."""
    return _unstack(escape(name))


def shown(words: str) -> str:
    r"""Words of ours with names in them that are escaped already: as they are, but for what no terminal should get all the
    same. Besides what is not printable, that is every mark without a cell of its own beyond one on a character: terminals
    disagree about their width, and a thousand of them on one letter cover the lines around. A letter without a cell of its own
    (a Hangul vowel), and a mark beside its letter (a vowel of Devanagari), is a cell for some terminals, and for others nothing.
    """
    if words.isascii() and words.isprintable():
        return words
    return _unstack("".join(char if char.isprintable() else _hex(char) for char in words))


def _hex(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char)) if char not in "\n\r\t" else " "


def _unstack(text: str) -> str:
    if text.isascii():
        return text
    out: list[str] = []
    stacked = True  # a mark at the very beginning stands on nothing
    for char in text:
        if "\U0001f1e6" <= char <= "\U0001f1ff":  # half a flag: one cell for Rich, two for most terminals
            out.append(_hex(char))
            stacked = False
        elif cell_len(char):
            out.append(char)
            stacked = False
        elif stacked or char == "\ufe0f" or unicodedata.category(char) not in ("Mn", "Me"):
            out.append(_hex(char))
        else:
            out.append(char)
            stacked = True
    return "".join(out)


def cut(text: str, width: int) -> tuple[str, str]:
    """The longest beginning of at most ``width`` cells, and the rest. Nothing is lost: a wide character is not halved, a mark
    stays with what it stands on. (Rich halves into spaces.) ``text`` is ``safe``, so that characters add up."""
    if text.isascii():
        return text[: max(0, width)], text[max(0, width) :]
    for at, char in enumerate(text):
        size = cell_len(char)
        if size > width:
            return text[:at], text[at:]
        width -= size
    return text, ""


def clip(text: str, width: int) -> str:
    """At most ``width`` cells, cut at the right with ``…``."""
    if cell_len(text) <= width:
        return text
    return cut(text, width - 1)[0] + _ELLIPSIS if width > 0 else ""


def clip_left(text: str, width: int) -> str:
    """At most ``width`` cells, cut at the left with ``…``: names differ at their end."""
    total = cell_len(text)
    if total <= width:
        return text
    if width <= 0:
        return ""
    head, tail = cut(text, total - width + 1)
    if cell_len(head) < total - width + 1:  # a wide character stood over the cut: it goes as a whole
        tail = cut(tail, 2)[1]
    return _ELLIPSIS + tail


def pad(text: str, width: int) -> str:
    """Exactly ``width`` cells, to the left, cut at the right."""
    text = clip(text, width)
    return text + " " * (width - cell_len(text))


def pad_left(text: str, width: int) -> str:
    """Exactly ``width`` cells, to the right: numbers."""
    text = clip(text, width)
    return " " * (width - cell_len(text)) + text


def merge(spans: Iterable[Span]) -> Line:
    """Neighbours of one style become one span: a span costs bytes on the wire. Empty ones go."""
    out: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if out and out[-1].style is span.style:
            out[-1] = Span(out[-1].text + span.text, span.style)
        else:
            out.append(span)
    return tuple(out)


def join(*parts: str | Span | Line) -> Line:
    """One line of strings (NORMAL), spans and lines."""
    spans: list[Span] = []
    for part in parts:
        if isinstance(part, Span):
            spans.append(part)
        elif isinstance(part, str):
            spans.append(Span(part))
        else:
            spans.extend(part)
    return merge(spans)


def plain(text: str, width: int, style: Style = Style.NORMAL) -> Line:
    """One line of one style, cut to ``width`` cells."""
    return merge((Span(clip(text, width), style),))


def crop(line: Line, width: int) -> Line:
    """At most ``width`` cells; what was cut ends in ``…``."""
    if line_width(line) <= width:
        return merge(line)
    out: list[Span] = []
    room = width
    for span in line:
        size = cell_len(span.text)
        if size >= room:  # a cut is needed somewhere: here if nothing more fits after this span
            out.append(Span(clip(span.text + _ELLIPSIS if size == room else span.text, room), span.style))
            break
        out.append(span)
        room -= size
    return merge(out)


def spread(left: Line, right: Line, width: int) -> Line:
    """``left`` and ``right`` at both ends of ``width`` cells. The left one is cut first, but keeps half of the room."""
    gap = 1 if left and right else 0
    right = crop(right, max(width - gap - line_width(left), width // 2))
    left = crop(left, max(0, width - gap - line_width(right)))
    return merge((*left, Span(" " * max(0, width - line_width(left) - line_width(right))), *right))


def restyle(line: Line, style: Style) -> Line:
    """The same words in one style: a selected row, figures that are stale."""
    return merge(Span(span.text, style) for span in line)


def wrap(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Words broken over lines of at most ``width`` cells, the second and later ones indented. Too long words are cut apart."""
    lines: list[str] = []
    room = max(1, width)
    current = ""
    for word in text.split(" "):
        candidate = f"{current} {word}" if current.strip() else current + word
        if cell_len(candidate) <= room:
            current = candidate
            continue
        if current.strip():
            lines.append(current)
        current = " " * min(indent, room - 1) + word
        while cell_len(current) > room:
            head, current = cut(current, room)
            if not head.strip():  # a wide character in a single cell, or nothing but the indent fits
                head, current = current[: len(head) + 1], current[len(head) + 1 :]
            lines.append(head)
            current = " " * min(indent, room - 1) + current.lstrip(" ")
    lines.append(current)
    return lines
