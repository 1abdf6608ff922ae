"""The elements of every drawing: text from a spool, escaped, measured in cells and cut; lines of styled spans; times; frames of
panels; and what stands on top of each screen: the header, notices and problems. Text passes ``safe`` once; text of the program
does not need it. Nothing here knows Textual."""

from __future__ import annotations

import codecs
import datetime
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len, get_character_cell_size

from spooltop.model import (
    Action,
    Box,
    Capabilities,
    Frozen,
    Problem,
    Severity,
    Snapshot,
    Verdict,
    age,
    capacity_words,
    clock_time,
    escape,
)
from spooltop.model import span as time_span

from ..messages import NOTHING_SEEN

_ELLIPSIS = "…"
_LONGEST = 2048
"""Maximum number of characters that are drawn of a text."""
_CHUNK = 512
"""Bytes of a payload that are decoded at once."""


text_width = cell_len
"""Width in cells."""


def safe(name: str) -> str:
    r"""Escapes a raw name or value from a spool for display: ``escape``, and what ``shown`` escapes in addition. ``unescape``
    reverses it, unless the text is longer than any file name: then its middle is left out."""
    return _unstacked(escape(_elided(name)), True)[0]


def shown(words: str) -> str:
    r"""Escapes what no terminal should get in text of the program whose names are escaped already. Besides non-printable
    characters, that is every mark without a cell of its own beyond the first on a character: terminals disagree about their
    width, and a thousand of them on one letter cover the lines around it. A letter without a cell of its own (a Hangul
    vowel), and a mark next to its letter (a vowel of Devanagari), takes a cell in some terminals and none in others."""
    words = _elided(words)
    printable = words if words.isprintable() else "".join(char if char.isprintable() else _hex(char) for char in words)
    return _unstacked(printable, True)[0]


def _elided(text: str) -> str:
    """As much of a text as any screen shows: text from a spool may have any length."""
    if len(text) <= _LONGEST:
        return text
    left_out = len(text) - _LONGEST
    return f"{text[: _LONGEST // 2]} …{left_out:,} characters… {text[-_LONGEST // 2 :]}"


def _hex(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char)) if char not in "\n\r\t" else " "


class _Form(NamedTuple):
    """The drawing of a character. ``mark``: it may combine with the one before it, and ``text`` is drawn where it may not.
    ``cells``: the drawing has cells of its own that a mark may combine with."""

    text: str
    mark: bool
    cells: bool


@lru_cache(maxsize=8192)
def _form(char: str) -> _Form:
    if "\U0001f1e6" <= char <= "\U0001f1ff":  # half a flag: one cell for Rich, two for most terminals
        return _Form(_hex(char), False, True)
    if cell_len(char):
        return _Form(char, False, True)
    return _Form(_hex(char), char != "\ufe0f" and unicodedata.category(char) in ("Mn", "Me"), False)


def _unstacked(text: str, stacked: bool) -> tuple[str, bool]:
    """``stacked``: a mark at the beginning may not combine with the text before; the new value is returned for the text that
    follows."""
    if text.isascii():
        return text, stacked and not text
    out = []
    for char in text:
        form = _form(char)
        if form.cells:
            stacked = False
        elif form.mark and not stacked:
            out.append(char)
            stacked = True
            continue
        out.append(form.text)
    return "".join(out), stacked


def cut(text: str, width: int) -> tuple[str, str]:
    """Splits a text into the longest beginning of at most ``width`` cells, and the rest. Nothing is lost: a wide character is not
    halved, a mark stays with its letter. (Rich halves into spaces.) ``text`` is ``safe``, so that widths add up. The time does
    not depend on the length of the rest."""
    at = _cut_at(text, 0, width)
    return text[:at], text[at:]


def _cut_at(text: str, start: int, width: int) -> int:
    """The end of a piece of at most ``width`` cells that begins at ``start``."""
    stop = start + max(0, width)
    if text[start : stop + 1].isascii():
        return min(stop, len(text))
    for at in range(start, len(text)):
        width -= get_character_cell_size(text[at])
        if width < 0:
            return at
    return len(text)


def pieces(text: str, width: int) -> Iterator[str]:
    """All of a ``safe`` text in pieces of at most ``width`` cells (at least one character)."""
    at = 0
    while at < len(text):
        stop = max(at + 1, _cut_at(text, at, width))
        yield text[at:stop]
        at = stop


def safe_pieces(data: bytes, width: int, chunk: int = _CHUNK) -> Iterator[tuple[str, int]]:
    """Lines of a payload, escaped like ``safe`` but with four blanks for a tab, in pieces of at most ``width`` cells; each with
    the number of bytes that were drawn up to its end, at most. Reads no further than it is iterated."""
    at, size = 0, len(data) - data.endswith(b"\n")
    while at <= size:
        end = data.find(b"\n", at, size)
        end = size if end < 0 else end
        decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        rest, stacked = "", True
        while at < end:
            part = data[at : min(at + chunk, end)]
            at += len(part)
            words = "    ".join(escape(word) for word in decode(part, at == end).split("\t"))
            words, stacked = _unstacked(words, stacked)
            *whole, rest = [*pieces(rest + words, width)] or [""]
            for piece in whole:
                yield piece, at
        yield rest, min(end + 1, len(data))
        at = end + 1


def clip(text: str, width: int) -> str:
    """At most ``width`` cells, cut at the right with ``…``."""
    if not cut(text, width)[1]:
        return text
    return cut(text, width - 1)[0] + _ELLIPSIS if width > 0 else ""


def clip_left(text: str, width: int) -> str:
    """At most ``width`` cells, cut at the left with ``…``: names differ at their end."""
    if width <= 0:
        return ""
    if text_width(text) <= width:
        return text
    room, at = width - 1, len(text)
    while (size := get_character_cell_size(text[at - 1])) <= room:
        room, at = room - size, at - 1
    while at < len(text) and not get_character_cell_size(text[at]):  # a mark stays or goes with its letter
        at += 1
    return _ELLIPSIS + text[at:]


def pad(text: str, width: int) -> str:
    """Exactly ``width`` cells, aligned left, cut at the right."""
    text = clip(text, width)
    return text + " " * (width - cell_len(text))


def pad_left(text: str, width: int) -> str:
    """Exactly ``width`` cells, aligned right, for numbers."""
    text = clip(text, width)
    return " " * (width - cell_len(text)) + text


def wrap(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Wraps words over lines of at most ``width`` cells, the second and later ones indented. Too long words are broken."""
    lines = []
    room = max(1, width)
    current = ""
    for word in text.split(" "):
        candidate = f"{current} {word}" if current.strip() else current + word
        if cell_len(candidate) <= room:
            current = candidate
            continue
        if current.strip():
            lines.append(current)
        margin = " " * min(indent, room - 1)
        *whole, rest = pieces(word, room - len(margin)) if word else ("",)
        lines += [margin + piece for piece in whole]
        current = margin + rest
    lines.append(current)
    return lines


class Ends(NamedTuple):
    """The beginning and the end that all names of a list share, each up to a sign between words: ``/srv/`` and ``-web.json``.
    ``whole``: the names in full are shared, because there is only one."""

    head: str = ""
    tail: str = ""
    whole: bool = False

    def narrowed(self, names: Collection[str]) -> Ends:
        """The ends that these names share, too. They never grow, so that a list that is scrolled does not change to and fro."""
        known = [self.head] * bool(self.head) if self.whole else [f"{self.head}{differs}{self.tail}" for differs in "01"]
        return common_ends([*known, *names])


ALONE = Ends(whole=True)
"""The ends of no names at all."""


def common_ends(names: Iterable[str]) -> Ends:
    """The longest beginning and end that all ``names`` share; words are not divided.

    >>> common_ends(["job-0117-web.json", "job-0217-web.json"])
    Ends(head='job-', tail='-web.json', whole=False)
    >>> common_ends(["/srv/a/spool", "/srv/b/spool", "/srv/c"])
    Ends(head='/srv/', tail='', whole=False)
    """
    distinct = list(set(names))
    if len(distinct) < 2:
        return Ends(head=distinct[0], whole=True) if distinct else ALONE
    head = os.path.commonprefix(distinct)  # noqa: RUF071  names, not paths
    tail = os.path.commonprefix([name[len(head) :][::-1] for name in distinct])[::-1]  # noqa: RUF071
    start = max((at for at, char in enumerate(head, start=1) if not char.isalnum()), default=0)
    stop = min((at for at, char in enumerate(tail) if not char.isalnum()), default=len(tail))
    return Ends(head[:start], tail[stop:])


def cut_apart(name: str, width: int, ends: Ends) -> str:
    """At most ``width`` cells of a name: first the shared beginning is left out, then as much of the shared end as necessary, and
    only then the beginning of what differs.

    >>> ends = common_ends(["job-0117-web.json", "job-0217-web.json"])
    >>> [cut_apart("job-0117-web.json", width, ends) for width in (17, 14, 9, 5)]
    ['job-0117-web.json', '…0117-web.json', '…0117-we…', '0117…']
    """
    if text_width(name) <= width:
        return name
    if ends.whole or not (name.startswith(ends.head) and name[len(ends.head) :].endswith(ends.tail)):
        return clip_left(name, width)
    own = name[len(ends.head) : len(name) - len(ends.tail)]
    before = "…" if ends.head else ""
    room = width - text_width(before + own)
    if room >= bool(ends.tail):
        return before + own + clip(ends.tail, room)
    if not ends.tail:
        return clip_left(own, width)
    return clip_left(own, max(1, width - 1)) + "…" if width > 2 else clip_left(own, width)


# Lines of styled spans.

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
    spans = []
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
    out = []
    room = width
    for span in line:
        size = cell_len(span.text)
        if size >= room:  # cut here where nothing more fits after this span
            out.append(span._replace(text=clip(span.text + _ELLIPSIS, room)))
            break
        out.append(span)
        room -= size
    return merge(out)


def filled(line: Line, width: int) -> Line:
    """Exactly ``width`` cells; the row under the cursor is selected to its end."""
    line = crop(line, width)
    end = line[-1] if line else Span("")
    return merge((*line, end._replace(text=" " * (width - line_width(line)), style=Style.NORMAL)))


def first_fit(width: int, *variants: Line) -> Line:
    """The first of the variants that needs at most ``width`` cells; the last one where none does."""
    return next((line for line in variants if line_width(line) <= width), variants[-1])


def within(place: int, count: int) -> int:
    """The nearest place that a list of so many has; 0 where it is empty."""
    return max(0, min(place, count - 1))


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
    return join(filled(left, width - line_width(right)), right)


def restyle(line: Line, style: Style) -> Line:
    """The same text in one style: stale figures."""
    return merge(Span(span.text, style) for span in line)


def select(line: Line) -> Line:
    """The same text as the row under the cursor. A verdict keeps its colour, a mark and a key their weight."""
    plain = (Style.DIM, Style.TITLE, Style.RULE, Style.BAR)
    return merge(span._replace(style=Style.NORMAL if span.style in plain else span.style, selected=True) for span in line)


def point_out(line: Line, texts: Sequence[str]) -> Line:
    """The same text with each of ``texts``, longest first, underlined where it occurs; titles and keys stay as they are."""
    if not texts:
        return line
    any_text = re.compile(f"({'|'.join(map(re.escape, texts))})")
    found = []
    for span in line:
        pieces = [span.text] if span.style in _APART else any_text.split(span.text)  # each second one is one of ``texts``
        found += [span._replace(text=text, style=Style.MATCH if at % 2 else span.style) for at, text in enumerate(pieces)]
    return merge(found)


def rule(name: str, right: Span, width: int) -> Line:
    """A rule with a name and, at its end, a word."""
    fill = "─" * max(0, width - 8 - text_width(name) - text_width(right.text))
    return join(Style.RULE(" ─ "), Style.TITLE(name), Style.RULE(f" {fill} "), right, Style.RULE(" ─"))


def faded(lines: Sequence[Line], moment: Moment) -> Lines:
    """The same lines, dim where they are stale."""
    return [line if moment.stale_for is None else restyle(line, Style.DIM) for line in lines]


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


def labelled(label: Span | Line, width: int, text: str, style: Style = Style.NORMAL, most: int = 1000) -> Lines:
    """A label, and next to it a text over as many lines as it needs, ``most`` at most."""
    cells = line_width(join(label))
    room = max(8, width - cells)
    parts = wrap(text, room)
    if len(parts) > most:
        parts = [*parts[: most - 1], clip(" ".join(parts[most - 1 : most + 1]), room)]
    return [join(" " * cells if i else label, style(part)) for i, part in enumerate(parts)]


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


# Times.

Zone: TypeAlias = datetime.tzinfo | None
"""A time zone; None: the local one."""


class Times(StrEnum):
    """The format of times in lists (``t``)."""

    AGE = "age"
    LOCAL = "local"
    UTC = "utc"


class Moment(Frozen):
    """The time that a screen is drawn for (``now``, epoch seconds), how its times are drawn, and how old what it shows is:
    ``frozen_at`` (epoch seconds) since the display was frozen; ``stale_for`` seconds since a look began that has not finished,
    and ``stale_why``, the part that does not answer."""

    now: float
    zone: Zone = None
    times: Times = Times.AGE
    frozen_at: float | None = None
    stale_for: float | None = None
    stale_why: str = ""


def when(at: float | None, zone: Zone = None, *, offset: bool = False) -> str:
    """The time of day; ``—`` where it is not known."""
    return clock_time(at, zone, offset=offset)


def ago(at: float | None, now: float) -> str:
    """The time that has passed since ``at``; ``—`` where that is not known."""
    return age(None if at is None else max(0.0, now - at))


# Frames of panels: borders with titles, columns of panels side by side, and the share of the lines that each panel gets.
#
# Panels share their borders. The number of lines of a panel depends on the size of the window and on the panels there are, never
# on their values, so that nothing jumps while somebody reads.

class Section(Frozen):
    """A titled panel. ``draw(width, rows)`` draws its lines; ``key`` shows it in full; ``note`` is at the right of the title. It
    gets ``least`` rows or none at all, and up to ``most`` where there are more. ``last``: it gives up its room before the
    others."""

    title: str
    draw: Callable[[int, int], Sequence[Line]]
    least: int
    most: int = 1000
    key: str = ""
    note: Line = BLANK
    last: bool = False


def rows_for(sections: Sequence[Section], height: int) -> list[int]:
    """The rows of each section in a column of ``height`` lines, titles and the lower border included; 0 where it has no room.
    First each gets its least, the ones that give up their room last of all; then, in order, what it takes at most. The last one
    takes what is left over."""
    left = height - 1
    rows = [0] * len(sections)
    for i in sorted(range(len(sections)), key=lambda i: sections[i].last):
        if sections[i].least + 1 <= left:
            rows[i] = sections[i].least
            left -= rows[i] + 1
    shown = [i for i in range(len(sections)) if rows[i]]
    for i in shown:
        more = min(left, sections[i].most - rows[i])
        rows[i] += more
        left -= more
    if shown:
        rows[shown[-1]] += left
    return rows


def frame(height: int, *columns: tuple[int, Sequence[Section]], top: Sequence[Line] = ()) -> Lines:
    """Draws panels with their borders in ``height`` lines. A column is (cells between its borders, panels). ``top`` are the lines
    of a single column above and of the same width, of which the lower border is shared."""
    lines = list(top[:-1])
    drawn = [_column(sections, width, height) for width, sections in columns]
    for y, cells in enumerate(zip_longest(*drawn, fillvalue=(False, BLANK))):
        joints = "│├┤┼" if y else "│├┤┬" if top else "│┌┐┬"  # by whether there are borders before and after
        parts: list[Span] = []
        before = False
        for (width, _), (border, line) in zip(columns, cells, strict=True):
            parts += [Style.RULE(joints[2 * before + border]), *filled(line, width)]
            before = border
        lines.append(merge([*parts, Style.RULE(joints[2 * before])]))
    lines.append((Style.RULE(f"└{'┴'.join('─' * width for width, _ in columns)}┘"),))
    return lines


def _column(sections: Sequence[Section], width: int, height: int) -> list[tuple[bool, Line]]:
    """The lines of a column between its borders, each with True where it is the upper border of a panel."""
    lines = []
    for section, rows in zip(sections, rows_for(sections, height), strict=True):
        if rows:
            body = section.draw(width, rows)[:rows]
            lines.append((True, _upper_border(section, width)))
            lines += [(False, line) for line in body] + [(False, BLANK)] * (rows - len(body))
    return lines


def _upper_border(panel: Section, width: int) -> Line:
    key = join(Style.KEY(panel.key), " ") if panel.key else BLANK
    room = width - 4 - line_width(key)
    fits = text_width(panel.title) + line_width(panel.note) + 2 <= room
    note = join(" ", panel.note, " ") if panel.note and fits else BLANK
    room -= line_width(note)
    title = clip(panel.title, max(1, room))
    fill, end = Style.RULE("─" * (room - text_width(title))), Style.RULE("─")
    return join(end, " ", key, Style.TITLE(f"{title} "), fill, note, end)


# Draws the panel that lies on top of a view: a plan, a result, who has a file.

WIDEST = 120
"""Maximum width in cells: longer lines are hard to read."""


def inner_width(width: int) -> int:
    """Cells for text inside a panel in a window of ``width`` cells."""
    return max(1, min(width, WIDEST) - 4)


def panel_frame(title: str, right: str, body: Sequence[Line], width: int) -> Lines:
    """``body`` between borders, with the title at the left of the upper border and ``right`` at its end."""
    width = min(width, WIDEST)
    inside = [join(" ", crop(line, inner_width(width))) for line in body]
    panel = Section(title, lambda width, rows: inside, len(inside), len(inside), note=join(right))
    return [crop(line, width) for line in frame(len(inside) + 2, (max(0, width - 2), [panel]))]


def note_lines(notes: Sequence[str], inner: int) -> Lines:
    """Notes, wrapped over as many lines as they need."""
    return [line for note in notes for line in paragraph(shown(note), inner)]


# Says how fresh the screen is, in the words of the header.


def _with_watch(snapshot: Snapshot, moment: Moment) -> Moment:
    """Returns the moment of a screen: what is shown of a queue that does not answer is stale, too."""
    if moment.stale_for is not None or not snapshot.observation.watch.away:
        return moment
    watch = snapshot.observation.watch
    since = watch.since if watch.seen_at is None else watch.seen_at
    return moment.replace(stale_for=max(0.0, snapshot.taken_at - since), stale_why=watch.reason)


def stale_line(moment: Moment, look: str = "a look") -> Line:
    """``STALE 41s: readdir of new does not answer``."""
    why = shown(moment.stale_why) or f"{look} has not finished"
    return (Style.BAD(f"STALE {time_span(moment.stale_for)}"), Span(f": {why}"))


def freshness_line(snapshot: Snapshot, moment: Moment, *, short: bool = False, offset: bool = True) -> Line:
    """``live · as of 02:41:09 +0100``. FROZEN and STALE replace it, because nothing changes then. ``short``: without the words.
    """
    moment = _with_watch(snapshot, moment)
    if snapshot is NOTHING_SEEN:
        return join("looking…") if moment.stale_for is None else stale_line(moment, "the first look")
    as_of = f"{'' if short else 'as of '}{when(snapshot.observation.as_of, moment.zone, offset=offset)}"
    if moment.stale_for is not None:
        return join(stale_line(moment)[: 1 if short else 2], f" · {as_of}")
    if moment.frozen_at is not None:
        return join(Style.WARN("FROZEN"), f"{'' if short else ', Z unfreezes'} · {as_of}")
    watch = snapshot.observation.watch
    gap = " " if short else " · "
    if watch.lag is not None:
        behind = f"replica ≤{time_span(watch.lag)}{'' if short else ' behind'}"
        return join(Style.WARN(behind), f"{gap}{as_of}")
    if watch.mode == "live":
        besides = f", listed every {watch.period:g}s ({shown(watch.reason)})" if watch.period and not short else ""
        return join(Style.GOOD("live"), f"{besides}{gap}{as_of}")
    every = f"every {watch.period:g}s" if watch.period else watch.mode
    why = watch.reason or snapshot.observation.program
    reason = f" ({shown(why)})" if why and not short else ""
    return join(Style.WARN(every), f"{reason}{gap}{as_of}")


# Draws the notice to the user, and the commands that the palette finds.

NOTICE_LINES = 3
"""Maximum number of lines of a notice."""


def notice_lines(words: str, width: int, style: Style = Style.STRONG) -> Lines:
    """A notice in place of the keys. Longer text continues on the last line, which is cut."""
    lines = wrap(shown(words), max(1, width - 2))
    return [join(style(f" {line}")) for line in [*lines[: NOTICE_LINES - 1], " ".join(lines[NOTICE_LINES - 1 :])] if line]


_WHO = 16
"""Cells of the name of who paused the spool."""


def header(snapshot: Snapshot, width: int, target: str, moment: Moment) -> Lines:
    """The spool and how fresh the figures are; then the free space on its file system and the rights of the user."""
    second = disk_line(snapshot, width)
    moment = _with_watch(snapshot, moment)
    if second and moment.stale_for is not None:  # the part that does not answer is on the first line
        seen = f" as of {when(snapshot.observation.as_of, moment.zone, offset=True)} ·"
        second = restyle(join(seen, *disk_line(snapshot, width - text_width(seen))), Style.DIM)
    return [_first(snapshot, width, target, moment), second]


def _first(snapshot: Snapshot, width: int, target: str, moment: Moment) -> Line:
    title = Style.TITLE(" spooltop ")
    path = safe(target)
    # shown nowhere else: it has to fit
    least = most = join()
    if snapshot is not NOTHING_SEEN:
        least = join(" · ", Style.WARN("READ-ONLY")) if snapshot.observation.is_mail else least
        most = least or join(f" · watched for {time_span(snapshot.watched_for)}")
    room = width - text_width(title.text) - 2  # a gap, and a cell at the edge
    paused, briefly = _paused(snapshot)
    fresh = partial(freshness_line, snapshot, moment)
    freshness_lines = [
        join(paused, fresh(), most),
        join(paused, fresh(), least),
        join(paused, fresh(offset=False), least),
        join(briefly, fresh(offset=False), least),
        join(briefly, fresh(short=True, offset=False), least),
    ]
    if least and line_width(freshness_lines[-1]) > room - 8:
        freshness_lines.append(least[1:])
    if moment.stale_for is not None:
        freshness_lines = [stale_line(moment)]
    whole, cut = text_width(path), min(text_width(path), max(12, room // 5))
    # the whole path is more important than the time watched, but less than the time of the look
    pairs = [*((line, whole) for line in freshness_lines[:2]), *((line, cut) for line in freshness_lines[1:])]
    right = next((line for line, cells in pairs if line_width(line) + cells <= room), freshness_lines[-1])
    left = (title, Span(clip_left(path, max(8, room - line_width(right)))))
    return spread(left, right, width - 1)


def _paused(snapshot: Snapshot) -> tuple[Line, Line]:
    """``PAUSED by root for 2h · `` and the same in fewer words; nothing where the spool is not paused."""
    if (pause := snapshot.observation.paused) is None:
        return (), ()
    by = "" if pause.by is None else f" by {clip(safe(pause.by), _WHO)}"
    length = ago(pause.at, snapshot.taken_at)
    return join(Style.WARN(f"PAUSED{by} for {length}"), " · "), join(Style.WARN(f"PAUSED {length}"), " · ")


def disk_line(snapshot: Snapshot, width: int) -> Line:
    """``ext4 12GB free 41%, inodes free 88% · you are memex, read-write``."""
    if snapshot is NOTHING_SEEN:
        return ()
    observation = snapshot.observation
    capacities = observation.capacities
    full = any(one.free == 0 for one in capacities)
    words = [safe(one) for one in capacity_words(capacities, observation.disk)]
    brief = words[:1] if not full or capacities[0].free == 0 else words
    who = "read-only" if observation.is_mail else observation.who.words
    if not who:
        why = observation.capabilities.why_not(Action.REQUEUE)
        who = "read-write" if observation.capabilities.change else f"read-only{f': {why}' if why else ''}"
    variants = (
        join(
            " ",
            Style.BAD(", ".join(some), full),
            Style.BAD(", mounted read-only" if any(one.readonly for one in capacities) else ""),
            f"{' · ' if some else ''}you are {safe(observation.who.user)}, {shown(who)}",
        )
        for some in (words, brief)
    )
    return first_fit(width - 1, *variants)


# Draws the problems, worst first; where there are none, the evidence for that.

SIGNS = {
    Severity.CRITICAL: Style.BAD("✗"),
    Severity.WARNING: Style.WARN("!"),
    Severity.NOTE: Style.DIM("·"),
}


_REQUEUE, _PURGE = ("r", Action.REQUEUE), ("d", Action.PURGE)
_ACTIONS: Mapping[str, tuple[str, Action]] = {
    "poison": ("h", Action.HOLD), "claims-dead": _REQUEUE, "handed-back": _REQUEUE, "tmp-abandoned": _PURGE, "lost": _PURGE,
}  # fmt: skip
"""The key and the action that ends a problem with messages, by its code."""


def problem_hint(problem: Problem, capabilities: Capabilities) -> tuple[str, str]:
    """The key for the most useful command and its label: ("r", "requeue 2"). Enter where it only opens a view, ("", "") where
    there is none."""
    box, chosen = problem.box, problem.selection
    if chosen is not None and problem.count:
        key, action = _ACTIONS.get(problem.code, ("", None))
        if box is Box.CUR and chosen.verdict is Verdict.DEAD and problem.code != "poison":
            key, action = _REQUEUE
        if action is not None and capabilities.why_not_from(action, box) is None:
            return key, f"{action} {'≥' if problem.at_least else ''}{problem.count:,}"
    if problem.code in ("lock-stale", "ticket-orphan") and capabilities.why_not(Action.UNLOCK) is None:
        return "d", "remove"
    if problem.code == "paused" and capabilities.why_not(Action.RESUME) is None:
        return "P", "resume"
    return ("Enter", "") if box is not None or problem.view else ("", "")


def problem_lines(snapshot: Snapshot, width: int, height: int, *, chosen: int = 0) -> Lines:
    """All problems, as many as fit around the chosen one."""
    problems = snapshot.problems
    if not problems:
        return _nothing(snapshot, width, height)
    return _lines(snapshot, visible(len(problems), height, chosen, height // 2), width, chosen)


def top_problems(snapshot: Snapshot, width: int, rows: int, *, chosen: int = 0) -> Lines:
    """The top of the Overview, with a title: always ``rows`` + 2 lines."""
    if not snapshot.problems:
        return problem_block(snapshot, width, rows + 2)
    title, keys = join(Style.TITLE(f" {problem_title(snapshot)}")), dim(problem_keys(snapshot))
    fits = line_width(title) + line_width(keys) + 3 <= width
    head = spread(title, keys, width - 1) if fits else title
    return [head, *problem_block(snapshot, width, rows + 1, chosen=chosen)]


def problem_title(snapshot: Snapshot) -> str:
    """The title of the problems, with their number."""
    n = len(snapshot.problems)
    return f"{n} PROBLEM{'S, worst first' if n > 1 else ''}" if n else "problems"


def problem_keys(snapshot: Snapshot) -> str:
    """The keys for problems; "" where there are none."""
    return ("", "Enter shows it", "↑↓ choose · Enter shows them")[min(2, len(snapshot.problems))]


def problem_block(snapshot: Snapshot, width: int, rows: int, *, chosen: int = 0) -> Lines:
    """The problems around the chosen one and, on the last line, how many others there are: always ``rows`` lines, so that
    nothing below moves when problems appear or end."""
    problems = snapshot.problems
    if not problems:
        lines = _nothing(snapshot, width, rows)
        return lines + [BLANK] * (rows - len(lines))
    listed = visible(len(problems), rows - 1, chosen)
    lines = _lines(snapshot, listed, width, chosen)
    lines += [BLANK] * (rows - 1 - len(lines))
    rest = [_brief(problem) for i, problem in enumerate(problems) if i not in listed]
    more = join(f"   {len(rest)} more, ", Style.KEY("!"), f" shows all: {' · '.join(rest)}")
    return [*lines, more if rest else BLANK]


def _lines(snapshot: Snapshot, listed: Iterable[int], width: int, chosen: int) -> Lines:
    lines = []
    for i in listed:
        problem = snapshot.problems[i]
        key, words = problem_hint(problem, snapshot.observation.capabilities)
        hint = join(Style.KEY(key), f" {words}" if words and width >= 50 else "")  # the problem matters more than its command
        left = (Style.KEY("▌" if i == chosen else " "), SIGNS[problem.severity], Span(f" {shown(problem.text)}"))
        line = spread(left, hint, width - 1)
        if i == chosen:  # the sign keeps its colour under the cursor
            line = (*line[:2], *select(line[2:]))
        lines.append(numbered(i, line))
    return lines


def _brief(problem: Problem) -> str:
    words = (problem.code.replace("-", " "), safe(problem.subject or ""), f"{problem.count:,}" if problem.count > 1 else "")
    return " ".join(word for word in words if word)


def _nothing(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """Says since when no problem was seen, and what cannot be judged or seen; never a bare "OK"."""
    sentences = (
        f"no problems detected (watched for {time_span(snapshot.watched_for)}).",
        f"Not judged yet: {', '.join(snapshot.not_judged) or 'nothing'}.",
        f"Not visible: {', '.join(snapshot.not_visible) or 'nothing'}.",
    )
    room = max(1, width - 4)
    parts = [part for sentence in sentences for part in wrap(shown(sentence), room)]
    if len(parts) > rows:  # a line for each only where they fit
        parts = wrap(shown(" ".join(sentences)), room)
    head = join(" ", Style.GOOD("✓"), " ")
    lines = [join("   " if i else head, part) for i, part in enumerate(parts)]
    if len(lines) > rows and rows > 0:
        lines[rows - 1] = join(lines[rows - 1], " …")
    return lines[:rows]
