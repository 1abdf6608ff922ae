"""The elements of every drawing: lines of styled spans, and the signs that a terminal can show. Nothing here knows Textual."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from .text import _ELLIPSIS, clip, wrap


class Style(StrEnum):
    """The meaning of a piece of text. A colour only repeats what a word or a sign next to it says."""

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
    MATCH = "match"
    MARKED = "marked"

    def __call__(self, text: str, applies: object = True) -> Span:
        """A piece of text in this style, ``Style.KEY("q")``, or in the normal one where it does not apply."""
        return Span(text, self if applies else Style.NORMAL)


class Span(NamedTuple):
    """A piece of a line; ``text`` holds printable characters only. ``selected``: it is part of the row under the cursor. ``row``:
    the row of a list that a click on it chooses."""

    text: str
    style: Style = Style.NORMAL
    selected: bool = False
    row: int | None = None


Line: TypeAlias = tuple[Span, ...]
Lines: TypeAlias = list[Line]
BLANK: Line = ()


def line_width(line: Sequence[Span]) -> int:
    """Width in cells."""
    return sum(cell_len(span.text) for span in line)


def line_text(line: Line) -> str:
    """The text of a line without its styles."""
    return "".join(span.text for span in line)


def merge(spans: Iterable[Span]) -> Line:
    """Joins neighbours of the same style into one span, because each span costs bytes on the wire. Drops empty ones."""
    out: list[Span] = []
    for span in spans:
        if not span.text:
            continue
        if out and out[-1][1:] == span[1:]:
            out[-1] = span._replace(text=out[-1].text + span.text)
        else:
            out.append(span)
    return tuple(out)


def join(*parts: str | Span | Line) -> Line:
    """Joins strings (NORMAL), spans and lines into a line."""
    spans: list[Span] = []
    for part in parts:
        if isinstance(part, Span):
            spans.append(part)
        elif isinstance(part, str):
            spans.append(Span(part))
        else:
            spans.extend(part)
    return merge(spans)


def dim(text: str) -> Line:
    """A line of titles, or about what is not shown."""
    return join(Style.DIM(text))


def crop(line: Sequence[Span], width: int) -> Line:
    """At most ``width`` cells; a cut line ends in ``…``."""
    if line_width(line) <= width:
        return merge(line)
    out: list[Span] = []
    room = width
    for span in line:
        size = cell_len(span.text)
        if size >= room:  # cut here where nothing more fits after this span
            out.append(span._replace(text=clip(span.text + _ELLIPSIS if size == room else span.text, room)))
            break
        out.append(span)
        room -= size
    return merge(out)


def first_fit(width: int, *variants: Line) -> Line:
    """The first of the variants that needs at most ``width`` cells; the last one where none does."""
    return next((line for line in variants if line_width(line) <= width), variants[-1])


def visible(count: int, rows: int, chosen: int, above: int | None = None) -> range:
    """The rows of a list that are shown in ``rows`` lines: as many as fit, with at most ``above`` of them (else all that fit)
    above the chosen one."""
    top = max(0, min(chosen - (rows - 1 if above is None else above), count - rows))
    return range(top, min(count, top + rows))


def spread(left: Line, right: Line, width: int) -> Line:
    """``left`` and ``right`` at both ends of ``width`` cells. The left one is cut first, but keeps half of the width."""
    gap = 1 if left and right else 0
    right = crop(right, max(width - gap - line_width(left), width // 2))
    left = crop(left, max(0, width - gap - line_width(right)))
    return merge((*left, Span(" " * max(0, width - line_width(left) - line_width(right))), *right))


def restyle(line: Line, style: Style) -> Line:
    """The same text in one style: stale figures."""
    return merge(Span(span.text, style) for span in line)


def select(line: Sequence[Span], width: int) -> Line:
    """The same text as the row under the cursor, exactly ``width`` cells. A verdict keeps its colour, a mark and a key their
    weight."""
    line = crop(line, width)
    plain = (Style.DIM, Style.TITLE, Style.RULE, Style.BAR)
    spans = (span._replace(style=Style.NORMAL if span.style in plain else span.style, selected=True) for span in line)
    return merge((*spans, Span(" " * (width - line_width(line)), selected=True)))


def point_out(line: Line, texts: Sequence[str]) -> Line:
    """The same text with each of ``texts``, longest first, underlined where it occurs; titles and keys stay as they are."""
    if not texts:
        return line
    any_text = re.compile("|".join(map(re.escape, texts)))
    found: list[Span] = []
    for span in line:
        at, text = 0, span.text
        if span.style not in _APART:
            for match in any_text.finditer(text):
                found += [span._replace(text=text[at : match.start()]), span._replace(text=match.group(), style=Style.MATCH)]
                at = match.end()
        found.append(span._replace(text=text[at:]))
    return merge(found)


def numbered(row: int | None, line: Line) -> Line:
    """The same line as a part of this row of a list."""
    return tuple(span._replace(row=row) for span in line)


_APART = frozenset({Style.KEY, Style.TITLE, Style.DIM, Style.RULE, Style.BAR})


def paragraph(text: str, width: int, style: Style = Style.NORMAL, *, margin: str = "", indent: int = 0) -> Lines:
    """A text over as many lines of one style as it needs."""
    parts = wrap(text, width - 2 if margin else width, indent=indent)
    return [join(style(f"{margin}{part}")) for part in parts]


def headed(head: Span, text: str, width: int, *, indent: int = 3) -> Lines:
    """A text that begins with a head that stands out, over as many lines as it needs, the later ones indented."""
    first, *more = wrap(f"{head.text}{text}", width, indent=indent)
    return [join(head, first.removeprefix(head.text)), *map(join, more)]


def labelled(label: Span, width: int, text: str, style: Style = Style.NORMAL, most: int = 1000) -> Lines:
    """A label, and next to it a text over as many lines as it needs, ``most`` at most."""
    room = max(8, width - len(label.text))
    parts = wrap(text, room)
    if len(parts) > most:
        parts = [*parts[: most - 1], clip(f"{parts[most - 1]} …", room)]
    after = Span(" " * len(label.text), label.style)
    return [join(after if i else label, style(part)) for i, part in enumerate(parts)]


Fact: TypeAlias = tuple[str, str] | tuple[str, str, Style] | tuple[str, str, Style, int]
"""A label, a text, the style of that, and the lines that it has at most."""


def fact_label(label: str, cells: int) -> Span:
    """The label of a fact, in a column of so many cells after a blank."""
    return Style.DIM(f" {label[: cells - 1]:<{cells}}")


def fact_lines(facts: Iterable[Fact], width: int, cells: int) -> Lines:
    """Facts below each other, each over as many lines as it needs, with their labels in a column of ``cells``."""
    return [line for fact in facts for line in labelled(fact_label(fact[0], cells), width, *fact[1:])]


BARS = "▁▂▃▄▅▆▇█"
UNWATCHED = "·"
_SIGNS = {
    "✗": "x", "✓": "+", "▌": ">", "→": ">", "←": "<", "↑": "^", "↓": "v", "↩": "<", "›": ">", "×": "x", "—": "-", "–": "-",
    "‖": "=", "·": ".", "…": "*", "≥": ">", "≤": "<", "µ": "u", "◆": "*", "’": "'", "‘": "'", "“": '"', "”": '"',
    "─": "-", "│": "|", "┌": "+", "┐": "+", "└": "+", "┘": "+", "├": "+", "┤": "+", "┬": "+", "┴": "+", "┼": "+",
    "▁": "_", "▂": "-", "▃": "-", "▄": "=", "▅": "=", "▆": "#", "▇": "#", "█": "#",
}  # fmt: skip


def in_ascii(line: Line) -> Line:
    """The same line in the same width for a terminal that shows ASCII alone; a character without a replacement becomes one ``?``
    per cell. Lines are drawn with all signs and converted last, so that widths stay the same."""
    return merge(span._replace(text=span.text if span.text.isascii() else _ascii(span.text)) for span in line)


def _ascii(text: str) -> str:
    text = text.replace(" ≥", ">=")  # two characters for one sign, where they fit
    return "".join(c if c.isascii() else _SIGNS.get(c, "?" * cell_len(c)) for c in text)
